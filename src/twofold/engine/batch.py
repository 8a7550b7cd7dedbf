"""From a planned step to tensors: one compiled pass over its items, into memory that torch reads in place."""

from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twofold.compiled import compiled
from twofold.scheduler.memory import blocks_for
from twofold.scheduler.state import Scheduler


class Host(NamedTuple):
    """Starts, contexts and tables of a :class:`Batch` in the memory of the host."""

    starts: np.ndarray
    contexts: np.ndarray
    tables: np.ndarray


class Batch(NamedTuple):
    """One step of T tokens in B items (a decode of one token, or a chunk of a prompt), on the device.

    ``tokens``, ``positions``, ``write`` int64[T]: ids, places in the text, places in the KV pool (block x block_tokens
    + offset). ``starts`` int64[B + 1]: first token of each item. ``contexts`` int64[B]: KV tokens of each, those of
    this step included. ``tables`` int64[B, W]: blocks in order, 0 where an item has fewer. ``rows`` int64[R]: tokens
    whose logits are wanted. The first ``decodes`` items are decodes. ``host``: what kernels are planned from, where
    the tensors are elsewhere.
    """

    tokens: Tensor
    positions: Tensor
    write: Tensor
    starts: Tensor
    contexts: Tensor
    tables: Tensor
    rows: Tensor
    decodes: int
    host: Host | None = None

    def on_host(self) -> Host:
        """The items as the host sees them; waits for the device where it has to."""
        return self.host or Host(*(part.cpu().numpy() for part in (self.starts, self.contexts, self.tables)))


class Laid(NamedTuple):
    """A batch, and the slot of each of its rows: ``slots`` int64[R], in NumPy and on the device."""

    batch: Batch
    slots: np.ndarray
    row_slots: Tensor


@compiled
def widest(s: Scheduler, k: int) -> int:
    """Most blocks that an item of step ``k`` reads."""
    most = 0
    for i in range(s.steps[k].items):
        request = s.requests[s.item_slots[k, i]]
        size = s.replicas[k // s.lanes].block_tokens
        most = max(most, blocks_for(int(request.context + max(1, s.item_tokens[k, i])), size))
    return most


@compiled
def _lay_item(
    s: Scheduler, k: int, i: int, item: int, at: int, store: np.ndarray, rows: np.ndarray, table: np.ndarray
) -> int:
    """Write item ``i`` of the step as item ``item`` of the batch, its tokens from ``at`` on; returns the next token."""
    slot, size = int(s.item_slots[k, i]), int(s.replicas[k // s.lanes].block_tokens)
    request = s.requests[slot]
    start, count = int(request.context), max(1, int(s.item_tokens[k, i]))
    rows[3, item] = at
    rows[4, item] = start + count
    for place in range(start, start + count):
        rows[0, at] = store[slot, place]
        rows[1, at] = place
        rows[2, at] = s.tables[request.table + place // size] * size + place % size
        at += 1
    held = blocks_for(start + count, size)
    for index in range(table.shape[1]):
        table[item, index] = s.tables[request.table + index] if index < held else 0
    return at


@compiled
def lay_out(s: Scheduler, k: int, store: np.ndarray, rows: np.ndarray, table: np.ndarray) -> int:
    """Write step ``k``, decodes first; returns R.

    ``store`` int32[slots, context] has the tokens. ``rows`` int64[7, n] becomes tokens, positions, write, starts,
    contexts, rows and the slots of the rows; ``table`` int64[B, W] the block tables.
    """
    step = s.steps[k]
    item = at = wanted = 0
    for prompts in range(2):
        for i in range(step.items):
            tokens = int(s.item_tokens[k, i])
            if (tokens > 0) != (prompts == 1):
                continue
            slot = int(s.item_slots[k, i])
            at = _lay_item(s, k, i, item, at, store, rows, table)
            item += 1
            if tokens == 0 or s.requests[slot].computed + tokens == s.requests[slot].target:
                rows[5, wanted], rows[6, wanted] = at - 1, slot
                wanted += 1
    rows[3, item] = at
    return wanted


class Layout:
    """Memory for the batches of one lane, written again for each; it grows to the largest."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._rows = np.zeros((7, 64), np.int64)
        self._table = np.zeros(64, np.int64)

    def lay(self, s: Scheduler, state: Any, k: int, store: np.ndarray) -> Laid:
        """The planned step ``k``; ``state`` refers to ``s``. It stands until the next call."""
        step = s.steps[k]
        tokens, items, decodes = int(step.decodes + step.prompt_tokens), int(step.items), int(step.decodes)
        width = widest(state, k)
        if self._rows.shape[1] < tokens + 1:
            self._rows = np.zeros((7, 2 * tokens + 1), np.int64)
        if len(self._table) < items * width:
            self._table = np.zeros(2 * items * width, np.int64)
        table = self._table[: items * width].reshape(items, width)
        wanted = lay_out(state, k, store, self._rows, table)
        rows = torch.from_numpy(self._rows[:, : tokens + 1]).to(self._device)
        batch = Batch(
            tokens=rows[0, :tokens],
            positions=rows[1, :tokens],
            write=rows[2, :tokens],
            starts=rows[3, : items + 1],
            contexts=rows[4, :items],
            tables=torch.from_numpy(table).to(self._device),
            rows=rows[5, :wanted],
            decodes=decodes,
            host=None if self._device.type == "cpu" else Host(self._rows[3, : items + 1], self._rows[4, :items], table),
        )
        return Laid(batch, self._rows[6, :wanted], rows[6, :wanted])
