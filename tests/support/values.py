"""Values of declared types, outside of arrays: converted, copied, compared, combined."""

from __future__ import annotations

from typing import Any

import numpy as np

from vertexsdk.program.algebra import Algebra, Latest, dtype_of
from vertexsdk.testing.oracles import near

__all__ = ["copied", "fold", "identity_of", "same", "typed"]


def typed(kind: Any, size: int | None, value: Any) -> Any:
    """Convert to a Python number of the declared type, or to an array where it has a size."""
    dtype = dtype_of(kind)
    if size is not None:
        return np.array(np.broadcast_to(np.asarray(value, dtype), (size,)))
    if dtype == object or isinstance(value, str):  # an id may be a string
        return value
    return dtype.type(value).item()


def copied(value: Any) -> Any:
    """A copy of what could be changed in place, else the value."""
    return value.copy() if isinstance(value, (np.ndarray, dict, list, set)) else value


def same(a: Any, b: Any) -> bool:
    """Equality which looks into arrays and containers; NaN is equal to itself."""
    return near(a, b, 0.0)


def identity_of(algebra: Algebra) -> Any:
    """The message which is no message, a vector where messages are vectors."""
    return typed(algebra.type, algebra.size, algebra.identity)


def fold(algebra: Algebra, values: list[Any]) -> Any:
    """Combine in the order given, element by element where messages are vectors.

    >>> from vertexsdk import Max
    >>> fold(Max(int), [3, 9, 4])
    9
    """
    if isinstance(algebra, Latest):
        return values[-1]
    total = identity_of(algebra)
    for value in values:
        if algebra.size is None:
            total = algebra.combine(total, value)
        else:
            pairs = zip(total.tolist(), value.tolist(), strict=True)
            total = np.array([algebra.combine(a, b) for a, b in pairs], algebra.dtype)
    return total
