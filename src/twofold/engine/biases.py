"""Logits that are moved by a fixed amount for some tokens: biases, and ends that come too early."""

import math
from collections.abc import Collection, Sequence

import torch
from torch import Tensor

from twofold.engine.params import Params


class Biases:
    """The ``logit_bias`` and ``min_tokens`` of the requests that have them, on ``device``; ``ends`` end any output."""

    def __init__(self, ends: Collection[int], device: torch.device | str = "cpu") -> None:
        self._ends, self._device = frozenset(ends), device
        self._moved: dict[int, tuple[Tensor, Tensor]] = {}
        self._banned: dict[int, tuple[int, Tensor]] = {}

    def add(self, slot: int, params: Params) -> None:
        """Follow the request in ``slot``."""
        if params.logit_bias:
            ids, values = zip(*params.logit_bias.items(), strict=True)
            self._moved[slot] = self._ids(ids), torch.tensor(values, dtype=torch.float32, device=self._device)
        if params.min_tokens:
            self._banned[slot] = params.min_tokens, self._ids(sorted(self._ends | set(params.stop_ids)))

    def drop(self, slot: int) -> None:
        """Forget the request in ``slot``."""
        self._moved.pop(slot, None)
        self._banned.pop(slot, None)

    def move(self, logits: Tensor, slots: Sequence[int]) -> None:
        """Add the biases in place to the rows of ``logits`` [R, V] of the requests in ``slots`` [R]."""
        found = [(place, *self._moved[slot]) for place, slot in enumerate(slots) if slot in self._moved]
        if found:
            rows, ids = self._places([(place, ids) for place, ids, _ in found])
            logits.index_put_((rows, ids), torch.cat([values for _, _, values in found]), accumulate=True)

    def ban(self, logits: Tensor, slots: Sequence[int], written: Sequence[int]) -> None:
        """Rule out in place what would end a request before its ``min_tokens``; ``written`` [R] counts its output."""
        found = [
            (place, self._banned[slot][1])
            for place, slot in enumerate(slots)
            if slot in self._banned and written[place] < self._banned[slot][0]
        ]
        if found:
            logits[self._places(found)] = -math.inf

    def _places(self, found: Sequence[tuple[int, Tensor]]) -> tuple[Tensor, Tensor]:
        lengths = self._ids([len(ids) for _, ids in found])
        rows = self._ids([place for place, _ in found]).repeat_interleave(lengths)
        return rows, torch.cat([ids for _, ids in found])

    def _ids(self, ids: Sequence[int]) -> Tensor:
        return torch.tensor(ids, dtype=torch.int64, device=self._device)
