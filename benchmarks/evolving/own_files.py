"""An edge file and change files of one's own, as a stream like that of `stream.EdgeStream`."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa  # type: ignore[import-untyped, unused-ignore]
import pyarrow.parquet as pq  # type: ignore[import-untyped, unused-ignore]

from benchmarks.evolving.stream import ADD, REMOVE, Batch, Block

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
