"""The difference of two results: the vertices in which they differ, and the values of both."""

from __future__ import annotations

import contextlib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.loops._frames import arrow_table, pandas_frame, polars_frame
from vertexsdk.loops.result import Result
from vertexsdk.notebook.card import card
from vertexsdk.state.difference import unequal

SHOWN = 10  # vertices, in a notebook


class ReadableLoop(ABC):
    """A main loop or a branch; a context manager that closes it."""

    @abstractmethod
    def read(self) -> Result:
        """Return the newest version, for the caller to close."""

    @abstractmethod
    def close(self) -> None:
        """Free the memory; the loop stays in the store."""

    def diff(self, other: Comparable, field: str | None = None) -> ResultDiff:
        """Compare the newest version with another loop, or with a result; NaN equals NaN.

        Args:
            other: the other side; of a loop, its newest version.
            field: by default the program's result.

        Returns:
            The ids of the vertices that differ, ascending, with both values.

        Raises:
            InputError: no such field, or no state yet.
        """
        with contextlib.closing(self.read()) as mine:
            ids_a, values_a = _sorted(mine, field)
            name = field or mine.result_field
        if isinstance(other, Result):
            ids_b, values_b = _sorted(other, field)
        else:
            with contextlib.closing(other.read()) as theirs:
                ids_b, values_b = _sorted(theirs, field)
        ids = np.union1d(ids_a, ids_b)
        left, right = _aligned(ids, ids_a, values_a), _aligned(ids, ids_b, values_b)
        differ = np.isin(ids, ids_a) != np.isin(ids, ids_b)
        both = ~differ
        differ[both] = unequal(left.data[both], right.data[both])
        return ResultDiff(name, ids[differ], left[differ], right[differ])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


Comparable: TypeAlias = Result | ReadableLoop


@dataclass(frozen=True, slots=True)
class ResultDiff:
    """The k vertices in which one result differs from another, ascending by id.

    Attributes:
        field: the name of the field.
        ids: (k,) int64, or objects (str).
        mine, theirs: (k,) or (k, size) masked arrays, masked where a side lacks the vertex.
    """

    field: str
    ids: NDArray[Any]
    mine: Any
    theirs: Any

    def __len__(self) -> int:
        return len(self.ids)

    def _columns(self) -> dict[str, NDArray[Any]]:
        return {"id": self.ids, "mine": self.mine, "theirs": self.theirs}

    def to_arrow(self) -> pa.Table:
        """Return an Arrow table `id,mine,theirs`; null where a side lacks the vertex."""
        return arrow_table(self._columns())

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame, like `to_arrow`.

        Raises:
            InputError: pandas is not installed.
        """
        return pandas_frame(self._columns())

    def to_polars(self) -> Any:
        """Return a Polars DataFrame, like `to_arrow`.

        Raises:
            InputError: Polars is not installed.
        """
        return polars_frame(self._columns())

    def __repr__(self) -> str:
        return f"ResultDiff(field: {self.field}, differ: {len(self):,})"

    def _repr_html_(self) -> str:
        rows = ResultDiff(self.field, *(x[:SHOWN] for x in (self.ids, self.mine, self.theirs)))
        columns = rows.to_arrow()
        facts = {"field": self.field, "vertices that differ": len(self)}
        pairs = zip(*(column.to_pylist() for column in columns.columns), strict=True)
        return card("Difference", facts, (columns.column_names, pairs))


def _sorted(result: Result, field: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    ids, values = result.values(field)
    if ids.dtype == object:
        ids = ids.astype(str)
    order = np.argsort(ids, kind="stable")
    return ids[order], np.asarray(values)[order]


def _aligned(ids: NDArray[Any], own_ids: NDArray[Any], values: NDArray[Any]) -> Any:
    """Return a row for each of `ids`, masked where it is not among `own_ids`."""
    shape = (len(ids), *values.shape[1:])
    rows = np.ma.MaskedArray(np.zeros(shape, values.dtype), mask=True)
    rows[np.searchsorted(ids, own_ids)] = values
    return rows
