import json
from pathlib import Path
from typing import Any

import pytest

ON_ONE = ("--model", "llama-3-8b", "--gpus", "1xH100", "--slo", "ttft<=1s, tpot<=50ms @90%")
SMALL = ("plan", "sample", "--requests", "60", *ON_ONE)


def test_json_ranks_the_candidates(here: Any) -> None:
    plan = json.loads(here(*SMALL, "--json").out)
    goodputs = [candidate["goodput_req_s"] for candidate in plan["candidates"]]
    assert plan["best"] == plan["candidates"][0]
    assert goodputs == sorted(goodputs, reverse=True)
    assert goodputs[0] > 1
    assert plan["workload"]["requests"] == 60
    assert {candidate["devices"] for candidate in plan["candidates"]} == {1}


def test_the_screen_lists_the_best_and_says_what_limits_them(here: Any) -> None:
    shown = here(*SMALL, "--top", "2")
    lines = shown.out.splitlines()
    assert lines[0].startswith("sample: 60 requests")
    assert lines[1] == "Llama-3-8B on 1 H100: ttft<=1s, tpot<=50ms @90%"
    assert [line.split()[0] for line in lines[4:6]] == ["1", "2"]
    assert "more with less goodput; see --top" in lines[-1]


def test_made_requests_and_constants_of_the_cost_model(here: Any) -> None:
    made = ("plan", "--rate", "5", "--requests", "50", *ON_ONE, "--json")
    fast, slow = (json.loads(here(*made, *more).out) for more in ((), ("--set", "cost.flop_efficiency=0.2")))
    assert fast["workload"]["requests"] == 50
    assert slow["best"]["goodput_req_s"] < fast["best"]["goodput_req_s"]


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("--model", "llama-3-8b", "--slo", "ttft<=1s"), "--gpus"),
        (("--model", "llama-3-8b", "--gpus", "1xH100"), "--slo"),
        (("--gpus", "1xH100", "--slo", "ttft<=1s"), "--model"),
        ((*ON_ONE, "--gpus", "8H100"), "8xH100"),
        ((*ON_ONE, "--gpus", "1xH1000"), "H1000"),
        ((*ON_ONE, "--gpus", "1xL4", "--model", "llama-3-70b"), "at least"),
        ((*ON_ONE, "--requests", "20", "--slo", "ttft<=1us"), "ttft stops"),
        ((*ON_ONE, "--set", "router=random"), "plan chooses"),
        ((*ON_ONE, "--deploy", "1B"), "--deploy"),
    ],
)
def test_bad_input_is_one_line(here: Any, arguments: tuple[str, ...], told: str) -> None:
    shown = here("plan", "sample", *arguments)
    assert (shown.code, shown.out, shown.err.count("\n")) == (2, "", 1)
    assert told in shown.err


def test_models_of_a_catalog_file_can_be_planned(here: Any, tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text("models: {plan-test-model: {like: llama-3-8b}}")
    (tmp_path / "run.yaml").write_text("{workload: {rate: 5, requests: 40}, catalog: mine.yaml}")
    flags = ("--model", "plan-test-model", *ON_ONE[2:], "--json")
    assert json.loads(here("plan", "run.yaml", *flags).out)["model"] == "plan-test-model"
