"""Small functions which generated code calls: checked conversions, ids of targets, logs."""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from vertexsdk.arrays.jit import njit

__all__ = ["as_bool", "as_float", "as_int", "log_change", "log_emit", "prefetch", "target_id"]


def as_int(x: Any) -> Any:
    """Return an int field's new value; a float is refused, not truncated."""
    if isinstance(x, float) or getattr(getattr(x, "dtype", None), "kind", "") == "f":
        raise TypeError(f"a float ({x!r}) is assigned to an int; use int(...)")
    return x


def as_float(x: Any) -> Any:
    """Return a float field's or message's new value."""
    return float(x)


def as_bool(x: Any) -> Any:
    """Return a bool field's new value; a number is refused."""
    if not isinstance(x, bool) and getattr(getattr(x, "dtype", None), "kind", "") != "b":
        raise TypeError(f"{x!r} is assigned to a bool; compare it first")
    return x


@overload(as_int)
def _as_int(x):  # type: ignore[no-untyped-def]
    if isinstance(x, (types.Integer, types.Boolean, types.IntegerLiteral, types.BooleanLiteral)):
        return lambda x: x
    if isinstance(x, types.Array):
        return lambda x: x
    raise TypingError(f"a {x} is assigned to an int; use int(...)")


@overload(as_float)
def _as_float(x):  # type: ignore[no-untyped-def]
    if isinstance(x, types.Array):
        return lambda x: x
    return lambda x: float(x)


@overload(as_bool)
def _as_bool(x):  # type: ignore[no-untyped-def]
    if isinstance(x, (types.Boolean, types.BooleanLiteral)):
        return lambda x: x
    raise TypingError(f"a {x} is assigned to a bool; compare it first")


@intrinsic
def prefetch(typing_context, array, k):  # type: ignore[no-untyped-def]
    """Have the processor fetch array[k], which is read soon; any k does no harm."""

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        data = cgutils.create_struct_proxy(array)(context, builder, arguments[0]).data
        place = builder.bitcast(builder.gep(data, [arguments[1]]), cgutils.voidptr_t)
        number = ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        function = builder.module.declare_intrinsic("llvm.prefetch", (place.type,), kind)
        builder.call(function, [place, *(number(x) for x in (0, 3, 1))])  # to read, and keep, data
        return context.get_dummy_value()

    return types.void(array, k), generate


@njit
def target_id(e, target, ids, ghost_ids):  # type: ignore[no-untyped-def]
    """Return the id of the vertex at the end of edge e."""
    s = target[e]
    n = ids.shape[0]
    if s < n:
        return ids[s]
    return ghost_ids[s - n]


@njit
def log_emit(i, vertex, x, LK, LV, LI, LX, LW, LN):  # type: ignore[no-untyped-def]
    """Note a message to a vertex by id. LN counts on past the end: the caller grows and repeats."""
    k = LN[0]
    if k < LK.shape[0]:
        LK[k] = 0
        LV[k] = i
        LI[k] = vertex
        LX[k] = x
    LN[0] = k + 1


@njit
def log_change(i, what, vertex, value, LK, LV, LI, LX, LW, LN):  # type: ignore[no-untyped-def]
    """Note a target added (1; without a value 3) or removed (2)."""
    k = LN[0]
    if k < LK.shape[0]:
        LK[k] = what
        LV[k] = i
        LI[k] = vertex
        LW[k] = value
    LN[0] = k + 1
