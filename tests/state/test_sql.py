"""Results in PostgreSQL, read by plain SQL."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

import vertexsdk
from vertexsdk.algorithms.sssp import ShortestPaths
from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.engine import batch_run
from vertexsdk.state import Store, open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture
def link(postgres_url: str) -> Iterator[psycopg.Connection[Any]]:
    place, _, rest = postgres_url.partition("?schema=")
    schema = rest.partition("&")[0]
    with psycopg.connect(place, autocommit=True, options=f"-c search_path={schema}") as connection:
        yield connection


def put(store: Store, loop: str, iteration: int, kind: Any, ids: Any, **fields: Any) -> None:
    """Commit rows in two partitions."""
    ids = np.asarray(ids, np.int64)
    of = hash_partition(ids, 2)
    refs = [
        store.put_segment(
            loop,
            p,
            iteration,
            kind,
            {"id": ids[of == p], **{k: v[of == p] for k, v in fields.items()}},
        )
        for p in range(2)
    ]
    parent = store.head(loop) if kind == "delta" else None
    store.commit(loop, iteration=iteration, segments=refs, parent=parent, partitions=2)


def test_the_newest_version_is_rows(postgres_url: str, link: psycopg.Connection[Any]) -> None:
    n = 5000
    with open_store(postgres_url) as store:
        put(
            store, "main", 3, "base", range(n), rank=np.arange(n) / 7, hops=np.arange(n, dtype="i4")
        )
        put(store, "main", 4, "delta", [17], rank=np.array([-1.0]), hops=np.array([9], "i4"))
        vectors = np.arange(8.0).reshape(4, 2)
        named = np.array(["a", "b\0c", "it's", ""], object)
        put(store, "vectors", 1, "base", range(4), place=vectors, label=named, on=np.ones(4, bool))
        put(store, "other", 2, "base", [1], rank=np.array([5]), hops=np.array([float("inf")]))
    query = "SELECT vertex, iteration, rank, hops FROM vertex_state WHERE loop = 'main'"
    assert link.execute(f"{query} AND vertex = 17").fetchall() == [(17, 4, -1.0, 9)]
    total = link.execute("SELECT count(*), sum(rank) FROM vertex_state WHERE loop = 'main'")
    assert total.fetchone() == (n, pytest.approx((np.arange(n) / 7).sum() - 17 / 7 - 1))
    types = link.execute(
        "SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute "
        "WHERE attrelid = 'vertex_state'::regclass AND attnum > 5 ORDER BY attnum"
    ).fetchall()
    assert types == [
        ("rank", "double precision"),
        ("hops", "bigint"),
        ("place", "double precision[]"),
        ("label", "text"),
        ("on", "boolean"),
        ("rank_bigint", "bigint"),
        ("hops_double", "double precision"),
    ]
    rows = link.execute(
        'SELECT vertex, place, label, "on" FROM vertex_state WHERE loop = %s ORDER BY 1',
        ["vectors"],
    ).fetchall()
    assert rows[3] == (3, [6.0, 7.0], "", True)
    assert [row[2] for row in rows[:3]] == ["a", "b\N{REPLACEMENT CHARACTER}c", "it's"]
    other = link.execute(
        "SELECT rank_bigint, hops_double, rank FROM vertex_state WHERE loop='other'"
    )
    assert other.fetchone() == (5, float("inf"), None)
    link.execute("ANALYZE vertex_rows")
    plan = link.execute(f"EXPLAIN {query} AND vertex = 17").fetchall()
    assert any("vertex_rows_pkey" in line for (line,) in plan), plan
    link.execute("CREATE TABLE mine (vertex bigint, label text)")
    link.execute("INSERT INTO mine VALUES (17, 'x'), (18, 'y')")
    joined = link.execute(
        "SELECT m.label, s.rank FROM mine m JOIN vertex_state s USING (vertex) "
        "WHERE s.loop = 'main' ORDER BY 1"
    ).fetchall()
    assert joined == [("x", -1.0), ("y", pytest.approx(18 / 7))]


def test_only_what_deltas_changed_is_sent(postgres_url: str, link: psycopg.Connection[Any]) -> None:
    query = "SELECT vertex, xmin::text FROM vertex_rows WHERE loop = 'main' ORDER BY 1"
    with open_store(postgres_url) as store:
        put(store, "main", 1, "base", range(100), rank=np.zeros(100))
        store.show("main")
        before = dict(link.execute(query).fetchall())
        put(store, "main", 2, "delta", [3, 5], rank=np.array([1.0, 2.0]))
        put(store, "main", 3, "delta", [5, 100], rank=np.array([3.0, 4.0]))
        store.show("main")
        after = dict(link.execute(query).fetchall())
        assert {v for v in after if after[v] != before.get(v)} == {3, 5, 100}
        rows = link.execute("SELECT vertex, iteration, rank FROM vertex_state ORDER BY 1")
        expected = dict.fromkeys(range(101), 0.0) | {3: 1.0, 5: 3.0, 100: 4.0}
        assert rows.fetchall() == [(v, 3, x) for v, x in expected.items()]
        store.compact("main")  # an equal version, of another name: all is sent anew
        put(store, "main", 4, "delta", [0], rank=np.array([9.0]))
        store.prune("main", 1)
        store.show("main")
        rows = link.execute("SELECT vertex, iteration, rank FROM vertex_state ORDER BY 1")
        assert rows.fetchall() == [(v, 4, x) for v, x in (expected | {0: 9.0}).items()]


def test_rows_of_each_commit_during_a_run(
    spark: SparkSession,
    tmp_path: Path,
    postgres_url: str,
    link: psycopg.Connection[Any],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    path = [f"{k} {k + 1} {k % 7 + 1}" for k in (*range(60), *range(1000, 4000))]
    edges = tmp_path / "edges.txt"
    edges.write_text("\n".join(path) + "\n")
    seen: dict[int, dict[int, float]] = {}
    commit = batch_run.Run._commit

    def committed(*given: Any) -> Any:
        manifest = commit(*given)
        rows = link.execute("SELECT vertex, iteration, length FROM vertex_state").fetchall()
        assert {iteration for _, iteration, _ in rows} == {manifest.iteration}
        seen[manifest.iteration] = {vertex: length for vertex, _, length in rows}
        return manifest

    monkeypatch.setattr(batch_run.Run, "_commit", committed)
    graph = vertexsdk.Graph.read(spark, str(edges), partitions=1)
    vertexsdk.run(
        ShortestPaths, graph, params={"origin": 0}, backend=postgres_url, loop="paths",
        commit_every=1, progress=False,
    )  # fmt: skip
    graph.unpersist()
    with open_store(postgres_url) as store:
        versions = store.versions("paths")
        assert sorted(seen) == versions
        assert len(versions) > 50
        for iteration in versions:
            ((_, state),) = store.read("paths", iteration)
            assert seen[iteration] == dict(
                zip(state["id"].tolist(), state["length"].tolist(), strict=True)
            )
        kinds = [ref.kind for ref in store.segments(store.version("paths", 40))]
        assert "delta" in kinds
    link.execute("ANALYZE vertex_rows")
    plan = link.execute(
        "EXPLAIN SELECT length FROM vertex_state WHERE loop = 'paths' AND vertex = 17"
    ).fetchall()
    assert any("vertex_rows_pkey" in line for (line,) in plan), plan


def test_rows_follow_versions_and_go_with_their_loop(
    postgres_url: str, link: psycopg.Connection[Any]
) -> None:
    names = pack_strings(["berlin", "paris"])
    with open_store(postgres_url) as store:
        columns = {"id": np.arange(2), "x": np.zeros(2)}
        columns |= {"name.offsets": names[0], "name.bytes": names[1]}
        ref = store.put_segment("towns", 0, 0, "base", columns)
        store.commit("towns", iteration=0, segments=[ref], ids="str")
        with open_store(store.backend.address) as reader:
            assert reader.show("towns")
    query = "SELECT vertex, x FROM vertex_state WHERE loop = 'towns' AND name = 'paris'"
    assert link.execute(query).fetchall() == [(1, 0.0)]
    with open_store(postgres_url) as store:
        store.delete("towns")
    assert link.execute("SELECT count(*) FROM vertex_state").fetchone() == (0,)


def test_pickled_fields_have_no_column(postgres_url: str, link: psycopg.Connection[Any]) -> None:
    values = np.empty(2, object)
    values[:] = [{"a": 1}, None]
    with open_store(postgres_url) as store:
        ref = store.put_segment("p", 0, 0, "base", {"id": np.arange(2), "o": values})
        store.commit("p", iteration=0, segments=[ref])
    assert link.execute("SELECT vertex FROM vertex_state ORDER BY 1").fetchall() == [(0,), (1,)]
