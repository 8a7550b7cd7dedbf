"""How sure a ranking is: the goodputs of the best on resampled requests, the same ones for each of them, and how near
the cost model knows their steps."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.plan.certify import Entry
from twofold.plan.examine import Another, Known, Question, another, known_within, rough
from twofold.plan.goodput import Grid
from twofold.plan.pool import Pool

SAMPLES = 6
COVERED = 1.645
"""Standard deviations on either side that a normal distribution is within 90 % of the time."""


@dataclass(frozen=True)
class Interval:
    """90 % interval of a goodput, requests/s, and the ranks (from 1) that the noise could swap with this one."""

    low: float
    high: float
    swaps_with: tuple[int, ...]


def intervals(
    question: Question, ranked: Sequence[Entry], pool: Pool, times: int, samples: int = SAMPLES
) -> list[Interval]:
    """The interval of each of ``ranked``: its goodput, give or take the spread over ``samples`` block bootstraps
    and what the grid of rates rounds off.

    None at all for fewer than two samples, which have no spread.
    """
    if samples < 2:
        return []
    tasks = [
        Another(entry.deployment, entry.found.rate, times if entry.trap else 1, seed)
        for entry in ranked
        if entry.found is not None
        for seed in range(samples)
    ]
    rates = np.array(pool.map(another, question, tasks)).reshape(len(ranked), samples)
    values = rates / np.array([entry.weight for entry in ranked])[:, None]
    found = np.array([entry.value for entry in ranked])
    spreads = COVERED * np.hypot(values.std(axis=1, ddof=1), _blurred(question.grid, found))
    return [
        Interval(
            low=max(0.0, value - spread) * entry.weight,
            high=(value + spread) * entry.weight,
            swaps_with=_swapped(rank, found, values, question.grid),
        )
        for rank, (entry, value, spread) in enumerate(zip(ranked, found.tolist(), spreads.tolist(), strict=True))
    ]


def _blurred(grid: Grid, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Standard deviation of what rounding to a step of the rough grid adds: it is uniform within a step."""
    return np.asarray(values * rough(grid).precision / math.sqrt(12.0))


def _swapped(rank: int, found: NDArray[np.float64], values: NDArray[np.float64], grid: Grid) -> tuple[int, ...]:
    """Ranks whose lead over this one, or lag behind it, is within the spread of their difference."""
    apart = np.abs(found - found[rank])
    blurred = _blurred(grid, np.hypot(found, found[rank]))
    spread = COVERED * np.hypot((values - values[rank]).std(axis=1, ddof=1), blurred)
    return tuple(int(other) + 1 for other in np.flatnonzero(apart <= spread) if other != rank)


@dataclass(frozen=True)
class Doubt:
    """How near the cost model knows a goodput: relative error, one standard deviation, and the ranks (from 1) that it
    cannot tell this one from."""

    error: float
    not_told_from: tuple[int, ...]


def doubts(question: Question, ranked: Sequence[Entry], pool: Pool) -> list[Doubt | None]:
    """The doubt of each of ``ranked``; None where the cost model does not say how near it knows its steps.

    A goodput is taken to be as near as the steps that it is made of. The errors of two are taken to be independent:
    what both have in common, as most of two equal devices, would tell them apart more often.
    """
    tasks = [Known(entry.deployment, entry.found.rate) for entry in ranked if entry.found is not None]
    return doubted([entry.value for entry in ranked], pool.map(known_within, question, tasks))


def doubted(values: Sequence[float], errors: Sequence[float | None]) -> list[Doubt | None]:
    """The doubt of each of ``values``, in the order of their ranks, of which these relative errors are known."""
    found, known = np.array(values, np.float64), np.array(errors, np.float64)
    return [
        None if math.isnan(error) else Doubt(error, _untold(rank, found, found * known))
        for rank, error in enumerate(known.tolist())
    ]


def _untold(rank: int, found: NDArray[np.float64], spreads: NDArray[np.float64]) -> tuple[int, ...]:
    """Ranks whose lead over this one, or lag behind it, is within what the errors of both allow in 90 % of cases."""
    near = np.abs(found - found[rank]) <= COVERED * np.hypot(spreads, spreads[rank])
    return tuple(int(other) + 1 for other in np.flatnonzero(near) if other != rank)
