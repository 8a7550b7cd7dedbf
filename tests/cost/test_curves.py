"""Medians, isotonic regression and the pieces between points."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.cost.curves import decode_pieces, never_falling, prompt_pieces, slope_of
from twofold.errors import SpecError

VALUES = st.lists(st.floats(0.0, 100.0), min_size=1, max_size=12)


def at(pieces, x):
    piece = [piece for piece in pieces if piece[0] <= x][-1]
    return piece[1] + piece[2] * x


@given(VALUES)
def test_the_nearest_sequence_never_falls_and_keeps_the_mean(values):
    pooled = never_falling(values)
    assert all(later >= earlier - 1e-9 for earlier, later in pairwise(pooled))
    assert np.mean(pooled) == pytest.approx(np.mean(values))


def test_only_neighbours_that_fall_are_pooled():
    assert never_falling([1.0, 4.0, 2.0, 5.0]) == [1.0, 3.0, 3.0, 5.0]


@given(st.lists(st.floats(0.1, 10.0), min_size=2, max_size=8))
def test_pieces_meet_the_points_and_each_other(steps):
    points = {float(2**i): [float(sum(steps[: i + 1]))] for i in range(len(steps))}
    pieces = prompt_pieces(points)
    for x, (y,) in points.items():
        assert at(pieces, x) == pytest.approx(y)
        assert at(pieces, x - 1e-9) == pytest.approx(y, abs=1e-6)


def test_a_piece_is_level_before_the_first_point_and_goes_on_after_the_last():
    pieces = prompt_pieces({100.0: [3.0, 1.0, 2.0], 200.0: [4.0]})
    assert at(pieces, 1.0) == 2.0
    assert at(pieces, 400.0) == pytest.approx(8.0)


def test_pieces_of_decodes_carry_the_context():
    assert {piece.context_s for piece in decode_pieces({1.0: [1.0], 2.0: [2.0]}, 0.5)} == {0.5}


@given(st.floats(0.0, 5.0), st.floats(-10.0, 10.0))
def test_the_slope_of_a_line_is_its_slope(slope, start):
    assert slope_of([(x, start + slope * x) for x in (1.0, 3.0, 7.0)]) == pytest.approx(slope, abs=1e-9)


def test_a_falling_line_and_a_single_place_have_no_slope():
    assert slope_of([(1.0, 2.0), (2.0, 1.0)]) == slope_of([(1.0, 2.0), (1.0, 3.0)]) == slope_of([]) == 0.0


def test_one_size_is_not_a_curve():
    with pytest.raises(SpecError, match="two sizes"):
        prompt_pieces({512.0: [1.0]})
