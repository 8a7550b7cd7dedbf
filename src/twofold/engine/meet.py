"""Where the threads of one compiled pass wait for each other: a counter, spun on, then yielded to others."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

from twofold.engine.fast import fast

SPINS = 2000
"""Looks at the counter before the core is offered to others, some microseconds."""

_yield = types.ExternalFunction("sched_yield", types.int32())


def _pointer(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    array = context.make_array(kind)(context, builder, value)
    zero = context.get_constant(types.int64, 0)
    return cgutils.get_item_pointer(context, builder, kind, array, [zero], wraparound=False)


@intrinsic  # type: ignore[untyped-decorator]
def _arrive(typing_context: Any, counter: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0])
        builder.atomic_rmw("add", pointer, ir.IntType(64)(1), "seq_cst")
        return context.get_dummy_value()

    return types.void(counter), emit


@intrinsic  # type: ignore[untyped-decorator]
def _arrived(typing_context: Any, counter: Any) -> Any:
    def emit(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = _pointer(context, builder, signature.args[0], arguments[0])
        return builder.load_atomic(pointer, "acquire", 8)

    return types.int64(counter), emit


@fast
def meet(counter: Any, times: int, threads: int) -> int:
    """Wait until all ``threads`` have been here ``times`` + 1 times; gives that number, for the next call.

    ``counter`` is int64[1], 0 before the first.
    """
    if threads > 1:
        _arrive(counter)
        spins = 0
        while _arrived(counter) < (times + 1) * threads:
            spins += 1
            if spins > SPINS:
                _yield()
    return times + 1
