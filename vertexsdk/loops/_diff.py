"""Two loops' results side by side: which vertices differ, and how."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.loops.result import Result
from vertexsdk.state.difference import unequal

__all__ = ["Comparable", "ResultDiff", "diff_results"]


class Readable(Protocol):
    """A loop, main or branch, whose newest version can be read."""

    def read(self) -> Result:
        """Return the newest version, for the caller to close."""


Comparable: TypeAlias = Result | Readable


@dataclass(frozen=True, slots=True)
class ResultDiff:
    """The k vertices in which one result differs from another, ascending by id.

    Attributes:
        field: the name of the field.
        ids: (k,) int64, or objects (str).
        mine, theirs: (k,) or (k, size) values of both; masked where a side lacks the vertex.
    """

    field: str
    ids: NDArray[Any]
    mine: Any
    theirs: Any

    def __len__(self) -> int:
        return len(self.ids)


def diff_results(mine: Result, other: Comparable, field: str | None) -> ResultDiff:
    """Compare one field of two results; NaN equals NaN.

    Raises:
        InputError: no such field, or no state yet.
    """
    name = field or mine.result_field
    a = _sorted(mine, field)
    if isinstance(other, Result):
        b = _sorted(other, field)
    else:
        with contextlib.closing(other.read()) as theirs:
            b = _sorted(theirs, field)
    ids = np.union1d(a[0], b[0])
    left, right = _spread(ids, *a), _spread(ids, *b)
    differ = left.mask != right.mask
    both = ~differ & ~left.mask
    differ[both] = unequal(left.data[both], right.data[both])
    return ResultDiff(name, ids[differ], _values(left, differ), _values(right, differ))


@dataclass(frozen=True, slots=True)
class _Spread:
    """A value for each of some ids, where not masked."""

    data: NDArray[Any]
    mask: NDArray[np.bool_]


def _sorted(result: Result, field: str | None) -> tuple[NDArray[Any], NDArray[Any]]:
    ids, values = result.values(field)
    if ids.dtype == object:
        ids = ids.astype(str)
    order = np.argsort(ids, kind="stable")
    return ids[order], np.asarray(values)[order]


def _spread(ids: NDArray[Any], own: NDArray[Any], values: NDArray[Any]) -> _Spread:
    data = np.zeros((len(ids), *values.shape[1:]), values.dtype)
    mask = np.ones(len(ids), np.bool_)
    at = np.searchsorted(ids, own)
    data[at], mask[at] = values, False
    return _Spread(data, mask)


def _values(side: _Spread, chosen: NDArray[np.bool_]) -> Any:
    data, mask = side.data[chosen], side.mask[chosen]
    if data.ndim == 2:
        mask = np.broadcast_to(mask[:, None], data.shape)
    return np.ma.MaskedArray(data, mask)
