from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import GRID, TIMES, Truth, planted, random_scenario, searched

import twofold
from twofold.cost.grids import Straight
from twofold.cost.measured import Key, Measured, Tables
from twofold.plan.certify import Entry
from twofold.plan.examine import rough
from twofold.plan.goodput import Goodput
from twofold.plan.pool import Threads
from twofold.plan.ranking import Plan
from twofold.plan.search import SURE
from twofold.plan.uncertainty import COVERED, Interval, doubts, intervals
from twofold.spec.synthetic import Synthetic

SAMPLES = 6


class Drawn:
    """Answers with planted goodputs of the resampled requests, float64[deployments, samples]."""

    workers = 1

    def __init__(self, rates: np.ndarray) -> None:
        self.rates = rates
        self.tasks: list[Any] = []

    def map(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> list[Any]:
        self.tasks = list(items)
        return [float(rate) for rate in self.rates.ravel()]

    def close(self) -> None:
        """Nothing is held."""


def ranked(rates: Sequence[float], weights: Sequence[float] | None = None) -> list[Entry]:
    _, entries = planted([Truth(0, 0, 100) for _ in rates])
    for entry, rate, weight in zip(entries, rates, weights or [1.0] * len(rates), strict=True):
        entry.found, entry.weight = Goodput(rate, 0.9, "ttft", 1), weight
    return entries


def of(rates: Sequence[float], drawn: np.ndarray, **options: Any) -> list[Interval]:
    question, _ = planted([])
    return intervals(question, ranked(rates, **options), Drawn(drawn), TIMES, drawn.shape[1])


@given(st.lists(st.floats(1.0, 100.0), min_size=1, max_size=5), st.floats(0.0, 20.0), st.integers(0, 1000))
def test_an_interval_contains_its_goodput_and_swaps_are_mutual(rates: list[float], noise: float, seed: int) -> None:
    drawn = np.abs(
        np.array(rates)[:, None] + noise * np.random.default_rng(seed).standard_normal((len(rates), SAMPLES))
    )
    found = of(sorted(rates, reverse=True), drawn)
    for rank, (rate, each) in enumerate(zip(sorted(rates, reverse=True), found, strict=True), 1):
        assert 0.0 <= each.low <= rate <= each.high
        assert rank not in each.swaps_with
        assert all(rank in found[other - 1].swaps_with for other in each.swaps_with)


def test_the_interval_is_the_spread_of_the_samples() -> None:
    drawn = np.array([[9.0, 10.0, 11.0, 10.0]])
    (only,) = of([10.0], drawn)
    step = 10.0 * rough(GRID).precision
    spread = COVERED * np.sqrt(np.var(drawn, ddof=1) + step**2 / 12.0)
    assert (only.low, only.high) == pytest.approx((10.0 - spread, 10.0 + spread))


def test_without_any_noise_a_goodput_is_known_to_a_step_of_the_grid() -> None:
    first, second, third = of([10.0, 9.95, 9.0], np.array([[10.0] * SAMPLES, [9.95] * SAMPLES, [9.0] * SAMPLES]))
    assert first.low < 10.0 < first.high < 10.0 * (1 + rough(GRID).precision)
    assert (first.swaps_with, second.swaps_with, third.swaps_with) == ((2,), (1,), ())


def test_more_noise_gives_wider_intervals_and_more_swaps() -> None:
    noise = np.random.default_rng(1).standard_normal((2, SAMPLES))
    calm, wild = (of([10.0, 9.0], np.array([[10.0], [9.0]]) + scale * noise) for scale in (0.1, 2.0))
    assert all(one.high - one.low < other.high - other.low for one, other in zip(calm, wild, strict=True))
    assert [each.swaps_with for each in calm] == [(), ()]
    assert [each.swaps_with for each in wild] == [(2,), (1,)]


def test_noise_that_two_share_does_not_swap_them() -> None:
    shared = np.random.default_rng(2).standard_normal(SAMPLES)
    together = of([10.0, 9.0], np.array([10.0 + shared, 9.0 + shared]))
    assert [each.swaps_with for each in together] == [(), ()]
    assert together[0].low < 9.0


def test_ranks_are_compared_in_the_unit_of_the_objective() -> None:
    drawn = np.array([[20.0, 20.2, 19.8], [8.0, 8.1, 7.9]])
    assert [each.swaps_with for each in of([20.0, 8.0], drawn, weights=[4.0, 1.0])] == [(), ()]
    assert [each.swaps_with for each in of([20.0, 8.0], drawn * 1.0, weights=[2.5, 1.0])] == [(2,), (1,)]


def test_a_trap_is_resampled_as_long_as_it_was_found() -> None:
    entries, pool = ranked([10.0, 9.0]), Drawn(np.ones((2, 2)))
    entries[1].trap = 20.0
    intervals(planted([])[0], entries, pool, TIMES, 2)
    assert [(task.times, task.seed) for task in pool.tasks] == [(1, 0), (1, 1), (TIMES, 0), (TIMES, 1)]


@pytest.mark.parametrize("samples", [0, 1])
def test_too_few_samples_have_no_spread(samples: int) -> None:
    question, _ = planted([])
    assert intervals(question, ranked([10.0]), Drawn(np.ones((1, samples))), TIMES, samples) == []


def test_the_same_search_has_the_same_intervals() -> None:
    scenario = random_scenario(3)
    search, found = searched(scenario, keep=2)
    both = [intervals(search.question, found[:2], Threads(1), TIMES, 3) for _ in range(2)]
    assert both[0] == both[1]
    assert all(each.low < each.high for each in both[0])


class Known:
    """Answers with planted errors of the cost model, one a deployment."""

    workers = 1

    def __init__(self, errors: Sequence[float | None]) -> None:
        self.errors = errors

    def map(self, function: Callable[[Any, Any], Any], shared: Any, items: Sequence[Any]) -> list[Any]:
        assert len(items) == len(self.errors)
        return list(self.errors)

    def close(self) -> None:
        """Nothing is held."""


def untold(rates: Sequence[float], errors: Sequence[float | None], **options: Any) -> list[tuple[int, ...] | None]:
    found = doubts(planted([])[0], ranked(rates, **options), Known(errors))
    assert [None if each is None else each.error for each in found] == list(errors)
    return [None if each is None else each.not_told_from for each in found]


def test_goodputs_nearer_than_the_errors_of_both_are_not_told_apart() -> None:
    spread = COVERED * np.hypot(0.03 * 100.0, 0.04 * 90.0)
    assert spread < 10.0
    assert untold([100.0, 90.0], [0.03, 0.04]) == [(), ()]
    nearer = 100.0 - 0.9 * spread
    assert untold([100.0, nearer], [0.03, 0.04]) == [(2,), (1,)]


def test_a_cost_model_that_knows_its_steps_exactly_tells_all_but_equals_apart() -> None:
    assert untold([10.0, 10.0, 9.99], [0.0, 0.0, 0.0]) == [(2,), (1,), ()]


def test_what_the_cost_model_does_not_say_is_left_out() -> None:
    assert untold([10.0, 9.9, 9.8], [0.05, None, 0.05]) == [(3,), None, (1,)]


def test_errors_are_shares_in_the_unit_of_the_objective() -> None:
    assert untold([20.0, 8.0], [0.05, 0.05], weights=[4.0, 1.0]) == [(), ()]
    assert untold([20.0, 8.0], [0.05, 0.05], weights=[2.5, 1.0]) == [(2,), (1,)]


@given(st.lists(st.tuples(st.floats(1.0, 100.0), st.none() | st.floats(0.0, 0.3)), min_size=1, max_size=5))
def test_who_is_not_told_from_another_is_not_so_mutually(pairs: list[tuple[float, float | None]]) -> None:
    rates, errors = zip(*sorted(pairs, key=lambda pair: -pair[0]), strict=True)
    found = untold(rates, errors)
    for rank, others in enumerate(found, 1):
        for other in others or ():
            assert other != rank
            assert rank in (found[other - 1] or ())


def test_a_roofline_says_nothing() -> None:
    question, entries = planted([Truth(10, 10, 40)])
    entries[0].found = Goodput(10.0, 0.9, "ttft", 1)
    assert doubts(question, entries, Threads(1)) == [None]


@pytest.fixture(scope="module")
def measured() -> Measured:
    tables = Tables(
        dense=((1.0, 8e-3), (512.0, 30e-3), (2048.0, 110e-3)),
        prompts=(Straight(16.0, 1e-4, 1e-7), Straight(2048.0, 1e-3, 4e-6)),
        decodes=(Straight(1.0, 1e-4, 1e-7), Straight(64.0, 1e-3, 1e-6)),
        residuals={"prompt": 0.1, "decode": 0.1, "mixed": 0.1},
    )
    return Measured("own.json", {Key("Llama-3-8B", "H100", 1, "bf16"): tables})


def planned(costs: Measured, samples: int = 0, **options: Any) -> Plan:
    workload = Synthetic(rate=5, requests=120, prompt="lognormal:600:0.5", output="lognormal:40:0.5", seed=3).workload()
    asked = {"model": "llama-3-8b", "budget": "2xH100", "slo": "ttft<=1s, tpot<=60ms @90%", "workers": 1}
    return twofold.plan(workload, **asked, roofline=costs, keep=3, samples=samples, **options)


def test_a_plan_by_measured_steps_says_whom_its_cost_model_cannot_tell_apart(measured: Measured) -> None:
    rows = planned(measured).rows
    known = [row for row in rows if row["cost_error"] is not None]
    assert len(known) == min(SURE, len(rows))
    assert [row["cost_error"] for row in known] == pytest.approx([0.1] * len(known))
    values = [row["goodput_req_s"] for row in known]
    near = [
        rank
        for rank, value in enumerate(values, 1)
        if rank > 1 and values[0] - value <= COVERED * 0.1 * np.hypot(values[0], value)
    ]
    assert near
    assert known[0]["not_told_from"] == near


def test_a_plan_by_steps_of_unknown_error_says_nothing(measured: Measured, monkeypatch: pytest.MonkeyPatch) -> None:
    def simulated(*_: Any, **__: Any) -> None:
        raise AssertionError

    monkeypatch.setattr("twofold.plan.examine.simulate", simulated)
    (row,) = measured.rows.values()
    silent = replace(measured, rows=dict.fromkeys(measured.rows, replace(row, residuals={})))
    assert {(row["cost_error"], *row["not_told_from"]) for row in planned(silent).rows} == {(None,)}


def test_a_plan_that_was_stopped_does_not_go_on_to_doubt(measured: Measured) -> None:
    assert {row["cost_error"] for row in planned(measured, time_limit_s=0.0).rows} == {None}
