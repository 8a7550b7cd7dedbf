"""Asking a CPU for memory that a compiled loop will read soon.

Blocks of a KV pool lie anywhere, so the hardware cannot guess which one comes next; the block table knows.
"""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

LINE_BYTES = 64
"""Bytes that one request brings."""

READ, KEEP, DATA = 0, 3, 1


def prefetch(stored: Any, place: int, offset: int, head: int, number: int) -> None:
    """Ask for the memory line of ``stored[place, offset, head, number]``; without a compiler, nothing."""


@intrinsic  # type: ignore[untyped-decorator]
def _line(typing_context: Any, stored: Any, place: Any, offset: Any, head: Any, number: Any) -> Any:
    signature = types.void(stored, place, offset, head, number)

    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, *index_kinds = signature.args
        indices = [context.cast(builder, *pair, types.intp) for pair in zip(arguments[1:], index_kinds, strict=True)]
        array = context.make_array(kind)(context, builder, arguments[0])
        pointer = cgutils.get_item_pointer(context, builder, kind, array, indices, wraparound=False)
        address, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
        form = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
        function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
        builder.call(function, [builder.bitcast(pointer, address), flag(READ), flag(KEEP), flag(DATA)])
        return context.get_dummy_value()

    return signature, emit


@overload(prefetch, inline="always")  # type: ignore[untyped-decorator]
def _compiled_prefetch(stored: Any, place: Any, offset: Any, head: Any, number: Any) -> Any:
    def ask(stored: Any, place: Any, offset: Any, head: Any, number: Any) -> None:
        _line(stored, place, offset, head, number)

    return ask
