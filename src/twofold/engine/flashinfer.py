"""Attention by FlashInfer (Ye et al. 2025) on CUDA: its paged kernels read the KV pool where it lies.

A step is planned once and run for every layer. Decodes and prompt chunks have wrappers of their own, and scratch memory
of their own, as the two lanes of a multiplexed replica run them at once. A layer with a sliding window needs another
plan, so there are as many as there are windows. Written from the documentation of version 0.7; it has not been run on a
device. What it gives may depend, in the last bits, on what else is in a step.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twofold.engine.batch import Batch, Host
from twofold.engine.pool import Pool
from twofold.errors import SpecError

SCRATCH_BYTES = 128 << 20
"""Of each kind of step, as FlashInfer recommends."""
WIDTHS = (64, 128, 256)
"""Widths of heads that its paged kernels are made for."""
FEW_QUERIES = 3
"""Query heads a KV head up to which its decode kernel without tensor cores is the faster one."""


class Shape(NamedTuple):
    """What kernels are planned for, beside the items of a step."""

    device: torch.device
    dtype: torch.dtype
    heads: int
    kv_heads: int
    width: int
    block_tokens: int


class Pages(NamedTuple):
    """The blocks of some items as FlashInfer takes them, on the host.

    Int32 ``indptr`` [items + 1], ``indices`` [blocks], and ``last`` [items], the tokens in the last block of each.
    """

    indptr: Tensor
    indices: Tensor
    last: Tensor


def fits(shape: Shape) -> bool:
    """Whether its kernels exist for this device, dtype and width of heads."""
    return shape.device.type == "cuda" and shape.dtype == torch.bfloat16 and shape.width in WIDTHS


def shape_of(pool: Pool, heads: int) -> Shape:
    """The shape of steps over ``pool``."""
    keys = pool.keys
    return Shape(keys.device, keys.dtype, heads, keys.shape[3], keys.shape[4], pool.block_tokens)


def pages_of(host: Host, first: int, last: int, block_tokens: int) -> Pages:
    """The blocks of items ``first`` to ``last - 1``."""
    contexts, tables = host.contexts[first:last], host.tables[first:last]
    blocks = -(-contexts // block_tokens)
    indptr = np.concatenate((np.zeros(1, np.int64), blocks.cumsum()))
    indices = tables[np.arange(tables.shape[1]) < blocks[:, None]]
    left = contexts - (blocks - 1) * block_tokens
    return Pages(*(torch.from_numpy(each.astype(np.int32)) for each in (indptr, indices, left)))


def _library() -> Any:
    """FlashInfer itself; SpecError where it is there and does not load."""
    try:
        import flashinfer  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except Exception as error:
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"[:200]
        raise SpecError("attention", "FlashInfer", f"it does not load ({reason}): repair or uninstall it") from None
    return flashinfer


@cache
def kernels(shape: Shape) -> Kernels:
    """The kernels of this shape, which all engines of a process share; their steps must not run at the same time."""
    return Kernels(shape)


class Kernels:
    """Wrappers of FlashInfer for one shape, made when they are first needed."""

    def __init__(self, shape: Shape) -> None:
        self.shape = shape
        self._decodes: dict[int, Any] = {}
        self._chunks: dict[int, Any] = {}
        self._scratches: dict[str, Tensor] = {}
        self._known: dict[bool, Planned] = {}

    def attention(self, batch: Batch, pool: Pool, windows: tuple[int, ...]) -> Planned:
        """The attention of a step, planned when it is first asked for; a lane asks again for each slice of layers."""
        alone = batch.decodes == len(batch.contexts)
        known = self._known.get(alone)
        if known is None or known.batch is not batch:
            known = self._known[alone] = self._planned(batch, pool, windows)
        return known

    def decoder(self, **buffers: Any) -> Any:
        """A wrapper for decodes; with buffers, one whose plans a CUDA graph can go by."""
        made, tensor_cores = _library(), self.shape.heads // self.shape.kv_heads > FEW_QUERIES
        scratch = self._scratch("decodes")
        return made.BatchDecodeWithPagedKVCacheWrapper(scratch, "NHD", use_tensor_cores=tensor_cores, **buffers)

    def plan_decodes(self, wrapper: Any, pages: Pages, window: int) -> None:
        """Plan one decode for each item of ``pages``."""
        wrapper.plan(*pages, *self._sizes(), **self._kinds(window))

    def _planned(self, batch: Batch, pool: Pool, windows: tuple[int, ...]) -> Planned:
        host, size, many = batch.on_host(), self.shape.block_tokens, batch.decodes
        if many:
            pages = pages_of(host, 0, many, size)
            for window in set(windows):
                if window not in self._decodes:
                    self._decodes[window] = self.decoder()
                self.plan_decodes(self._decodes[window], pages, window)
        if many < len(host.contexts):
            pages = pages_of(host, many, len(host.contexts), size)
            starts = torch.from_numpy((host.starts[many:] - host.starts[many]).astype(np.int32))
            for window in set(windows):
                if window not in self._chunks:
                    self._chunks[window] = self._chunker()
                self._chunks[window].plan(starts, *pages, *self._sizes(), causal=True, **self._kinds(window))
        return Planned(batch, pool, windows, self._decodes, self._chunks)

    def _chunker(self) -> Any:
        return _library().BatchPrefillWithPagedKVCacheWrapper(self._scratch("chunks"), "NHD")

    def _scratch(self, kind: str) -> Tensor:
        if kind not in self._scratches:
            self._scratches[kind] = torch.zeros(SCRATCH_BYTES, dtype=torch.uint8, device=self.shape.device)
        return self._scratches[kind]

    def _sizes(self) -> tuple[int, int, int, int]:
        return self.shape.heads, self.shape.kv_heads, self.shape.width, self.shape.block_tokens

    def _kinds(self, window: int) -> dict[str, Any]:
        """A window counts the token itself here, and does not there."""
        dtype = self.shape.dtype
        return {"window_left": window - 1 if window else -1, "q_data_type": dtype, "kv_data_type": dtype}


class Planned:
    """Attention of one step, as :class:`twofold.engine.attention.Attention`, by wrappers that were planned for it."""

    def __init__(
        self,
        batch: Batch,
        pool: Pool,
        windows: tuple[int, ...],
        decodes: Mapping[int, Any],
        chunks: Mapping[int, Any],
    ) -> None:
        self.batch, self._pool, self._windows = batch, pool, windows
        self._decodes, self._chunks = decodes, chunks

    def __call__(self, query: Tensor, layer: int, own: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """What each token gathers: query [tokens, heads, width] in the dtype of the pool, and so is the result."""
        query, pages = query.contiguous(), self._pool.pages(layer)
        out, window, many = torch.empty_like(query), self._windows[layer], self.batch.decodes
        if many:
            self._decodes[window].run(query[:many], pages, out=out[:many])
        if many < len(query):
            self._chunks[window].run(query[many:], pages, out=out[many:])
        return out

    def keep(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Write the keys and values of the step's tokens, [tokens, KV heads, width], to their places."""
        keys, values = self._pool.flat(layer)
        keys.index_copy_(0, self.batch.write, key)
        values.index_copy_(0, self.batch.write, value)
