"""Multiplying few rows by weights that lie in blocks of outputs, as oneDNN packs float32 for a CPU with AVX-512.

Block b holds the weights of outputs 64 b to 64 b + 63, input by input, so that 64 sums fit in registers while the
weights stream by once. A layout is never assumed: ``blocked`` looks at the memory.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

import numba
import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from twofold.engine.fast import fast
from twofold.engine.heads import spread
from twofold.engine.prefetch import LINE_BYTES, SECOND, ask
from twofold.engine.shared import shared, threads_for

Floats = NDArray[np.float32]

BLOCK = 64
"""Outputs of a block."""
BLOCK_BYTES = 4 * BLOCK
"""Bytes of the weights of one input in a block."""
AHEAD = 32
"""Inputs between the weights that are multiplied and those that are asked for, 8 KiB."""
NOWHERE = 0
"""The address of what is not there."""
ORDERED = ("contract",)
"""Products and sums may be fused, but not reordered: a row's numbers do not depend on its batch mates."""
FEW_ROWS = 4
"""So many are worth a pass over blocks; more are multiplied as a matrix."""
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

    @intrinsic  # type: ignore[untyped-decorator]
    def tile(typing_context: Any, address: Any, inputs: Any, rows: Any, row: Any, out: Any, at: Any) -> Any:
        signature = types.void(types.int64, types.int64, rows, types.int64, out, types.int64)

        def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            start, inputs, rows, row, out, at = arguments
            lanes = ir.VectorType(ir.FloatType(), BLOCK)

            def place(kind: Any, value: Any, step: int, column: Any) -> Any:
                array = context.make_array(kind)(context, builder, value)
                which = builder.add(row, context.get_constant(types.int64, step))
                return cgutils.get_item_pointer(context, builder, kind, array, [which, column], wraparound=False)

            zero = context.get_constant(types.int64, 0)
            given = [place(signature.args[2], rows, step, zero) for step in range(count)]
            sums = [
                builder.bitcast(place(signature.args[4], out, step, at), lanes.as_pointer()) for step in range(count)
            ]
            weights = builder.inttoptr(start, lanes.as_pointer())
            totals = [cgutils.alloca_once_value(builder, builder.load(each, align=4)) for each in sums]
            with cgutils.for_range(builder, inputs) as loop:
                weight = builder.load(builder.gep(weights, [loop.index]), align=4)
                later = builder.add(loop.index, context.get_constant(types.int64, AHEAD))
                ask(builder, builder.gep(weights, [later]), BLOCK_BYTES // LINE_BYTES, SECOND)
                for numbers, total in zip(given, totals, strict=True):
                    factor = spread(builder, builder.load(builder.gep(numbers, [loop.index])), lanes)
                    product = builder.fmul(factor, weight, flags=ORDERED)
                    builder.store(builder.fadd(builder.load(total), product, flags=ORDERED), total)
            for each, total in zip(sums, totals, strict=True):
                builder.store(builder.load(total), each, align=4)
            return context.get_dummy_value()

        return signature, emit

    return tile


_one, _two, _four = _tile(1), _tile(2), _tile(4)


@fast
def accumulate(address: int, rows: Floats, out: Floats, first: int, last: int) -> None:
    """Add the products of ``rows`` [R, inputs] with blocks ``first`` to ``last - 1`` to ``out`` [R, outputs]."""
    inputs = rows.shape[1]
    for block in range(first, last):
        start, row = address + block * inputs * BLOCK_BYTES, 0
        while row + 4 <= len(rows):
            _four(start, inputs, rows, row, out, block * BLOCK)
            row += 4
        if row + 2 <= len(rows):
            _two(start, inputs, rows, row, out, block * BLOCK)
            row += 2
        if row < len(rows):
            _one(start, inputs, rows, row, out, block * BLOCK)


def few_rows(rows: Tensor, blocks: int, outputs: int, bias: Tensor | None, added: Tensor | None = None) -> Tensor:
    """``rows`` [R, inputs] times the weights at the address ``blocks``, plus the bias and ``added``: [R, outputs]."""
    out = torch.zeros(len(rows), outputs) if added is None else added.clone(memory_format=torch.contiguous_format)
    if bias is not None:
        out += bias
    given, result, count = rows.contiguous().numpy(), out.numpy(), outputs // BLOCK
    threads = threads_for(rows.shape[1] * outputs, WORTH_A_THREAD)
    shared(lambda i, n: accumulate(blocks, given, result, i * count // n, (i + 1) * count // n), threads)
    return out
