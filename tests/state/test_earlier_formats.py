"""Stores made before references were kept are brought up to date when they are opened."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import psycopg
import pytest

from vertexsdk.backends._catalog import TABLES
from vertexsdk.backends.lmdb import LmdbBackend
from vertexsdk.backends.postgres import PostgresBackend
from vertexsdk.backends.redis import RedisBackend
from vertexsdk.state import Store, open_store
from vertexsdk.state.manifests import Kind


def lmdb_before(store: Store) -> None:
    assert isinstance(store.backend, LmdbBackend)
    catalog = store.backend._environment("catalog", TABLES)
    catalog.write(lambda txn: txn.drop(catalog.tables["references"], delete=False))
    Path(store.backend.path, "FORMAT").write_text("vertexsdk state, format 1\n")


def redis_before(store: Store) -> None:
    backend = store.backend
    assert isinstance(backend, RedisBackend)
    backend._command("delete", backend._key("references"))
    backend._command("set", backend._key("format"), "vertexsdk state, format 1")


def postgres_before(store: Store) -> None:
    backend = store.backend
    assert isinstance(backend, PostgresBackend)

    def undo(link: psycopg.Connection[tuple[object, ...]]) -> None:
        link.execute("DROP TABLE vertex_references")
        link.execute("DROP INDEX vertex_versions_manifest")
        link.execute("UPDATE vertex_format SET version = 2")

    backend._run(undo)


@pytest.mark.parametrize(
    ("fixture", "undo"),
    [("lmdb_url", lmdb_before), ("redis_url", redis_before), ("postgres_url", postgres_before)],
    ids=["lmdb", "redis", "postgres"],
)
def test_references_are_added(
    request: pytest.FixtureRequest, fixture: str, undo: Callable[[Store], None]
) -> None:
    url = request.getfixturevalue(fixture)
    with open_store(url) as store:
        for iteration in range(4):
            kind: Kind = "delta" if iteration else "base"
            ids = np.arange(2 if iteration else 500)
            columns = {"id": ids, "value": np.full(ids.size, float(iteration))}
            ref = store.put_segment("loop", 0, iteration, kind, columns)
            parent = store.head("loop")
            store.commit("loop", iteration=iteration, segments=[ref], parent=parent)
        store.fork("loop", "fork", 1)
        undo(store)
    with open_store(url) as store:
        assert store.prune("loop", 1) == [0, 1, 2]
        found = {n: next(iter(store.read(n)))[1]["value"][:3].tolist() for n in store.loops()}
        assert found == {"fork": [1.0, 1.0, 0.0], "loop": [3.0, 3.0, 0.0]}
        audit = store.audit()
        assert (audit.versions, audit.missing, audit.unreferenced) == (2, [], [])
        for loop in store.loops():
            store.delete(loop)
        assert list(store.backend.list_manifests()) == []
        assert list(store.backend.list_segments()) == []


@pytest.fixture
def lmdb_url(tmp_path: Path) -> str:
    return f"lmdb://{tmp_path}/store"
