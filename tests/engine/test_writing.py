"""Versions that tasks write while a loop goes on: deltas where few changed, and in order."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import vertexsdk
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
from vertexsdk.engine import batch_run
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.errors import LostError, StateError
from vertexsdk.state import FullError, Manifest, SegmentRef, Store, open_store, version_writer
from vertexsdk.state.version_writer import Writer, changed_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Columns = dict[str, np.ndarray[Any, Any]]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        yield store


def write(store: Store, versions: dict[int, Columns], before: str | None) -> list[SegmentRef]:
    """One hop's writes, laid over what was committed."""
    with Writer(store.backend.location, store.backend.address, "loop", 0, before) as writer:
        for iteration, columns in versions.items():
            writer.add(iteration, columns)
            for name, values in columns.items():
                if name == "value":
                    values += 0.0  # the copy is what counts
        refs = writer.finish()
    assert list(refs) == list(versions)
    for iteration, ref in refs.items():
        store.commit(
            "loop", iteration=iteration, segments=[ref] if ref else [], parent=store.head("loop")
        )
    return [ref for ref in refs.values() if ref is not None]


def test_deltas_where_few_vertices_changed(store: Store) -> None:
    random = np.random.default_rng(1)
    ids, values = np.arange(0, 3000, 3), np.zeros(1000)
    names = pack_strings([f"v{k}" for k in ids.tolist()])
    expected: dict[int, Columns] = {}
    last, kinds = None, []
    for hop in range(30):
        versions: dict[int, Columns] = {}
        for iteration in range(4 * hop, 4 * hop + 4):
            count = int(random.choice([0, 1, 30, 300, 1000]))
            values = values.copy()
            values[random.choice(1000, count, replace=False)] += 1.0
            versions[iteration] = {
                "id": ids, "value": values, "name.offsets": names[0], "name.bytes": names[1]
            }  # fmt: skip
        expected |= versions
        refs = write(store, versions, last)
        last = refs[-1].key.attempt if refs else last
        kinds += [ref.kind for ref in refs]
    assert {"base", "delta"} <= set(kinds)
    for iteration, columns in expected.items():
        ((_, found),) = store.read("loop", iteration)
        order = np.argsort(found["id"])
        first = unpack_strings(found["name.offsets"], found["name.bytes"])[order[2]]
        np.testing.assert_array_equal(found["value"][order], columns["value"])
        np.testing.assert_array_equal(found["id"][order], ids)
        assert first == "v6"
    for version in store.versions("loop"):
        deltas = store.segments(store.version("loop", version))[1:]
        assert len(deltas) <= version_writer.MAX_DELTAS
        assert sum(ref.rows for ref in deltas) <= 1000


def test_a_process_that_did_not_write_what_was_committed_writes_a_base(store: Store) -> None:
    columns = {"id": np.arange(100), "value": np.zeros(100)}
    (first,) = write(store, {1: columns}, None)
    assert write(store, {2: {**columns, "value": np.eye(100)[3]}}, first.key.attempt)[0].kind == (
        "delta"
    )
    for wrong in (first.key.attempt, None, "0" * 32):  # another attempt's, nobody's, unknown
        (ref,) = write(store, {3: columns}, wrong)
        assert ref.kind == "base"
    more = {"id": np.arange(101), "value": np.zeros(101)}
    assert write(store, {4: more}, ref.key.attempt)[0].kind == "base"


def test_rows_are_compared_by_their_bits() -> None:
    before = {
        "id": np.arange(4),
        "x": np.array([0.0, np.nan, 1.0, np.inf]),
        "v": np.zeros((4, 2)),
        "on": np.array([True, False, True, False]),
    }
    after = {name: values.copy() for name, values in before.items()}
    rows = changed_rows(before, after)
    assert rows is not None
    assert rows.tolist() == []
    after["x"][0] = -0.0
    after["v"][2, 1] = 5e-324
    after["on"][3] = True
    rows = changed_rows(before, after)
    assert rows is not None
    assert rows.tolist() == [0, 2, 3]
    for other in (
        {**after, "id": np.arange(1, 5)},
        {**after, "x": after["x"].astype("f4")},
        {**after, "x": after["x"].astype(object)},
        {"id": after["id"]},
    ):
        assert changed_rows(before, other) is None


def test_a_write_that_fails_is_told(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise FullError("no room left")

    monkeypatch.setattr(Store, "put_segment", full)
    columns = {"id": np.arange(100), "value": np.zeros(100)}
    with Writer("full", store.backend.address, "loop", 0, None) as writer:
        writer.add(1, columns)
        with pytest.raises(FullError, match="no room left"):
            writer.finish()


def test_a_server_that_is_away_when_a_task_opens_the_store(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[str] = []

    def away(address: str) -> Store:
        tries.append(address)
        if len(tries) < 3:
            raise StateError("cannot be reached")
        return open_store(address)

    monkeypatch.setattr(version_writer, "open_store", away)
    columns = {"id": np.arange(100), "value": np.zeros(100)}
    with Writer("away", store.backend.address, "loop", 0, None) as writer:
        writer.add(1, columns)
        assert writer.finish()[1] is not None
    assert len(tries) == 3
    monkeypatch.setattr(version_writer, "_REOPEN_SECONDS", 0.0)
    tries.clear()
    with Writer("for ever", store.backend.address, "loop", 0, None) as writer:
        writer.add(1, columns)
        with pytest.raises(StateError, match="cannot be reached"):
            writer.finish()


def test_commits_are_made_in_order_and_none_after_one_that_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, commit = f"lmdb://{tmp_path}/store", Store.commit
    graph = vertexsdk.Graph.from_arrays(range(30), range(1, 31))

    def fails(self: Store, loop: str, *, iteration: int, **options: Any) -> Manifest:
        if iteration == 5:
            raise FullError("no room left")
        return commit(self, loop, iteration=iteration, **options)

    monkeypatch.setattr(Store, "commit", fails)
    with pytest.raises(FullError, match="no room left"):
        vertexsdk.run(
            ShortestPaths, graph, params={"origin": 0}, backend=url, loop="l", commit_every=1
        )
    with open_store(url, create=False) as store:
        assert store.versions("l") == [1, 2, 3, 4]


@pytest.mark.parametrize(("partitions", "named"), [(1, False), (3, True)])
def test_each_iteration_that_was_committed_is_what_a_shorter_run_gives(
    spark: SparkSession, tmp_path: Path, partitions: int, named: bool
) -> None:
    random = np.random.default_rng(partitions)
    pairs = np.concatenate(
        [np.stack([np.arange(40), np.arange(1, 41)], 1), random.integers(0, 400, (600, 2)) + 20]
    )
    edges = tmp_path / "edges.txt"
    text = [f"v{s} v{t} 1" if named else f"{s} {t} 1" for s, t in pairs.tolist()]
    edges.write_text("\n".join(text) + "\n")
    graph = vertexsdk.Graph.read(spark, str(edges), partitions=partitions)
    for program, params in ((ShortestPaths, {"origin": "v0" if named else 0}), (PageRank, {})):
        url = f"lmdb://{tmp_path}/{program.__name__}"
        run: Any = {"params": params, "progress": False}
        long = vertexsdk.run(program, graph, backend=url, max_iterations=24, commit_every=1, **run)
        assert long.statistics["iterations"] == 24
        if partitions == 1:
            assert long.statistics["hops"] < 12  # a hop goes on over commits
        with open_store(url, create=False) as store:
            loop = store.loops()[0]
            assert store.versions(loop) == list(range(1, 25))
            found = store.audit()
            assert (found.missing, found.corrupt, found.unreferenced) == ([], [], [])
            kinds = {
                ref.kind for v in range(1, 25) for ref in store.segments(store.version(loop, v))
            }
            assert kinds == {"base", "delta"}
        for iteration in (1, 17):
            short = vertexsdk.run(
                program, graph, backend="memory://short", max_iterations=iteration, **run
            )
            travelled = vertexsdk.loops.result.Result(url, loop, iteration)
            assert travelled.iteration == iteration
            assert travelled.to_dict() == short.to_dict()
            assert travelled.aggregates == short.aggregates
    graph.unpersist()


def test_what_was_acknowledged_before_a_worker_was_lost_stays(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = tmp_path / "edges.txt"
    edges.write_text("\n".join(f"{k} {k + 1} 1" for k in range(12)) + "\n")
    graph = vertexsdk.Graph.read(spark, str(edges), partitions=2)
    job, commit = LoopEngine._job, batch_run.Run._commit
    calls, acknowledged = 0, list[int]()
    url = f"lmdb://{tmp_path}/store"

    def lossy(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls in (6, 13):  # in the midst of two tries of three
            raise LostError("an executor was lost")
        return job(*given)

    def recorded(*given: Any) -> Any:
        manifest = commit(*given)
        acknowledged.append(manifest.iteration)
        with open_store(url, create=False) as store:
            assert store.versions("loop") == acknowledged
        return manifest

    monkeypatch.setattr(LoopEngine, "_job", lossy)
    monkeypatch.setattr(batch_run.Run, "_commit", recorded)
    result = vertexsdk.run(
        ShortestPaths, graph, params={"origin": 0}, backend=url, loop="loop", commit_every=1,
        progress=False,
    )  # fmt: skip
    assert acknowledged == list(range(1, result.statistics["iterations"] + 1))
    assert result.to_dict("length") == {k: float(k) for k in range(13)}
    graph.unpersist()
    with open_store(url, create=False) as store:
        for iteration in acknowledged:
            found: dict[int, float] = {}
            for _, columns in store.read("loop", iteration):
                found |= dict(zip(columns["id"].tolist(), columns["length"].tolist(), strict=True))
            reached = {k: float(k) for k in range(min(iteration, 12) + 1)}
            assert {k: x for k, x in found.items() if x < np.inf} == reached
        found_waste = store.audit().unreferenced
        assert not found_waste
