"""An R-MAT graph without parallel edges, and changes of it, the same for the same calls.

Half of the changes of a batch remove an edge which is there, drawn evenly; half add one which is
not, drawn as the graph's own edges were, further on in the same stream. No edge is met twice in
one batch, so its order does not matter.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks import rmat

IntArray = npt.NDArray[np.int64]


Block = tuple[IntArray, IntArray, IntArray]


ADD, REMOVE = 0, 1  # as in vertexsdk.graph.changes.changes


_SEED = 20160627


_DRAWS = 1 << 16


@dataclass(frozen=True, slots=True)
class Batch:
    """k changes: kind uint8[k], `ADD` or `REMOVE`; source, target, value int64[k]."""

    kind: npt.NDArray[np.uint8]
    source: IntArray
    target: IntArray
    value: IntArray

    def __len__(self) -> int:
        return self.kind.size

    def __getitem__(self, part: slice) -> Batch:
        return Batch(self.kind[part], self.source[part], self.target[part], self.value[part])


class Source(Protocol):
    """Edges that there are now, and changes still to come: `EdgeStream`, and files of one's own."""

    origin: int
    parquet: str

    @property
    def edges(self) -> int: ...

    def take(self, count: int) -> Batch: ...

    def columns(self) -> Block: ...


class EdgeStream:
    """The edges that there are now, sorted, and the changes still to come.

    A copy stays as it is while this one goes on.

    ``parquet`` is a file of the edges that it begins with; ``origin`` the vertex with the most
    edges out of it then.

    >>> from tempfile import mkdtemp
    >>> stream = EdgeStream(8, Path(mkdtemp()))
    >>> before, batch = stream.edges, stream.take(100)
    >>> int((batch.kind == REMOVE).sum()), stream.edges - before
    (50, 0)
    """

    def __init__(self, scale: int, cache: Path) -> None:
        folder = cache / f"rmat-{scale}-distinct"
        if not (folder / "value.npy").exists():
            _make(scale, folder)
        self.scale = scale
        self.parquet = str(folder / "edges.parquet")
        self._key: IntArray = np.load(folder / "key.npy")
        self._value: npt.NDArray[np.uint8] = np.load(folder / "value.npy")
        self._drawn = rmat.EDGE_FACTOR << scale
        self._chance = np.random.default_rng(_SEED)
        self.origin = int(np.argmax(np.bincount(self._key >> scale)))

    @property
    def edges(self) -> int:
        """How many there are now."""
        return self._key.size

    def take(self, count: int) -> Batch:
        """The next ``count`` changes, made in this graph too.

        Raises:
            ValueError: half of them are more than there are edges.
        """
        if count // 2 > self.edges:
            raise ValueError(f"{count:,} changes at once are too many for {self.edges:,} edges")
        lost = np.sort(
            self._chance.choice(self._key.size, count // 2, replace=False, shuffle=False)
        )
        new, value = self._new(count - lost.size)
        key = np.concatenate((self._key[lost], new))
        order = self._chance.permutation(count)
        kind = np.repeat(np.array([REMOVE, ADD], np.uint8), (lost.size, new.size))[order]
        batch = Batch(
            kind,
            (key >> self.scale)[order],
            (key & ((1 << self.scale) - 1))[order],
            np.concatenate((self._value[lost].astype(np.int64), value))[order],
        )
        self._put(lost, new, value)
        return batch

    def _new(self, count: int) -> tuple[IntArray, IntArray]:
        found, values = np.empty(0, np.int64), np.empty(0, np.int64)
        while found.size < count:
            draws = max(_DRAWS if count > 100 else 64, 2 * (count - found.size))
            source, target = rmat.pairs(self.scale, self._drawn, draws)
            key = np.concatenate((found, source << self.scale | target))
            value = np.concatenate((values, rmat.values(self._drawn, draws)))
            first = np.sort(np.unique(key, return_index=True)[1])
            first = first[~self._holds(key[first])][:count]
            found, values = key[first], value[first]
            self._drawn += draws
        return found, values

    def _holds(self, key: IntArray) -> npt.NDArray[np.bool_]:
        at = np.minimum(np.searchsorted(self._key, key), self._key.size - 1)
        found: npt.NDArray[np.bool_] = self._key[at] == key
        return found

    def _put(self, lost: IntArray, new: IntArray, value: IntArray) -> None:
        stays = np.ones(self._key.size, bool)
        stays[lost] = False
        kept = self._key[stays]
        order = np.argsort(new)
        at = np.searchsorted(kept, new[order])
        self._key = np.insert(kept, at, new[order])
        self._value = np.insert(self._value[stays], at, value[order].astype(np.uint8))

    def columns(self) -> Block:
        """The edges that there are now: source, target and value, int64."""
        mask = (1 << self.scale) - 1
        return self._key >> self.scale, self._key & mask, self._value.astype(np.int64)


def blocks_after(scale: int, cache: Path, batches: Iterable[int]) -> Iterator[Block]:
    """The graph after batches of these sizes, as blocks of edges."""
    stream = EdgeStream(scale, cache)
    for count in batches:
        stream.take(count)
    source, target, value = stream.columns()
    for first in range(0, source.size, rmat.BLOCK):
        part = slice(first, first + rmat.BLOCK)
        yield source[part], target[part], value[part]


def _make(scale: int, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    count = rmat.EDGE_FACTOR << scale
    source, target = rmat.pairs(scale, 0, count)
    key, first = np.unique(source << scale | target, return_index=True)
    value = rmat.values(0, count)[first]
    columns = [key >> scale, key & ((1 << scale) - 1), value]
    schema = pa.schema([(name, pa.int64()) for name in ("source", "target", "value")])
    pq.write_table(pa.table(columns, schema=schema), folder / "edges.parquet")
    np.save(folder / "key.npy", key)
    np.save(folder / "value.npy", value.astype(np.uint8))  # last: it says that all is there


_LARGEST = 1 << 32  # ids and values are below it: no system here must be able to do more


class FileStream:
    """The edges of ``edges`` (lines ``source target [value]``), then the lines of ``changes``.

    There are no parallel edges: of lines with the same ends the last one counts, and ``+`` sets
    another value where the edge is there. Where no value is given it is 1. Changes that have no
    effect, as removing what is not there, are left out and counted in ``idle``.

    Raises:
        ValueError: a line that cannot be read, or a number that is not a whole one from 0 on.
        OSError: a file that cannot be read.
    """

    def __init__(self, edges: Path, changes: Sequence[Path], folder: Path) -> None:
        self._now: dict[tuple[int, int], int] = {}
        for where, fields in _rows(edges):
            source, target, value = _numbers(where, fields)
            self._now[source, target] = value
        if not self._now:
            raise ValueError(f"{edges.name}: it has no edges")
        self.idle = 0
        self._rest = list(self._effective(changes))
        self._at = 0
        self.name = edges.name
        out = np.unique(self.columns()[0], return_counts=True)
        self.origin = int(out[0][np.argmax(out[1])])
        folder.mkdir(parents=True, exist_ok=True)
        self.parquet = str(folder / "edges.parquet")
        schema = pa.schema([(name, pa.int64()) for name in ("source", "target", "value")])
        pq.write_table(pa.table(list(self.columns()), schema=schema), self.parquet)

    def __copy__(self) -> FileStream:
        new = object.__new__(FileStream)
        new.__dict__ |= self.__dict__ | {"_now": dict(self._now)}
        return new

    @property
    def edges(self) -> int:
        """How many there are now."""
        return len(self._now)

    @property
    def left(self) -> int:
        """How many changes are still to come."""
        return len(self._rest) - self._at

    def take(self, count: int) -> Batch:
        """The next ``count`` changes, or as many as there still are, made in this graph too."""
        rows = self._rest[self._at : self._at + count]
        self._at += len(rows)
        for kind, source, target, value in rows:
            _apply(self._now, kind, source, target, value)
        columns = np.array(rows, np.int64).reshape(-1, 4).T
        return Batch(columns[0].astype(np.uint8), *columns[1:])

    def columns(self) -> Block:
        """The edges that there are now: source, target and value, int64."""
        rows = np.array([(*ends, value) for ends, value in self._now.items()], np.int64)
        source, target, value = rows.reshape(-1, 3).T
        return source, target, value

    def _effective(self, changes: Sequence[Path]) -> Iterator[tuple[int, int, int, int]]:
        """The changes as (kind, source, target, value), without those that do nothing."""
        there = dict(self._now)
        for path in changes:
            for where, (kind, *fields) in _rows(path):
                if kind not in ("+", "-", "~"):
                    raise ValueError(f"{where}: a change begins with +, - or ~")
                source, target, value = _numbers(where, fields)
                before = there.get((source, target))
                number = REMOVE if kind == "-" else ADD
                nothing = before is None if kind in "-~" else before == value
                if nothing:
                    self.idle += 1
                    continue
                if before is not None and number == REMOVE:
                    value = before
                _apply(there, number, source, target, value)
                yield number, source, target, value


def _apply(
    edges: dict[tuple[int, int], int], kind: int, source: int, target: int, value: int
) -> None:
    if kind == REMOVE:
        del edges[source, target]
    else:
        edges[source, target] = value


def _rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    with path.open() as file:
        for number, line in enumerate(file, 1):
            fields = line.split("#", 1)[0].replace(",", " ").split()
            if fields:
                yield f"{path.name}:{number}", fields


def _numbers(where: str, fields: list[str]) -> tuple[int, int, int]:
    try:
        source, target, value = (int(float(word)) for word in [*fields, "1"][:3])
        if [float(word) for word in fields[:3]] != [source, target, value][: len(fields)]:
            raise ValueError
    except (ValueError, OverflowError):
        raise ValueError(f"{where}: give two whole numbers, and a third as value") from None
    if not all(0 <= number < _LARGEST for number in (source, target, value)):
        raise ValueError(f"{where}: numbers must be from 0 to {_LARGEST - 1:,}")
    return source, target, value


def blocks_of_files(edges: Path, changes: Sequence[Path], folder: Path) -> Iterator[Block]:
    """The edges after all changes; ``folder`` is for the stream's own files, and goes again."""
    stream = FileStream(edges, changes, folder)
    shutil.rmtree(folder)
    stream.take(stream.left)
    yield stream.columns()
