"""Which attention a step gets: that of the device where one is better than torch's own."""

from __future__ import annotations

import logging
from functools import cache
from typing import Protocol

from torch import Tensor

from twofold.engine import flashinfer
from twofold.engine.attention import Attention
from twofold.engine.batch import Batch
from twofold.engine.on_cuda import has_flashinfer
from twofold.engine.pool import Pool

logger = logging.getLogger("twofold.engine")


class Attending(Protocol):
    """The attention of one step, for each of its layers."""

    def __call__(self, query: Tensor, layer: int, own: tuple[Tensor, Tensor] | None = None) -> Tensor:
        """What each token gathers, [tokens, heads, width]; ``own`` are the keys and values of these tokens."""

    def keep(self, key: Tensor, value: Tensor, layer: int) -> None:
        """Write the keys and values of these tokens into the pool."""


def attention_of(batch: Batch, pool: Pool, heads: int, windows: tuple[int, ...]) -> Attending:
    """The attention of a step over ``pool``; ``windows`` as :class:`Attention` has them."""
    if pool.keys.device.type == "cuda" and (found := flash(flashinfer.shape_of(pool, heads))) is not None:
        return found.attention(batch, pool, windows)
    return Attention(batch, pool, heads, windows)


@cache
def flash(shape: flashinfer.Shape) -> flashinfer.Kernels | None:
    """The kernels of FlashInfer for this shape; None where it is not installed or has none. Logged once."""
    uses = has_flashinfer() and flashinfer.fits(shape)
    name = "FlashInfer" if uses else "torch SDPA over gathered blocks"
    fields = {"uses": name, "dtype": str(shape.dtype), "head_width": shape.width, "verified": False}
    logger.info("attention", extra={"fields": fields})
    return flashinfer.kernels(shape) if uses else None
