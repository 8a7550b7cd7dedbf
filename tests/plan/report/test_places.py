import math
from itertools import pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from twofold.plan.report.places import apart, even_ticks, log_ticks

heights = st.lists(st.floats(0, 1), min_size=1, max_size=8)


@given(heights)
def test_labels_are_apart_within_bounds_and_in_order(wanted):
    placed = apart(wanted, 0.1, 0.0, 1.0)
    for low, high in pairwise(sorted(placed)):
        assert high - low >= 0.1 - 1e-9
    assert min(placed) >= -1e-9
    assert max(placed) <= 1.0
    for a, b in zip(wanted, placed, strict=True):
        assert all((a <= other) <= (b <= there) for other, there in zip(wanted, placed, strict=True) if a != other)


def test_labels_that_are_apart_already_stay():
    assert apart([0.9, 0.1, 0.5], 0.1, 0.0, 1.0) == [0.9, 0.1, 0.5]


@given(st.floats(0.01, 1e4), st.floats(1.01, 100))
def test_even_ticks_are_few_equal_steps_within(low, factor):
    high = low * factor
    ticks = even_ticks(low, high, 6)
    assert 1 <= len(ticks) <= 7
    assert all(low * (1 - 1e-6) <= tick <= high * (1 + 1e-6) for tick in ticks)
    steps = [b - a for a, b in pairwise(ticks)]
    assert all(step == pytest.approx(steps[0], rel=1e-6, abs=1e-9) for step in steps)


@given(st.floats(1e-3, 1e4), st.floats(3.0, 1e5))
def test_log_ticks_are_few_and_within(low, factor):
    assume(math.isfinite(low * factor))
    ticks = log_ticks(low, low * factor, 7)
    assert 1 <= len(ticks) <= 7 or factor < 10
    assert all(low <= tick <= low * factor for tick in ticks)
    assert ticks == sorted(ticks)


def test_log_ticks_are_the_numbers_that_people_write():
    assert log_ticks(9, 210, 5) == [10, 20, 50, 100, 200]
    assert log_ticks(0.9, 11_000, 5) == [1, 10, 100, 1000, 10_000]
