"""Decode steps as CUDA graphs: the layers of a step are launched at once instead of kernel by kernel.

A graph is captured for each stream, as the stream that it is captured on decides which SMs its kernels may take, and
for each of a few sizes; a step runs as the next larger one, its other rows writing to the spare block of the pool. What
a step is about lies in buffers that all graphs of a size share: one decode step runs at a time. Embedding and sampling
stay outside. Graphs need FlashInfer, whose kernels read the block tables where they lie. Not yet run on a device.
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from twofold.engine.attending import Attending, flash
from twofold.engine.batch import Batch, Host
from twofold.engine.flashinfer import Kernels, Pages, Planned, pages_of, shape_of
from twofold.engine.pool import Pool

Layers = Callable[[Tensor, Tensor, Attending], Tensor]
"""All layers: hidden states [tokens, hidden] and int64 positions [tokens] to hidden states."""

SIZES = (1, 2, 4, 8, 16, 24, 32, 48, 64, 96, 128, 192, 256)
MEMORY_SHARE = 0.5
"""Of what is free on the device beside the KV pool, at the time of the first graph."""
logger = logging.getLogger("twofold.engine")


class Captured(NamedTuple):
    """A graph and the hidden states that it writes."""

    graph: Any
    hidden: Tensor


class Buffers:
    """What the graphs of one size read: the rows of a step, and the plan of its attention."""

    def __init__(self, size: int, kernels: Kernels, pool: Pool, windows: tuple[int, ...], indices: Tensor) -> None:
        device, self.size, self._pool, self._kernels = pool.keys.device, size, pool, kernels
        self.hidden: Tensor | None = None
        self.positions = torch.zeros(size, dtype=torch.int64, device=device)
        self._write = torch.zeros(size, dtype=torch.int64, device=device)
        indptr = torch.zeros(size + 1, dtype=torch.int32, device=device)
        last = torch.ones(size, dtype=torch.int32, device=device)
        self._wrappers = {
            window: kernels.decoder(
                use_cuda_graph=True,
                paged_kv_indptr_buffer=indptr,
                paged_kv_indices_buffer=indices,
                paged_kv_last_page_len_buffer=last,
            )
            for window in set(windows)
        }
        empty = self.positions[:0]
        batch = Batch(empty, self.positions, self._write, empty, self.positions, empty, empty, size)
        self.attention = Planned(batch, pool, windows, self._wrappers, {})

    def fill(self, hidden: Tensor, batch: Batch | None) -> None:
        """Take the decodes of ``batch``, or none: all other rows are one token each, in the spare block."""
        rows = 0 if batch is None else batch.decodes
        if self.hidden is None:
            self.hidden = torch.zeros(self.size, hidden.shape[1], dtype=hidden.dtype, device=hidden.device)
        self._write[rows:].fill_(self._pool.blocks * self._pool.block_tokens)
        self.positions[rows:].zero_()
        if batch is not None:
            self.hidden[:rows].copy_(hidden)
            self.positions[:rows].copy_(batch.positions)
            self._write[:rows].copy_(batch.write)
        pages = self._padded(None if batch is None else batch.on_host(), rows)
        for window, wrapper in self._wrappers.items():
            self._kernels.plan_decodes(wrapper, pages, window)

    def _padded(self, host: Host | None, rows: int) -> Pages:
        """The blocks of the step's decodes, then the spare one for each row that is none."""
        width = 1 if host is None else host.tables.shape[1]
        tables = np.full((self.size, width), self._pool.blocks, np.int64)
        contexts = np.ones(self.size, np.int64)
        if host is not None:
            tables[:rows], contexts[:rows] = host.tables[:rows], host.contexts[:rows]
        nothing = np.zeros(0, np.int64)
        return pages_of(Host(nothing, contexts, tables), 0, self.size, self._pool.block_tokens)


class Graphs:
    """The graphs of one decoder, for the pool that its steps are over; another pool begins anew.

    ``through`` runs all ``layers``, ``heads`` and ``windows`` are the decoder's.
    """

    def __init__(self, through: Layers, layers: int, heads: int, windows: tuple[int, ...]) -> None:
        self._through, self._layers, self._heads, self._windows = through, layers, heads, windows
        self._pool: weakref.ref[Pool] | None = None
        self._captured: dict[tuple[int, int], Captured] = {}
        self._buffers: dict[int, Buffers] = {}
        self._captures_on: dict[int, tuple[Any, Any]] = {}
        self._left_bytes, self._full = 0, False

    def takes(self, batch: Batch, pool: Pool, first: int, last: int) -> bool:
        """Whether these layers of this step can run as a graph: all of them, decodes only, few enough."""
        decodes = batch.decodes
        if (first, last) != (0, self._layers) or not 0 < decodes <= SIZES[-1] or decodes != len(batch.contexts):
            return False
        return pool.spare > 0 and self._kernels(pool) is not None and self._holds(batch, pool)

    def layers(self, hidden: Tensor, batch: Batch, pool: Pool) -> Tensor:
        """Hidden states after the last layer, in memory that the next step on this stream writes again."""
        size = next(each for each in SIZES if each >= batch.decodes)
        captured = self._graph(size, hidden, pool)
        if captured is None:
            kernels = self._kernels(pool)
            assert kernels is not None
            return self._through(hidden, batch.positions, kernels.attention(batch, pool, self._windows))
        self._buffers[size].fill(hidden, batch)
        captured.graph.replay()
        return captured.hidden[: batch.decodes]

    def prepare(self, hidden: Tensor, pool: Pool, most: int) -> None:
        """Capture, on the stream that is current, all sizes that a step of up to ``most`` decodes takes.

        ``hidden`` [1, hidden] tells the width and dtype of hidden states.
        """
        if pool.spare == 0 or self._kernels(pool) is None:
            return
        largest = next((each for each in SIZES if each >= most), SIZES[-1])
        for size in SIZES[: SIZES.index(largest) + 1]:
            self._graph(size, hidden, pool)
        fields = {"sizes": sorted({size for _, size in self._captured}), "left_bytes": self._left_bytes}
        logger.info("graphs", extra={"fields": fields | {"full": self._full, "verified": False}})

    def forget(self) -> None:
        """Drop all graphs, before the streams that they were captured on are gone."""
        self._pool, self._captured, self._buffers, self._captures_on = None, {}, {}, {}

    def _kernels(self, pool: Pool) -> Kernels | None:
        return flash(shape_of(pool, self._heads))

    def _holds(self, batch: Batch, pool: Pool) -> bool:
        """Whether the block tables fit: requests that share a prefix may read more blocks than a pool has."""
        return int((-(-batch.on_host().contexts // pool.block_tokens)).sum()) <= pool.blocks

    def _graph(self, size: int, hidden: Tensor, pool: Pool) -> Captured | None:
        """The graph for this size on the stream that is current; None where memory for graphs is spent."""
        if self._pool is None or self._pool() is not pool:
            self._begin(pool)
        key = torch.cuda.current_stream(pool.keys.device).cuda_stream, size
        if key not in self._captured and not self._full:
            before, _ = torch.cuda.mem_get_info(pool.keys.device)
            self._captured[key] = self._capture(key[0], size, hidden, pool)
            after, _ = torch.cuda.mem_get_info(pool.keys.device)
            self._left_bytes -= max(0, before - after)
            self._full = self._left_bytes <= 0
        return self._captured.get(key)

    def _begin(self, pool: Pool) -> None:
        self.forget()
        self._pool = weakref.ref(pool)
        free, _ = torch.cuda.mem_get_info(pool.keys.device)
        self._left_bytes, self._full = int(free * MEMORY_SHARE), False
        self._indices = torch.zeros(pool.blocks + SIZES[-1], dtype=torch.int32, device=pool.keys.device)

    def _capture(self, stream: int, size: int, hidden: Tensor, pool: Pool) -> Captured:
        """Run the layers once over rows that are nobody's, as libraries set themselves up then, and capture them."""
        kernels = self._kernels(pool)
        assert kernels is not None
        if size not in self._buffers:
            self._buffers[size] = Buffers(size, kernels, pool, self._windows, self._indices)
        buffers = self._buffers[size]
        buffers.fill(hidden, None)
        assert buffers.hidden is not None
        rows = buffers.hidden, buffers.positions, buffers.attention
        self._through(*rows)
        if stream not in self._captures_on:
            self._captures_on[stream] = self._capture_stream(pool.keys.device), torch.cuda.graph_pool_handle()
        side, memory = self._captures_on[stream]
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=memory, stream=side, capture_error_mode="thread_local"):
            out = self._through(*rows)
        return Captured(graph, out)

    def _capture_stream(self, device: torch.device) -> Any:
        """The stream that is current, or another one of the whole device for the default stream, which records none."""
        current = torch.cuda.current_stream(device)
        if current == torch.cuda.default_stream(device):
            return torch.cuda.Stream(device)  # type: ignore[no-untyped-call,unused-ignore]
        return current
