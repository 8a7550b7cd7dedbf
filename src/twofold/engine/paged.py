"""Attention of decodes on a CPU, compiled: it reads each key and value once, where it lies in the KV pool.

The loops are compiled for one shape of heads, whose sizes are then constants that the compiler unrolls.
"""

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from twofold.engine.fast import exponential, fast, inlined
from twofold.engine.heads import Floats, Stored, gather, heed

Integers = NDArray[np.int64]
Kernel = Any
"""A compiled function."""


@fast
def exponentials(scores: Floats, item: int, head: int, first: int, last: int) -> None:
    """Turn ``scores[item, head, first:last]`` into their softmax."""
    most, total = scores[item, head, first], np.float32(0.0)
    for i in range(first, last):
        most = max(most, scores[item, head, i])
    for i in range(first, last):
        power = exponential(scores[item, head, i] - most)
        scores[item, head, i] = power
        total += power
    inverse = np.float32(1.0) / total
    for i in range(first, last):
        scores[item, head, i] *= inverse


@fast
def share(unit: int, parts: int, heads: int) -> tuple[int, int, int]:
    """Item, first and last KV head of a unit of work: the heads of an item are dealt to so many parts."""
    item, part = unit // parts, unit % parts
    return item, part * heads // parts, (part + 1) * heads // parts


@inlined
def score_shares(
    query: Floats, keys: Stored, tables: Integers, contexts: Integers, window: int, scale: np.float32,
    scores: Floats, parts: int, first: int, step: int, group: int, width: int,
) -> None:  # fmt: skip
    """The first half of attention, how much each decode heeds each token it sees: units first, first + step, ..."""
    block_tokens = keys.shape[1]
    for unit in range(first, len(contexts) * parts, step):
        item, low, high = share(unit, parts, keys.shape[2])
        seen = max(contexts[item] - window, 0) if window else 0
        last = (contexts[item] - 1) // block_tokens
        for block in range(seen // block_tokens, last + 1):
            place, coming, start = tables[item, block], tables[item, min(block + 1, last)], block * block_tokens
            begin = max(seen, start)
            tokens = min(contexts[item], start + block_tokens) - begin
            for head in range(low, high):
                heed(
                    query, item, head * group, keys, place, coming, begin - start, head, tokens, scale, scores, begin,
                    group, width,
                )  # fmt: skip
        for g in range(low * group, high * group):
            exponentials(scores, item, g, seen, contexts[item])


@inlined
def mix_shares(
    values: Stored, tables: Integers, contexts: Integers, window: int,
    scores: Floats, out: Floats, parts: int, first: int, step: int, group: int, width: int,
) -> None:  # fmt: skip
    """The second half: the values of the tokens, mixed by those scores."""
    block_tokens = values.shape[1]
    for unit in range(first, len(contexts) * parts, step):
        item, low, high = share(unit, parts, values.shape[2])
        seen = max(contexts[item] - window, 0) if window else 0
        last = (contexts[item] - 1) // block_tokens
        out[item, low * group : high * group] = np.float32(0.0)
        for block in range(seen // block_tokens, last + 1):
            place, coming, start = tables[item, block], tables[item, min(block + 1, last)], block * block_tokens
            begin = max(seen, start)
            tokens = min(contexts[item], start + block_tokens) - begin
            for head in range(low, high):
                gather(
                    scores, item, head * group, values, place, coming, begin - start, head, tokens, out, begin, group,
                    width,
                )  # fmt: skip


@cache
def scorer(group: int, width: int) -> Kernel:
    """:func:`score_shares` for ``group`` query heads a KV head, each ``width`` numbers wide.

    The result takes query float32 [items, heads, width], keys of one layer [blocks, block tokens, KV heads, width]
    (float32, or bf16 as uint16), int64 tables [items, blocks] and contexts [items] (tokens, this step's included), a
    window in tokens (0: none), the scale, scores float32 [items, heads, longest context] to fill, and its share:
    units ``first``, ``first + step``, ... of items x ``parts``.
    """

    @fast
    def score(
        query: Floats, keys: Stored, tables: Integers, contexts: Integers, window: int, scale: np.float32,
        scores: Floats, parts: int, first: int, step: int,
    ) -> None:  # fmt: skip
        score_shares(query, keys, tables, contexts, window, scale, scores, parts, first, step, group, width)

    return score


@cache
def mixer(group: int, width: int) -> Kernel:
    """:func:`mix_shares`, likewise.

    Arguments as of ``scorer``, but values in the place of keys and no query and scale; ``out`` is float32
    [items, heads, width].
    """

    @fast
    def mix(
        values: Stored, tables: Integers, contexts: Integers, window: int,
        scores: Floats, out: Floats, parts: int, first: int, step: int,
    ) -> None:  # fmt: skip
        mix_shares(values, tables, contexts, window, scores, out, parts, first, step, group, width)

    return mix
