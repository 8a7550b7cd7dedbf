"""Where the time of a decision log went: the seconds of its steps by kind, and those of the scheduler."""

from array import array
from typing import NamedTuple

import numpy as np

from twofold.engine.decisions import Event


class Durations(NamedTuple):
    """Of so many ``steps`` the sum, the median and the 99th percentile, in seconds."""

    steps: int
    total_s: float
    p50_s: float
    p99_s: float


class Spent:
    """Collects 8 bytes a step, so that a long log needs little memory.

    The scheduler's time of a step is what planning it, choosing its split and applying it took.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, array[float]] = {}
        self._lanes: dict[int, float] = {}
        self._kinds: dict[int, str] = {}
        self._pending: dict[int, float] = {}
        self._scheduler = array("d")

    def plan(self, event: Event) -> None:
        """A step has been planned; an idle one takes no time that counts."""
        lane = event["lane"]
        self._kinds[lane], self._pending[lane] = event["kind"], event["scheduler_s"]

    def split(self, event: Event) -> None:
        """A split has been chosen, for the decodes."""
        self._pending[0] = self._pending.get(0, 0.0) + event["scheduler_s"]

    def end(self, event: Event) -> None:
        """A step has ended."""
        lane, seconds = event["lane"], event["seconds"]
        self._seconds.setdefault(self._kinds.get(lane, "idle"), array("d")).append(seconds)
        self._lanes[lane] = self._lanes.get(lane, 0.0) + seconds
        self._scheduler.append(self._pending.pop(lane, 0.0) + event["scheduler_s"])

    def steps(self) -> dict[str, Durations]:
        """The steps by kind: decode, prompt, mixed."""
        return {kind: _durations(self._seconds[kind]) for kind in sorted(self._seconds)}

    def scheduler(self) -> Durations | None:
        """The scheduler's time of each step; None before the first."""
        return _durations(self._scheduler) if self._scheduler else None

    def scheduler_share(self) -> float | None:
        """The scheduler's part of the time of the busiest lane and its own; None before the first step."""
        if not self._scheduler:
            return None
        own = sum(self._scheduler)
        whole = own + max(self._lanes.values())
        return own / whole if whole > 0.0 else None


def _durations(seconds: "array[float]") -> Durations:
    values = np.frombuffer(seconds, np.float64)
    middle, late = np.quantile(values, [0.5, 0.99])
    return Durations(len(values), float(values.sum()), float(middle), float(late))
