"""Objectives relative to a machine of one's own."""

import numpy as np
import pytest

from twofold.cost.roofline import step_seconds
from twofold.errors import SpecError
from twofold.plan.slowdown import SPLITWISE, Slowdown, times_alone
from twofold.spec import catalog
from twofold.spec.workload import Workload

MODEL, A100 = catalog.model("llama-2-70b"), catalog.device("A100-80GB")


class Measured:
    """Times of a run, made up."""

    def __init__(self, ttft, tpot, e2e):
        self.ttft_s, self.tpot_s, self.e2e_s = (np.asarray(column, dtype=float) for column in (ttft, tpot, e2e))


def alone(count, tpot=0.05):
    return {"ttft": np.full(count, 0.2), "tpot": np.full(count, tpot), "e2e": np.full(count, 2.0)}


def measured(count, **factors):
    times = {name: values * factors.get(name, 1.0) for name, values in alone(count).items()}
    return Measured(**times)


def test_times_alone_are_steps_without_a_queue():
    prompts, outputs = np.array([100, 1500, 4000]), np.array([1, 2, 40])
    found = times_alone(Workload("w", np.zeros(3), prompts, outputs), MODEL)
    for i, (prompt, output) in enumerate(zip(prompts, outputs, strict=True)):
        first = step_seconds(MODEL, A100, tp=8, prompts=[(0, int(prompt))])
        gaps = [step_seconds(MODEL, A100, tp=8, decode_contexts=[int(prompt) + k]) for k in range(output - 1)]
        assert found["ttft"][i] == pytest.approx(first, abs=1e-9)
        assert found["e2e"][i] == pytest.approx(first + sum(gaps), abs=1e-8)
        assert found["tpot"][i] == pytest.approx(np.mean(gaps) if gaps else 0.0, abs=1e-8)


@pytest.mark.parametrize(
    ("factors", "limit"),
    [
        ({}, None),
        ({"ttft": 1.99}, None),
        ({"ttft": 2.5}, "p50 ttft"),
        ({"tpot": 1.4}, "p50 tpot"),
        ({"e2e": 9.0}, "p50 e2e"),
    ],
)
def test_a_run_that_is_slower_throughout_breaks_the_median(factors, limit):
    assert Slowdown().broken(measured(100, **factors), alone(100)) == limit


@pytest.mark.parametrize(("slow", "limit"), [(1, None), (2, "p99 ttft"), (10, "p99 ttft"), (11, "p90 ttft")])
def test_a_percentile_allows_its_share_of_slow_requests(slow, limit):
    run = measured(100)
    run.ttft_s[:slow] *= 7.0
    assert Slowdown().broken(run, alone(100)) == limit


def test_the_limit_that_is_exceeded_most_is_named():
    run = measured(100, tpot=1.3)
    run.e2e_s[:20] *= 4.0
    assert Slowdown().broken(run, alone(100)) == "p90 e2e"


def test_a_request_that_never_ends_is_infinitely_slow_and_one_token_has_no_gap():
    run = measured(100)
    run.e2e_s[:2] = np.nan
    assert Slowdown().broken(run, alone(100)) == "p99 e2e"
    assert Slowdown({"tpot": SPLITWISE["tpot"]}).broken(measured(100, tpot=9.0), alone(100, tpot=0.0)) is None


@pytest.mark.parametrize("limits", [{"tbt": (2.0, 3.0, 6.0)}, {"ttft": (0.5, 3.0, 6.0)}, {"ttft": (2.0,)}])
def test_other_limits_are_refused(limits):
    with pytest.raises(SpecError, match="slowdown"):
        Slowdown(limits)
