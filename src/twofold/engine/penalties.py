"""Penalties for tokens that were there before: repetition, presence, frequency."""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine.params import Params


class _History:
    """The different tokens of one request, and how often each was output: 0 for what is only in the prompt."""

    def __init__(self, params: Params, prompt: Sequence[int], written: Sequence[int]) -> None:
        self.weights = params.repetition_penalty, params.presence_penalty, params.frequency_penalty
        self._place: dict[int, int] = {}
        self._ids = np.zeros(64, np.int64)
        self._counts = np.zeros(64, np.float32)
        if params.repetition_penalty != 1.0:
            for token in prompt:
                self.add(token, 0)
        for token in written:
            self.add(token)

    def add(self, token: int, times: int = 1) -> None:
        place = self._place.setdefault(token, len(self._place))
        if place == len(self._ids):
            self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
            self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
        self._ids[place] = token
        self._counts[place] += times

    @property
    def ids(self) -> NDArray[np.int64]:
        return self._ids[: len(self._place)]

    @property
    def counts(self) -> NDArray[np.float32]:
        return self._counts[: len(self._place)]


class Penalties:
    """What the requests that ask for a penalty have read and written."""

    def __init__(self) -> None:
        self._histories: dict[int, _History] = {}

    def add(self, slot: int, params: Params, prompt: Sequence[int], written: Sequence[int] = ()) -> None:
        """Follow the request in ``slot`` if it asks for a penalty; ``written`` are the tokens it has output so far."""
        if (params.repetition_penalty, params.presence_penalty, params.frequency_penalty) != (1.0, 0.0, 0.0):
            self._histories[slot] = _History(params, prompt, written)

    def drop(self, slot: int) -> None:
        """Forget the request in ``slot``."""
        self._histories.pop(slot, None)

    def apply(self, logits: Tensor, slots: Sequence[int]) -> None:
        """Move in place the rows of ``logits`` [R, V] whose request, in ``slots`` [R], has a penalty.

        Repetition divides a positive logit and multiplies a negative one (Keskar et al., CTRL, section 4.1);
        presence is taken off once, frequency once for each time that the token was output.
        """
        found = [(row, self._histories[slot]) for row, slot in enumerate(slots) if slot in self._histories]
        if not found:
            return
        lengths = [len(history.ids) for _, history in found]
        rows = np.repeat([row for row, _ in found], lengths)
        weights = np.repeat(np.array([history.weights for _, history in found], np.float32), lengths, axis=0)
        ids, counts = (np.concatenate(each) for each in zip(*((h.ids, h.counts) for _, h in found), strict=True))
        place = torch.from_numpy(rows).to(logits.device), torch.from_numpy(ids).to(logits.device)
        repetition, presence, frequency = torch.from_numpy(weights).to(logits.device).unbind(-1)
        count = torch.from_numpy(counts).to(logits.device)
        values = logits[place]
        values = torch.where(values > 0, values / repetition, values * repetition)
        logits[place] = values - frequency * count - presence * (count > 0)

    def count(self, tokens: Tensor, slots: Sequence[int]) -> None:
        """Note the ``tokens`` [R] that the requests in ``slots`` [R] have just output; -1 is none."""
        if self._histories.keys().isdisjoint(slots):
            return
        for token, slot in zip(tokens.tolist(), slots, strict=True):
            if token >= 0 and slot in self._histories:
                self._histories[slot].add(token)
