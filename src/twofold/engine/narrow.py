"""A step of few tokens on a CPU: all of its layers in one compiled pass, which reads each weight once.

Such a step is bound by memory, and what is between its products costs more than their arithmetic. So every thread
walks the layers by itself, over its own blocks of outputs and its own KV heads, and meets the others five times a
layer. Measured with SmolLM2-135M, one row, on one core of an Intel Xeon with AVX-512 that was busy with other work:
half the CPU time of the layers one by one, the median of six pairs between 0.42 and 0.94; for a prompt of 16 tokens
0.76, of 64 0.89.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine.batch import Batch
from twofold.engine.blocked import BLOCK, NOWHERE
from twofold.engine.causal import memory, spans_of
from twofold.engine.linear import Linear, Packed
from twofold.engine.pool import Pool
from twofold.engine.shared import shared
from twofold.engine.tiles import TILE_ROWS
from twofold.engine.walk import Context, Stack, Work, walker

Floats = NDArray[np.float32]

MOST_ROWS = 64
"""Decodes; more were not measured. With SmolLM2-135M on two cores, at 290 tokens: 45 ms for 16 rows and 129 ms for 64,
where the layers one by one take 88 and 221.
"""
MOST_PRODUCTS = 1 << 28
"""Rows x weights of a layer of a step with prompt chunks. OneDNN multiplies 128 rows by weights of 8192 inputs 1.6
times as fast (1.1 of 4864, 0.94 of 1536); below this, what is saved between the products is worth more.
"""
OWN_NORMS = 16
"""Rows whose norms each thread counts for itself, which is sooner done than meeting once more."""


def _stacked(pairs: list[tuple[Tensor, Tensor]], width: int) -> Floats:
    """Float32[pairs, 2, width]."""
    stacked: Floats = np.empty((len(pairs), 2, width), np.float32)
    for pair, place in zip(pairs, stacked, strict=True):
        place[0], place[1] = (each.numpy() for each in pair)
    return stacked


class Narrow:
    """Runs narrow steps over a stack of layers; ``made`` says whether a decoder's layers allow it."""

    def __init__(self, stack: Stack, heads: int, kv_heads: int, width: int, ffn: int) -> None:
        self._stack, self._sizes = stack, (heads, kv_heads, width, ffn)

    @classmethod
    def made(
        cls,
        products: list[tuple[Linear, ...]],
        norms: list[tuple[Tensor, Tensor]],
        head_norms: list[tuple[Tensor, Tensor]],
        windows: tuple[int, ...],
        epsilon: float,
        sizes: tuple[int, int, int, int],
    ) -> Narrow | None:
        """For ``products`` [layers][4] and their norms; None where a weight is not in blocks that can be read.

        ``head_norms`` are of queries and keys, none where the model has none. ``sizes`` are heads, KV heads, head width
        and the width of the feed-forward.
        """
        blocks = [[each.blocks if isinstance(each, Packed) else NOWHERE for each in layer] for layer in products]
        if not blocks or any(NOWHERE in layer for layer in blocks) or sizes[3] % BLOCK or sizes[2] % TILE_ROWS:
            return None
        biases = np.zeros(
            (len(products), 4, max(sizes[3] * 2, (sizes[0] + 2 * sizes[1]) * sizes[2], norms[0][0].numel())), np.float32
        )
        for layer, row in zip(products, biases, strict=True):
            for each, place in zip(layer, row, strict=True):
                if isinstance(each, Packed) and each.bias is not None:
                    place[: each.bias.numel()] = each.bias.numpy()
        whole, each_head = _stacked(norms, norms[0][0].numel()), _stacked(head_norms, sizes[2])
        stack = Stack(np.array(blocks), biases, whole, each_head, np.array(windows), np.float32(epsilon))
        return cls(stack, *sizes)

    def takes(self, batch: Batch, pool: Pool) -> bool:
        """Whether this step is a narrow one."""
        rows, (heads, kv_heads, width, ffn) = len(batch.tokens), self._sizes
        if rows == 0 or pool.keys.dtype != torch.float32:
            return False
        if rows == batch.decodes:
            return rows <= MOST_ROWS
        weights: int = self._stack.norms.shape[2] * (2 * (heads + kv_heads) * width + 3 * ffn)
        return rows * weights <= MOST_PRODUCTS

    def layers(
        self, hidden: Tensor, batch: Batch, pool: Pool, turn: tuple[Tensor, Tensor], first: int, last: int
    ) -> Tensor:
        """As ``Decoder.layers``; ``turn`` is that of the batch's positions."""
        heads, kv_heads, width, _ = self._sizes
        threads = torch.get_num_threads()
        cosine, sine = (each.numpy()[:, 0] for each in turn)
        contexts = np.ascontiguousarray(batch.contexts.numpy())
        tables = np.ascontiguousarray(batch.tables.numpy())
        spans = spans_of(batch)
        context = Context(
            pool.keys.numpy(), pool.values.numpy(), batch.write.numpy(), tables, contexts[: batch.decodes], spans,
            cosine, sine, np.float32(width**-0.5),
        )  # fmt: skip
        work = self._work(hidden, threads, batch.decodes, int(contexts[: batch.decodes].max(initial=0)))
        walk = walker(heads // kv_heads, width)
        shared(lambda i, n: walk(self._stack, context, work, first, last, i, n), threads)
        return torch.from_numpy(work.hidden)

    def _work(self, hidden: Tensor, threads: int, decodes: int, longest: int) -> Work:
        heads, kv_heads, width, ffn = self._sizes
        rows, size = hidden.shape
        return Work(
            hidden=hidden.numpy().copy(),
            normed=np.empty((threads if rows <= OWN_NORMS else 1, rows, size), np.float32),
            heads=np.empty((rows, heads + 2 * kv_heads, width), np.float32),
            scores=np.empty((decodes, heads, longest), np.float32),
            mixed=np.empty((rows, heads, width), np.float32),
            both=np.empty((rows, 2 * ffn), np.float32),
            gated=np.empty((rows, ffn), np.float32),
            chunks=np.stack([memory(width) for _ in range(threads)]),
            counter=np.zeros(1, np.int64),
        )
