"""A step of few decodes on a CPU: all of its layers in one compiled pass, which reads each weight once.

Such a step is bound by memory, and what is between its products costs more than their arithmetic. So every thread
walks the layers by itself, over its own blocks of outputs and its own KV heads, and meets the others five times a
layer. Measured with SmolLM2-135M, one row, on one core of an Intel Xeon with AVX-512 that was busy with other work:
half the CPU time of the layers one by one, the median of six pairs between 0.42 and 0.94.
"""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine.batch import Batch
from twofold.engine.blocked import BLOCK, NOWHERE, accumulate
from twofold.engine.fast import exponential, fast, inlined
from twofold.engine.linear import Linear, Packed
from twofold.engine.meet import meet
from twofold.engine.paged import Kernel, mix_shares, score_shares, share
from twofold.engine.pointwise import norm_rows, turn_rows
from twofold.engine.pool import Pool
from twofold.engine.shared import shared

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

MOST_ROWS = 64
"""More were not measured. With SmolLM2-135M on two cores, at 290 tokens: 45 ms for 16 rows and 129 ms for 64, where the
layers one by one take 88 and 221.
"""
QKV, OUTPUT, GATE_UP, DOWN = range(4)


class Stack(NamedTuple):
    """Weights of all layers.

    ``blocks`` int64[layers, 4]: addresses of the blocks of the four products. ``biases`` float32[layers, 4, widest]:
    zeros where there is none. ``norms`` float32[layers, 2, hidden]. ``windows`` int64[layers].
    """

    blocks: Integers
    biases: Floats
    norms: Floats
    windows: Integers
    epsilon: np.float32


class Context(NamedTuple):
    """What the rows read besides weights: the KV of all layers, its tables, and how far to turn each row."""

    keys: Any
    values: Any
    write: Integers
    tables: Integers
    contexts: Integers
    cosine: Floats
    sine: Floats
    scale: np.float32


class Work(NamedTuple):
    """Memory of one pass. ``hidden`` [rows, hidden] goes in and comes out; ``normed`` has a part for each thread."""

    hidden: Floats
    normed: Floats
    heads: Floats
    scores: Floats
    mixed: Floats
    both: Floats
    gated: Floats
    counter: Integers


@fast
def _multiply(stack: Stack, layer: int, part: int, rows: Floats, out: Floats, adds: bool, i: int, threads: int) -> None:
    """This thread's blocks of one product, added to what ``out`` holds or put there."""
    blocks = out.shape[1] // BLOCK
    first, last = i * blocks // threads, (i + 1) * blocks // threads
    for row in range(len(out)):
        for at in range(first * BLOCK, last * BLOCK):
            out[row, at] = stack.biases[layer, part, at] + (out[row, at] if adds else np.float32(0.0))
    accumulate(stack.blocks[layer, part], rows, out, first, last)


@fast
def _gate(stack: Stack, layer: int, rows: Floats, both: Floats, gated: Floats, i: int, threads: int) -> None:
    """This thread's blocks of the gate, of what it gates, and of their product."""
    width = gated.shape[1]
    blocks = width // BLOCK
    first, last = i * blocks // threads, (i + 1) * blocks // threads
    for row in range(len(both)):
        for at in range(first * BLOCK, last * BLOCK):
            both[row, at] = stack.biases[layer, GATE_UP, at]
            both[row, width + at] = stack.biases[layer, GATE_UP, width + at]
    accumulate(stack.blocks[layer, GATE_UP], rows, both, first, last)
    accumulate(stack.blocks[layer, GATE_UP], rows, both, blocks + first, blocks + last)
    for row in range(len(both)):
        for at in range(first * BLOCK, last * BLOCK):
            gate = both[row, at]
            gated[row, at] = gate / (np.float32(1.0) + exponential(-gate)) * both[row, width + at]


@fast
def _keep(stored: Any, numbers: Floats, row: int, head: int, place: int, kv_head: int) -> None:
    size = stored.shape[1]
    for d in range(stored.shape[3]):
        stored[place // size, place % size, kv_head, d] = numbers[row, head, d]


@inlined
def _attend(
    stack: Stack, context: Context, work: Work, layer: int, i: int, threads: int, group: int, width: int
) -> None:
    """This thread's KV heads of each row: turned, kept, and what their queries gather.

    A thread takes whole rows, whose memory is then read in order, unless that leaves another thread with less to do.
    """
    keys, values, heads = context.keys[layer], context.values[layer], work.heads
    rows, kv_heads = len(heads), keys.shape[2]
    parts = 1 if rows % threads == 0 or rows >= 4 * threads else kv_heads
    for unit in range(i, rows * parts, threads):
        row, low, high = share(unit, parts, kv_heads)
        for head in range(low * group, high * group):
            turn_rows(heads, context.cosine, context.sine, row, head)
        for head in range(low, high):
            key = kv_heads * group + head
            turn_rows(heads, context.cosine, context.sine, row, key)
            _keep(keys, heads, row, key, context.write[row], head)
            _keep(values, heads, row, key + kv_heads, context.write[row], head)
    tables, contexts, window = context.tables, context.contexts, stack.windows[layer]
    score_shares(heads, keys, tables, contexts, window, context.scale, work.scores, parts, i, threads, group, width)
    mix_shares(values, tables, contexts, window, work.scores, work.mixed, parts, i, threads, group, width)


@cache
def walker(group: int, width: int) -> Kernel:
    """The pass for ``group`` query heads a KV head, each ``width`` wide.

    Called as ``walk(stack, context, work, first, last, i, n)`` it runs layers ``first`` to ``last - 1`` as thread ``i``
    of ``n``.
    """

    @fast
    def walk(stack: Stack, context: Context, work: Work, first: int, last: int, i: int, threads: int) -> None:
        own, rows, met = work.normed[i], len(work.hidden), 0
        heads, mixed = work.heads.reshape(rows, -1), work.mixed.reshape(rows, -1)
        for layer in range(first, last):
            norm_rows(work.hidden, own, stack.norms[layer, 0], stack.epsilon, 0, rows)
            _multiply(stack, layer, QKV, own, heads, False, i, threads)
            met = meet(work.counter, met, threads)
            _attend(stack, context, work, layer, i, threads, group, width)
            met = meet(work.counter, met, threads)
            _multiply(stack, layer, OUTPUT, mixed, work.hidden, True, i, threads)
            met = meet(work.counter, met, threads)
            norm_rows(work.hidden, own, stack.norms[layer, 1], stack.epsilon, 0, rows)
            _gate(stack, layer, own, work.both, work.gated, i, threads)
            met = meet(work.counter, met, threads)
            _multiply(stack, layer, DOWN, work.gated, work.hidden, True, i, threads)
            met = meet(work.counter, met, threads)

    return walk


class Narrow:
    """Runs narrow steps over a stack of layers; ``made`` says whether a decoder's layers allow it."""

    def __init__(self, stack: Stack, heads: int, kv_heads: int, width: int, ffn: int) -> None:
        self._stack, self._sizes = stack, (heads, kv_heads, width, ffn)

    @classmethod
    def made(
        cls,
        products: list[tuple[Linear, ...]],
        norms: list[tuple[Tensor, Tensor]],
        windows: tuple[int, ...],
        epsilon: float,
        sizes: tuple[int, int, int, int],
    ) -> Narrow | None:
        """For ``products`` [layers][4] and their norms; None where a weight is not in blocks that can be read.

        ``sizes`` are heads, KV heads, head width and the width of the feed-forward.
        """
        blocks = [[each.blocks if isinstance(each, Packed) else NOWHERE for each in layer] for layer in products]
        if not blocks or any(NOWHERE in layer for layer in blocks) or sizes[3] % BLOCK:
            return None
        biases = np.zeros(
            (len(products), 4, max(sizes[3] * 2, (sizes[0] + 2 * sizes[1]) * sizes[2], norms[0][0].numel())), np.float32
        )
        for layer, row in zip(products, biases, strict=True):
            for each, place in zip(layer, row, strict=True):
                if isinstance(each, Packed) and each.bias is not None:
                    place[: each.bias.numel()] = each.bias.numpy()
        stacked = torch.stack([torch.stack(pair) for pair in norms]).numpy()
        return cls(Stack(np.array(blocks), biases, stacked, np.array(windows), np.float32(epsilon)), *sizes)

    def takes(self, batch: Batch, pool: Pool) -> bool:
        """Whether this step is a narrow one."""
        rows = len(batch.tokens)
        return rows == batch.decodes and 0 < rows <= MOST_ROWS and pool.keys.dtype == torch.float32

    def layers(
        self, hidden: Tensor, batch: Batch, pool: Pool, turn: tuple[Tensor, Tensor], first: int, last: int
    ) -> Tensor:
        """As ``Decoder.layers``; ``turn`` is that of the batch's positions."""
        heads, kv_heads, width, _ = self._sizes
        threads = torch.get_num_threads()
        cosine, sine = (each.numpy()[:, 0] for each in turn)
        contexts = np.ascontiguousarray(batch.contexts.numpy())
        tables = np.ascontiguousarray(batch.tables.numpy())
        context = Context(
            pool.keys.numpy(), pool.values.numpy(), batch.write.numpy(), tables, contexts, cosine, sine,
            np.float32(width**-0.5),
        )  # fmt: skip
        work = self._work(hidden, threads, int(contexts.max()))
        walk = walker(heads // kv_heads, width)
        shared(lambda i, n: walk(self._stack, context, work, first, last, i, n), threads)
        return torch.from_numpy(work.hidden)

    def _work(self, hidden: Tensor, threads: int, longest: int) -> Work:
        heads, kv_heads, width, ffn = self._sizes
        rows, size = hidden.shape
        return Work(
            hidden=hidden.numpy().copy(),
            normed=np.empty((threads, rows, size), np.float32),
            heads=np.empty((rows, heads + 2 * kv_heads, width), np.float32),
            scores=np.empty((rows, heads, longest), np.float32),
            mixed=np.empty((rows, heads, width), np.float32),
            both=np.empty((rows, 2 * ffn), np.float32),
            gated=np.empty((rows, ffn), np.float32),
            counter=np.zeros(1, np.int64),
        )
