"""Edges as text, fast: ``source target value`` lines from int64 columns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
from pyarrow import csv

IntArray = npt.NDArray[np.int64]


def lines(source: IntArray, target: IntArray, value: IntArray) -> bytes:
    """The block as ASCII lines, one edge each.

    >>> lines(np.array([1]), np.array([20]), np.array([7]))
    b'1 20 7\\n'
    """
    text, form = pa.BufferOutputStream(), csv.WriteOptions(include_header=False, delimiter=" ")
    csv.write_csv(
        pa.table([source, target, value], names=["source", "target", "value"]), text, form
    )
    return bytes(text.getvalue())
