"""Longer and other replays of a workload: repeated end to end, or resampled in blocks."""

from dataclasses import replace

import numpy as np

from twofold.errors import SpecError
from twofold.spec.workload import Longs, Workload


def repeated(workload: Workload, times: int) -> Workload:
    """``workload`` played ``times`` times over, one mean gap apart; a copy shares no prefixes with another one."""
    if times < 1:
        raise SpecError("times", times, "accepted: 1 or more")
    n = len(workload)
    rows = np.tile(np.arange(n), times)
    copies = np.repeat(np.arange(times), n)
    length = workload.span_s + workload.span_s / max(n - 1, 1)
    return _replayed(workload, rows, copies).with_arrivals(workload.arrival_s[rows] + copies * length)


def resampled(workload: Workload, blocks: int, seed: int) -> Workload:
    """As many requests in blocks drawn with replacement (block bootstrap), each with the gap before it.

    ``blocks`` consecutive pieces of equal size are drawn from. A block that is drawn again shares no prefixes with its
    first copy, so that no reuse appears that the workload does not have.
    """
    n = len(workload)
    size = max(1, n // max(1, min(blocks, n)))
    starts = np.arange(0, n - size + 1, size)
    drawn = np.random.Generator(np.random.PCG64(seed)).choice(starts, -(-n // size))
    rows = (drawn[:, None] + np.arange(size)).ravel()[:n]
    copies = np.repeat(_occurrence(drawn), size)[:n]
    mean = workload.span_s / max(n - 1, 1)
    gaps = np.diff(workload.arrival_s, prepend=workload.arrival_s[0] - mean)[rows]
    return _replayed(workload, rows, copies).with_arrivals(np.cumsum(gaps) - gaps[0])


def _occurrence(drawn: Longs) -> Longs:
    """How often each entry of ``drawn`` has come before."""
    order = np.argsort(drawn, kind="stable")
    ordered = drawn[order]
    first = np.searchsorted(ordered, ordered)
    before = np.empty(len(drawn), np.int64)
    before[order] = np.arange(len(drawn)) - first
    return before


def _replayed(workload: Workload, rows: Longs, copies: Longs) -> Workload:
    picked = workload.picked(rows)
    if not len(picked.hash_ids):
        return picked
    step = int(workload.hash_ids.max()) + 1
    shift = np.repeat(copies, np.diff(picked.hash_start)) * step
    return replace(picked, hash_ids=picked.hash_ids + shift)
