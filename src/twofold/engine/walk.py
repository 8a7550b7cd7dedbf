"""The compiled pass of a narrow step: what each thread does, layer by layer, to the rows that all of them share."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from twofold.engine.blocked import BLOCK, accumulate
from twofold.engine.causal import attend_chunks
from twofold.engine.fast import exponential, fast, inlined
from twofold.engine.meet import meet
from twofold.engine.paged import Kernel, mix_shares, score_shares, share
from twofold.engine.pointwise import norm_rows, turn_rows

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

QKV, OUTPUT, GATE_UP, DOWN = range(4)


class Stack(NamedTuple):
    """Weights of all layers.

    ``blocks`` int64[layers, 4]: addresses of the blocks of the four products. ``biases`` float32[layers, 4, widest]:
    zeros where there is none. ``norms`` float32[layers, 2, hidden]. ``head_norms`` float32[layers, 2, width]: of
    queries and of keys; no layers where there is none. ``windows`` int64[layers].
    """

    blocks: Integers
    biases: Floats
    norms: Floats
    head_norms: Floats
    windows: Integers
    epsilon: np.float32


class Context(NamedTuple):
    """What the rows read besides weights: the KV of all layers, its tables, and how far to turn each row.

    ``contexts`` are those of the decodes, which come first; ``spans`` int64[chunks, 4] are as of ``attend_chunks``.
    """

    keys: Any
    values: Any
    write: Integers
    tables: Integers
    contexts: Integers
    spans: Integers
    cosine: Floats
    sine: Floats
    scale: np.float32


class Work(NamedTuple):
    """Memory of one pass. ``hidden`` [rows, hidden] goes in and comes out.

    ``normed`` has a part for each thread, or one where the rows are many. ``chunks`` are a thread's own.
    """

    hidden: Floats
    normed: Floats
    heads: Floats
    scores: Floats
    mixed: Floats
    both: Floats
    gated: Floats
    chunks: Floats
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
def _norm(stack: Stack, work: Work, layer: int, part: int, met: int, i: int, threads: int) -> int:
    """The norm of all rows: by each thread for itself where they are few, else in shares."""
    rows, weight = len(work.hidden), stack.norms[layer, part]
    if len(work.normed) == threads:
        norm_rows(work.hidden, work.normed[i], weight, stack.epsilon, 0, rows)
        return met
    norm_rows(work.hidden, work.normed[0], weight, stack.epsilon, i * rows // threads, (i + 1) * rows // threads)
    times: int = meet(work.counter, met, threads)
    return times


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


@fast
def _place(stack: Stack, context: Context, heads: Floats, layer: int, row: int, head: int, which: int) -> None:
    """Norm, where the model has one, and turn a query (``which`` 0) or a key (1) to its place in the text."""
    if len(stack.head_norms) > 0:
        norm_rows(heads[row], heads[row], stack.head_norms[layer, which], stack.epsilon, head, head + 1)
    turn_rows(heads, context.cosine, context.sine, row, head)


@inlined
def _attend(
    stack: Stack, context: Context, work: Work, layer: int, met: int, i: int, threads: int, group: int, width: int
) -> int:
    """This thread's KV heads of each row: placed, kept, and what their queries gather.

    A thread takes whole rows, whose memory is then read in order, unless that leaves another thread with less to do.
    """
    keys, values, heads = context.keys[layer], context.values[layer], work.heads
    rows, kv_heads = len(heads), keys.shape[2]
    parts = 1 if rows % threads == 0 or rows >= 4 * threads else kv_heads
    for unit in range(i, rows * parts, threads):
        row, low, high = share(unit, parts, kv_heads)
        for head in range(low * group, high * group):
            _place(stack, context, heads, layer, row, head, 0)
        for head in range(low, high):
            key = kv_heads * group + head
            _place(stack, context, heads, layer, row, key, 1)
            _keep(keys, heads, row, key, context.write[row], head)
            _keep(values, heads, row, key + kv_heads, context.write[row], head)
    tables, contexts, window = context.tables, context.contexts, stack.windows[layer]
    score_shares(heads, keys, tables, contexts, window, context.scale, work.scores, parts, i, threads, group, width)
    mix_shares(values, tables, contexts, window, work.scores, work.mixed, parts, i, threads, group, width)
    if len(context.spans) > 0:
        met = meet(work.counter, met, threads)
        attend_chunks(
            heads, keys, values, tables, context.spans, window, context.scale, work.mixed, work.chunks[i], group, i,
            threads,
        )  # fmt: skip
    times: int = meet(work.counter, met, threads)
    return times


@cache
def walker(group: int, width: int) -> Kernel:
    """The pass for ``group`` query heads a KV head, each ``width`` wide.

    Called as ``walk(stack, context, work, first, last, i, n)`` it runs layers ``first`` to ``last - 1`` as thread ``i``
    of ``n``.
    """

    @fast
    def walk(stack: Stack, context: Context, work: Work, first: int, last: int, i: int, threads: int) -> None:
        own, rows, met = work.normed[min(i, len(work.normed) - 1)], len(work.hidden), 0
        heads, mixed = work.heads.reshape(rows, -1), work.mixed.reshape(rows, -1)
        for layer in range(first, last):
            met = _norm(stack, work, layer, 0, met, i, threads)
            _multiply(stack, layer, QKV, own, heads, False, i, threads)
            met = meet(work.counter, met, threads)
            met = _attend(stack, context, work, layer, met, i, threads, group, width)
            _multiply(stack, layer, OUTPUT, mixed, work.hidden, True, i, threads)
            met = meet(work.counter, met, threads)
            met = _norm(stack, work, layer, 1, met, i, threads)
            _gate(stack, layer, own, work.both, work.gated, i, threads)
            met = meet(work.counter, met, threads)
            _multiply(stack, layer, DOWN, work.gated, work.hidden, True, i, threads)
            met = meet(work.counter, met, threads)

    return walk
