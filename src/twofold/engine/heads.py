"""The tokens of one KV head that lie in one block, read once for the whole group of its query heads.

What is read or gathered for a head is a vector as wide as the head, so that it stays in registers from token to token.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload
from numpy.typing import NDArray

from twofold.engine.prefetch import LINE_BYTES, SECOND, ask

Floats = NDArray[np.float32]
Stored = NDArray[np.float32] | NDArray[np.uint16]

ANY_ORDER = ("nnan", "ninf", "nsz", "contract", "reassoc")
FUSED = ("contract",)


def heed(
    query: Floats, item: int, first: int, keys: Stored, place: int, coming: int, offset: int, head: int, tokens: int,
    scale: np.float32, scores: Floats, at: int, group: int, width: int,
) -> None:  # fmt: skip
    """How much query heads ``first`` to ``first + group - 1`` of an item heed ``tokens`` tokens of a block.

    They are tokens ``offset``, ``offset + 1``, ... of block ``place``; scores[item, head, at], [at + 1], ... get the
    products with query [items, heads, width], scaled. ``coming`` is the block that will be read next.
    """
    read = _numbers(keys[place, offset : offset + tokens, head])
    for g in range(first, first + group):
        scores[item, g, at : at + tokens] = (read * query[item, g, :width]).sum(1) * scale


def gather(
    scores: Floats, item: int, first: int, values: Stored, place: int, coming: int, offset: int, head: int, tokens: int,
    out: Floats, at: int, group: int, width: int,
) -> None:  # fmt: skip
    """Add the values of those tokens, each times its score, to out [items, heads, width]."""
    read = _numbers(values[place, offset : offset + tokens, head])
    for g in range(first, first + group):
        out[item, g, :width] += (read * scores[item, g, at : at + tokens, None]).sum(0)


def _numbers(stored: Any) -> Any:
    """Stored numbers as float32; uint16 is the upper half of one, which is bf16."""
    return (stored.astype(np.uint32) << 16).view(np.float32) if stored.dtype == np.uint16 else stored


class _Emitter:
    """Loads and stores of vectors of ``width`` numbers, for one call of an intrinsic."""

    def __init__(self, context: Any, builder: Any, width: int) -> None:
        self.context, self.builder, self.width = context, builder, width
        self.lanes = ir.VectorType(ir.FloatType(), width)

    def integer(self, number: int) -> Any:
        return self.context.get_constant(types.intp, number)

    def plus(self, value: Any, number: Any) -> Any:
        return self.builder.add(value, self.integer(number) if isinstance(number, int) else number)

    def pointer(self, kind: Any, value: Any, *indices: Any) -> Any:
        array = self.context.make_array(kind)(self.context, self.builder, value)
        return cgutils.get_item_pointer(self.context, self.builder, kind, array, list(indices), wraparound=False)

    def stored(self, kind: Any, pointer: Any) -> Any:
        """The vector at ``pointer``, as float32."""
        if kind.dtype != types.uint16:
            return self.builder.load(self.builder.bitcast(pointer, self.lanes.as_pointer()), align=4)
        halves, whole = (ir.VectorType(ir.IntType(bits), self.width) for bits in (16, 32))
        half = self.builder.load(self.builder.bitcast(pointer, halves.as_pointer()), align=2)
        shift = ir.Constant(whole, [16] * self.width)
        return self.builder.bitcast(self.builder.shl(self.builder.zext(half, whole), shift), self.lanes)

    def sum(self, vector: Any) -> Any:
        form = ir.FunctionType(ir.FloatType(), [ir.FloatType(), self.lanes])
        name = f"llvm.vector.reduce.fadd.v{self.width}f32"
        function = cgutils.get_or_insert_function(self.builder.module, form, name)
        return self.builder.call(function, [ir.Constant(ir.FloatType(), 0.0), vector], fastmath=ANY_ORDER)

    def spread(self, number: Any) -> Any:
        """``number`` in every lane."""
        return spread(self.builder, number, self.lanes)

    def ask(self, kind: Any, pointer: Any) -> None:
        """Ask for the memory of the vector at ``pointer``."""
        ask(self.builder, pointer, -(-self.width * kind.dtype.bitwidth // 8 // LINE_BYTES), SECOND)


def spread(builder: Any, number: Any, lanes: Any) -> Any:
    """``number`` in every lane of a vector of the type ``lanes``."""
    nothing, whole = ir.Constant(lanes, ir.Undefined), ir.IntType(32)
    first = builder.insert_element(nothing, number, whole(0))
    return builder.shuffle_vector(first, nothing, ir.Constant(ir.VectorType(whole, lanes.count), [0] * lanes.count))


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _heed(
    typing_context: Any, query: Any, item: Any, first: Any, keys: Any, place: Any, coming: Any, offset: Any, head: Any,
    tokens: Any, scale: Any, scores: Any, at: Any, group: Any, width: Any,
) -> Any:  # fmt: skip
    if not isinstance(group, types.IntegerLiteral) or not isinstance(width, types.IntegerLiteral):
        return None
    signature = types.void(
        query, types.intp, types.intp, keys, types.intp, types.intp, types.intp, types.intp, types.intp, types.float32,
        scores, types.intp, group, width,
    )  # fmt: skip

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        query, item, first, keys, place, coming, offset, head, tokens, scale, scores, at, *_ = arguments
        query_kind, keys_kind, scores_kind = signature.args[0], signature.args[3], signature.args[10]
        vectors = _Emitter(context, builder, width.literal_value)
        zero = vectors.integer(0)
        heads = [vectors.plus(first, g) for g in range(group.literal_value)]
        asked = [vectors.stored(query_kind, vectors.pointer(query_kind, query, item, each, zero)) for each in heads]
        with cgutils.for_range(builder, tokens, intp=tokens.type) as loop:
            token, place_of = vectors.plus(offset, loop.index), vectors.plus(at, loop.index)
            vectors.ask(keys_kind, vectors.pointer(keys_kind, keys, coming, token, head, zero))
            key = vectors.stored(keys_kind, vectors.pointer(keys_kind, keys, place, token, head, zero))
            for each, numbers in zip(heads, asked, strict=True):
                product = vectors.sum(builder.fmul(numbers, key, flags=ANY_ORDER))
                target = vectors.pointer(scores_kind, scores, item, each, place_of)
                builder.store(builder.fmul(product, scale), target)
        return context.get_dummy_value()

    return signature, emit


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def _gather(
    typing_context: Any, scores: Any, item: Any, first: Any, values: Any, place: Any, coming: Any, offset: Any,
    head: Any, tokens: Any, out: Any, at: Any, group: Any, width: Any,
) -> Any:  # fmt: skip
    if not isinstance(group, types.IntegerLiteral) or not isinstance(width, types.IntegerLiteral):
        return None
    signature = types.void(
        scores, types.intp, types.intp, values, types.intp, types.intp, types.intp, types.intp, types.intp, out,
        types.intp, group, width,
    )  # fmt: skip

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        scores, item, first, values, place, coming, offset, head, tokens, out, at, *_ = arguments
        scores_kind, values_kind, out_kind = signature.args[0], signature.args[3], signature.args[9]
        vectors = _Emitter(context, builder, width.literal_value)
        zero = vectors.integer(0)
        heads = [vectors.plus(first, g) for g in range(group.literal_value)]
        places = [
            builder.bitcast(vectors.pointer(out_kind, out, item, each, zero), vectors.lanes.as_pointer())
            for each in heads
        ]
        totals = [cgutils.alloca_once_value(builder, builder.load(each, align=4)) for each in places]
        with cgutils.for_range(builder, tokens, intp=tokens.type) as loop:
            token, place_of = vectors.plus(offset, loop.index), vectors.plus(at, loop.index)
            vectors.ask(values_kind, vectors.pointer(values_kind, values, coming, token, head, zero))
            value = vectors.stored(values_kind, vectors.pointer(values_kind, values, place, token, head, zero))
            for each, total in zip(heads, totals, strict=True):
                score = vectors.spread(builder.load(vectors.pointer(scores_kind, scores, item, each, place_of)))
                product = builder.fmul(score, value, flags=FUSED)
                builder.store(builder.fadd(builder.load(total), product, flags=FUSED), total)
        for each, total in zip(places, totals, strict=True):
            builder.store(builder.load(total), each, align=4)
        return context.get_dummy_value()

    return signature, emit


@overload(heed, inline="always")  # type: ignore[untyped-decorator]
def _compiled_heed(
    query: Any, item: Any, first: Any, keys: Any, place: Any, coming: Any, offset: Any, head: Any, tokens: Any,
    scale: Any, scores: Any, at: Any, group: Any, width: Any,
) -> Any:  # fmt: skip
    def heeded(
        query: Any, item: Any, first: Any, keys: Any, place: Any, coming: Any, offset: Any, head: Any, tokens: Any,
        scale: Any, scores: Any, at: Any, group: Any, width: Any,
    ) -> None:  # fmt: skip
        _heed(query, item, first, keys, place, coming, offset, head, tokens, scale, scores, at, group, width)

    return heeded


@overload(gather, inline="always")  # type: ignore[untyped-decorator]
def _compiled_gather(
    scores: Any, item: Any, first: Any, values: Any, place: Any, coming: Any, offset: Any, head: Any, tokens: Any,
    out: Any, at: Any, group: Any, width: Any,
) -> Any:  # fmt: skip
    def gathered(
        scores: Any, item: Any, first: Any, values: Any, place: Any, coming: Any, offset: Any, head: Any, tokens: Any,
        out: Any, at: Any, group: Any, width: Any,
    ) -> None:  # fmt: skip
        _gather(scores, item, first, values, place, coming, offset, head, tokens, out, at, group, width)

    return gathered
