"""Exact weighted statistics of token gaps that are kept as arithmetic progressions.

A histogram of the progressions puts a quantile between two values; bisection, over the progressions that still have
terms on both sides, finds it down to the last bits of a double. Nothing is sampled.
"""

import math

import numpy as np

from twofold.compiled import compiled

BISECTIONS = 80
BINS = 4096


@compiled
def gap_totals(runs: np.recarray) -> tuple[int, float, float, float]:
    """How many gaps, their sum, the shortest and the longest, in seconds."""
    count, total, shortest, longest = 0, 0.0, math.inf, 0.0
    for i in range(len(runs)):
        run = runs[i]
        count += run.count * run.weight
        total += 0.5 * (run.first + run.last) * run.count * run.weight
        longest = max(longest, run.first, run.last)
        shortest = min(shortest, run.first, run.last)
    return count, total, shortest, longest


@compiled
def at_most(first: float, last: float, count: int, value: float) -> int:
    """Terms of an arithmetic progression of ``count`` terms that are at most ``value``."""
    low, high = min(first, last), max(first, last)
    if value < low:
        return 0
    if value >= high:
        return count
    return min(count - 1, math.floor((value - low) / (high - low) * (count - 1)) + 1)


@compiled
def _cumulated(runs: np.recarray, shortest: float, width: float) -> tuple[np.ndarray, np.ndarray]:
    """Gaps counted in bins of ``width`` seconds from ``shortest`` on, whole runs at their shortest or longest gap.

    At the end of a bin the two counts are the most and the fewest gaps that can be at most as long.
    """
    most, fewest = np.zeros(BINS + 1, np.int64), np.zeros(BINS + 1, np.int64)
    for i in range(len(runs)):
        run = runs[i]
        gaps = run.count * run.weight
        most[min(BINS, int((min(run.first, run.last) - shortest) / width))] += gaps
        fewest[min(BINS, int((max(run.first, run.last) - shortest) / width))] += gaps
    return np.cumsum(most), np.cumsum(fewest)


@compiled
def _narrow(runs: np.recarray, open_runs: np.ndarray, size: int, low: float, high: float) -> tuple[int, int]:
    """Keep the first ``size`` open runs that have gaps above ``low`` and at most ``high``.

    Returns how many are left and how many gaps of the others are at most ``low``.
    """
    kept = below = 0
    for position in range(size):
        run = runs[open_runs[position]]
        if max(run.first, run.last) <= low:
            below += run.count * run.weight
        elif min(run.first, run.last) <= high:
            open_runs[kept] = open_runs[position]
            kept += 1
    return kept, below


@compiled
def gap_quantile(runs: np.recarray, wanted: int, low: float, high: float) -> float:
    """The ``wanted``-th smallest gap (from 1), in seconds, which is above ``low`` and at most ``high``."""
    open_runs = np.arange(len(runs))
    size, below = _narrow(runs, open_runs, len(runs), low, high)
    for _ in range(BISECTIONS):
        middle = 0.5 * (low + high)
        if middle <= low or middle >= high:
            break
        reached = below
        for position in range(size):
            run = runs[open_runs[position]]
            reached += at_most(run.first, run.last, run.count, middle) * run.weight
        if reached >= wanted:
            high = middle
        else:
            low = middle
        size, more = _narrow(runs, open_runs, size, low, high)
        below += more
    return high


@compiled
def gap_quantiles(runs: np.recarray, shares: np.ndarray) -> np.ndarray:
    """For each share the smallest gap that at least this share of all gaps do not exceed; NaN without gaps."""
    count, _, shortest, longest = gap_totals(runs)
    found = np.full(len(shares), np.nan)
    if count == 0:
        return found
    width = (longest - shortest) / BINS
    if width == 0.0:
        return np.full(len(shares), longest)
    most, fewest = _cumulated(runs, shortest, width)
    for i in range(len(shares)):
        wanted = max(1, math.ceil(shares[i] * count - 1e-9))
        low = np.nextafter(shortest + (np.searchsorted(most, wanted) - 1) * width, -math.inf)
        high = shortest + (np.searchsorted(fewest, wanted) + 2) * width
        found[i] = gap_quantile(runs, wanted, low, min(high, longest))
    return found
