"""Attention of prompt chunks on a CPU, compiled: it reads keys and values where they lie in the KV pool.

The rows of a KV head are the tokens of a chunk times the query heads that share it. ``LANES`` of them go together, each
in its own lane of the vector registers, through all the tokens that they see, which are taken ``CHUNK`` at a time as in
FlashAttention (Dao et al. 2022). So a row's numbers depend on nothing but its own text: not on batch mates, on
threads or on where its prompt was cut.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
import torch
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray

from twofold.engine.batch import Batch
from twofold.engine.fast import exponential, fast
from twofold.engine.tiles import TILE_ROWS, TILE_VECTORS, VECTOR, Tile

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

LANES = TILE_VECTORS * VECTOR
"""Rows that go together."""
CHUNK = 64
"""Tokens that are scored at a time: their scores stay in the nearest cache."""
LOWEST = np.float32(-3e38)
"""Below any score."""
COMPILED = not numba.config.DISABLE_JIT
EXTRA = 4
"""Rows of a thread's memory besides those for queries, what they gather, and scores."""


def spans_of(batch: Batch) -> Integers:
    """The prompt chunks of a step, int64 [chunks, 4]: first token, tokens, tokens seen, item."""
    starts, first = batch.starts.numpy(), batch.decodes
    columns = (
        starts[first:-1],
        np.diff(starts[first:]),
        batch.contexts.numpy()[first:],
        np.arange(first, len(starts) - 1),
    )
    spans: Integers = np.stack(columns, 1)
    return spans


@intrinsic  # type: ignore[untyped-decorator]
def _score(typing_context: Any, turned: Any, keys: Any, places: Any, head: Any, at: Any, scores: Any) -> Any:
    """Put the products of ``TILE_ROWS`` keys, those of ``places`` from ``at`` on, with all lanes to scores."""
    signature = types.void(turned, keys, places, types.intp, types.intp, scores)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        turned, keys, places, head, at, scores = arguments
        turned_kind, keys_kind, places_kind, _, _, scores_kind = signature.args
        tile = Tile(context, builder, TILE_ROWS)
        zero, rows = tile.integer(0), [tile.plus(at, row) for row in range(TILE_ROWS)]
        found = [builder.load(tile.pointer(places_kind, places, row)) for row in rows]
        given = [tile.pointer(keys_kind, keys, place, head, zero) for place in found]
        width = context.make_array(turned_kind)(context, builder, turned).shape
        sums = tile.summed(
            tile.zeros(),
            builder.extract_value(width, 0),
            lambda d: [tile.number(each, d) for each in given],
            lambda d: tile.load(tile.pointer(turned_kind, turned, d, zero)),
        )
        for row, numbers in zip(rows, sums, strict=True):
            tile.store(numbers, tile.pointer(scores_kind, scores, row, zero))
        return context.get_dummy_value()

    return signature, emit


@intrinsic  # type: ignore[untyped-decorator]
def _mix(typing_context: Any, scores: Any, values: Any, places: Any, head: Any, count: Any, at: Any, mixed: Any) -> Any:
    """Add ``TILE_ROWS`` numbers, from ``at`` on, of the first ``count`` values, each times its scores, to ``mixed``."""
    signature = types.void(scores, values, places, types.intp, types.intp, types.intp, mixed)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scores, values, places, head, count, at, mixed = arguments
        scores_kind, values_kind, places_kind, _, _, _, mixed_kind = signature.args
        tile = Tile(context, builder, TILE_ROWS)
        zero = tile.integer(0)
        out = [tile.pointer(mixed_kind, mixed, tile.plus(at, row), zero) for row in range(TILE_ROWS)]

        def numbers(token: Any) -> list[Any]:
            place = builder.load(tile.pointer(places_kind, places, token))
            value = tile.pointer(values_kind, values, place, head, at)
            return [tile.number(value, tile.integer(row)) for row in range(TILE_ROWS)]

        sums = tile.summed(
            [tile.load(each) for each in out],
            count,
            numbers,
            lambda token: tile.load(tile.pointer(scores_kind, scores, token, zero)),
        )
        for row, place in zip(sums, out, strict=True):
            tile.store(row, place)
        return context.get_dummy_value()

    return signature, emit


@fast
def _hide(scores: Floats, tokens: int, start: int, place: Integers, window: int) -> None:
    """Of tokens ``start``, ``start + 1``, ... hide from each lane those that it does not see."""
    for token in range(tokens):
        for lane in range(LANES):
            at = start + token
            seen = at <= place[lane] and (window == 0 or at > place[lane] - window)
            scores[token, lane] = scores[token, lane] if seen else LOWEST


@fast
def _weigh(scores: Floats, tokens: int, most: Floats, total: Floats, factor: Floats, mixed: Floats) -> None:
    """Scores to powers of e; what was summed and mixed before is put on the scale of the new maximum."""
    for lane in range(LANES):
        factor[lane] = most[lane]
    for token in range(tokens):
        for lane in range(LANES):
            most[lane] = max(most[lane], scores[token, lane])
    for lane in range(LANES):
        factor[lane] = exponential(factor[lane] - most[lane])
        total[lane] *= factor[lane]
    for token in range(tokens):
        for lane in range(LANES):
            power = exponential(scores[token, lane] - most[lane])
            power = power if scores[token, lane] > LOWEST else np.float32(0.0)
            scores[token, lane] = power
            total[lane] += power
    for d in range(len(mixed)):
        for lane in range(LANES):
            mixed[d, lane] *= factor[lane]


def memory(width: int) -> Floats:
    """What one thread works in."""
    work: Floats = torch.empty(2 * width + CHUNK + EXTRA, LANES).numpy()
    return work


@fast
def _load(
    query: Floats, first: int, begin: int, last: int, head: int, group: int, scale: np.float32, turned: Floats
) -> None:
    """The queries of rows ``begin``, ``begin + 1``, ... , scaled, a lane each; lanes beyond row ``last`` repeat it."""
    for lane in range(LANES):
        token, member = divmod(min(begin + lane, last), group)
        for d in range(len(turned)):
            turned[d, lane] = query[first + token, head * group + member, d] * scale


@fast
def _unload(
    mixed: Floats, total: Floats, first: int, begin: int, last: int, head: int, group: int, out: Floats
) -> None:
    for lane in range(min(LANES, last + 1 - begin)):
        token, member = divmod(begin + lane, group)
        for d in range(len(mixed)):
            out[first + token, head * group + member, d] = mixed[d, lane] / total[lane]


@fast
def _over_tokens(
    keys: Floats, values: Floats, size: int, table: Integers, seen: Integers, window: int, head: int, work: Floats
) -> None:
    """All that the lanes see: lane i tokens up to ``seen[i]``, which do not fall from lane to lane."""
    width, places, last = keys.shape[2], np.empty(CHUNK, np.int64), seen[LANES - 1]
    turned, mixed, scores = work[:width], work[width : 2 * width], work[2 * width : 2 * width + CHUNK]
    most, total, factor = work[2 * width + CHUNK], work[2 * width + CHUNK + 1], work[2 * width + CHUNK + 2]
    mixed[:] = np.float32(0.0)
    total[:] = np.float32(0.0)
    most[:] = LOWEST
    low = max(seen[0] - window + 1, 0) // CHUNK * CHUNK if window else 0
    for start in range(low, last + 1, CHUNK):
        count = min(CHUNK, last + 1 - start)
        for token in range(CHUNK):
            place = start + min(token, count - 1)
            places[token] = table[place // size] * size + place % size
        for token in range(0, count, TILE_ROWS):
            _score(turned, keys, places, head, token, scores)
        if start + count - 1 > seen[0] or (window and start <= last - window):
            _hide(scores, count, start, seen, window)
        _weigh(scores, count, most, total, factor, mixed)
        for d in range(0, width, TILE_ROWS):
            _mix(scores, values, places, head, count, d, mixed)


@fast
def attend_chunks(
    query: Floats, keys: Floats, values: Floats, tables: Integers, spans: Integers, window: int, scale: np.float32,
    out: Floats, work: Floats, group: int, first: int, step: int,
) -> None:  # fmt: skip
    """Attention of some prompt chunks, ``group`` query heads a KV head.

    Takes query float32 [tokens, heads, width], keys and values of one layer [blocks, block tokens, KV heads, width],
    the width a multiple of ``TILE_ROWS``; int64 tables [items, blocks] and spans [chunks, 4] (first token, tokens,
    tokens seen, item); a window in tokens (0: none); the scale; ``out`` like query, to fill; what
    :func:`memory` gives; and its share of the units, ``first``, ``first + step``, ... .
    """
    size, kv_heads, width, unit = keys.shape[1], keys.shape[2], keys.shape[3], 0
    flat_keys, flat_values = keys.reshape(-1, kv_heads, width), values.reshape(-1, kv_heads, width)
    seen = np.empty(LANES, np.int64)
    for begins, tokens, context, item in spans:
        last = tokens * group - 1
        for begin in range(0, last + 1, LANES):
            for head in range(kv_heads):
                if unit % step == first:
                    for lane in range(LANES):
                        seen[lane] = context - tokens + min(begin + lane, last) // group
                    _load(query, begins, begin, last, head, group, scale, work[:width])
                    _over_tokens(flat_keys, flat_values, size, tables[item], seen, window, head, work)
                    _unload(work[width : 2 * width], work[2 * width + CHUNK + 1], begins, begin, last, head, group, out)
                unit += 1
