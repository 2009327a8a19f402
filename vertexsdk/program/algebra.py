"""Algebras of messages: their values, and how messages to one vertex become one value.

An `Algebra` is a commutative monoid over a fixed type: `combine` is associative and
commutative, `identity` is the value of no message. The engine uses its laws:

- with an `inverse` that is exact (Sum of ints) a changed message is applied as a difference,
- an ordered one (Min, Max) ignores a message that is not better,
- `Latest` is not combined at all: `gather` sees the last message of every producer.
"""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable
from typing import Any

import numpy as np

from vertexsdk.errors import ProgramError

inf = math.inf
INT_MAX = int(np.iinfo(np.int64).max)
INT_MIN = int(np.iinfo(np.int64).min)


def to_int64(x: int) -> int:
    """Return an int as int64 arithmetic has it, which wraps around.

    >>> to_int64(INT_MAX + 1) == INT_MIN
    True
    """
    return x if INT_MIN <= x <= INT_MAX else (x + (1 << 63)) % (1 << 64) - (1 << 63)


def wrapped(x: Any) -> Any:
    """Return an int as `to_int64` does, and every other value (a bool too) as it is."""
    return x if type(x) is not int or INT_MIN <= x <= INT_MAX else to_int64(x)


class VertexId(int):
    """The type of a field, parameter or message that is a vertex id (int64 or string).

    >>> Min(VertexId).dtype
    dtype('int64')
    """


class Algebra:
    """The way in which the messages to one vertex are combined.

    Args:
        type: `int` (int64), `float` (float64), `bool`, `VertexId`, or any class; with a class
            that is none of these the program runs interpreted.
        combine: `combine(a, b)`, associative and commutative; checked on samples here.
        identity: `combine(a, identity) == a`; to send it withdraws a message.
        inverse: `combine(a, inverse(a)) == identity`, where there is one.
        size: length of a vector message, combined element by element; None for a scalar.
        samples: values on which the laws are checked; by default some of int, float and bool.

    Raises:
        ProgramError: a law does not hold on the samples, or `size` is not a positive int.

    Example: the product of all messages.

    >>> product = Algebra(float, combine=lambda a, b: a * b, identity=1.0)
    """

    kind = "user"

    def __init__(
        self,
        type: type,
        *,
        combine: Callable[[Any, Any], Any],
        identity: Any,
        inverse: Callable[[Any], Any] | None = None,
        size: int | None = None,
        samples: list[Any] | None = None,
    ) -> None:
        if size is not None and (not isinstance(size, int) or size < 1):
            raise ProgramError(f"{self}: size must be a positive int, not {size!r}")
        self.type = type
        self.combine = combine
        self.identity = identity
        self.inverse = inverse
        self.size = size
        if self.kind == "user":
            _check_laws(self, samples)
        elif self.kind in ("sum", "min", "max") and self.dtype.kind not in "if":
            name = getattr(type, "__name__", type)
            raise ProgramError(
                f"{type_(self).__name__}({name}): takes int, float or VertexId; "
                "for other types use Algebra(type, combine=..., identity=...) or Latest(type)"
            )

    @property
    def dtype(self) -> np.dtype[Any]:
        """The NumPy type of one message element; `object` where it is not a number."""
        return dtype_of(self.type)

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one message: () or (size,)."""
        return () if self.size is None else (self.size,)

    @property
    def column_dtype(self) -> np.dtype[Any]:
        """The NumPy type of one message; an array of k messages is (k,), or (k, size)."""
        return np.dtype((self.dtype, self.shape))

    @property
    def unsigned_zeros(self) -> bool:
        """True if -0.0 is gathered as 0.0, as which of equal messages is combined last is open."""
        return self.kind in ("min", "max") and self.dtype.kind == "f"

    @property
    def by_difference(self) -> bool:
        """True if a changed message changes a combination by a difference, `inverse` of the old.

        False for floats: rounding would leave traces of the old one, and if that was 1e20, little
        but traces.
        """
        return self.inverse is not None and self.dtype.kind != "f"

    @property
    def recombines(self) -> bool:
        """True if a changed message has all messages to its target combined anew."""
        return self.kind not in ("min", "max", "latest") and not self.by_difference

    def combined(self, a: Any, b: Any) -> Any:
        """Return `combine(a, b)` as the type of messages has it: an int wraps around."""
        x = self.combine(a, b)
        return to_int64(x) if type(x) is int and self.dtype.kind == "i" else x

    def __repr__(self) -> str:
        name = getattr(getattr(self, "type", None), "__name__", "?")
        size = f", size={self.size}" if getattr(self, "size", None) else ""
        return f"{type(self).__name__}({name}{size})"


class Sum(Algebra):
    """The sum of all messages; identity 0, inverse negation.

    Args:
        type: int, float or VertexId.
        size: length of a vector message, combined element by element; None for a scalar.

    Raises:
        ProgramError: `type` is something else.

    >>> Sum(float).combine(1.0, 2.0)
    3.0
    """

    kind = "sum"

    def __init__(self, type: type, size: int | None = None) -> None:
        zero = 0.0 if type is float else 0
        super().__init__(type, combine=operator.add, identity=zero, inverse=operator.neg, size=size)


class Min(Algebra):
    """The smallest message; identity `inf` for float, `INT_MAX` for int and VertexId.

    Args:
        type: int, float or VertexId.
        size: length of a vector message, combined element by element; None for a scalar.

    Raises:
        ProgramError: `type` is something else.

    >>> Min(int).identity == INT_MAX
    True
    """

    kind = "min"

    def __init__(self, type: type, size: int | None = None) -> None:
        super().__init__(type, combine=min, identity=inf if type is float else INT_MAX, size=size)


class Max(Algebra):
    """The largest message; identity `-inf` for float, `INT_MIN` for int and VertexId.

    Args:
        type: int, float or VertexId.
        size: length of a vector message, combined element by element; None for a scalar.

    Raises:
        ProgramError: `type` is something else.

    >>> Max(float).combine(1.0, 2.0)
    2.0
    """

    kind = "max"

    def __init__(self, type: type, size: int | None = None) -> None:
        super().__init__(type, combine=max, identity=-inf if type is float else INT_MIN, size=size)


class Any_(Algebra):
    """True if any message is; identity False. For aggregators: `aggregate(any)`."""

    kind = "any"

    def __init__(self) -> None:
        super().__init__(bool, combine=operator.or_, identity=False)


class Latest(Algebra):
    """No combination: `delta.values` holds the last message of every current producer.

    Values are an array in ascending order of producer ids, or a list if the type is not a number. A
    producer that has sent nothing yet, or the identity, has no entry.

    Args:
        type: the type of the messages: int, float, `VertexId`, or any picklable class.
        size: length of a vector message, for int and float; None for a single value. With a size
            the values are an array of shape (k, size).

    Raises:
        ProgramError: vectors of another type.

    >>> Latest(int).identity == INT_MAX
    True
    """

    kind = "latest"

    def __init__(self, type: type, size: int | None = None) -> None:
        identity: Any = None
        if size is not None and type not in (int, float):
            name = getattr(type, "__name__", type)
            raise ProgramError(f"Latest({name}, size={size}): vectors are of int or float")
        if type is float:
            identity = math.nan
        elif issubclass(type, int):
            identity = INT_MAX
        super().__init__(type, combine=_never, identity=identity, size=size)


def dtype_of(type: type) -> np.dtype[Any]:
    """Return the NumPy dtype of a field or message of this Python type; object for no number."""
    if type is bool:
        return np.dtype(np.bool_)
    if type is float or (isinstance(type, type_) and issubclass(type, np.floating)):
        return np.dtype(np.float64)
    if isinstance(type, type_) and issubclass(type, (int, np.integer)):
        return np.dtype(np.int64)
    return np.dtype(object)


type_ = type


def _never(a: Any, b: Any) -> Any:
    raise ProgramError("messages = Latest(...) are not combined; read delta.values in gather")


def _samples(kind: type) -> list[Any]:
    rng = random.Random(20160626)
    if kind is float:
        return [0.0, 1.0, -1.0, 0.5, -2.25, 3.0, 8.0, 1024.0]
    if kind is bool:
        return [False, True]
    if issubclass(kind, int):
        return [0, 1, -1, 2, 3, 7, *(rng.randrange(-1000, 1000) for _ in range(6))]
    return []


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, float) and isinstance(b, float):
        return a == b or math.isclose(a, b, rel_tol=1e-9) or (a != a and b != b)
    return bool(np.all(a == b))


def _check_laws(algebra: Algebra, samples: list[Any] | None) -> None:
    """Property-test the laws on samples; the first counterexample is named."""
    f, e = algebra.combine, algebra.identity
    values = samples if samples is not None else _samples(algebra.type)
    for a in values:
        if not _equal(f(e, a), a) or not _equal(f(a, e), a):
            raise ProgramError(f"{algebra}: {e!r} is not an identity of combine: try {a!r}")
        if algebra.inverse is not None and not _equal(f(a, algebra.inverse(a)), e):
            raise ProgramError(f"{algebra}: inverse({a!r}) does not undo combine")
        for b in values:
            if not _equal(f(a, b), f(b, a)):
                raise ProgramError(f"{algebra}: combine is not commutative: {a!r}, {b!r}")
            for c in values:
                if not _equal(f(f(a, b), c), f(a, f(b, c))):
                    raise ProgramError(
                        f"{algebra}: combine is not associative: {a!r}, {b!r}, {c!r}; "
                        "messages may arrive in any order, use an associative function or Latest"
                    )
