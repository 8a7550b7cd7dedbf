"""Attention of one step over the KV pool: by compiled kernels on a CPU, prompt chunks in bf16 by torch.

On another device both go through torch over gathered pages. That path is unverified: no such device was at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from twofold.engine.batch import Batch
from twofold.engine.causal import COMPILED, attend_chunks, memory, spans_of
from twofold.engine.paged import mixer, scorer
from twofold.engine.pool import CPU, Pool
from twofold.engine.shared import shared, threads_for
from twofold.engine.tiles import TILE_ROWS

WORTH_A_THREAD = 1 << 15
"""Tokens x KV heads that a thread must have to read before it pays to wake a second one (about 0.2 ms)."""

PAIRS_A_THREAD = 1 << 18
"""Tokens of a chunk x tokens it sees x heads that a thread must have (about 0.3 ms)."""


class Span(NamedTuple):
    """One item: its tokens ``first`` to ``last`` of the step, the tokens it sees, and its blocks."""

    first: int
    last: int
    context: int
    table: Tensor


class Chunks(NamedTuple):
    """The chunks of one step as the kernel takes them: int64 [chunks, 4], the tables, and memory for each thread."""

    spans: np.ndarray
    tables: np.ndarray
    work: list[np.ndarray]


class Attention:
    """Attention of the items of one step, built once and used for each layer.

    ``windows`` is the sliding window of each layer in tokens, 0 for none.
    """

    def __init__(self, batch: Batch, pool: Pool, heads: int, windows: tuple[int, ...]) -> None:
        self.batch, self.pool, self.heads, self.windows = batch, pool, heads, windows
        kernel = pool.keys.device == CPU
        self.decodes = batch.decodes if kernel else 0
        self.spans = list(_spans(batch, self.decodes, pool.block_tokens))
        tokens = int(batch.starts[-1])
        self.whole = [span[:3] for span in self.spans] == [(0, tokens, tokens)]
        self.chunks = self._chunked() if self.spans and kernel else None
        self.masks: dict[int, list[Tensor | None]] = {}
        if self.decodes:
            kv_heads, width = pool.keys.shape[3:]
            self.kernels = scorer(heads // kv_heads, width), mixer(heads // kv_heads, width)
            self.tables = np.ascontiguousarray(batch.tables[: self.decodes].numpy())
            self.contexts = np.ascontiguousarray(batch.contexts[: self.decodes].numpy())
            self.scores = np.empty((self.decodes, heads, self.contexts.max()), np.float32)
            self.out = np.empty((self.decodes, heads, width), np.float32)
            self.threads = threads_for(int(self.contexts.sum()) * kv_heads, WORTH_A_THREAD)
            self.parts = 1 if self.decodes >= self.threads else min(kv_heads, self.threads)

    def __call__(self, query: Tensor, layer: int, own: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """What each token gathers: query [tokens, heads, width] in the dtype of the pool, and so is the result.

        ``own`` are the keys and values of these tokens, which the pool has as well: a step that is one whole prompt
        sees no others, and then need not gather them.
        """
        if self.chunks is None and own is not None and self.whole:
            return self._mixed(query, *own, self._masks(layer)[0])
        out = torch.empty_like(query)
        if self.decodes:
            out[: self.decodes] = self._decodes(query[: self.decodes], layer)
        if self.chunks is not None:
            self._chunks(self.chunks, query, out, layer)
            return out
        for span, mask in zip(self.spans, self._masks(layer), strict=True):
            keys, values = (side[layer][span.table].flatten(0, 1) for side in (self.pool.keys, self.pool.values))
            seen = keys[: span.context], values[: span.context]
            out[span.first : span.last] = self._mixed(query[span.first : span.last], *seen, mask)
        return out

    def keep(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Write the keys and values of the step's tokens, [tokens, KV heads, width], to their places."""
        keys, values = self.pool.flat(layer)
        keys.index_copy_(0, self.batch.write, key)
        values.index_copy_(0, self.batch.write, value)

    def _masks(self, layer: int) -> list[Tensor | None]:
        window = self.windows[layer]
        if window not in self.masks:
            self.masks[window] = [_mask(span, window, self.batch.tokens.device) for span in self.spans]
        return self.masks[window]

    def _decodes(self, query: Tensor, layer: int) -> Tensor:
        keys, values = self.pool.arrays(layer)
        score, mix = self.kernels
        scale = np.float32(query.shape[2] ** -0.5)
        rows, window = query.float().contiguous().numpy(), self.windows[layer]
        common = (self.tables, self.contexts, window)

        def unit(first: int, step: int) -> None:
            score(rows, keys, *common, scale, self.scores, self.parts, first, step)
            mix(values, *common, self.scores, self.out, self.parts, first, step)

        shared(unit, self.threads)
        return torch.from_numpy(self.out)

    def _chunked(self) -> Chunks | None:
        """What the compiled kernel needs for the chunks of this step; None where torch takes them."""
        width = self.pool.keys.shape[4]
        if not COMPILED or self.pool.keys.dtype != torch.float32 or width % TILE_ROWS:
            return None
        spans = spans_of(self.batch._replace(decodes=self.decodes))
        threads = threads_for(int((spans[:, 1] * spans[:, 2]).sum()) * self.heads, PAIRS_A_THREAD)
        work = [memory(width) for _ in range(threads)]
        return Chunks(spans, np.ascontiguousarray(self.batch.tables.numpy()), work)

    def _chunks(self, chunks: Chunks, query: Tensor, out: Tensor, layer: int) -> None:
        given = query.numpy(), *self.pool.arrays(layer), chunks.tables, chunks.spans, self.windows[layer]
        scale, result = np.float32(query.shape[2] ** -0.5), out.numpy()
        group = self.heads // self.pool.keys.shape[3]

        def unit(i: int, n: int) -> None:
            attend_chunks(*given, scale, result, chunks.work[i], group, i, n)

        shared(unit, len(chunks.work))

    def _mixed(self, query: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None) -> Tensor:
        """Query [tokens, heads, width] over the keys and values that are seen, [context, KV heads, width]."""
        first, second, third = (side.transpose(0, 1).unsqueeze(0) for side in (query, keys, values))
        grouped = self.heads != keys.shape[1]
        mixed = scaled_dot_product_attention(
            first, second, third, attn_mask=mask, is_causal=mask is None, enable_gqa=grouped
        )
        return mixed[0].transpose(0, 1)


def _spans(batch: Batch, first: int, block_tokens: int) -> Iterator[Span]:
    """The items from ``first`` on."""
    starts, contexts = batch.starts.tolist(), batch.contexts.tolist()
    for item in range(first, len(contexts)):
        blocks = -(-contexts[item] // block_tokens)
        yield Span(starts[item], starts[item + 1], contexts[item], batch.tables[item, :blocks])


def _mask(span: Span, window: int, device: torch.device) -> Tensor | None:
    """Which tokens each token of a chunk sees, bool [tokens, context]; None for all before it and itself."""
    length = span.last - span.first
    if length == span.context and not 0 < window < length:
        return None
    seen = torch.arange(span.context, device=device)
    place = torch.arange(span.context - length, span.context, device=device)[:, None]
    mask = seen <= place
    return mask & (seen > place - window) if window else mask
