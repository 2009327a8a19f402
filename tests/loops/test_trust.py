"""Whoever can write to a store runs no code where the program or the reader did not allow it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from vertexsdk import Min, Vertex, state
from vertexsdk.arrays import arrow_table
from vertexsdk.errors import StateError
from vertexsdk.loops.result import Result
from vertexsdk.state import CorruptError, SegmentRef, Store, open_store
from vertexsdk.state.reading import by_key_group

N = 2000
FORGED = 100  # rows of a forged segment, which is no larger


class Least(Vertex):
    """The smallest id that leads here, and a square: numbers only."""

    least: float = state(0.0)
    messages = Min(float)

    def init(self):
        self.least = float(self.id)

    def gather(self, iteration, source, delta):
        self.least = min(self.least, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.least)


class Remembers(Least):
    """The same, with an object."""

    memo: object = state()

    def init(self):
        self.least = float(self.id)
        self.memo = (self.id,)


class Planted:
    """An object that leaves a file behind when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def planted(path: Path, rows: int) -> Any:
    column = np.empty(rows, object)
    column[:] = [Planted(path)] * rows
    return column


def forge(store: Store, ref: SegmentRef, column: str, path: Path) -> None:
    """Put another segment in the place of one, of its length, and with its schema in the header."""
    own = {n: a[:FORGED] for n, a in store.segment(ref, fields=[], trusted=True).items()}
    own[column] = planted(path, FORGED)
    for name in store.table(ref).names:
        if name not in own:
            own[name] = np.array(store.table(ref).column(name))[:FORGED]
    own, groups = by_key_group(own)
    before = arrow_table.schema_hash
    arrow_table.schema_hash = lambda _: ref.schema
    try:
        data = b"".join(arrow_table.encode(own, groups=groups))
    finally:
        arrow_table.schema_hash = before
    end = arrow_table.TRAILER.size
    padding = bytes(ref.bytes - len(data))
    store.backend._delete_segments([ref.key])  # type: ignore[attr-defined]
    store.backend.put_segment(ref.key, [data[:-end], padding, data[-end:]])


def forge_all(url: str, result: Result, column: str, path: Path) -> None:
    with open_store(url, create=False) as store:
        for ref in store.segments(result.manifest):
            if ref.kind in ("base", "delta"):
                forge(store, ref, column, path)


@pytest.fixture
def graph(spark: SparkSession) -> Iterator[vertexsdk.Graph]:
    loaded = vertexsdk.Graph.from_arrays(
        np.arange(N - 1), np.arange(1, N), spark=spark, partitions=1
    )
    yield loaded
    loaded.unpersist()


@pytest.mark.parametrize("trusted", [False, True])
@pytest.mark.parametrize("by", ["run", "query"])
def test_numbers_are_never_unpickled(
    graph: vertexsdk.Graph, tmp_path: Path, by: str, trusted: bool
) -> None:
    url, ran = f"lmdb://{tmp_path}/store", tmp_path / "ran"
    with contextlib.ExitStack() as stack:
        if by == "run":
            result = vertexsdk.run(Least, graph, backend=url, max_iterations=3, trusted=trusted)
        else:
            main = vertexsdk.MainLoop(Least, graph, backend=url, trusted=trusted)
            stack.enter_context(main)
            main.query(persist=True).close()
            result = main.read()  # the answer itself would be read from memory
        stack.callback(result.close)
        forge_all(url, result, "least", ran)
        for read in (lambda: result.lookup(7), result.columns, result.to_dict):
            with pytest.raises(CorruptError, match=r"'least' holds pickled .* schema has none"):
                read()
    assert not ran.exists()
    later = vertexsdk.read(url, result.loop, trusted=True)
    with pytest.raises(CorruptError, match=r"'least' holds pickled .* schema has none"):
        later.columns()
    later.close()
    assert not ran.exists()


@pytest.mark.parametrize("trusted", [False, True])
def test_objects_are_unpickled_where_the_store_is_trusted(
    graph: vertexsdk.Graph, tmp_path: Path, trusted: bool
) -> None:
    url = f"lmdb://{tmp_path}/store"
    result = vertexsdk.run(
        Remembers, graph, backend=url, max_iterations=1, compiled=False, trusted=trusted
    )
    with contextlib.closing(result):
        assert result.lookup(7, "least") == {7: {"least": 6.0}}
        if trusted:
            assert result.lookup(7)[7]["memo"] == (7,)
        else:
            with pytest.raises(StateError, match=r"'memo' holds pickled .* pass trusted=True"):
                result.lookup(7)
