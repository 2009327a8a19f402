"""Instances by id: a state element whose rows are in columns of features, and a sample of them.

The row of an id is a place in columns that only grow, so that to take a change back, or to copy the
state for a fork, touches no features. Which instances are in the sample is decided by a hash of
their ids: it is uniform whatever the order of arrival, has no trace of instances that were
withdrawn, and is the same on any number of partitions. (Section 3.2 of the Tornado paper has a
reservoir, which forgets what it drops, and so needs random pairing once instances are withdrawn.)
"""

from __future__ import annotations

import copy
import hashlib
import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk import RowsState, StateElement
from vertexsdk.algorithms.learning._rows import Rows, SparseRows
from vertexsdk.program.keyed_state import Journal, TableSpec

CELL = np.dtype([("column", np.int32), ("value", np.float64)])  # of a sparse row, as bytes
_SPARE = 1024  # places without an id, besides as many as have one
_states = itertools.count(1)


class Sample(NamedTuple):
    """Instances as columns.

    Attributes:
        rows: float64[n, d], or sparse rows.
        targets: float64[n], the place of the class, or the number to predict.
    """

    rows: Rows
    targets: NDArray[np.float64]

    def __len__(self) -> int:
        return len(self.targets)

    def take(self, places: NDArray[np.int64]) -> Sample:
        """Return some of them, in this order."""
        rows, targets = self.rows, self.targets[places]
        if not isinstance(rows, SparseRows):
            return Sample(rows[places], targets)
        counts = rows.indptr[places + 1] - rows.indptr[places]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        cells = np.arange(indptr[-1]) + np.repeat(rows.indptr[places] - indptr[:-1], counts)
        own = SparseRows(indptr, rows.indices[cells], rows.values[cells], rows.dimension)
        return Sample(own, targets)


class _Growing:
    """An array that grows at its end.

    Args:
        values: of its type; not copied until it grows.
    """

    def __init__(self, values: NDArray[Any]) -> None:
        self._room, self._length = values, len(values)

    @property
    def values(self) -> NDArray[Any]:
        """All of it; what is there does not change later."""
        return self._room[: self._length]

    def extend(self, values: NDArray[Any]) -> None:
        """Add values at the end."""
        length = self._length + len(values)
        if length > len(self._room):
            room = np.empty(max(length, 2 * self._length), self._room.dtype)
            room[: self._length] = self.values
            self._room = room
        self._room[self._length : length] = values
        self._length = length

    def fork(self) -> _Growing:
        """Return one with these values, which grows on its own."""
        return _Growing(self.values)


class _Columns:
    """The targets and features of instances, by place."""

    def __init__(self) -> None:
        self._new: list[tuple[float, bytes]] = []
        self._width, self._sparse = 0, False
        self._targets = _Growing(np.empty(0))
        self._values = _Growing(np.empty(0))
        self._columns = _Growing(np.empty(0, np.int32))
        self._indptr = _Growing(np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self._targets.values) + len(self._new)

    def append(self, target: float, features: bytes) -> int:
        """Add an instance, and return its place."""
        self._new.append((target, features))
        return len(self) - 1

    def __getitem__(self, place: int) -> tuple[float, bytes]:
        known = len(self._targets.values)
        if place >= known:
            return self._new[place - known]
        target = float(self._targets.values[place])
        if not self._sparse:
            first = place * self._width
            return target, self._values.values[first : first + self._width].tobytes()
        first, last = self._indptr.values[place : place + 2].tolist()
        cells = np.empty(last - first, CELL)
        cells["column"] = self._columns.values[first:last]
        cells["value"] = self._values.values[first:last]
        return target, cells.tobytes()

    def all(self, width: int, *, sparse: bool) -> Sample:
        """Return all of them.

        Args:
            width: how many features there are.
            sparse: features are cells, as `CELL` has them, and not all numbers.
        """
        self._width, self._sparse = width, sparse
        if self._new:
            data = b"".join([features for _, features in self._new])
            self._targets.extend(np.array([target for target, _ in self._new]))
            if sparse:
                cells = np.frombuffer(data, CELL)
                self._values.extend(cells["value"])
                self._columns.extend(cells["column"])
                sizes = [len(features) // CELL.itemsize for _, features in self._new]
                self._indptr.extend(self._indptr.values[-1] + np.cumsum(sizes))
            else:
                self._values.extend(np.frombuffer(data))
            self._new = []
        targets, values = self._targets.values, self._values.values
        if sparse:
            indptr, columns = self._indptr.values, self._columns.values
            return Sample(SparseRows(indptr, columns, values, width), targets)
        return Sample(values.reshape(-1, width), targets)

    def take(self, places: NDArray[np.int64]) -> _Columns:
        """Return the instances of some places, in this order."""
        other = _Columns()
        for target, features in map(self.__getitem__, places.tolist()):
            other.append(target, features)
        return other

    def fork(self) -> _Columns:
        """Return a copy, which grows on its own."""
        other = copy.copy(self)
        other._new = list(self._new)
        for name in ("_targets", "_values", "_columns", "_indptr"):
            setattr(other, name, getattr(self, name).fork())
        return other


class InstancesState(RowsState):
    """The instances of one partition; subclasses compute with them.

    The row of an id is its place in the columns.
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec, journal)
        self._columns = _Columns()
        self._version = {0: 0}  # another number after each change, and the old one if it is undone
        self._chosen: dict[tuple[Any, ...], Any] = {}  # what was computed of a version

    def add(self, key: Any, target: float, features: bytes) -> None:
        """Set the instance of an id."""
        self.put(key, self._columns.append(target, features))

    def discard(self, key: Any) -> bool:
        """Remove the instance of an id; return whether there was one."""
        there = self.row_of(key) is not None
        if there:
            self.remove(key)
        return there

    def note(self, rows: dict[Any, Any], key: Any, row: Any) -> None:
        """See `RowsState`."""
        if len(self._columns) > 2 * len(self.rows) + _SPARE and not self.journal.mark():
            self._compact()  # no change can be taken back that has a place
        super().note(rows, key, row)
        self.journal.note(self._version, 0)
        self._version[0] = next(_states)

    def _compact(self) -> None:
        """Drop the features that no id has any more."""
        self._columns = self._columns.take(self._places())
        self.rows = dict(zip(self.rows, range(len(self.rows)), strict=True))

    def _places(self) -> NDArray[np.int64]:
        return np.fromiter(self.rows.values(), np.int64, len(self.rows))

    def size(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def all(self, width: int, sparse: bool) -> Sample:
        """Return the instances, in the order of their places."""

        def choose() -> Sample:
            rows = self._columns.all(width, sparse=sparse)
            places = np.sort(self._places())
            return rows if len(places) == len(rows) else rows.take(places)

        chosen: Sample = self._once(("all",), choose)
        return chosen

    def sample(self, width: int, sparse: bool, share: float) -> Sample:
        """Return a sample of the instances, in an order by chance that only their ids decide.

        Args:
            width, sparse: as the features are.
            share: of the instances; those of them whose hash is below it.
        """

        def choose() -> Sample:
            keys = np.array(list(self.rows)) if self.rows else np.empty(0, np.int64)
            priorities = _priorities(keys)
            places = self._places()
            inside = np.flatnonzero(priorities < share)
            order = inside[np.lexsort((keys[inside], priorities[inside]))]
            return self._columns.all(width, sparse=sparse).take(places[order])

        chosen: Sample = self._once(("sample", share), choose)
        return chosen

    def _once(self, what: tuple[Any, ...], compute: Any) -> Any:
        """Compute something of the instances, once until they change."""
        version = self._version[0]
        if self._chosen.get(what, (None,))[0] != version:
            self._chosen = {k: v for k, v in self._chosen.items() if v[0] == version}
            self._chosen[what] = version, compute()
        return self._chosen[what][1]

    def to_fields(self, row: Any) -> tuple[float, bytes]:
        """Return target and features of a place."""
        return self._columns[row]

    def from_fields(self, fields: Any) -> int:
        """Return a place with target and features."""
        return self._columns.append(*fields)

    def restore(self, key: Any, stored: Any) -> None:
        """See `RowsState`."""
        super().restore(key, stored)
        self._version[0] = next(_states)

    def fork(self, journal: Journal) -> InstancesState:
        """See `RowsState`."""
        other = super().fork(journal)
        assert isinstance(other, InstancesState)
        other._columns, other._version = self._columns.fork(), dict(self._version)
        other._chosen = dict(self._chosen)
        return other


class Instances(StateElement):
    """Instances that are learnt from, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = InstancesState
    reads: Sequence[str] = ("size",)
    writes = ("add", "discard")
    without_key: Sequence[str] = ("size",)

    def __init__(self, key: type) -> None:
        super().__init__(key, target=float, features=bytes)


def _priorities(keys: NDArray[Any]) -> NDArray[np.float64]:
    """Return the place of each id in an order by chance, from 0 to 1."""
    if keys.dtype.kind in "iu":
        bits = keys.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)  # SplitMix64
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        bits ^= bits >> np.uint64(31)
    else:
        digests = (hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys.tolist())
        bits = np.frombuffer(b"".join(digests), np.uint64)
    return bits / 2.0**64
