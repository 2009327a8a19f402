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
from vertexsdk.arrays.id_hash import splitmix64
from vertexsdk.program.keyed import TableSpec
from vertexsdk.program.keyed_state import Journal

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
    """The targets and features of instances, by place, and their order by chance."""

    def __init__(self) -> None:
        self._new: list[tuple[float, bytes]] = []
        self._new_ids: list[Any] = []
        self._order = _Growing(np.empty(0))
        self._width, self._sparse = 0, False
        self._targets = _Growing(np.empty(0))
        self._values = _Growing(np.empty(0))
        self._columns = _Growing(np.empty(0, np.int32))
        self._indptr = _Growing(np.zeros(1, np.int64))

    def __len__(self) -> int:
        return len(self._targets.values) + len(self._new)

    def append(self, key: Any, target: float, features: bytes) -> int:
        """Add an instance, and return its place."""
        self._new.append((target, features))
        self._new_ids.append(key)
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
            self._order.extend(_order_of(self._new_ids))
            self._new, self._new_ids = [], []
        targets, values = self._targets.values, self._values.values
        if sparse:
            indptr, columns = self._indptr.values, self._columns.values
            return Sample(SparseRows(indptr, columns, values, width), targets)
        return Sample(values.reshape(-1, width), targets)

    @property
    def order(self) -> NDArray[np.float64]:
        """The place of each in the order by chance, from 0 to 1; of those that `all` returned."""
        return self._order.values

    def fork(self) -> _Columns:
        """Return a copy, which grows on its own."""
        other = copy.copy(self)
        other._new, other._new_ids = list(self._new), list(self._new_ids)
        for name in ("_order", "_targets", "_values", "_columns", "_indptr"):
            setattr(other, name, getattr(self, name).fork())
        return other


class InstancesState(RowsState):
    """The instances of one partition; subclasses compute with them.

    The row of an id is its place in the columns.
    """

    def __init__(self, spec: TableSpec, journal: Journal) -> None:
        super().__init__(spec, journal)
        self._columns = _Columns()
        self._version = 0  # another number after each change
        self._chosen: dict[tuple[Any, ...], Any] = {}  # what was computed of a version

    def add(self, key: Any, target: float, features: bytes) -> None:
        """Set the instance of an id."""
        key = self.spec.convert_key(key)
        self._compact_if_due()
        self.put(key, self._columns.append(key, target, features))

    def discard(self, key: Any) -> bool:
        """Remove the instance of an id; return whether there was one."""
        there = self.row_of(key) is not None
        if there:
            self._compact_if_due()
            self.remove(key)
        return there

    def touch(self, row: Any) -> None:
        """See `RowsState`."""
        self._version = next(_states)

    def _compact_if_due(self) -> None:
        """Drop the features that no id has any more, before a change that has a place."""
        if len(self._columns) <= 2 * len(self.rows) + _SPARE or self.journal.mark():
            return  # a change that can be taken back has a place
        columns = _Columns()
        self.rows = {
            key: columns.append(key, *self._columns[place]) for key, place in self.rows.items()
        }
        self._columns = columns

    def _places(self, count: int) -> NDArray[np.int64]:
        """Return the places that ids have, of so many, ascending."""
        if len(self.rows) == count:
            return np.arange(count)
        there = np.zeros(count, np.bool_)
        there[np.fromiter(self.rows.values(), np.int64, len(self.rows))] = True
        return np.flatnonzero(there)

    def size(self) -> int:
        """Return how many there are."""
        return len(self.rows)

    def classes(self, width: int, sparse: bool) -> NDArray[np.float64]:
        """Return the different targets, ascending."""
        return np.unique(self.all(width, sparse).targets)

    def all(self, width: int, sparse: bool) -> Sample:
        """Return the instances, in the order of their places."""

        def choose() -> Sample:
            own = self._columns.all(width, sparse=sparse)
            return own if len(own) == len(self.rows) else own.take(self._places(len(own)))

        chosen: Sample = self._once(("all",), choose)
        return chosen

    def sample(self, width: int, sparse: bool, share: float) -> tuple[Sample, NDArray[np.float64]]:
        """Return a sample of the instances, in an order by chance that only their ids decide.

        Args:
            width, sparse: as the features are.
            share: of the instances: those whose place in that order is below it.

        Returns:
            The sample, and float64[n], the place of each in the order, from 0 to 1.
        """

        def choose() -> tuple[Sample, NDArray[np.float64]]:
            own = self._columns.all(width, sparse=sparse)
            places, order = self._places(len(own)), self._columns.order
            places = places[order[places] < share]
            places = places[np.argsort(order[places], kind="stable")]
            return own.take(places), order[places]

        chosen: tuple[Any, Any] = self._once(("sample", share), choose)
        return chosen

    def _once(self, what: tuple[Any, ...], compute: Any) -> Any:
        """Compute something of the instances, once until they change."""
        version = self._version
        if self._chosen.get(what, (None,))[0] != version:
            self._chosen = {k: v for k, v in self._chosen.items() if v[0] == version}
            self._chosen[what] = version, compute()
        return self._chosen[what][1]

    def to_fields(self, row: Any) -> tuple[float, bytes]:
        """Return target and features of a place."""
        return self._columns[row]

    def restore(self, key: Any, stored: Any) -> None:
        """See `RowsState`; a key has one instance."""
        self.rows[key] = self._columns.append(key, *stored)
        self.changed.add(key)
        self.touch(key)

    def fork(self, journal: Journal) -> InstancesState:
        """See `RowsState`."""
        other = super().fork(journal)
        assert isinstance(other, InstancesState)
        other._columns = self._columns.fork()
        other._chosen = dict(self._chosen)
        return other


class Instances(StateElement):
    """Instances that are learnt from, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = InstancesState
    reads: Sequence[str] = ("size", "classes")
    writes = ("add", "discard")
    without_key: Sequence[str] = reads

    def __init__(self, key: type) -> None:
        super().__init__(key, target=float, features=bytes)


def _order_of(keys: Sequence[Any]) -> NDArray[np.float64]:
    """Return the place of each id in an order by chance, from 0 to 1."""
    if isinstance(keys[0], str):
        digests = [hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys]
        return np.frombuffer(b"".join(digests), np.uint64) / 2.0**64
    return hash_uniform(np.array(keys, np.int64).view(np.uint64))


def hash_uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each, by SplitMix64."""
    return splitmix64(bits) / 2.0**64
