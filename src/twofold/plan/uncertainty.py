"""How sure a ranking is: the goodputs of the best on resampled requests, the same ones for each of them."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from twofold.plan.certify import Entry
from twofold.plan.examine import Another, Question, another
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
    """The interval of each of ``ranked``: its goodput, give or take the spread over ``samples`` block bootstraps.

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
    return [_interval(entry, rates[rank], _swapped(rank, found, values)) for rank, entry in enumerate(ranked)]


def _interval(entry: Entry, rates: NDArray[np.float64], swaps: tuple[int, ...]) -> Interval:
    rate = entry.found.rate if entry.found is not None else 0.0
    spread = COVERED * float(rates.std(ddof=1))
    return Interval(max(0.0, rate - spread), rate + spread, swaps)


def _swapped(rank: int, found: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[int, ...]:
    """Ranks whose lead over this one, or lag behind it, is within the spread of their difference."""
    apart = np.abs(found - found[rank])
    spread = COVERED * (values - values[rank]).std(axis=1, ddof=1)
    return tuple(int(other) + 1 for other in np.flatnonzero(apart <= spread) if other != rank)
