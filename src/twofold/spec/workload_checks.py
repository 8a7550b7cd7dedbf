"""What must hold of a workload's arrays; the first row that breaks it is named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.spec.workload import Workload

LARGEST = 2**30 - 1
"""More prompt or output tokens than this are refused, so that sums of the two fit an int32."""


def check(workload: Workload) -> None:
    """Raise SpecError for the first field, and row (from 0), that is not as :class:`Workload` says."""
    n = len(workload)
    if n == 0:
        raise SpecError("workload", workload.name, "at least 1 request is needed")
    for column in ("prompt_tokens", "output_tokens", "priority"):
        if len(getattr(workload, column)) != n:
            raise SpecError(column, len(getattr(workload, column)), f"one value a request is needed: {n}")
    check_arrivals(workload)
    for column in ("prompt_tokens", "output_tokens"):
        tokens = getattr(workload, column)
        bad = (tokens < 1) | (tokens > LARGEST)
        _refuse_first(column, tokens, bad, f"1 to {LARGEST} tokens are needed")
    check_hashes(workload)


def check_arrivals(workload: Workload) -> None:
    """Arrivals are finite, not negative and do not go back in time."""
    times = workload.arrival_s
    bad = ~np.isfinite(times) | (times < 0)
    _refuse_first("arrival_s", times, bad, "a finite time from 0 on is needed")
    early = np.diff(times, prepend=0.0) < 0
    _refuse_first("arrival_s", times, early, "arrivals must not go back in time")


def check_hashes(workload: Workload) -> None:
    """Offsets cover the ids, ids are 1 or more, and no request has more than it has full pieces."""
    piece, start, ids = workload.hash_tokens, workload.hash_start, workload.hash_ids
    if piece < 0 or (piece == 0 and len(ids)):
        raise SpecError("hash_tokens", piece, "say how many tokens one hash id covers; 0 with no ids")
    if len(start) != len(workload) + 1 or start[0] != 0 or start[-1] != len(ids):
        accepted = f"{len(workload) + 1} offsets from 0 to {len(ids)} are needed"
        raise SpecError("hash_start", len(start), accepted)
    _refuse_first("hash_ids", ids, ids < 1, "ids are 1 or more")
    count = np.diff(start)
    held = workload.prompt_tokens.astype(np.int64) + workload.output_tokens
    bad = (count < 0) | (count * piece > held)
    _refuse_first("hash_start", count, bad, "at most one id for each full piece of prompt and output")


def _refuse_first(column: str, values: NDArray[Any], bad: NDArray[np.bool_], accepted: str) -> None:
    if bad.any():
        row = int(bad.argmax())
        raise SpecError(f"{column}, row {row}", values[row].item(), accepted)
