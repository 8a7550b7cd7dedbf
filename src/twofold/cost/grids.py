"""From grids of attention times to the tables of a record: straight in the context, in proportion beyond the last."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError

Floats = NDArray[np.float64]
Beyond = Callable[[float], float]


class Sample(NamedTuple):
    """Attention of all layers: ``seconds`` at ``size`` prompt tokens or decodes, with ``keys`` for each query."""

    size: float
    keys: float
    seconds: float


class Straight(NamedTuple):
    """At ``size`` prompt tokens or decodes: ``base_s`` + ``each_s`` x mean keys of a query, in seconds."""

    size: float
    base_s: float
    each_s: float


class Beside(NamedTuple):
    """Attention of decodes in a step that has prompts too.

    ``seconds`` float64[decodes, contexts] over ``decodes`` and the mean ``contexts``, and ``prompt_s`` float64[decodes]
    for each prompt token of the step: a kernel that takes both together gives room to the longest of them.
    """

    decodes: Floats
    contexts: Floats
    seconds: Floats
    prompt_s: Floats


def straight(samples: Sequence[Sample], rest: Beyond) -> tuple[Straight, ...]:
    """The line of each size, by least squares of the relative error of the whole step; neither part is negative.

    ``rest(size)`` is what the step takes besides, in seconds. Of a size with one context all grows with it.
    """
    found = []
    for size in sorted({sample.size for sample in samples}):
        here = [sample for sample in samples if sample.size == size]
        keys, seconds = np.array([sample.keys for sample in here]), np.array([sample.seconds for sample in here])
        found.append(Straight(size, *_line(keys, seconds, 1.0 / (seconds + rest(size)))))
    return tuple(found)


def spread(lines: Sequence[Straight], samples: Sequence[Sample], rest: Beyond) -> float:
    """What ``lines`` miss of the samples they were fitted to: root mean square, relative to the whole step."""
    by_size = {line.size: line for line in lines}
    errors = [
        (by_size[size].base_s + by_size[size].each_s * keys - seconds) / (seconds + rest(size))
        for size, keys, seconds in samples
    ]
    return float(np.sqrt(np.mean(np.square(errors))))


def _line(x: Floats, y: Floats, weights: Floats) -> tuple[float, float]:
    """(height at 0, slope) of the line through the points, both at least 0."""
    if len(set(x)) > 1:
        columns = np.column_stack((np.ones_like(x), x)) * weights[:, None]
        (base, slope), *_ = np.linalg.lstsq(columns, y * weights, rcond=None)
        if base >= 0.0 and slope >= 0.0:
            return float(base), float(slope)
        if slope < 0.0:
            return float(np.average(y, weights=weights**2)), 0.0
    square = float((weights**2 * x * x).sum())
    return (0.0, float((weights**2 * x * y).sum()) / square) if square else (float(np.average(y)), 0.0)


def beside_grid(sizes: Sequence[tuple[float, float, float]], extra: Floats, whole: Floats) -> Beside:
    """What decodes add to the prompts of their step, ``extra`` seconds at ``sizes`` (decodes, context, prompt tokens).

    ``whole`` seconds of the step each was part of: the relative error of those is the least. Raises SpecError for a
    number of decodes that lacks contexts which another has.
    """
    rows = np.asarray(sizes, dtype=np.float64)
    decodes, contexts = np.unique(rows[:, 0]), np.unique(rows[:, 1])
    seconds, prompt_s = np.zeros((len(decodes), len(contexts))), np.zeros(len(decodes))
    for i, count in enumerate(decodes):
        here = rows[:, 0] == count
        known = np.isin(contexts, rows[here, 1])
        if known.sum() < 2 or not (known[0] and known[-1]):
            accepted = f"accepted: contexts from {contexts[0]:g} to {contexts[-1]:g}, two or more"
            raise SpecError("beside", f"{count:g} decodes", accepted)
        level = np.searchsorted(contexts[known], rows[here, 1])
        values, prompt_s[i] = _levels(level, rows[here, 2], extra[here], whole[here] ** -2.0)
        seconds[i] = np.interp(contexts, contexts[known], values)
    return Beside(decodes, contexts, np.maximum.accumulate(seconds, axis=1), prompt_s)


def _levels(level: NDArray[np.int64], tokens: Floats, extra: Floats, weights: Floats) -> tuple[Floats, float]:
    """The height of each level and a slope in ``tokens`` that all share, by least squares, none negative."""
    total = np.bincount(level, weights)
    apart = tokens - (np.bincount(level, weights * tokens) / total)[level]
    square = float((weights * apart * apart).sum())
    slope = max(0.0, float((weights * apart * extra).sum()) / square) if square else 0.0
    heights = np.bincount(level, weights * (extra - slope * tokens)) / total
    return np.maximum(0.0, heights), slope
