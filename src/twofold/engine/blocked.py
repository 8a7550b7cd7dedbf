"""Multiplying rows by weights that lie in blocks of outputs, as oneDNN packs float32 for a CPU with AVX2 or AVX-512.

Block b holds the weights of outputs 64 b to 64 b + 63, input by input, so that the sums of some rows fit in registers
while the weights stream by. A layout is never assumed: ``blocked`` looks at the memory.
"""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine.fast import fast
from twofold.engine.prefetch import LINE_BYTES, SECOND, ask
from twofold.engine.shared import shared, threads_for
from twofold.engine.tiles import MOST_SUMS, VECTOR, Tile

Floats = NDArray[np.float32]

BLOCK = 64
"""Outputs of a block."""
BLOCK_BYTES = 4 * BLOCK
"""Bytes of the weights of one input in a block."""
AHEAD = 32
"""Inputs between the weights that are multiplied and those that are asked for, 8 KiB."""
NOWHERE = 0
"""The address of what is not there."""
FEW_ROWS = 4
"""So many are worth a pass over blocks; more are multiplied as a matrix."""
MOST_TILE_ROWS = 6
"""Rows that are multiplied at a time, the most: their sums fill the registers."""
WORTH_A_THREAD = 1 << 20
"""Weights that a thread must have to read before it pays to wake a second one (about 0.3 ms)."""
READABLE = os.name == "posix" and not numba.config.DISABLE_JIT


def blocked(packed: Tensor, weight: Tensor) -> int:
    """Address of the blocks of ``packed``, oneDNN's of ``weight`` [outputs, inputs]; NOWHERE if it has others."""
    outputs, inputs = weight.shape
    ops = torch.ops.mkldnn
    if not READABLE or weight.dtype != torch.float32 or outputs % BLOCK or not hasattr(ops, "data_ptr"):
        return NOWHERE
    if not packed.is_mkldnn or ops._nbytes(packed) != weight.nbytes:
        return NOWHERE
    address = int(ops.data_ptr(packed))
    held = np.ctypeslib.as_array((ctypes.c_float * weight.numel()).from_address(address))
    blocks, exact = held.reshape(-1, inputs, BLOCK), weight.detach().numpy().reshape(-1, BLOCK, inputs)
    alike = all(np.array_equal(blocks[each], exact[each].T) for each in (0, -1))
    return address if alike else NOWHERE


def _tile(count: int) -> Any:
    """Adds ``count`` rows of ``rows``, from ``row`` on, times one block to ``out`` from column ``at`` on."""
    vectors = BLOCK // VECTOR
    while count * vectors > MOST_SUMS:
        vectors //= 2

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing_context: Any, address: Any, inputs: Any, rows: Any, row: Any, out: Any, at: Any) -> Any:
        signature = types.void(types.int64, types.int64, rows, types.int64, out, types.int64)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start, inputs, rows, row, out, at = arguments
            tile = Tile(context, builder, count, 1, VECTOR * vectors)
            weights = builder.inttoptr(start, ir.FloatType().as_pointer())
            which = [tile.plus(row, step) for step in range(count)]
            given = [tile.pointer(signature.args[2], rows, each, tile.integer(0)) for each in which]

            def place(i: Any, column: int) -> Any:
                return builder.gep(weights, [tile.plus(builder.mul(i, tile.integer(BLOCK)), column)])

            def vectors_of(i: Any, column: int) -> list[Any]:
                ask(builder, place(tile.plus(i, AHEAD), column), VECTOR * vectors * 4 // LINE_BYTES, SECOND)
                return tile.load(place(i, column))

            for column in range(0, BLOCK, VECTOR * vectors):
                sums = [tile.pointer(signature.args[4], out, each, tile.plus(at, column)) for each in which]
                totals = tile.summed(
                    [tile.load(each) for each in sums],
                    inputs,
                    lambda i: [tile.number(each, i) for each in given],
                    functools.partial(vectors_of, column=column),
                )
                for numbers, each in zip(totals, sums, strict=True):
                    tile.store(numbers, each)
            return context.get_dummy_value()

        return signature, emit

    return tile


_one, _two, _three, _four, _five, _six = (_tile(count) for count in range(1, MOST_TILE_ROWS + 1))


@fast
def multiply_block(start: int, rows: Floats, out: Floats, at: int) -> None:
    """Add the products of ``rows`` [R, inputs] with the block at address ``start`` to ``out`` from column ``at`` on.

    Rows are dealt evenly to as few tiles as hold them, so that one row more never costs as much as a tile.
    """
    inputs, count = rows.shape[1], len(rows)
    tiles = (count + MOST_TILE_ROWS - 1) // MOST_TILE_ROWS
    for tile in range(tiles):
        row, last = tile * count // tiles, (tile + 1) * count // tiles
        if last - row == 6:
            _six(start, inputs, rows, row, out, at)
        elif last - row == 5:
            _five(start, inputs, rows, row, out, at)
        elif last - row == 4:
            _four(start, inputs, rows, row, out, at)
        elif last - row == 3:
            _three(start, inputs, rows, row, out, at)
        elif last - row == 2:
            _two(start, inputs, rows, row, out, at)
        else:
            _one(start, inputs, rows, row, out, at)


@fast
def accumulate(address: int, rows: Floats, out: Floats, first: int, last: int) -> None:
    """Add the products of ``rows`` [R, inputs] with blocks ``first`` to ``last - 1`` to ``out`` [R, outputs]."""
    for block in range(first, last):
        multiply_block(address + block * rows.shape[1] * BLOCK_BYTES, rows, out, block * BLOCK)


def few_rows(rows: Tensor, blocks: int, outputs: int, bias: Tensor | None, added: Tensor | None = None) -> Tensor:
    """``rows`` [R, inputs] times the weights at the address ``blocks``, plus the bias and ``added``: [R, outputs]."""
    out = torch.zeros(len(rows), outputs) if added is None else added.clone(memory_format=torch.contiguous_format)
    if bias is not None:
        out += bias
    given, result, count = rows.contiguous().numpy(), out.numpy(), outputs // BLOCK
    threads = threads_for(rows.shape[1] * outputs, WORTH_A_THREAD)
    shared(lambda i, n: accumulate(blocks, given, result, i * count // n, (i + 1) * count // n), threads)
    return out
