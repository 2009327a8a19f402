"""Small functions which generated code calls: checked conversions, ids of targets, logs.

Those of arithmetic define what Numba does not; interpreted methods call them as Python.
"""

from __future__ import annotations

import builtins
import hashlib
import math
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.cpython.tupleobj import static_getitem_tuple
from numba.extending import lower_builtin, overload, type_callable

from vertexsdk.arrays.jit import njit
from vertexsdk.program.algebra import to_int64, wrapped


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


_WHOLE = (types.Integer, types.Boolean, types.IntegerLiteral, types.BooleanLiteral)
_MASK = (1 << 64) - 1
_END = 2.0**63  # the first float above all int64


def as_whole(x: Any) -> Any:
    """Return `int(x)`; NaN, infinities and floats beyond int64 raise OverflowError."""
    if isinstance(x, (float, np.floating)) and not -_END <= x < _END:
        raise OverflowError("a float that is NaN, infinite or too large becomes no int")
    return to_int64(int(x))


@overload(as_whole)
def _as_whole(x):  # type: ignore[no-untyped-def]
    if not isinstance(x, types.Float):
        return lambda x: int(x)

    def check(x):  # type: ignore[no-untyped-def]
        if not (-_END <= x < _END):
            raise OverflowError("a float that is NaN, infinite or too large becomes no int")
        return int(x)

    return check


def _to_whole(name: str, scalar: Callable[[float], Any], ufunc: Any) -> Callable[[Any], Any]:
    """Make a function that rounds a float to an int, and leaves other numbers."""

    def apply(x: Any) -> Any:
        if isinstance(x, (float, np.floating)):
            return as_whole(float(ufunc(x)))
        return to_int64(int(scalar(x)))

    def compiled(x):  # type: ignore[no-untyped-def]
        if isinstance(x, types.Float):
            return lambda x: as_whole(ufunc(x))
        return lambda x: int(x)

    apply.__name__ = apply.__qualname__ = name
    overload(apply)(compiled)
    return apply


floor = _to_whole("floor", math.floor, np.floor)
ceil = _to_whole("ceil", math.ceil, np.ceil)
trunc = _to_whole("trunc", math.trunc, np.trunc)
rounded = _to_whole("rounded", round, np.rint)


def _wrapping(instruction: str, operation: Callable[[Any, Any], Any]) -> Any:
    """Make an operation of ints that wraps around: Numba's own lets LLVM assume it does not.

    It is typed and lowered in place, as operators are, because compiling an overload takes longer.
    """

    def apply(a: Any, b: Any) -> Any:
        return wrapped(operation(a, b))

    apply.__name__ = operation.__name__  # in messages of the compiler

    @type_callable(apply)
    def of_types(context):  # type: ignore[no-untyped-def]
        def result(a, b):  # type: ignore[no-untyped-def]
            if isinstance(a, _WHOLE) and isinstance(b, _WHOLE):
                return types.int64
            return context.resolve_function_type(operation, (a, b), {}).return_type

        return result

    @lower_builtin(apply, types.Any, types.Any)
    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        integers = all(isinstance(t, _WHOLE) for t in signature.args)
        resolved = None if integers else context.typing_context.resolve_function_type(
            operation, signature.args, {})  # fmt: skip
        wanted = (types.int64, types.int64) if resolved is None else resolved.args
        a, b = map(partial(context.cast, builder), arguments, signature.args, wanted)
        if resolved is None:
            return getattr(builder, instruction)(a, b)
        return context.get_function(operation, resolved)(builder, (a, b))

    return apply


add = _wrapping("add", operator.add)
sub = _wrapping("sub", operator.sub)
mul = _wrapping("mul", operator.mul)


def floordiv(a: Any, b: Any) -> Any:
    """Return `a // b`; INT_MIN // -1 wraps around."""
    return wrapped(a // b)


@overload(floordiv)
def _floordiv(a, b):  # type: ignore[no-untyped-def]
    if isinstance(a, _WHOLE) and isinstance(b, _WHOLE):
        return lambda a, b: sub(0, a) if b == -1 else a // b
    return lambda a, b: a // b


def pow(a: Any, b: Any) -> Any:
    """Return `a ** b`: of ints an int, and a negative power of an int raises."""
    if isinstance(a, int) and isinstance(b, int):
        if b < 0:
            raise ArithmeticError("a negative power of an int; make it a float")
        return to_int64(builtins.pow(a, b, 1 << 64))
    try:
        x = a**b
    except (OverflowError, ZeroDivisionError):
        x = math.inf if a > 0 or b % 2 != 1 else math.copysign(math.inf, a)
    return math.nan if isinstance(x, complex) else x


@overload(pow)
def _pow(a, b):  # type: ignore[no-untyped-def]
    if isinstance(a, _WHOLE) and isinstance(b, _WHOLE):

        def integer_power(a, b):  # type: ignore[no-untyped-def]
            if b < 0:
                raise ArithmeticError("a negative power of an int; make it a float")
            result, square = 1, mul(a, 1)
            while b > 0:
                if b & 1:
                    result = mul(result, square)
                square = mul(square, square)
                b >>= 1
            return result

        return integer_power
    return lambda a, b: a**b


def lshift(a: Any, b: Any) -> Any:
    """Return `a << b` of ints: 0 once all bits are gone; a negative shift raises."""
    if isinstance(b, int) and b < 0:
        raise ArithmeticError("a shift by a negative number")
    return to_int64(a << min(b, 64)) if type(b) is int and isinstance(a, int) else a << b


@overload(lshift)
def _lshift(a, b):  # type: ignore[no-untyped-def]
    if not (isinstance(a, _WHOLE) and isinstance(b, _WHOLE)):
        return lambda a, b: a << b

    def shift(a, b):  # type: ignore[no-untyped-def]
        if b < 0:
            raise ArithmeticError("a shift by a negative number")
        return a << b if b < 64 else 0

    return shift


def rshift(a: Any, b: Any) -> Any:
    """Return `a >> b` of ints: 0 or -1 once all bits are gone; a negative shift raises."""
    if isinstance(b, int) and b < 0:
        raise ArithmeticError("a shift by a negative number")
    return a >> b


@overload(rshift)
def _rshift(a, b):  # type: ignore[no-untyped-def]
    if not (isinstance(a, _WHOLE) and isinstance(b, _WHOLE)):
        return lambda a, b: a >> b

    def shift(a, b):  # type: ignore[no-untyped-def]
        if b < 0:
            raise ArithmeticError("a shift by a negative number")
        return a >> min(b, 63)

    return shift


def item(x: Any, k: Any) -> Any:
    """Return `x[k]`: beyond the ends of an array it raises IndexError, as in Python."""
    return x[k]


def index(x: Any, k: Any) -> Any:
    """Return `k` as what `x[...] = y` takes; beyond the ends of an array it raises IndexError."""
    return k


@type_callable(item)
def _item_type(context):  # type: ignore[no-untyped-def]
    def result(x, k):  # type: ignore[no-untyped-def]
        if _is(x, types.BaseTuple) and _is(k, types.IntegerLiteral):
            inside = -len(x.types) <= k.literal_value < len(x.types)
            return x.types[k.literal_value] if inside else None
        return context.resolve_function_type(operator.getitem, (x, k), {}).return_type

    return result


@lower_builtin(item, types.Any, types.Any)
def _item(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    x, k = signature.args
    if _is(x, types.BaseTuple) and _is(k, types.IntegerLiteral):
        static = signature.return_type(x, k)
        return static_getitem_tuple(context, builder, static, (arguments[0], k.literal_value))
    kind = _index_kind(x, k)
    at = _checked(context, builder, x, k, *arguments)
    getitem = context.typing_context.resolve_function_type(operator.getitem, (x, kind), {})
    given = map(partial(context.cast, builder), (arguments[0], at), (x, kind), getitem.args)
    return context.get_function(operator.getitem, getitem)(builder, tuple(given))


@type_callable(index)
def _index_type(context):  # type: ignore[no-untyped-def]
    return lambda x, k: _index_kind(x, k)


@lower_builtin(index, types.Any, types.Any)
def _index(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return _checked(context, builder, *signature.args, *arguments)


def _is(kind: Any, of: Any) -> bool:
    """As `isinstance`, for types that Numba declares without their attributes."""
    return isinstance(kind, of)


def _index_kind(x: Any, k: Any) -> Any:
    """The type of an index of `x` once it is checked: unsigned, so that it is not looked at again.

    Lists, tuples and strings check theirs themselves.
    """
    if not isinstance(x, types.Array):
        return k
    if _is(k, types.BaseTuple):
        return types.BaseTuple.from_types([_index_kind(x, part) for part in k.types])
    return types.uintp if isinstance(k, types.Integer) else k


def _checked(context: Any, builder: Any, x: Any, k: Any, array: Any, at: Any) -> Any:
    if not isinstance(x, types.Array):
        return at
    shape = cgutils.create_struct_proxy(x)(context, builder, array).shape
    lengths = cgutils.unpack_tuple(builder, shape, x.ndim)
    if not _is(k, types.BaseTuple):
        return _inside(context, builder, k, at, lengths[0])
    parts, axis = [], 0
    for number, part in enumerate(k.types):
        value = builder.extract_value(at, number)
        if isinstance(part, types.EllipsisType):
            axis = x.ndim - sum(p is not types.none for p in k.types[number + 1 :])
        elif part is not types.none:
            value = _inside(context, builder, part, value, lengths[axis])
            axis += 1
        parts.append(value)
    return context.make_tuple(builder, _index_kind(x, k), parts)


def _inside(context: Any, builder: Any, k: Any, at: Any, length: Any) -> Any:
    """Return one index of an axis, from its start; raise IndexError if it is out of range."""
    if _is(k, types.Integer):
        fixed = context.cast(builder, at, k, types.intp)
        if k.signed:
            below = builder.icmp_signed("<", fixed, fixed.type(0))
            fixed = builder.select(below, builder.add(fixed, length), fixed)
        outside = builder.icmp_unsigned(">=", fixed, length)
    elif isinstance(k, types.Array):
        fits = _fits_mask if isinstance(k.dtype, types.Boolean) else _fits
        signature = types.boolean(k, types.intp)
        fixed = at
        outside = builder.not_(context.compile_internal(builder, fits, signature, (at, length)))
    else:
        return at
    with builder.if_then(outside, likely=False):
        message = "an index is out of range"
        context.call_conv.return_user_exc(builder, IndexError, (message,))
    return fixed


def _fits(indexes, length):  # type: ignore[no-untyped-def]
    fit = True
    for k in indexes.flat:
        fit &= -length <= k < length
    return fit


def _fits_mask(mask, length):  # type: ignore[no-untyped-def]
    return mask.size == length or mask.size == 0  # as in NumPy


def random_unit(seed: int, key: int, step: int, call: int) -> float:
    """Return a float in [0, 1) that follows from four numbers alone (SplitMix64's mixer)."""
    x = seed
    for part in (key, step, call):
        x = (x + part) * 0x9E3779B97F4A7C15 + 0x9E3779B97F4A7C15 & _MASK
        x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9 & _MASK
        x = (x ^ x >> 27) * 0x94D049BB133111EB & _MASK
        x ^= x >> 31
    return (x >> 11) * 2.0**-53


@overload(random_unit)
def _random_unit(seed, key, step, call):  # type: ignore[no-untyped-def]
    u = np.uint64

    def unit(seed, key, step, call):  # type: ignore[no-untyped-def]
        x = u(seed)
        for part in (u(key), u(step), u(call)):
            x = (x + part) * u(0x9E3779B97F4A7C15) + u(0x9E3779B97F4A7C15)
            x = (x ^ (x >> u(30))) * u(0xBF58476D1CE4E5B9)
            x = (x ^ (x >> u(27))) * u(0x94D049BB133111EB)
            x ^= x >> u(31)
        return float(x >> u(11)) * 2.0**-53

    return unit


@njit
def draw(seed, key, step, calls, i):  # type: ignore[no-untyped-def]
    """Return the next random number of vertex i in this step; `calls` counts them."""
    calls[i] += 1
    return random_unit(seed, key, step, calls[i])


def random_step(method: str, iteration: int) -> int:
    """Return the number of a method in an iteration."""
    places = {"init": 0, "gather": 1, "next_round": 1, "scatter": 2}
    return 3 * iteration + places[method]


def random_key(vertex_id: Any) -> int:
    """Return what random numbers of a vertex depend on: its id, or a digest of a string id."""
    if isinstance(vertex_id, str):
        digest = hashlib.blake2b(vertex_id.encode("utf-8", "surrogatepass"), digest_size=8)
        return int.from_bytes(digest.digest(), "little", signed=True)
    return int(vertex_id)


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
