import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import twofold
from twofold.cost.roofline import step_seconds
from twofold.plan.goodput import BOUND, PRECISION, Grid, climb, goodput
from twofold.plan.probe import Probe
from twofold.spec import catalog
from twofold.spec.slo import Slo
from twofold.spec.workload import Workload

PROMPT = 2048
GRID = Grid(0.01)


def steady(count: int, prompt: int = PROMPT, output: int = 1) -> Workload:
    return Workload("steady", np.arange(count) * 1.0, np.full(count, prompt), np.full(count, output))


def one_by_one() -> twofold.deployment:
    return twofold.deployment(f"1B,prefill-first,prefill-tokens={PROMPT}", model="llama-3-8b", device="H100")


def prefill_seconds() -> float:
    return step_seconds(catalog.model("llama-3-8b"), catalog.device("H100"), prompts=[(0, PROMPT)])


@pytest.mark.parametrize("guess", [0.01, 3.0, 500.0])
def test_goodput_of_a_d_d_1_queue_is_its_service_rate_whatever_the_guess(guess):
    service = prefill_seconds()
    found = goodput(steady(400), one_by_one(), Slo(ttft_s=1.5 * service, attainment=0.99), guess=guess)
    assert found.limit == "ttft"
    assert found.rate == pytest.approx(1 / service, rel=1.5 * PRECISION)


def test_an_slo_below_an_isolated_request_is_met_at_no_rate():
    found = goodput(steady(20), one_by_one(), Slo(ttft_s=0.5 * prefill_seconds()))
    assert found.rate == 0.0
    assert found.limit == "ttft"


def passing_up_to(best: int, asked: list[int] | None = None):
    def ask(k: int) -> Probe:
        if asked is not None:
            asked.append(k)
        return Probe(GRID.rate(k), None if k <= best else "ttft", 1.0 if k <= best else None)

    return ask


@given(best=st.integers(-1, 1001), start=st.integers(-50, 1050), stride=st.integers(1, 9))
def test_the_last_step_that_passes_is_found_and_no_step_is_asked_twice(best, start, stride):
    asked: list[int] = []
    found = climb(passing_up_to(best, asked), GRID, start, 0, 1000, stride)
    assert found.rate == (GRID.rate(min(best, 1000)) if best >= 0 else 0.0)
    assert found.limit == (BOUND if best >= 1000 else "ttft")
    assert found.probes == len(asked) == len(set(asked)) <= 30
    assert all(0 <= k <= 1000 for k in asked)


def test_nothing_between_the_ends_is_no_goodput():
    assert climb(passing_up_to(9), GRID, 3, 5, 4).rate == 0.0


@given(rate=st.floats(1e-3, 1e6))
def test_the_step_below_a_rate_is_the_highest_that_is_not_above_it(rate):
    k = GRID.below(rate)
    assert GRID.rate(k) <= rate * (1 + 1e-9)
    assert GRID.rate(k + 1) > rate


@given(k=st.integers(GRID.lowest, GRID.highest))
def test_the_step_of_a_rate_of_the_grid_is_its_own(k):
    assert GRID.below(GRID.rate(k)) == k
