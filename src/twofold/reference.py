"""Passing state to compiled code by reference: one pointer a call, where a NamedTuple would copy every array.

Attribute access reads the same (``s.requests[i]``), so the functions stay ordinary Python; with NUMBA_DISABLE_JIT=1
they get the NamedTuple itself. A reference owns nothing and counts nothing: whoever makes one keeps the NamedTuple
alive, and a reference is made again when an array of the tuple is replaced.
"""

import hashlib
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    intrinsic,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

WORDS_A_FIELD = 32


class Reference(types.Type):  # type: ignore[misc]
    """Numba type of a reference to a NamedTuple with these fields."""

    def __init__(self, fields: tuple[tuple[str, Any], ...]) -> None:
        self.fields = dict(fields)
        digest = hashlib.sha256(repr(fields).encode()).hexdigest()[:12]
        super().__init__(name=f"Reference<{digest}>")


register_model(Reference)(models.OpaqueModel)


class Handle:
    """A reference as Python holds it: its type, the memory that it points to, and what must stay alive."""

    def __init__(self, kind: Reference, kept: Any) -> None:
        self.kind, self.kept = kind, kept
        self.memory = np.zeros(len(kind.fields) * WORDS_A_FIELD, np.int64)
        self.address = int(self.memory.ctypes.data)


def reference_type(**fields: Any) -> Reference:
    """Type of a reference whose fields have the Numba types of the example values ``fields``."""
    kinds = {n: v if isinstance(v, types.Type) else numba.typeof(v) for n, v in fields.items()}
    return Reference(tuple(kinds.items()))


@typeof_impl.register(Handle)  # type: ignore[untyped-decorator]
def _typeof_handle(handle: Handle, _context: Any) -> Reference:
    return handle.kind


@unbox(Reference)  # type: ignore[untyped-decorator]
def _unbox_handle(kind: Reference, handle: Any, c: Any) -> Any:
    number = c.pyapi.object_getattr_string(handle, "address")
    address = c.pyapi.long_as_longlong(number)
    c.pyapi.decref(number)
    pointer = c.builder.inttoptr(address, c.context.get_value_type(kind))
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


def _field_pointer(context: Any, builder: Any, kind: Reference, pointer: Any, name: str) -> Any:
    value_type = context.get_value_type(kind.fields[name])
    start = builder.ptrtoint(pointer, cgutils.intp_t)
    offset = list(kind.fields).index(name) * WORDS_A_FIELD * 8
    return builder.inttoptr(builder.add(start, ir.Constant(cgutils.intp_t, offset)), value_type.as_pointer())


@infer_getattr
class _ReferenceAttribute(AttributeTemplate):  # type: ignore[misc]
    key = Reference

    def generic_resolve(self, kind: Reference, name: str) -> Any:
        return kind.fields.get(name)


@lower_getattr_generic(Reference)  # type: ignore[untyped-decorator]
def _read_field(context: Any, builder: Any, kind: Reference, pointer: Any, name: str) -> Any:
    value = builder.load(_field_pointer(context, builder, kind, pointer, name))
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    if isinstance(kind.fields[name], types.Array):
        return _without_owner(context, builder, kind.fields[name], value)
    return value


def _without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    array = context.make_array(kind)(context, builder, value)
    array.meminfo = cgutils.get_null_value(array.meminfo.type)
    array.parent = cgutils.get_null_value(array.parent.type)
    return array._getvalue()


@intrinsic(prefer_literal=True)  # type: ignore[untyped-decorator]
def write_field(typing_context: Any, reference: Any, name: Any, value: Any) -> Any:
    """Set field ``name`` (a literal) of a new reference; an array is stored without its owner."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind, stored = signature.args[0], arguments[2]
        if isinstance(signature.args[2], types.Array):
            stored = _without_owner(context, builder, signature.args[2], stored)
        pointer = _field_pointer(context, builder, kind, arguments[0], signature.args[1].literal_value)
        builder.store(stored, pointer)
        return context.get_dummy_value()

    return types.void(reference, name, value), generate
