"""Columns of numbers as the Python values that interpreted methods see, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import ProgramError
from vertexsdk.graph.topology.id_codec import Complement, IdCodec
from vertexsdk.program.algebra import INT_MAX, INT_MIN, Algebra, VertexId
from vertexsdk.program.fields import StateField
from vertexsdk.program.program import ClassSpec

Array = NDArray[Any]


def read_column(column: Array, todo: Array, f: StateField, names: IdCodec | None) -> list[Any]:
    """Return a column's values at `todo` as Python values (NumPy rows for vectors)."""
    if f.size is not None:
        return [row.copy() for row in column[todo]]
    values: list[Any] = column[todo].tolist()
    if names is not None and f.type is VertexId:
        values = [names.decode(x) for x in values]
    return values


def to_array(
    values: list[Any],
    f: StateField | Algebra,
    names: IdCodec | None,
    spec: ClassSpec,
    complaint: str = "",
) -> Array:
    """Return Python values as an array of a field's or an algebra's dtype, (n,) or (n, size).

    Raises:
        ProgramError: a value is of another type; `complaint` and the value make its message.
    """
    if f.dtype == object:
        out: Array = np.empty(len(values), object)
        for k, x in enumerate(values):
            out[k] = x
        return out
    if names is not None and f.type is VertexId:
        for x in values:
            if not isinstance(x, (str, Complement)) and x not in (INT_MAX, INT_MIN):
                raise ProgramError(
                    f"{spec.file}:{spec.line}: {spec.name}: {complaint} {x!r}; the graph's ids are "
                    "strings"
                )
        values = [names.encode(x) for x in values]
    shape = () if f.size is None else (f.size,)
    if not values:
        return np.empty((0, *shape), f.dtype)
    allowed = {"f": "fiub", "i": "iub", "b": "b"}[f.dtype.kind]
    array = np.array([np.asarray(x) for x in values]) if shape else np.array(values)
    if array.dtype.kind not in allowed or array.shape[1:] != shape:
        bad = next(
            (x for x in values if np.asarray(x).dtype.kind not in allowed or np.shape(x) != shape),
            values[0],
        )
        raise ProgramError(f"{spec.file}:{spec.line}: {spec.name}: {complaint} {bad!r}")
    return array.astype(f.dtype, copy=False)


def equal(a: Any, b: Any) -> bool:
    """Return whether two messages or objects are equal; arrays are compared by element."""
    if a is b:
        return True
    result = a == b
    return bool(result) if not isinstance(result, np.ndarray) else bool(result.all())
