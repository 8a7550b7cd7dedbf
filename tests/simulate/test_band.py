"""The band of a run: the errors of the cost model, weighted by where its steps spent their time."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Split, Tables
from twofold.cost.roofline import Roofline
from twofold.simulate.band import MEANING, step_errors
from twofold.simulate.result import Result
from twofold.simulate.run import simulate
from twofold.spec import catalog
from twofold.spec.notation import parse_deployment
from twofold.spec.synthetic import Synthetic
from twofold.spec.workload import Workload

PROMPT, DECODE, MIXED = 0.03, 0.02, 0.05
ERRORS = {"prompt": PROMPT, "decode": DECODE, "mixed": MIXED}
TABLES = Tables(
    dense=((1.0, 10e-3), (64.0, 12e-3), (512.0, 40e-3)),
    prompts=(Straight(16.0, 1e-3, 1e-6), Straight(512.0, 2e-3, 8e-6)),
    decodes=(Straight(1.0, 1e-3, 1e-6), Straight(8.0, 2e-3, 5e-6)),
    splits=(Split(80, 52, ((512.0, 0.6),), 0.9, 1.2, 1.5),),
)
REQUESTS = Synthetic(rate=9.0, requests=60, prompt="lognormal:300:0.6", output="lognormal:20:0.8", seed=3).workload()


def costs(*by_tp: dict[str, float]) -> Measured:
    """Tables whose residuals at TP 1, 2, ... are given."""
    keys = (Key("Llama-3-8B", "H100", tp, "bf16") for tp in range(1, len(by_tp) + 1))
    return Measured("own.json", {key: replace(TABLES, residuals=each) for key, each in zip(keys, by_tp, strict=True)})


def run(text: str, workload: Workload = REQUESTS, by_tp: Any = (ERRORS, ERRORS), **options: Any) -> Result:
    deployment = parse_deployment(text, model="llama-3-8b", device="H100").replaced(**options)
    return simulate(workload, deployment, roofline=costs(*by_tp), timeline=True)


def listed(*rows: tuple[float, int, int]) -> Workload:
    arrival, prompt, output = (np.array(column) for column in zip(*rows, strict=True))
    return Workload("listed", arrival, prompt, output)


def shares_together(result: Result) -> tuple[float, float]:
    """Of the time of steps with prompts, and with decodes, the share of steps with both: from the timeline."""
    lines = result._sim.log[: result._sim.control[0].logs]
    lines = lines[lines.kind == 0]
    seconds, prompts, decodes = lines.end - lines.start, lines.prompt_tokens > 0, lines.decodes > 0
    both = seconds[prompts & decodes].sum()
    return both / seconds[prompts].sum(), both / seconds[decodes].sum()


@pytest.mark.parametrize(
    "text",
    ["1P1D", "2P,chunked=256 + 1D", "1B,prefill-first", "1B,request-level", "1B,multiplexed=80:52", "1P,pp2 + 1D"],
)
def test_where_prompts_and_decodes_are_apart_each_has_its_own_error(text: str) -> None:
    band = run(text).band
    assert band is not None
    assert band.steps == {"prompt": PROMPT, "decode": DECODE}
    assert (band.ttft, band.tbt) == pytest.approx((PROMPT, DECODE))
    assert band.largest == pytest.approx(PROMPT)


@pytest.mark.parametrize("text", ["1B,chunked=128", "1B,chunked=512", "1B,mixed", "1B,chunked=60ms"])
@pytest.mark.parametrize("rate", [0.5, 3.0, 9.0])
def test_time_in_steps_with_both_is_never_too_little_and_hardly_too_much(text: str, rate: float) -> None:
    result = run(text, REQUESTS.at_rate(rate))
    band = result.band
    assert band is not None
    assert band.ttft is not None
    assert band.tbt is not None
    of_prompts, of_decodes = shares_together(result)
    assert 0.0 < of_decodes < 1.0
    assert of_prompts - 1e-9 <= (band.ttft - PROMPT) / (MIXED - PROMPT) <= of_prompts + 0.02
    assert of_decodes - 1e-9 <= (band.tbt - DECODE) / (MIXED - DECODE) <= of_decodes + 0.07
    assert band.steps == ERRORS


def test_time_in_steps_with_both_is_exact_for_one_prompt_at_a_time() -> None:
    result = run("1B,chunked=64", listed((0.0, 64, 60), (0.2, 640, 9), (0.6, 300, 5)))
    band = result.band
    assert band is not None
    of_prompts, of_decodes = shares_together(result)
    assert 0.1 < of_decodes < of_prompts < 1.0
    assert band.ttft == pytest.approx(PROMPT + of_prompts * (MIXED - PROMPT))
    assert band.tbt == pytest.approx(DECODE + of_decodes * (MIXED - DECODE))


def test_requests_that_never_meet_have_no_steps_with_both() -> None:
    band = run("1B,chunked=512", listed((0.0, 700, 10), (60.0, 700, 10))).band
    assert band is not None
    assert (band.steps, band.ttft, band.tbt) == ({"prompt": PROMPT, "decode": DECODE}, PROMPT, DECODE)


def test_without_a_decode_there_is_no_error_of_gaps() -> None:
    band = run("1B,chunked=512", listed((0.0, 700, 1), (0.1, 700, 1))).band
    assert band is not None
    assert (band.steps, band.tbt) == ({"prompt": PROMPT}, None)
    assert band.largest == band.ttft == pytest.approx(PROMPT)


def test_each_group_has_its_own_errors_weighted_by_its_time() -> None:
    other = {"prompt": 0.10, "decode": 0.08, "mixed": 0.2}
    apart = run("1P,tp2 + 1D", by_tp=(ERRORS, other)).band
    assert apart is not None
    assert (apart.ttft, apart.tbt) == pytest.approx((0.10, DECODE))
    beside = run("1B,prefill-first + 1B,tp2,prefill-first", by_tp=(ERRORS, other)).band
    assert beside is not None
    assert beside.ttft is not None
    assert PROMPT < beside.ttft < 0.10
    assert beside.steps == {"prompt": 0.10, "decode": 0.08}


def test_decodes_beside_borrowed_prompts_count_as_both() -> None:
    result = run("1P1D", REQUESTS.at_rate(40.0), mixed_pool=True, mixed_prompt_tokens=1)
    assert result.summary()["borrowed"] > 0
    assert result.band is not None
    assert "mixed" in result.band.steps


def test_what_nobody_knows_is_not_made_up() -> None:
    band = run("1P1D", by_tp=({"decode": DECODE},)).band
    assert band is not None
    assert (band.steps, band.ttft, band.tbt) == ({"prompt": None, "decode": DECODE}, None, DECODE)
    assert band.largest is None
    mixed = run("1B,chunked=256", by_tp=({"prompt": PROMPT, "decode": DECODE},)).band
    assert mixed is not None
    assert (mixed.ttft, mixed.tbt, mixed.steps["mixed"]) == (None, None, None)


@pytest.mark.parametrize("model", [None, Roofline(), costs({}), costs({"mixed": MIXED})], ids=str)
def test_without_an_error_of_any_step_there_is_no_band(model: Any) -> None:
    deployment = parse_deployment("1P1D", model="llama-3-8b", device="H100")
    result = simulate(REQUESTS, deployment, roofline=model)
    assert result.band is None
    assert result.summary()["band"] is None


def test_a_summary_says_what_the_numbers_are() -> None:
    told = run("1P1D").summary()["band"]
    assert told["steps"] == {"prompt": PROMPT, "decode": DECODE}
    assert (told["ttft"], told["tbt"], told["tpot"]) == pytest.approx((PROMPT, DECODE, DECODE))
    assert told["meaning"] == MEANING


def test_errors_are_those_of_each_replica_in_the_order_of_the_groups() -> None:
    deployment = parse_deployment("2P,tp2 + 1D", model="llama-3-8b", device="H100")
    found = step_errors(costs({"decode": DECODE}, ERRORS), deployment, catalog.model("llama-3-8b"))
    assert found.tolist()[:2] == [[PROMPT, DECODE, MIXED]] * 2
    np.testing.assert_array_equal(found[2], [np.nan, DECODE, np.nan])
