"""What is measured fits the engine that is measured, and is the same each time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.engine.profile_points import Bounds, Point, grid, held_out

BOUNDS = st.builds(
    Bounds, st.integers(8, 3000), st.integers(1, 300), st.integers(128, 9000), st.integers(200, 40_000)
).map(lambda bounds: bounds._replace(context=min(bounds.context, bounds.kv - 40)))
USUAL = Bounds(2048, 64, 8192, 36_000)


@given(BOUNDS, st.booleans())
def test_all_points_are_within_the_bounds(bounds: Bounds, coarse: bool) -> None:
    points = [*grid(bounds, coarse), *held_out(bounds, 3, np.random.default_rng(0))]
    assert all(bounds.hold(point) for point in points)
    contexts: dict[int, set[int]] = {}
    for point in grid(bounds, coarse):
        if point.kind == "decode":
            contexts.setdefault(point.decodes, set()).add(point.context)
    assert contexts
    assert all(len(found) >= 2 for found in contexts.values())


@pytest.mark.parametrize("coarse", [False, True])
def test_every_kind_of_step_and_every_size_is_there(coarse: bool) -> None:
    points = grid(USUAL, coarse)
    assert {point.kind for point in points} == {"prompt", "decode", "mixed"}
    assert {1, 2, 4, 8, 16, 32, 64} <= {point.decodes for point in points}
    assert max(point.prompt_tokens for point in points) == 2048
    assert {len(point.chunks) for point in points} >= {0, 1, 2, 4}
    assert any(start for point in points for _, start in point.chunks)


def test_the_coarse_grid_is_a_fraction() -> None:
    assert len(grid(USUAL, True)) < len(grid(USUAL, False)) / 2


def test_what_is_held_out_is_random_but_the_same_each_time() -> None:
    first, second = (held_out(USUAL, 10, np.random.default_rng(1)) for _ in range(2))
    assert first == second
    assert not set(first) & set(grid(USUAL, False))
    assert [point.kind for point in first] == ["prompt"] * 10 + ["decode"] * 10 + ["mixed"] * 10


def test_sums_of_a_step() -> None:
    point = Point(3, 100, ((16, 0), (8, 0)))
    assert (point.tokens, point.prompt_tokens, point.rows, point.kind) == (27, 24, 5, "mixed")
    assert Point(0, 0, ((16, 64),), False).rows == 0
