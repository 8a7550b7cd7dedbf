"""Tiles: products of a few numbers with some vectors, whose sums stay in registers while the factors stream by.

A tile is as large as the registers of this CPU allow. Each sum is a chain of its own, in the order of the factors, so
it does not depend on the shape of the tile.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.registry import cpu_target

from twofold.engine.heads import spread

ORDERED = ("contract",)
"""Products and sums may be fused, but not reordered: a row's numbers do not depend on its batch mates."""


def _has(feature: str) -> bool:
    return not numba.config.DISABLE_JIT and feature in cpu_target.target_context.codegen().magic_tuple()[2]


WIDE = _has("+avx512f")
"""Whether there are 32 registers of 16 numbers (AVX-512); else 16 of 8 (AVX2)."""
VECTOR = 16 if WIDE else 8
"""Numbers of a vector register."""
TILE_ROWS = 4
"""Rows of a tile, the most."""
TILE_VECTORS = 4 if WIDE else 2
"""Vectors that a tile of ``TILE_ROWS`` rows is wide."""

MOST_SUMS = 24 if WIDE else 12
"""Vectors of sums that fit in the registers beside what they are made of."""

Grid = list[list[Any]]


class Tile:
    """Emits one tile of ``rows`` x ``vectors`` of so many ``numbers``, for one call of an intrinsic."""

    def __init__(
        self, context: Any, builder: Any, rows: int, vectors: int = TILE_VECTORS, numbers: int = VECTOR
    ) -> None:
        self.context, self.builder, self.rows, self.vectors = context, builder, rows, vectors
        self.lanes = ir.VectorType(ir.FloatType(), numbers)

    def integer(self, number: int) -> Any:
        """A constant index."""
        return self.context.get_constant(types.intp, number)

    def plus(self, value: Any, number: int) -> Any:
        """An index and a constant."""
        return self.builder.add(value, self.integer(number))

    def pointer(self, kind: Any, value: Any, *indices: Any) -> Any:
        """Where an array argument holds the number at these indices, which are not checked."""
        array = self.context.make_array(kind)(self.context, self.builder, value)
        return cgutils.get_item_pointer(self.context, self.builder, kind, array, list(indices), wraparound=False)

    def number(self, pointer: Any, at: Any) -> Any:
        """The number ``at`` places after a pointer."""
        return self.builder.load(self.builder.gep(pointer, [at]))

    def load(self, pointer: Any) -> list[Any]:
        """The vectors from a pointer on."""
        return [self.builder.load(each, align=4) for each in self._vectors(pointer)]

    def store(self, numbers: list[Any], pointer: Any) -> None:
        """Put the vectors of one row there."""
        for number, place in zip(numbers, self._vectors(pointer), strict=True):
            self.builder.store(number, place, align=4)

    def zeros(self) -> Grid:
        """Sums that start at nothing."""
        return [[ir.Constant(self.lanes, [0.0] * self.lanes.count)] * self.vectors for _ in range(self.rows)]

    def summed(
        self, sums: Grid, count: Any, factors: Callable[[Any], list[Any]], others: Callable[[Any], list[Any]]
    ) -> Grid:
        """For each index below ``count``, add ``factors`` [rows] times ``others`` [vectors] to the sums."""
        builder = self.builder
        totals = [[cgutils.alloca_once_value(builder, each) for each in row] for row in sums]
        with cgutils.for_range(builder, count, intp=count.type) as loop:
            vectors = others(loop.index)
            for row, factor in zip(totals, factors(loop.index), strict=True):
                many = spread(builder, factor, self.lanes)
                for total, vector in zip(row, vectors, strict=True):
                    product = builder.fmul(many, vector, flags=ORDERED)
                    builder.store(builder.fadd(builder.load(total), product, flags=ORDERED), total)
        return [[builder.load(total) for total in row] for row in totals]

    def _vectors(self, pointer: Any) -> list[Any]:
        first = self.builder.bitcast(pointer, self.lanes.as_pointer())
        return [self.builder.gep(first, [self.integer(each)]) for each in range(self.vectors)]
