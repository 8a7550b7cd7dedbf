"""Asking a CPU for memory that a compiled loop will read soon.

Blocks of a KV pool lie anywhere, so the hardware cannot guess which one comes next; the block table knows. And where
there is much to compute for each weight, its own guesses come too late.
"""

from typing import Any

from llvmlite import ir
from numba.core import cgutils

LINE_BYTES = 64
"""Bytes that one request brings."""
READ, DATA = 0, 1
NEAREST, SECOND = 3, 2
"""The cache that memory is brought to: the first level, or the second, which holds more."""


def ask(builder: Any, pointer: Any, lines: int, cache: int = NEAREST) -> None:
    """Emit requests for ``lines`` lines of memory from ``pointer`` on, which need not be memory that is there."""
    address, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    form = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
    function = cgutils.get_or_insert_function(builder.module, form, "llvm.prefetch.p0")
    start = builder.bitcast(pointer, address)
    for line in range(lines):
        builder.call(function, [builder.gep(start, [flag(LINE_BYTES * line)]), flag(READ), flag(cache), flag(DATA)])
