"""Stores of earlier formats are refused, and `vertexsdk state upgrade` carries them over.

`data/format-1.tar.xz` is an LMDB store as it was written before segments were Arrow tables: the
main loops `paths` (int64 ids) and `groups` (string ids, two partitions, vertices of a file), each
with two queries and changes before each, their answers, and the result `ranks` of a run.
"""

from __future__ import annotations

import json
import tarfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from vertexsdk.algorithms import ConnectedComponents, ShortestPaths
from vertexsdk.backends import open_backend
from vertexsdk.backends._catalog import TABLES
from vertexsdk.backends.lmdb import LmdbBackend
from vertexsdk.backends.postgres import PostgresBackend
from vertexsdk.backends.redis import RedisBackend
from vertexsdk.cli import main
from vertexsdk.loops.upgrade import upgrade
from vertexsdk.state import CorruptError, FormatError, Store, open_store
from vertexsdk.state.contract import Head

pytestmark = pytest.mark.full  # starts servers

FIXTURE = Path(__file__).parent / "data" / "format-1.tar.xz"
LOOPS = ["groups", "groups-1", "groups-2", "paths", "paths-1", "paths-2"]


@pytest.fixture
def lmdb_url(tmp_path: Path) -> str:
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(tmp_path / "store", filter="data")
    return f"lmdb://{tmp_path}/store"


def earlier(url: str) -> Store:
    return Store(open_backend(url, create=False, upgrade=True))


def copied(lmdb_url: str, url: str) -> Store:
    """The store of the fixture on another backend, marked as of the format of the fixture."""
    source, target = earlier(lmdb_url), open_store(url)
    for loop in source.loops():
        manifest = source.version(loop)
        refs = source.segments(manifest)
        for ref in refs:
            pieces = source.backend.get_segment(ref.key)
            assert pieces is not None
            target.backend.put_segment(ref.key, [piece.tobytes() for piece in pieces])
        whole = replace(manifest, segments=tuple(refs), complete=True, depth=0)
        head = Head(manifest.name, manifest.iteration, 1)
        assert whole.publish(target.backend, loop, None, head, [])
    return target


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


def lmdb_before(url: str) -> None:
    """The format before that of the fixture, which kept no references."""
    store = earlier(url)
    assert isinstance(store.backend, LmdbBackend)
    catalog = store.backend._environment("catalog", TABLES)
    catalog.write(lambda txn: txn.drop(catalog.tables["references"], delete=False))
    Path(store.backend.path, "FORMAT").write_text("vertexsdk state, format 1\n")


def refused(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    for create in (True, False):
        with pytest.raises(FormatError, match="run vertexsdk state upgrade, which keeps edges"):
            open_store(url, create=create)
    assert main(["query", "paths", "--backend", url]) == 2
    assert "run vertexsdk state upgrade" in capsys.readouterr().err


def check(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Refused, upgraded, and sound; nothing of the earlier format is left."""
    refused(url, capsys)
    for _ in range(2):  # the second changes nothing
        assert main(["state", "upgrade", "--backend", url, "--json"]) == 0
        kept = json.loads(capsys.readouterr().out)["loops"]
        assert {loop for loop, edges in kept.items() if edges} == set(LOOPS)
    with open_store(url, create=False) as store:
        assert store.loops() == LOOPS
        audit = store.audit()
        assert (audit.versions, audit.missing, audit.corrupt, audit.unreferenced) == (6, [], [], [])
        refs = store.segments(store.version("paths"))
        assert [ref.kind for ref in refs] == ["topology", "changes", "changes"]
        assert store.segment(refs[0])["value"].tolist() == [1.0, 2.0, 3.0, 4.0]
        shared = {ref.key for loop in LOOPS for ref in store.segments(store.version(loop))}
        assert len(shared) == 9


@pytest.mark.parametrize("before", [lambda url: None, lmdb_before], ids=["2", "1"])
def test_lmdb(
    lmdb_url: str, before: Callable[[str], None], capsys: pytest.CaptureFixture[str]
) -> None:
    before(lmdb_url)
    check(lmdb_url, capsys)


@pytest.mark.parametrize("undo", [redis_before, postgres_before], ids=["redis", "postgres"])
def test_servers(
    lmdb_url: str,
    request: pytest.FixtureRequest,
    undo: Callable[[Store], None],
    capsys: pytest.CaptureFixture[str],
) -> None:
    url = request.getfixturevalue("redis_url" if undo is redis_before else "postgres_url")
    store = copied(lmdb_url, url)
    undo(store)
    store.close()
    check(url, capsys)


def test_an_upgrade_goes_on_where_it_ended(lmdb_url: str) -> None:
    store = earlier(lmdb_url)
    put, count = store.backend.put_segment, [0]

    def fail(*args: Any) -> None:
        count[0] += 1
        if count[0] == 5:
            raise OSError("no more")
        put(*args)

    store.backend.put_segment = fail  # type: ignore[method-assign]
    with pytest.raises(OSError, match="no more"):
        upgrade(store)
    store.close()
    with pytest.raises(FormatError):
        open_store(lmdb_url)
    again = earlier(lmdb_url)
    assert [loop for loop, kept in upgrade(again).items() if kept] == LOOPS
    again.collect(0, alone=True)
    assert again.audit().unreferenced == again.verify() == []


def test_a_damaged_segment_is_not_carried_over(lmdb_url: str) -> None:
    store = earlier(lmdb_url)
    ref = next(r for r in store.segments(store.version("paths")) if r.kind == "changes")
    (raw,) = store.backend.get_segment(ref.key) or []
    bad = bytearray(raw.tobytes())
    bad[-64] ^= 1
    del raw  # it would show what was there before to later readers
    store.backend.put_segment(ref.key, [bytes(bad)])
    with pytest.raises(CorruptError, match=r"segment paths/.* column '\w+' has changed"):
        upgrade(store)


def test_a_resumed_loop_computes_its_state_again(lmdb_url: str, spark: SparkSession) -> None:
    assert main(["state", "upgrade", "--backend", lmdb_url]) == 0
    expected = {1: 0.0, 2: 1.0, 3: float("inf"), 4: float("inf"), 5: 2.5, 6: 3.5}
    with vertexsdk.MainLoop.resume(spark, ShortestPaths, loop="paths", backend=lmdb_url) as loop:
        assert loop.query().to_dict() == expected
        loop.ingest([("+", 2, 3, 0.5)])
        assert loop.query().to_dict() == {**expected, 3: 1.5, 4: 4.5}
    with vertexsdk.MainLoop.resume(
        spark, ConnectedComponents, loop="groups", backend=lmdb_url
    ) as loop:
        assert loop.query().to_dict() == {
            "a": "a", "b": "a", "c": "c", "d": "c", "é": "c",
            "lonely": "lonely", "x": "x", "y": "x",
        }  # fmt: skip
