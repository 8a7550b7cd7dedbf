"""The table of requests that the engine has taken: a fixed number of slots, each used again once it is free."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.compiled import compiled
from twofold.errors import SpecError
from twofold.scheduler.content import begin, name_pieces
from twofold.scheduler.state import Scheduler


@dataclass(slots=True)
class Entry:
    """The request in a slot: its name outside, its number in order of arrival, and what ends it."""

    name: str
    number: int
    stops: frozenset[int]
    min_tokens: int
    deadline: float


@compiled
def append(
    s: Scheduler, r: int, slots: np.ndarray, fresh: np.ndarray, store: np.ndarray, chains: np.ndarray, named: np.ndarray
) -> int:
    """Write the token that each of ``slots`` was given, before the step is committed; name the pieces it fills.

    ``named`` int64[R] gets the pieces that each slot gained; returns their sum.
    """
    total = 0
    for i in range(len(slots)):
        slot = int(slots[i])
        known = int(s.requests[slot].prompt + s.requests[slot].generated)
        store[slot, known] = fresh[i]
        named[i] = name_pieces(s, r, slot, store, known + 1, chains)
        total += named[i]
    return total


class Slots:
    """Tokens and names of content of the requests in ``count`` slots of ``context`` tokens.

    ``tokens`` int32[count, context]: prompt, then what was generated. ``chains`` int64[count, 4]: the running hash.
    """

    def __init__(self, count: int, context: int) -> None:
        self.tokens = np.zeros((count, context), np.int32)
        self.chains = np.zeros((count, 4), np.int64)
        self.entries: list[Entry | None] = [None] * count
        self._free = list(range(count - 1, -1, -1))
        self._start = begin(np.array([secrets.randbits(32), secrets.randbits(32)]))
        self._named = np.zeros(count, np.int64)

    def take(self, entry: Entry, prompt: Sequence[int]) -> int:
        """A free slot, with the prompt written; SpecError when there is none."""
        if not self._free:
            raise SpecError("requests", len(self.entries) + 1, f"accepted: {len(self.entries)} at a time")
        slot = self._free.pop()
        self.tokens[slot, : len(prompt)] = prompt
        self.chains[slot] = self._start
        self.entries[slot] = entry
        return slot

    def release(self, slot: int) -> None:
        """The request is gone; its slot may be taken again."""
        self.entries[slot] = None
        self._free.append(slot)

    def entry(self, slot: int) -> Entry:
        """The request in ``slot``."""
        entry = self.entries[slot]
        assert entry is not None
        return entry

    def append(self, state: Any, slots: np.ndarray, fresh: np.ndarray) -> np.ndarray | None:
        """See :func:`append`: pieces gained by each of ``slots``, or None when no piece was filled."""
        if append(state, 0, slots, fresh, self.tokens, self.chains, self._named) == 0:
            return None
        return self._named[: len(slots)]
