"""The parts of a step, found from whole steps."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from timed import expected

from twofold.engine.profile_fit import Fit, Ramp, fit, nonnegative
from twofold.engine.profile_points import Bounds, Point, grid, held_out

BOUNDS = Bounds(2048, 64, 8192, 36_000)
HOST_S = 0.001
FINE = 0.01


def steps(points: list[Point], noise: float = 0.0) -> dict[Point, float]:
    rng = np.random.default_rng(3)
    return {point: HOST_S + expected(point) * float(rng.lognormal(0, noise)) for point in points}


@pytest.fixture(scope="module")
def exact() -> Fit:
    return fit(steps(grid(BOUNDS, False)), HOST_S)


@given(st.integers(0, 1000), st.integers(2, 12), st.integers(1, 9))
def test_least_squares_without_negatives_is_optimal(seed: int, rows: int, columns: int) -> None:
    """The conditions of Karush, Kuhn and Tucker."""
    rng = np.random.default_rng(seed)
    matrix, wanted = rng.normal(size=(rows, columns)), rng.normal(size=rows)
    x = nonnegative(matrix, wanted)
    gain = matrix.T @ (wanted - matrix @ x)
    assert x.min() >= 0
    assert gain.max() <= 1e-8
    assert abs(gain[x > 0]).max(initial=0.0) <= 1e-8


def test_a_ramp_is_straight_between_its_knots_and_beyond() -> None:
    ramp, added = Ramp((2, 4, 8)), np.array([10.0, 1.0, 2.0])
    assert [float(ramp.weights(at) @ added) for at in (1, 2, 3, 4, 6, 8, 12)] == [10, 10, 10.5, 11, 12, 13, 15]
    assert Ramp((0, 5)).weights(0).tolist() == [0, 0]


def test_steps_are_made_of_their_parts(exact: Fit) -> None:
    errors = exact.errors(steps(held_out(BOUNDS, 60, np.random.default_rng(9))))
    assert set(errors) == {"prompt", "decode", "mixed"}
    assert max(errors.values()) < 3 * FINE
    assert max(exact.errors(steps(grid(BOUNDS, False))).values()) < FINE


def test_the_parts_are_what_they_were_made_of(exact: Fit) -> None:
    """Attention of a prompt is told apart from the dense layers, though both grow with it."""
    attention = {(tokens, start): seconds for tokens, start, seconds in exact.prompt_attention([0, 2048])}
    assert attention[512, 0] == pytest.approx(0.0006 + 2e-7 * 512**2 / 2, rel=0.1)
    assert attention[2048, 0] == pytest.approx(0.0006 + 2e-7 * 2048**2 / 2, rel=0.1)
    assert attention[512, 2048] == pytest.approx(0.0006 + 3e-7 * 512 * (2048 + 256) + 2048e-6, rel=0.1)
    assert dict(map(tuple, exact.dense))[1024] == pytest.approx(0.00095 * 1024, rel=0.05)
    assert dict(map(tuple, exact.rows))[1] == pytest.approx(0.006, rel=0.1)
    decodes = {(count, context): seconds for count, context, seconds in exact.decode_attention([64, 512])}
    assert decodes[16, 512] - decodes[16, 64] == pytest.approx(16 * (512 - 64) * 2e-6, rel=0.05)


def test_the_tables_add_up_to_the_step(exact: Fit) -> None:
    dense, rows = (dict(map(tuple, table)) for table in (exact.dense, exact.rows))
    chunk, decodes = exact.prompt_attention([0, 64]), exact.decode_attention([64, 512])
    for tokens, start, seconds in chunk:
        point = Point(chunks=((int(tokens), int(start)),), ends=False)
        assert HOST_S + dense[tokens] + seconds == pytest.approx(exact.seconds(point))
    for count, context, seconds in decodes:
        point = Point(int(count), int(context))
        assert HOST_S + dense[count] + rows[count] + seconds == pytest.approx(exact.seconds(point))


def test_noise_is_averaged_and_no_table_falls() -> None:
    noisy = fit(steps(grid(BOUNDS, False), noise=0.05), HOST_S)
    errors = noisy.errors(steps(held_out(BOUNDS, 60, np.random.default_rng(9))))
    assert max(errors.values()) < 0.06
    for table in (noisy.dense, noisy.rows):
        seconds = [row[-1] for row in table]
        assert seconds == sorted(seconds)
        assert seconds[0] >= 0
