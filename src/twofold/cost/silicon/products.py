"""Matrix products: seconds by tokens of a layer of any width, straight between the widths that were measured."""

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from twofold.cost.silicon.dtypes import BLOCKS, HEAD, PRODUCTS, width
from twofold.cost.silicon.kernels import MILLI, columns, read_table
from twofold.errors import SpecError

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Products:
    """Seconds, float64[tokens, outputs, inputs], of products that were measured at all of these sizes."""

    tokens: Floats
    outputs: Floats
    inputs: Floats
    grid: Floats

    def seconds(self, outputs: float, inputs: float) -> Floats:
        """float64[tokens]: of one product with a matrix of this shape; beyond the largest in proportion to it."""
        i, out, more = _place(self.outputs, outputs)
        j, inner, deeper = _place(self.inputs, inputs)
        weights = np.outer([1.0 - out, out], [1.0 - inner, inner])
        corners = self.grid[:, i : i + 2, j : j + 2]
        found = np.where(weights > 0.0, corners * weights, 0.0).sum(axis=(1, 2)) * more * deeper
        known = np.isfinite(found)
        if known.sum() < 2:
            shape = f"{outputs:g} x {inputs:g}"
            raise SpecError("cost.file", shape, "accepted: matrices of a shape near those that were measured")
        return np.asarray(np.interp(self.tokens, self.tokens[known], found[known]))


@dataclass(frozen=True)
class Multiply:
    """Products of a device with weights of ``dtype``, by the table ``file``. Seconds are float64 over ``tokens``.

    What was measured to read faster than ``bandwidth``, bytes a second, from a cache that a served model does not fit,
    is slowed to it. No product of ``BLOCKS`` takes longer than in bf16, which is twice the bytes and half the rate: one
    that does (60 to 280 us for 1 as for 1,024 tokens, vLLM's tables) seems to be timed with its launch by the host.
    """

    file: Path
    dtype: str
    bandwidth: float
    tokens: Floats

    def __call__(self, outputs: float, inputs: float, dtype: str | None = None) -> Floats:
        """Seconds of one product with ``outputs`` x ``inputs`` weights, of another ``dtype`` where given."""
        chosen = dtype or self.dtype
        seconds = self._measured(outputs, inputs, chosen)
        if chosen == BLOCKS:
            seconds = np.minimum(seconds, self._measured(outputs, inputs, HEAD))
        return np.maximum(seconds, outputs * inputs * width(chosen) / self.bandwidth)

    def _measured(self, outputs: float, inputs: float, dtype: str) -> Floats:
        products = read_products(self.file, dtype)
        return at(products.tokens, products.seconds(outputs, inputs), self.tokens)


def at(places: Floats, seconds: Floats, tokens: Floats) -> Floats:
    """Straight between ``places``; beyond the largest in proportion."""
    return np.asarray(np.interp(tokens, places, seconds) * np.maximum(1.0, tokens / places[-1]))


def _place(places: Floats, value: float) -> tuple[int, float, float]:
    """(segment, share along it, factor): below the first point level, beyond the last in proportion."""
    i = int(np.clip(np.searchsorted(places, value, side="right") - 1, 0, len(places) - 2))
    share = (value - places[i]) / (places[i + 1] - places[i])
    return i, float(np.clip(share, 0.0, 1.0)), max(1.0, float(value / places[-1]))


@lru_cache(maxsize=32)
def read_products(file: Path, dtype: str) -> Products:
    """The products of a table in one of our dtypes; SpecError, with those that there are, for another."""
    table = read_table(file)
    named = columns(file, table, "gemm_dtype", "m", "n", "k", "latency")
    rows = named.filter(named["gemm_dtype"] == PRODUCTS.get(dtype, dtype))
    if rows.is_empty():
        known = set(named["gemm_dtype"])
        accepted = ", ".join(ours for ours, theirs in PRODUCTS.items() if theirs in known)
        raise SpecError("weight_dtype", dtype, f"accepted with these tables: {accepted}")
    sizes, where = zip(*(np.unique(rows[name].to_numpy(), return_inverse=True) for name in "mnk"), strict=True)
    if min(len(places) for places in sizes) < 2:
        raise SpecError(file.name, dtype, "accepted: products of two sizes or more in m, n and k")
    grid = np.full([len(places) for places in sizes], np.nan)
    grid[where] = MILLI * rows["latency"].to_numpy()
    tokens, outputs, inputs = (places.astype(np.float64) for places in sizes)
    return Products(tokens, outputs, inputs, grid)
