"""Rows of features as kernels take them: an array, or the arrays of a CSR matrix."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk import InputError

Floats: TypeAlias = NDArray[np.float64]
Ints: TypeAlias = NDArray[np.int64]


class SparseRows(NamedTuple):
    """A CSR matrix; no row has the same column twice.

    Attributes:
        indptr: int64[n + 1], where each row begins in the other two.
        indices: int32[m], columns, 0 to `dimension` - 1.
        values: float64[m].
        dimension: the number of columns.
    """

    indptr: Ints
    indices: NDArray[np.int32]
    values: Floats
    dimension: int


Rows: TypeAlias = Floats | SparseRows


def shape(rows: Rows) -> tuple[int, int]:
    """Return the number of rows and of columns."""
    if isinstance(rows, SparseRows):
        return len(rows.indptr) - 1, rows.dimension
    return rows.shape[0], rows.shape[1]


def check(rows: Rows, *vectors: NDArray[Any], columns: int) -> None:
    """Raise InputError where rows and the vectors beside them do not fit together.

    Args:
        rows: dense or sparse rows.
        vectors: what has one entry for each row.
        columns: how many columns the model has.
    """
    n, d = shape(rows)
    if d != columns:
        raise InputError(f"the rows have {d} columns and the model {columns}; both need the same")
    for vector in vectors:
        if vector.shape != (n,):
            raise InputError(f"{n} rows need {n} labels, not {vector.shape}")
