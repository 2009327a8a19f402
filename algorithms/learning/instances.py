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
from bisect import bisect_right
from collections.abc import Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk import RowsState, StateElement
from vertexsdk.algorithms.learning.rows import SparseRows
from vertexsdk.algorithms.learning.sample import ChanceOrder, Sample
from vertexsdk.arrays.id_hash import splitmix64
from vertexsdk.program.keyed import ABSENT, TableSpec
from vertexsdk.program.keyed_state import Journal

CELL = np.dtype([("column", np.int32), ("value", np.float64)])  # of a sparse row, as bytes
_SPARE = 1024  # places without an id, besides as many as have one
_states = itertools.count(1)


class _Growing:
    """An array that grows at its end.

    Args:
        values: its first values; not copied until it grows.
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


class _Arrivals(NamedTuple):
    """Instances that arrived together, as they came: what their features are is known later.

    Attributes:
        keys: their ids.
        targets: float64[n].
        features: the bytes of each.
    """

    keys: Sequence[Any]
    targets: NDArray[np.float64]
    features: pa.LargeBinaryArray

    def take(self, places: NDArray[np.int64]) -> _Arrivals:
        """Return some of them."""
        keys = [self.keys[place] for place in places.tolist()]
        return _Arrivals(keys, self.targets[places], self.features.take(pa.array(places)))

    def data(self) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return where the features of each begin and end, and the bytes of all."""
        n, (_, offsets, data) = len(self.targets), self.features.buffers()
        bounds = np.frombuffer(offsets, np.int64, n + 1, 8 * self.features.offset)
        first, last = int(bounds[0]), int(bounds[-1])
        return bounds, np.frombuffer(data or b"", np.uint8)[first:last]


class _Columns:
    """The targets and features of instances, by place, and their order by chance."""

    def __init__(self) -> None:
        self._new: list[_Arrivals] = []
        self._firsts: list[int] = []  # the first place of each of these
        self._length = 0
        self._order = _Growing(np.empty(0))
        self._width, self._sparse = 0, False
        self._targets = _Growing(np.empty(0))
        self._values = _Growing(np.empty(0))
        self._columns = _Growing(np.empty(0, np.int32))
        self._indptr = _Growing(np.zeros(1, np.int64))

    def __len__(self) -> int:
        return self._length

    def extend(self, new: _Arrivals) -> range:
        """Add instances, and return their places."""
        first, self._length = self._length, self._length + len(new.targets)
        self._new.append(new)
        self._firsts.append(first)
        return range(first, self._length)

    def __getitem__(self, place: int) -> tuple[float, bytes]:
        if self._firsts and place >= self._firsts[0]:
            part = bisect_right(self._firsts, place) - 1
            new, row = self._new[part], place - self._firsts[part]
            return float(new.targets[row]), new.features[row].as_py()
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
        for new in self._new:
            offsets, data = new.data()
            self._targets.extend(new.targets)
            if sparse:
                cells = data.view(CELL)
                self._values.extend(cells["value"])
                self._columns.extend(cells["column"])
                sizes = np.diff(offsets) // CELL.itemsize
                self._indptr.extend(self._indptr.values[-1] + np.cumsum(sizes))
            else:
                self._values.extend(data.view(np.float64))
            self._order.extend(_order_of(new.keys))
        self._new, self._firsts = [], []
        return self._known()

    def _known(self) -> Sample:
        """Return those whose features are known for what they are."""
        targets, values = self._targets.values, self._values.values
        if self._sparse:
            indptr, columns = self._indptr.values, self._columns.values
            return Sample(SparseRows(indptr, columns, values, self._width), targets)
        return Sample(values.reshape(len(targets), self._width), targets)

    def take(self, places: NDArray[np.int64]) -> _Columns:
        """Return some of them, whose places are 0, 1, ... there.

        Args:
            places: ascending.
        """
        other, known = _Columns(), len(self._targets.values)
        other._width, other._sparse = self._width, self._sparse
        chosen = places[places < known]
        if len(chosen):
            sample, other._length = self._known().take(chosen), len(chosen)
            rows = sample.rows
            other._targets = _Growing(sample.targets)
            other._order = _Growing(self._order.values[chosen])
            if isinstance(rows, SparseRows):
                other._columns, other._indptr = _Growing(rows.indices), _Growing(rows.indptr)
                other._values = _Growing(rows.values)
            else:
                other._values = _Growing(rows.ravel())
        for first, new in zip(self._firsts, self._new, strict=True):
            chosen = places[slice(*np.searchsorted(places, [first, first + len(new.targets)]))]
            if len(chosen):
                other.extend(new.take(chosen - first))
        return other

    @property
    def order(self) -> NDArray[np.float64]:
        """The place of each in the order by chance, from 0 to 1; of those that `all` returned."""
        return self._order.values

    def fork(self) -> _Columns:
        """Return a copy, which grows on its own."""
        other = copy.copy(self)
        other._new, other._firsts = list(self._new), list(self._firsts)
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
        self._chance: ChanceOrder | None = None
        self._places_before: dict[Any, int] = {}  # of what has changed since; -1 for none

    def add(self, key: Any, target: float, features: bytes) -> None:
        """Set the instance of an id."""
        self.add_all([self.spec.convert_key(key)], np.array([target]), _packed([features]))

    def add_all(
        self, keys: Sequence[Any], targets: NDArray[np.float64], features: pa.LargeBinaryArray
    ) -> None:
        """Set the instances of ids."""
        self._compact_if_due()
        self.put_all(keys, self._columns.extend(_Arrivals(keys, targets, features)))

    def discard(self, key: Any) -> bool:
        """Remove the instance of an id; return whether there was one."""
        return self.discard_all([self.spec.convert_key(key)])[0]

    def discard_all(self, keys: Sequence[Any]) -> list[bool]:
        """Remove the instances of ids; return for each whether there was one."""
        there = dict.fromkeys(key for key in keys if key in self.rows)
        if there:
            self._compact_if_due()
            self.remove_all(list(there))
        return [there.pop(key, ABSENT) is None for key in keys]

    def touch(self, row: Any) -> None:
        """Note that a row is about to change."""
        self.touch_all([row])

    def touch_all(self, rows: Sequence[Any]) -> None:
        """Note that several rows are about to change."""
        self._version = next(_states)
        if self._chance is not None:
            places = dict(zip(rows, map(self.rows.get, rows, repeat(-1)), strict=True))
            self._places_before = places | self._places_before

    def _compact_if_due(self) -> None:
        """Drop the features that no id has any more, before a change that has a place."""
        if len(self._columns) <= 2 * len(self.rows) + _SPARE or self.journal.mark():
            return  # a change that can be taken back has a place
        places = self._places(len(self._columns))
        at = np.searchsorted(places, np.fromiter(self.rows.values(), np.int64, len(self.rows)))
        self.rows = dict(zip(self.rows, at.tolist(), strict=True))
        self._columns = self._columns.take(places)
        self._chance, self._places_before = None, {}

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
            instances = self._columns.all(width, sparse=sparse)
            if len(instances) == len(self.rows):
                return instances
            return instances.take(self._places(len(instances)))

        chosen: Sample = self._once(("all",), choose)
        return chosen

    def sample(self, width: int, sparse: bool, share: float) -> tuple[Sample, NDArray[np.float64]]:
        """Return a sample of the instances, in an order by chance that only their ids decide.

        Args:
            width, sparse: as the features are.
            share: the share of the instances: those whose place in that order is below it.

        Returns:
            The sample, and float64[n], the place of each in the order, from 0 to 1.
        """

        def choose() -> tuple[Sample, NDArray[np.float64]]:
            instances = self._columns.all(width, sparse=sparse)
            self._chance = chance = self._chance_order(len(instances)).take(instances, share)
            assert chance.sample is not None
            return chance.sample, chance.order[: len(chance.sample)]

        chosen: tuple[Any, Any] = self._once(("sample", share), choose)
        return chosen

    def _chance_order(self, count: int) -> ChanceOrder:
        """Return the order by chance of all instances, of so many places."""
        old_places, self._places_before = self._places_before, {}
        chance, order = self._chance, self._columns.order
        if chance is None or 2 * len(old_places) > len(self.rows):
            return ChanceOrder.of(order, self._places(count))
        changes = [(place, self.rows.get(key, -1)) for key, place in old_places.items()]
        removed = [old for old, new in changes if old >= 0 and old != new]
        added = [new for old, new in changes if new >= 0 and old != new]
        return chance.changed(order, np.array(removed, np.int64), np.array(sorted(added), np.int64))

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
        """Set the instance of a key to a stored one."""
        self.restore_all([key], [stored])

    def restore_all(self, keys: Sequence[Any], stored: Sequence[Any]) -> None:
        """Set the instances of keys to stored ones."""
        targets = np.array([target for target, _ in stored], np.float64)
        new = _Arrivals(keys, targets, _packed([features for _, features in stored]))
        self.touch_all(keys)
        self.rows.update(zip(keys, self._columns.extend(new), strict=True))
        self.changed.update(keys)

    def fork(self, journal: Journal) -> InstancesState:
        """Return a copy, in which nothing changes when this one does."""
        other = super().fork(journal)
        assert isinstance(other, InstancesState)
        other._columns = self._columns.fork()
        other._chosen, other._places_before = dict(self._chosen), dict(self._places_before)
        return other


class Instances(StateElement):
    """Instances that are learnt from, by id.

    Args:
        key: the type of the ids, `int` or `str`.
    """

    state = InstancesState
    reads: Sequence[str] = ("size", "classes")
    writes = ("add", "discard")
    batches: Mapping[str, str] = MappingProxyType({"add": "add_all", "discard": "discard_all"})
    without_key: Sequence[str] = reads

    def __init__(self, key: type) -> None:
        super().__init__(key, target=float, features=bytes)


def _packed(features: Sequence[bytes]) -> pa.LargeBinaryArray:
    return pa.array(features, pa.large_binary())


def _order_of(keys: Sequence[Any]) -> NDArray[np.float64]:
    """Return the place of each id in an order by chance, from 0 to 1."""
    if len(keys) and isinstance(keys[0], str):
        digests = [hashlib.blake2b(key.encode(), digest_size=8).digest() for key in keys]
        return np.frombuffer(b"".join(digests), np.uint64) / 2.0**64
    return hash_uniform(np.array(keys, np.int64).view(np.uint64))


def hash_uniform(bits: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number from 0 to 1 for each, by SplitMix64."""
    return splitmix64(bits) / 2.0**64
