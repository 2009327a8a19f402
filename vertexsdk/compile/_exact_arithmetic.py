"""The arithmetic of compiled task elements, which is Python's.

Ints of Python have any size, division by zero raises, and ints are compared with floats exactly.
What has the same result on int64 and IEEE floats is computed. Anything else raises, whereupon
Python runs that call; what is raised here is never shown.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import types
from numba.extending import intrinsic

from vertexsdk.arrays.jit import njit

_INTS = np.int64(1 << 53)  # up to here ints are floats exactly; the next one is rounded to it
_WHOLE = float(_INTS)
_END = 2.0**63
INT_MIN = np.int64(-(1 << 63))  # Numba takes the literal for a uint64


def _checked(operation: str) -> Any:
    """Make an operation of ints that raises where the result has more than 64 bits."""

    @intrinsic
    def apply(typing_context, a, b):  # type: ignore[no-untyped-def]
        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            both = getattr(builder, operation)(*arguments)
            with builder.if_then(builder.extract_value(both, 1), likely=False):
                context.call_conv.return_user_exc(builder, ArithmeticError, ("64 bits",))
            return builder.extract_value(both, 0)

        return types.int64(types.int64, types.int64), generate

    return apply


add = _checked("sadd_with_overflow")
sub = _checked("ssub_with_overflow")
mul = _checked("smul_with_overflow")


@njit
def leave() -> None:
    """End the kernel: Python runs this call."""
    raise ArithmeticError("this call is run by Python")


@njit
def exact(x: Any) -> float:
    """Return an int as a float that compares as it does."""
    if not -_INTS <= x <= _INTS:
        raise ArithmeticError("no float is equal to the int")
    return float(x)


@njit
def divide(a: Any, b: Any) -> float:
    """Return `a / b` of floats."""
    if b == 0.0:
        raise ArithmeticError("division by zero")
    return a / b  # type: ignore[no-any-return]


@njit
def floor_divide(a: Any, b: Any) -> int:
    """Return `a // b` of ints."""
    if b == 0 or (b == -1 and a == INT_MIN):
        raise ArithmeticError("division by zero")
    return a // b  # type: ignore[no-any-return]


@njit
def modulo(a: Any, b: Any) -> int:
    """Return `a % b` of ints."""
    if b == 0:
        raise ArithmeticError("division by zero")
    return a % b if b != -1 else a - a  # type: ignore[no-any-return]


@njit
def float_modulo(a: Any, b: Any) -> float:
    """Return `a % b` of floats, as CPython computes it."""
    if b == 0.0:
        raise ArithmeticError("division by zero")
    rest = np.fmod(a, b)
    if rest == 0.0:
        return math.copysign(0.0, b)
    return rest + b if (b < 0.0) != (rest < 0.0) else rest  # type: ignore[no-any-return]


@njit
def float_floor_divide(a: Any, b: Any) -> float:
    """Return `a // b` of floats, as CPython computes it."""
    if b == 0.0:
        raise ArithmeticError("division by zero")
    rest = np.fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    rounded = float(math.floor(quotient)) if abs(quotient) < _WHOLE else quotient
    return rounded + 1.0 if quotient - rounded > 0.5 else rounded


@njit
def power(a: int, b: int) -> int:
    """Return `a ** b` of ints."""
    if b < 0:
        raise ArithmeticError("a negative power of an int is a float")
    result = 1
    while b > 0:
        if b & 1:
            result = mul(result, a)
        b >>= 1
        if b > 0:
            a = mul(a, a)
    return result


@njit
def left_shift(a: int, b: int) -> int:
    """Return `a << b`."""
    if not 0 <= b < 63 or (a << b) >> b != a:
        raise ArithmeticError("64 bits")
    return a << b


@njit
def right_shift(a: int, b: int) -> int:
    """Return `a >> b`."""
    if b < 0:
        raise ArithmeticError("a negative shift")
    return a >> min(b, 63)


@njit
def to_whole(x: float) -> int:
    """Return `int(x)` of a float."""
    if not -_END <= x < _END:
        raise ArithmeticError("64 bits")
    return int(x)


@njit
def square_root(x: float) -> float:
    """Return `math.sqrt(x)`."""
    if x < 0.0:
        raise ArithmeticError("the root of a negative number")
    return math.sqrt(x)


@njit
def least(a: Any, b: Any) -> Any:
    """Return `min(a, b)` of one type."""
    return b if b < a else a


@njit
def most(a: Any, b: Any) -> Any:
    """Return `max(a, b)` of one type."""
    return b if b > a else a


@njit
def chosen(first: bool, a: Any, b: Any) -> Any:
    """Return `a` or `b`, both of which have been computed."""
    return a if first else b


@njit
def value_of(x: Any, there: bool) -> Any:
    """Return a value that may be None as one that is not."""
    if not there:
        raise ArithmeticError("None")
    return x
