"""Columns of numbers as the Python values that interpreted methods see, and back."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import ProgramError
from vertexsdk.graph.id_codec import IdCodec
from vertexsdk.program.algebra import VertexId
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


def as_array(values: list[Any], f: StateField, names: IdCodec | None) -> Array:
    if names is not None and f.type is VertexId:
        values = [names.encode(x) for x in values]
    result: Array = np.array(values, f.dtype).reshape(len(values), *f.shape)
    return result


def write_column(
    column: Array,
    todo: Array,
    values: list[Any],
    f: StateField,
    names: IdCodec | None,
    spec: ClassSpec,
) -> None:
    """Store Python values at `todo`.

    Raises:
        ProgramError: the field's type cannot hold one of them.
    """
    if f.dtype == object:
        for i, x in zip(todo.tolist(), values, strict=True):
            column[i] = x
        return
    if names is not None and f.type is VertexId:
        values = [names.encode(x) for x in values]
    if not values:
        return
    type_name = f"{f.type.__name__}{'' if f.size is None else f'[{f.size}]'}"
    column[todo] = _checked_array(
        values, f.dtype, f.shape, spec, f"field {f.name} is {type_name}, it was set to"
    )


def messages_array(
    values: list[Any], algebra: Any, names: IdCodec | None, spec: ClassSpec
) -> Array:
    """Return messages as an array of the algebra's dtype, (n,) or (n, size).

    Raises:
        ProgramError: the algebra's type cannot hold one of them.
    """
    if algebra.dtype == object:
        out: Array = np.empty(len(values), object)
        for k, x in enumerate(values):
            out[k] = x
        return out
    if names is not None and algebra.type is VertexId:
        values = [names.encode(x) for x in values]
    size = () if algebra.size is None else (algebra.size,)
    if not values:
        return np.empty((0, *size), algebra.dtype)
    complaint = f"messages are {algebra}, scatter sent"
    return _checked_array(values, algebra.dtype, size, spec, complaint).astype(algebra.dtype)


def _checked_array(
    values: list[Any], dtype: np.dtype[Any], shape: tuple[int, ...], spec: ClassSpec, complaint: str
) -> Array:
    """Return values of this shape as an array whose numbers `dtype` can hold.

    Raises:
        ProgramError: one has another shape or type; `complaint`, then the value.
    """
    allowed = {"f": "fiub", "i": "iub", "b": "b"}[dtype.kind]
    array = np.array([np.asarray(x) for x in values]) if shape else np.array(values)
    if array.dtype.kind not in allowed or array.shape[1:] != shape:
        bad = next(
            (x for x in values if np.asarray(x).dtype.kind not in allowed or np.shape(x) != shape),
            values[0],
        )
        raise ProgramError(f"{spec.file}:{spec.line}: {spec.name}: {complaint} {bad!r}")
    return array


def equal(a: Any, b: Any) -> bool:
    """Whether two messages or objects of a state field are equal, arrays element by element."""
    if a is b:
        return True
    result = a == b
    return bool(result) if not isinstance(result, np.ndarray) else bool(result.all())
