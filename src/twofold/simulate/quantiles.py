"""Exact weighted statistics of token gaps that are kept as arithmetic progressions.

A quantile is found by bisection on its value, down to the last bits of a double, over the progressions that still have
terms on both sides. Nothing is sampled.
"""

import math

import numpy as np

from twofold.compiled import compiled

BISECTIONS = 80


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
def gap_quantile(runs: np.recarray, wanted: int, shortest: float, longest: float) -> float:
    """The ``wanted``-th smallest gap (from 1), in seconds."""
    open_runs, size, below = np.arange(len(runs)), len(runs), 0
    low, high = 0.5 * shortest, longest
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
        kept = 0
        for position in range(size):
            run = runs[open_runs[position]]
            if max(run.first, run.last) <= low:
                below += run.count * run.weight
            elif min(run.first, run.last) <= high:
                open_runs[kept] = open_runs[position]
                kept += 1
        size = kept
    return high


@compiled
def gap_quantiles(runs: np.recarray, shares: np.ndarray) -> np.ndarray:
    """For each share the smallest gap that at least this share of all gaps do not exceed; NaN without gaps."""
    count, _, shortest, longest = gap_totals(runs)
    found = np.full(len(shares), np.nan)
    for i in range(len(shares)):
        if count > 0:
            wanted = max(1, math.ceil(shares[i] * count - 1e-9))
            found[i] = gap_quantile(runs, wanted, shortest, longest)
    return found
