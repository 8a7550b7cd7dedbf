"""A workload: when requests arrive, how long they are, and which prefixes they share."""

import hashlib
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.errors import SpecError
from twofold.spec.workload_checks import LARGEST, check, check_arrivals

Floats = NDArray[np.float64]
Ints = NDArray[np.int32]
Longs = NDArray[np.int64]


def _no_starts() -> Longs:
    return np.zeros(0, np.int64)


def _no_priority() -> Ints:
    return np.zeros(0, np.int32)


@dataclass(frozen=True, eq=False)
class Workload:
    """``n`` requests in order of arrival, as arrays with one entry a request.

    ``arrival_s`` float64[n], seconds, non-decreasing, from 0 on. ``prompt_tokens`` and ``output_tokens``
    int32[n], at least 1. ``priority`` int32[n], smaller is more urgent; left out it is 0 for all.

    ``hash_tokens`` is 0 without prefix information. Otherwise request ``i`` has ids
    ``hash_ids[hash_start[i]:hash_start[i + 1]]``, one for each consecutive full piece of ``hash_tokens``
    tokens of its prompt and, where it is known, of its output. Equal ids mean equal content from the first
    token to the end of the piece. Ids are 1 or more. ``hash_start`` is int64[n + 1], ``hash_ids`` int64[m].

    ``zero_outputs`` counts requests whose trace said 0 output tokens; they are held as 1 (see
    ``spec.traces``).
    """

    name: str
    arrival_s: Floats
    prompt_tokens: Ints
    output_tokens: Ints
    priority: Ints = field(default_factory=_no_priority)
    hash_tokens: int = 0
    hash_start: Longs = field(default_factory=_no_starts)
    hash_ids: Longs = field(default_factory=_no_starts)
    zero_outputs: int = 0

    def __post_init__(self) -> None:
        n = len(self.arrival_s)
        self._put("arrival_s", np.float64)
        for column in ("prompt_tokens", "output_tokens"):
            self._put(column, np.int32)
        if len(self.priority) == 0:
            object.__setattr__(self, "priority", np.zeros(n, np.int32))
        self._put("priority", np.int32)
        if len(self.hash_start) == 0:
            object.__setattr__(self, "hash_start", np.zeros(n + 1, np.int64))
        self._put("hash_start", np.int64)
        self._put("hash_ids", np.int64)

    def _put(self, column: str, dtype: type[np.generic]) -> None:
        object.__setattr__(self, column, np.ascontiguousarray(getattr(self, column), dtype))

    def __len__(self) -> int:
        return len(self.arrival_s)

    def __repr__(self) -> str:
        return f"Workload({self.name!r}, {len(self)} requests, {self.rate:.3g}/s)"

    @property
    def span_s(self) -> float:
        """Seconds from the first arrival to the last."""
        return float(self.arrival_s[-1] - self.arrival_s[0]) if len(self) else 0.0

    @property
    def rate(self) -> float:
        """Requests a second: gaps between arrivals over their span; infinite when all arrive at once."""
        gaps = len(self) - 1
        if gaps <= 0:
            return 0.0
        return gaps / self.span_s if self.span_s > 0 else float("inf")

    def head(self, n: int) -> "Workload":
        """The first ``n`` requests (all of them when there are fewer)."""
        if n < 1:
            raise SpecError("requests", n, "keep at least 1 request")
        return self._rows(0, min(n, len(self)))

    def slice(self, start_s: float, end_s: float) -> "Workload":
        """The requests that arrive in ``[start_s, end_s)``, with ``start_s`` as the new time 0."""
        first, last = np.searchsorted(self.arrival_s, [start_s, end_s])
        if last <= first:
            raise SpecError("slice", (start_s, end_s), "no request arrives in this time")
        cut = self._rows(int(first), int(last))
        return cut.with_arrivals(cut.arrival_s - start_s)

    def at_rate(self, rate: float) -> "Workload":
        """The same requests in the same order, gaps scaled so that :attr:`rate` becomes ``rate`` requests/s.

        Raises SpecError unless ``rate`` is above 0 and the arrivals span some time.
        """
        if not 0 < rate < float("inf"):
            raise SpecError("rate", rate, "a rate is a number above 0, in requests a second")
        if len(self) < 2:
            return self
        if self.span_s <= 0:
            raise SpecError("rate", rate, f"all requests of {self.name!r} arrive at once, so no rate can be set")
        return self.sped_up(rate / self.rate)

    def sped_up(self, factor: float) -> "Workload":
        """The same requests with every arrival time divided by ``factor``."""
        if not 0 < factor < float("inf"):
            raise SpecError("speedup", factor, "a speed-up is a number above 0")
        return self.with_arrivals(self.arrival_s / factor)

    def scaled(self, prompt: float = 1.0, output: float = 1.0) -> "Workload":
        """Prompts and outputs times these factors, rounded, at least 1 token.

        Prefix information describes the original tokens, so a workload that has some refuses to be scaled.
        """
        for name, factor in (("prompt", prompt), ("output", output)):
            if not 0 < factor < float("inf"):
                raise SpecError(f"{name} scale", factor, "a scale is a number above 0")
        if self.hash_tokens:
            raise SpecError("scale", (prompt, output), f"{self.name!r} has prefix hashes, which cannot be scaled")
        return replace(
            self,
            prompt_tokens=to_tokens(self.prompt_tokens * prompt),
            output_tokens=to_tokens(self.output_tokens * output),
        )

    def with_arrivals(self, arrival_s: Floats) -> "Workload":
        """The same requests at other times: float64[n], seconds, non-decreasing, from 0 on."""
        changed = replace(self, arrival_s=arrival_s)
        if len(changed.arrival_s) != len(self):
            raise SpecError("arrival_s", len(changed.arrival_s), f"one time a request is needed: {len(self)}")
        check_arrivals(changed)
        return changed

    def without_hashes(self) -> "Workload":
        """The same requests with no prefix information."""
        return replace(self, hash_tokens=0, hash_start=_no_starts(), hash_ids=_no_starts())

    def _rows(self, first: int, last: int) -> "Workload":
        kept = slice(first, last)
        low, high = self.hash_start[first], self.hash_start[last]
        return replace(
            self,
            arrival_s=self.arrival_s[kept],
            prompt_tokens=self.prompt_tokens[kept],
            output_tokens=self.output_tokens[kept],
            priority=self.priority[kept],
            hash_start=self.hash_start[first : last + 1] - low,
            hash_ids=self.hash_ids[low:high],
        )

    def picked(self, rows: Longs) -> "Workload":
        """The requests ``rows`` (indices, in the new order) as they are."""
        count = np.diff(self.hash_start)[rows]
        start = np.concatenate([[0], np.cumsum(count)])
        source = np.repeat(self.hash_start[rows] - start[:-1], count) + np.arange(start[-1])
        return replace(
            self,
            arrival_s=self.arrival_s[rows],
            prompt_tokens=self.prompt_tokens[rows],
            output_tokens=self.output_tokens[rows],
            priority=self.priority[rows],
            hash_start=start,
            hash_ids=self.hash_ids[source],
        )

    def describe(self) -> dict[str, Any]:
        """Its numbers: requests, rate, means and percentiles of tokens, share of pieces seen before."""
        facts: dict[str, Any] = {
            "name": self.name,
            "requests": len(self),
            "span_s": self.span_s,
            "rate": self.rate,
            "prompt_tokens": _spread(self.prompt_tokens),
            "output_tokens": _spread(self.output_tokens),
        }
        if self.zero_outputs:
            facts["zero_outputs"] = self.zero_outputs
        if self.hash_tokens and len(self.hash_ids):
            facts["hash_tokens"] = self.hash_tokens
            facts["repeated_pieces"] = 1 - len(np.unique(self.hash_ids)) / len(self.hash_ids)
        return facts

    def content_key(self) -> str:
        """Hash of everything but the name, equal exactly for equal content."""
        digest = hashlib.blake2b(digest_size=16)
        digest.update(np.array([len(self), self.hash_tokens, len(self.hash_ids)], np.int64).tobytes())
        for array in self._arrays():
            digest.update(array.tobytes())
        return digest.hexdigest()

    def _arrays(self) -> tuple[NDArray[Any], ...]:
        tokens = (self.prompt_tokens, self.output_tokens, self.priority)
        return (self.arrival_s, *tokens, self.hash_start, self.hash_ids)

    def validate(self) -> "Workload":
        """Itself, once every array is checked; SpecError names the first bad field and row (from 0)."""
        check(self)
        return self


def to_tokens(lengths: NDArray[Any]) -> Ints:
    """Whole token counts: rounded to the nearest, at least 1, at most :data:`LARGEST`; int32, same shape."""
    tokens: Ints = np.clip(np.rint(lengths), 1, LARGEST).astype(np.int32)
    return tokens


def _spread(tokens: Ints) -> dict[str, float]:
    if len(tokens) == 0:
        return {}
    p50, p90, p99 = np.percentile(tokens, [50, 90, 99])
    return {
        "mean": float(tokens.mean()),
        "p50": float(p50),
        "p90": float(p90),
        "p99": float(p99),
        "max": float(tokens.max()),
        "sum": float(tokens.sum(dtype=np.int64)),
    }
