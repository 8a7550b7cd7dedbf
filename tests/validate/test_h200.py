"""The host's part of a step is fitted on the even points and judged on the odd ones."""

import numpy as np

from twofold.validate.h200 import _with_host


def test_a_constant_and_a_part_a_size_are_found_and_the_odd_points_never_seen():
    sizes = np.arange(1.0, 9.0)
    steps = 0.01 * sizes**1.5
    measured = steps + 0.002 + 0.0005 * sizes
    measured[1::2] *= 1.1
    predicted, held = _with_host(steps, sizes, measured)
    np.testing.assert_allclose(predicted, measured[1::2] / 1.1, rtol=1e-9)
    np.testing.assert_array_equal(held, measured[1::2])
