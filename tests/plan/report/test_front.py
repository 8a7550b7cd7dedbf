import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from twofold.plan.report.front import on_front

points = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6), st.integers(0, 6)), min_size=1, max_size=25)


def dominates(one, other):
    return bool((one <= other).all() and (one < other).any())


@given(points)
def test_the_front_is_what_none_dominates(rows):
    values = np.array(rows, dtype=float)
    front = on_front(values)
    for row, kept in zip(values, front, strict=True):
        assert kept == (not any(dominates(other, row) for other in values))


def test_a_point_without_a_finite_value_is_left_out_and_beats_nothing():
    front = on_front(np.array([[0.0, np.inf], [1.0, 1.0], [np.nan, 0.0]]))
    assert front.tolist() == [False, True, False]


def test_equal_points_are_all_on_the_front():
    assert on_front(np.ones((3, 2))).tolist() == [True, True, True]
