from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from planted import GRID, TIMES, Truth, planted, random_scenario, searched

from twofold.plan.certify import Entry
from twofold.plan.examine import rough
from twofold.plan.goodput import Goodput
from twofold.plan.pool import Threads
from twofold.plan.uncertainty import COVERED, Interval, intervals

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
