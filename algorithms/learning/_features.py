"""Features as users have them, and as bytes of one instance each."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from scipy import sparse

from vertexsdk.algorithms.learning.instances import CELL
from vertexsdk.algorithms.learning.rows import Rows, SparseRows


def as_matrix(features: Any) -> Any:
    """Return what scikit-learn takes, with the names of its columns: all but an Arrow batch."""
    return pa.Table.from_batches([features]) if isinstance(features, pa.RecordBatch) else features


def packed(features: Any) -> Any:
    """Return features as bytes, of an instance each: the rows of an array, or Arrow's binary.

    Args:
        features: float64[n, d], or a SciPy CSR matrix without cells that are there twice.

    >>> packed(sparse.csr_array([[0.0, 2.0]]))[0].as_py() == np.array([(1, 2.0)], CELL).tobytes()
    True
    """
    if not sparse.issparse(features):
        return np.ascontiguousarray(features, np.float64)
    cells = np.empty(features.nnz, CELL)
    cells["column"], cells["value"] = features.indices, features.data
    offsets = features.indptr.astype(np.int64) * CELL.itemsize
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(cells)]
    return pa.LargeBinaryArray.from_buffers(pa.large_binary(), features.shape[0], buffers)


def rows_of(features: Any) -> Rows:
    """Return features as kernels take them."""
    if not sparse.issparse(features):
        return np.ascontiguousarray(features, np.float64)
    features = _without_duplicates(features)
    indptr, indices = features.indptr.astype(np.int64), features.indices.astype(np.int32)
    return SparseRows(indptr, indices, features.data, features.shape[1])


def as_form(features: Any, *, sparse_form: bool) -> Any:
    """Return features as a CSR matrix, or as an array.

    Args:
        features: either of them.
        sparse_form: which.
    """
    if not sparse_form:
        return features.toarray() if sparse.issparse(features) else features
    return _without_duplicates(features)


def _without_duplicates(features: Any) -> Any:
    """Return a CSR matrix in which no row has the same column twice; the user's is not changed."""
    matrix = sparse.csr_array(features)
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    return matrix
