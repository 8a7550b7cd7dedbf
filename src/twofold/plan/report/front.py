"""The Pareto front: what nothing else beats."""

import numpy as np
from numpy.typing import NDArray


def on_front(values: NDArray[np.float64]) -> NDArray[np.bool_]:
    """Which rows of ``values`` [points, objectives] no other row dominates; smaller is better in every column.

    A row dominates another when it is at most as large everywhere and smaller somewhere. Rows with a value that is
    not finite are never on the front. bool[points].
    """
    finite = np.asarray(np.isfinite(values).all(axis=1))
    front = np.zeros(len(values), np.bool_)
    for row in np.flatnonzero(finite):
        at_most = (values[finite] <= values[row]).all(axis=1)
        smaller = (values[finite] < values[row]).any(axis=1)
        front[row] = not bool((at_most & smaller).any())
    return front
