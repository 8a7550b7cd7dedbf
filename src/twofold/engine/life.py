"""How long each request has queued, computed its prompt, waited for others and decoded, by slot."""

import numpy as np

from twofold.engine.outputs import Times
from twofold.scheduler.state import Scheduler


class Lives:
    """Seconds on the engine's clock, float64[slots]: arrival, first step, prompt computing, first token.

    ``stall_s`` is the time that all requests so far have waited between the steps of their prompts.
    """

    def __init__(self, slots: int) -> None:
        self._arrival, self._start = np.zeros(slots), np.zeros(slots)
        self._prefill, self._first = np.zeros(slots), np.zeros(slots)
        self.stall_s = 0.0

    def arrive(self, slot: int, now: float) -> None:
        """A request enters ``slot``."""
        self._arrival[slot] = now
        self._start[slot] = self._first[slot] = np.nan
        self._prefill[slot] = 0.0

    def step(self, s: Scheduler, lane: int, now: float, seconds: float) -> None:
        """The step of ``lane`` has taken ``seconds`` and ends now; it is not committed yet."""
        count = int(s.steps[lane].items)
        slots = s.item_slots[lane, :count][s.item_tokens[lane, :count] > 0]
        slots = slots[np.isnan(self._first[slots])]
        new = slots[np.isnan(self._start[slots])]
        self._start[new] = now - seconds
        self._prefill[slots] += seconds

    def tokens(self, slots: np.ndarray, now: float) -> None:
        """Each of ``slots`` got a token now."""
        first = slots[np.isnan(self._first[slots])]
        self._first[first] = now
        self.stall_s += float((now - self._start[first] - self._prefill[first]).sum())

    def times(self, slot: int, now: float) -> Times:
        """The life of a request whose last token comes now."""
        start, first, prefill = float(self._start[slot]), float(self._first[slot]), float(self._prefill[slot])
        return Times(start - float(self._arrival[slot]), prefill, first - start - prefill, now - first)
