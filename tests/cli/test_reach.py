"""What is said of steps beyond the measurements is what the run reached, not what it could have."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import twofold
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.reach import beyond, most_decodes, most_prompt_tokens, warn
from twofold.cost.contract import Reach
from twofold.cost.roofline import Roofline
from twofold.simulate.run import simulate
from twofold.spec.device import Device
from twofold.spec.model import Model
from twofold.spec.synthetic import Synthetic

LOAD = {"rate": 3.0, "requests": 40, "prompt": "fixed:100", "output": "fixed:9", "deployment": "1B,chunked=512"}
AT_ONCE = {"rate": 1e6, "arrivals": "constant"}


def found(profile_file: str, **changes: object) -> dict[str, int]:
    scenario = read_scenario(None, None, cost=profile_file, **{**LOAD, **changes})
    model = read_roofline(scenario)
    run = simulate(scenario.read_workload(), scenario.read_deployment(), roofline=model)
    return {each.name: each.most for each in beyond(model, run)}


@pytest.mark.parametrize(
    ("changes", "reached"),
    [
        ({}, {}),
        ({"prompt": "fixed:2000"}, {"context": 2009}),
        ({**AT_ONCE, "prompt": "fixed:10"}, {"decodes": 40}),
        ({**AT_ONCE, "prompt": "fixed:10", "deployment": "1B,chunked=512,batch=8"}, {}),
        ({**AT_ONCE, "requests": 4, "prompt": "fixed:300", "deployment": "1B,prefill-first"}, {"tokens": 900}),
        ({**AT_ONCE, "requests": 4, "prompt": "fixed:300", "deployment": "1B,chunked=800"}, {"tokens": 800}),
        ({"requests": 4, "prompt": "fixed:900", "output": "fixed:1", "deployment": "1B,chunked=20ms"}, {}),
        ({"requests": 4, "prompt": "fixed:900", "output": "fixed:1", "deployment": "1B,chunked=1s"}, {"tokens": 900}),
        ({**AT_ONCE, "prompt": "fixed:10", "deployment": "1P4D"}, {"decodes": 10}),
    ],
)
def test_it_is_what_the_steps_reached(profile_file: str, changes: dict[str, object], reached: dict[str, int]) -> None:
    assert found(profile_file, **changes) == reached


class Bounded(Roofline):
    """A roofline that was measured for next to nothing."""

    def reach(self, model: Model, device: Device, tp: int = 1) -> Reach:
        return Reach(0.1, 0.1, 0.1)


@pytest.mark.parametrize("policy", ["request-level", "prefill-first", "mixed", "multiplexed", "chunked=256"])
def test_it_is_what_the_timeline_shows(tmp_path: Path, policy: str) -> None:
    made = Synthetic(rate=40, requests=80, prompt="lognormal:300:0.8", output="lognormal:20:0.8", seed=3).workload()
    run = simulate(
        made, twofold.deployment(f"1B,{policy}", model="llama-3-8b", device="H100"), timeline=True, step_by_step=True
    )
    run.write_timeline(tmp_path / "steps.json")
    steps = [event["args"] for event in json.loads((tmp_path / "steps.json").read_text())["traceEvents"]]
    seen = {each.name: each.most for each in beyond(Bounded(), run)}
    assert seen["decodes"] == max(step.get("decodes", 0) for step in steps)
    largest = max(step.get("prompt_tokens", 0) for step in steps)
    if policy == "chunked=256":
        assert largest <= seen["tokens"] <= 256
    else:
        assert seen["tokens"] == largest


def test_a_cost_model_without_limits_has_none_to_leave() -> None:
    scenario = read_scenario("sample", None, requests=5, model="llama-3-8b", device="H100", deployment="1B")
    run = simulate(scenario.read_workload(), scenario.read_deployment())
    assert list(beyond(Roofline(), run)) == []


def test_decodes_are_counted_from_their_first_step_to_their_last() -> None:
    firsts, lasts = np.array([1.0, 2.0, 3.0, 3.0]), np.array([2.0, 2.5, np.nan, 3.0])
    assert most_decodes(firsts, lasts) == 2
    assert most_decodes(np.array([]), np.array([])) == 0


def test_prompts_are_counted_while_they_are_computed() -> None:
    starts, ends = np.array([0.0, 1.0, 1.5, 9.0]), np.array([1.0, 2.0, 2.0, np.nan])
    assert most_prompt_tokens(starts, ends, np.array([100, 20, 30, 70])) == 100
    assert most_prompt_tokens(starts, ends, np.array([10, 20, 30, 5])) == 50
    assert most_prompt_tokens(np.array([]), np.array([]), np.array([], np.int64)) == 0


def test_nothing_is_said_of_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    warn([])
    assert capsys.readouterr().err == ""


MADE = ("--rate", "1000", "--requests", "40", "--prompt", "fixed:10", "--output", "fixed:9")


@pytest.mark.parametrize(
    "verb",
    [
        ("simulate", "--deploy", "1B"),
        ("compare", "--deploy", "2B", "--deploy", "1B"),
        ("plan", "--gpus", "1xH100", "--slo", "ttft<=9s @90%", "--top", "1", "--resamples", "0", "--no-cache"),
    ],
    ids=lambda verb: verb[0],
)
def test_each_verb_says_it_in_one_line(here: Callable[..., Any], profile_file: str, verb: tuple[str, ...]) -> None:
    shown = here(verb[0], *MADE, "--cost", profile_file, *verb[1:], "--json")
    assert (shown.code, shown.err.count("\n")) == (0, 1)
    assert "beyond its measurements" in shown.err
    assert "decodes a step (measured to 8)" in shown.err
    assert json.loads(shown.out)
