"""Bytes that nobody here wrote: each is refused in one line, as a `VertexError`, and none crashes.

Checksums find what decays; these headers and records have right ones, as of somebody who can write
to the store, or of another version.
"""

from __future__ import annotations

import gc
import json
import os
import random
import zlib
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import lmdb
import numpy as np
import pyarrow as pa
import pytest
import redis
from numpy.typing import NDArray

import vertexsdk
from tests.support import seeds
from tests.support.segments import compressed, sealed, with_column, with_head
from tests.support.servers import RedisServer
from vertexsdk.arrays.arrow_table import TRAILER, Table, encode
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.errors import VertexError
from vertexsdk.graph.checkpoint import stored_graph
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.ledger import Ledger
from vertexsdk.state import CorruptError, SegmentRef, StateError, Store, open_store
from vertexsdk.state.contract import Head, NewManifest, SegmentKey, new_attempt
from vertexsdk.state.manifests import Manifest
from vertexsdk.state.reading import by_key_group

MUTATIONS = 400
JUNK: list[Any] = [
    *(None, True, 0, 1, -1, 7, 64, 1 << 31, 1 << 63, -(1 << 70), 1e300, 0.5, float("nan")),
    *("", "id", "x.offsets", "name.bytes", "<i8", "<f8", "O", "|O8", "V8", "S4", "<M8[s]", "<c16"),
    *("i8,f8", "(2,3)<i4", "\ud800", "str", "object", "shared", "utf-9", "\0", "é" * 300),
    *([], [0], [4], [-1], [1 << 61, 0], [0, 1 << 61], [2, 2, 1], [[4]], {}, {"id": "str"}),
]


@pytest.fixture(name="seed")
def _seed() -> int:
    """What the test draws its damage from."""
    return seeds.seed()


@pytest.fixture
def store() -> Iterator[Store]:
    with open_store(f"memory://{new_attempt()}") as store:
        yield store


def columns(named: bool) -> dict[str, Any]:
    """A segment with a column of every sort."""
    found: dict[str, Any] = {
        "id": np.arange(6) * 3,
        "x": np.array(["a", "b", "é", "", "c", "d"], object),
        "v": np.arange(6.0),
        "w": np.arange(12.0).reshape(6, 2),
        "o": np.array([{1}, {2}, None, None, {1}, 3], object),
    }
    if named:
        found["name.offsets"], found["name.bytes"] = pack_strings(list("uvwxyz"))
    return found


def segment(columns: dict[str, Any]) -> bytes:
    stored, groups = by_key_group(columns)
    return b"".join(encode(stored, {"meta": [1]}, groups=groups))


def mutated(value: Any, rng: random.Random) -> Any:
    """The JSON with one thing in it replaced, removed, doubled or swapped."""
    if isinstance(value, dict) and value and rng.random() < 0.9:
        key = rng.choice(list(value))
        how = rng.random()
        if how < 0.1:
            return {k: v for k, v in value.items() if k != key}
        if how < 0.2:
            return {(str(rng.choice(JUNK)) if k == key else k): v for k, v in value.items()}
        return {**value, key: mutated(value[key], rng)}
    if isinstance(value, list) and value and rng.random() < 0.9:
        at = rng.randrange(len(value))
        how = rng.random()
        if how < 0.1:
            return value[:at] + value[at + 1 :]
        if how < 0.2:
            return [*value, value[at]]
        return [*value[:at], mutated(value[at], rng), *value[at + 1 :]]
    if isinstance(value, int) and rng.random() < 0.5:
        return value + rng.choice([-64, -8, -1, 1, 8, 64, 1 << 20])
    return rng.choice(JUNK)


def schema_of(data: bytes) -> Any:
    try:
        return Table(data).schema
    except CorruptError:
        return "0" * 16


def put(store: Store, data: bytes, ids: str) -> None:
    """Make them the only segment of the loop's newest version, as whoever may write could."""
    key = SegmentKey("loop", 0, 0, new_attempt())
    store.backend.put_segment(key, [data])
    ref = SegmentRef(key, "base", "", 6, len(data), schema_of(data))
    schema = {name: {"type": "float64"} for name in "vwx"}
    store.commit("loop", iteration=0, segments=[ref], schema=schema, program="p", ids=ids)


def read_all(store: Store, ids: str) -> int:
    """Read the version in all ways; the number of ways that were refused."""
    wanted: list[Any] = [0, 9, 100] if ids == "int" else ["u", "z", "not there"]
    refused = 0
    lines = []

    def result(use: Callable[[vertexsdk.Result], Any]) -> None:
        found = vertexsdk.read(store.backend.address, "loop")
        try:
            use(found)
        finally:
            found.close()

    for way in (
        lambda: list(store.read("loop")),
        lambda: list(store.read("loop", trusted=False, fields=["v", "x"])),
        lambda: store.lookup("loop", wanted, fields=["v", "w", "x"]),
        lambda: store.lookup("loop", wanted * 40, fields=["v", "x"]),
        lambda: result(lambda found: found.lookup(wanted)),
        lambda: result(lambda found: found.to_dict("v")),
        lambda: result(lambda found: list(found.rows("x"))),
    ):
        try:
            way()
        except VertexError as error:
            refused += 1
            lines.append(str(error))
    assert not [line for line in lines if "\n" in line]
    refused += bool(store.audit().corrupt)
    return refused


@pytest.mark.sample(1)
@pytest.mark.parametrize("ids", ["int", "str"])
def test_headers_with_right_checksums(store: Store, ids: str, seed: int) -> None:
    rng = random.Random(seed)
    data = segment(columns(ids == "str"))
    put(store, data, ids)
    assert read_all(store, ids) <= 2  # of the objects, which are not trusted
    refused = 0
    for number in range(MUTATIONS):
        try:
            changed = with_head(data, lambda head: mutated(head, rng))
        except (TypeError, ValueError, LookupError, AttributeError, OverflowError):
            continue  # it is no JSON of a head at all
        if rng.random() < 0.1:
            low = rng.randrange(len(data))
            changed = changed[:low] + rng.randbytes(rng.randrange(8)) + changed[low:]
        try:
            put(store, changed, ids)
            refused += bool(read_all(store, ids))
        except VertexError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}, mutation {number}: {error!r}") from error
    assert refused > MUTATIONS / 4


def test_arrow_messages_with_right_checksums(store: Store, seed: int) -> None:
    """Any bytes in what Arrow parses."""
    rng = random.Random(seed)
    data = segment(columns(True))
    length = TRAILER.unpack(data[-TRAILER.size :])[1]
    refused = 0
    for number in range(MUTATIONS):
        changed = bytearray(data)
        for _ in range(rng.choice([1, 1, 4])):
            changed[rng.randrange(length)] = rng.choice([0, 1, 2, 64, 127, 128, 255])
        try:
            put(store, sealed(bytes(changed), length), "str")
            refused += bool(read_all(store, "str"))
        except VertexError:
            refused += 1
        except BaseException as error:
            raise AssertionError(f"seed {seed}, mutation {number}: {error!r}") from error
    assert refused > MUTATIONS / 8


def test_columns_with_right_checksums(store: Store, seed: int) -> None:
    """Offsets that run backwards or beyond, and bytes that are no UTF-8."""
    rng = np.random.default_rng(seed)
    right = segment(columns(True))
    for number in range(MUTATIONS // 4):
        name = ("name", "x")[number % 2]
        offsets = np.array(Table(right).column(f"{name}.offsets"))
        data = with_column(
            right, f"{name}.offsets", offsets + rng.integers(-2, 3, 7) ** (number % 60)
        )
        size = Table(right).length(f"{name}.bytes")
        data = with_column(data, f"{name}.bytes", rng.integers(0, 256, size).astype(np.uint8))
        data = with_column(data, "id", rng.integers(-9, 9, 6))
        try:
            put(store, data, "str")
            read_all(store, "str")
        except VertexError:
            continue
        except BaseException as error:
            raise AssertionError(f"seed {seed}, columns {number}: {error!r}") from error


def test_manifests_and_heads_with_right_checksums(store: Store, seed: int) -> None:
    rng = random.Random(seed)
    put(store, segment(columns(False)), "int")
    newest = store.head("loop")
    assert newest is not None
    record = json.loads(newest.encode()[8:])
    for number in range(MUTATIONS):
        body = json.dumps(mutated(record, rng)).encode()
        try:
            Manifest.decode("m", b"%08x" % zlib.crc32(body) + body)
            Head.decode(
                json.dumps(mutated({"manifest": "m", "iteration": 1, "epoch": 2}, rng)).encode()
            )
        except VertexError:
            continue
        except BaseException as error:
            raise AssertionError(f"seed {seed}, record {number}: {error!r}") from error


@pytest.mark.parametrize("codec", ["zstd", "lz4"])
def test_compressed_columns_are_not_unpacked(store: Store, codec: str) -> None:
    rows = 1 << 20
    data = compressed(segment({"id": np.arange(rows), "v": np.zeros(rows)}), codec)
    put(store, data, "int")
    before = pa.default_memory_pool().max_memory()
    with pytest.raises(CorruptError, match="its columns are compressed"):
        list(store.read("loop"))
    assert pa.default_memory_pool().max_memory() - before < 8 * rows


def attributes(table: pa.Table, **options: Any) -> NDArray[np.uint8]:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema, options=pa.ipc.IpcWriteOptions(**options)) as stream:
        stream.write_table(table)
    return np.frombuffer(sink.getvalue(), np.uint8)


OFFSETS = [pa.py_buffer(np.array(x, np.int64)) for x in ([0, 1 << 40, 2], [0, -5, 2])]
BAD_ATTRIBUTES = {
    "compressed": attributes(pa.table({"x": [0.0] * 2}), compression="zstd"),
    "type dictionary": attributes(pa.table({"x": pa.array(["a", "b"]).dictionary_encode()})),
    "other vertices": attributes(pa.table({"x": [0.0] * 3})),
    "is damaged": np.arange(100).astype(np.uint8),
}


def stored_vertices(store: Store, content: NDArray[np.uint8]) -> Graph:
    names, data = pack_strings(["a", "b"])
    columns = {"names.offsets": names, "names.bytes": data, "attributes": content}
    ref = store.put_segment("loop", 0, 0, "topology", columns, group="vertices")
    version = store.commit("loop", iteration=0, segments=[ref])
    return stored_graph(None, store, version, undirected=False, partitions=1)


@pytest.mark.parametrize("what", BAD_ATTRIBUTES)
def test_attributes_of_vertices_are_checked(store: Store, what: str) -> None:
    with pytest.raises(CorruptError, match=what):
        stored_vertices(store, BAD_ATTRIBUTES[what])


@pytest.mark.parametrize("offsets", OFFSETS)
def test_strings_of_attributes_are_within_their_bytes(store: Store, offsets: pa.Buffer) -> None:
    data = [None, offsets, pa.py_buffer(b"ab")]
    texts = pa.Array.from_buffers(pa.large_string(), 2, data)
    with pytest.raises(CorruptError, match="attributes"):
        stored_vertices(store, attributes(pa.table({"x": texts})))


def forged(store: Store, record: dict[str, Any]) -> None:
    """Have the newest version of a loop be this manifest."""
    body = json.dumps(record).encode()
    head = store.backend.get_head("loop")
    assert head is not None
    new = NewManifest(record["name"], b"%08x" % zlib.crc32(body) + body)
    assert store.backend.swap_head("loop", head, replace(head, manifest=record["name"]), new)


def record_of(store: Store) -> dict[str, Any]:
    put(store, segment(columns(False)), "int")
    newest = store.head("loop")
    assert newest is not None
    return dict(json.loads(newest.encode()[8:]), name=new_attempt(), complete=False, depth=3)


WAYS: dict[str, Callable[[Store], Any]] = {
    "read": lambda store: list(store.read("loop")),
    "lookup": lambda store: store.lookup("loop", [3]),
    "chain": lambda store: list(store.chain(store.version("loop"))),
    "descends": lambda store: store._descends(store.version("loop"), "another"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_manifest_that_is_built_on_itself(store: Store, way: str) -> None:
    record = record_of(store)
    forged(store, {**record, "parent": record["name"]})
    if way == "descends":
        assert WAYS[way](store) is False
    else:
        with pytest.raises(CorruptError, match=r"built on .* not before it"):
            WAYS[way](store)
        with pytest.raises(CorruptError, match="built on"):
            store.collect(0, alone=True)
    assert store.audit().corrupt


@pytest.mark.parametrize("at", range(9))
@pytest.mark.parametrize("value", [{}, [], None, True, 1.5])
def test_a_segment_s_key_of_another_type(store: Store, at: int, value: Any) -> None:
    record = record_of(store)
    record["segments"][0][at] = value
    forged(store, record)
    for use in (WAYS["read"], WAYS["lookup"]):
        with pytest.raises(CorruptError, match=r"manifest .* is damaged"):
            use(store)


@pytest.mark.parametrize(
    "name", ["iteration", "parent", "partitions", "depth", "statistics", "offsets", "aggregates"]
)
def test_a_manifest_s_field_of_another_type(store: Store, name: str) -> None:
    record = record_of(store)
    forged(store, {**record, name: [7]})
    with pytest.raises(CorruptError, match=f"{name} is of type list"):
        store.version("loop")


@pytest.mark.parametrize("stored", [[], {}, {"params": 1, "undirected": 2, "value": 3}, {"x": 1}])
def test_counters_of_another_form(store: Store, stored: Any) -> None:
    record = record_of(store)
    forged(store, {**record, "statistics": {"main": stored}, "parent": None, "complete": True})
    with pytest.raises(CorruptError, match="version 0 of loop 'loop' is damaged"):
        Ledger.of(store.version("loop"))


def stored(path: Path) -> None:
    with open_store(f"lmdb://{path}") as store:
        segments = []
        for partition, rows in enumerate((4, 200_000)):  # one small, one a file of its own
            data = {"id": np.arange(rows), "v": np.arange(float(rows))}
            ref = store.put_segment("loop", partition, 0, "base", data)
            segments.append(ref)
        store.commit("loop", iteration=0, segments=segments, partitions=2)
    del store
    gc.collect()


def used(path: Path) -> int:
    with open_store(f"lmdb://{path}", create=False) as store:
        store.collect(0, alone=True)
        store.backend.size()
        rows = sum(len(part["id"]) for _, part in store.read("loop"))
        assert store.verify() == []
        return rows


LOOP = b"loop".hex()
STRAY = ["notes.txt", "large/notes.txt", "large/a-b-c", f"large/{LOOP}/.DS_Store", "shard-05"]
STRAY += [f"large/{LOOP}/1-2-3", f"large/ff/0-0-{'0' * 32}", f"large/{LOOP}/1-2-{'z' * 32}"]


def test_stray_files_are_left_alone(tmp_path: Path) -> None:
    stored(tmp_path / "store")
    for name in STRAY:
        file = tmp_path / "store" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text("not yours")
    assert used(tmp_path / "store") == 200_004
    assert all((tmp_path / "store" / name).read_text() == "not yours" for name in STRAY)


RECORDS: list[tuple[str, bytes | None, bytes, bytes]] = [
    ("shard-00", None, b"abc", b"x"),
    ("shard-00", None, b"\xff" * 40, b"x"),
    ("catalog", b"heads", b"loop\0", b"{"),
    ("catalog", b"heads", b"loop\0", b'{"a":1}'),
    ("catalog", b"heads", b"loop\0", b"[1]"),
    ("catalog", b"heads", b"\xff\0", b"{}"),
    ("catalog", b"manifests", b"lease.x", b"{"),
    ("catalog", b"manifests", b"lease.x", b'{"until": "now"}'),
    ("catalog", b"manifests", b"\xff", b"{"),
    ("catalog", b"versions", b"loop\0" + bytes(8), b"\xff"),
]


@pytest.mark.sample(4)
@pytest.mark.parametrize("number", range(len(RECORDS)))
def test_records_of_lmdb(tmp_path: Path, number: int) -> None:
    part, table, key, value = RECORDS[number]
    stored(tmp_path / "store")
    with lmdb.open(str(tmp_path / "store" / part), max_dbs=5, map_size=1 << 30) as handle:
        place = handle.open_db(table) if table else None
        with handle.begin(write=True) as transaction:
            transaction.put(key, value, db=place)
    with pytest.raises(CorruptError, match=r"is damaged \(.*\): restore it, or") as caught:
        used(tmp_path / "store")
    assert "\n" not in str(caught.value)


def test_pages_of_lmdb(tmp_path: Path) -> None:
    for part in ("shard-00", "catalog"):
        stored(tmp_path / part)
        with open(tmp_path / part / part / "data.mdb", "r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.seek(8192)  # after the two pages that LMDB checks when it opens
            file.write(bytes([0x5A]) * (size - 8192))
        with pytest.raises(StateError) as caught:
            used(tmp_path / part)
        assert "\n" not in str(caught.value)


def walk(store: Store) -> None:
    store.head("loop")
    store.collect(0, alone=True)
    list(store.read("loop"))


def test_records_of_redis(redis_server: RedisServer, redis_url: str) -> None:
    prefix = redis_url.partition("prefix=")[2].partition("&")[0]
    with redis.Redis(port=redis_server.port) as client, open_store(redis_url) as store:
        ref = store.put_segment("loop", 0, 0, "base", {"id": np.arange(4)})
        store.commit("loop", iteration=0, segments=[ref])
        field = f"0:0:{ref.key.attempt}"
        for name, entry, value in (
            ("heads", "loop", b"{"),
            ("heads", b"\xff", b"{}"),
            ("manifests", b"\xff", b"{}"),
            ("segments:loop", "a:b", b"x"),
            ("segments:loop", field, b"x"),
            ("segments:loop", field, b"C" + b"x" * 80),
        ):
            place = f"{prefix}:{name}"
            before = client.hget(place, entry)
            client.hset(place, entry, value)
            store.forget_tables()
            with pytest.raises(CorruptError, match="is damaged") as caught:
                walk(store)
            assert "\n" not in str(caught.value)
            if before is None:
                client.hdel(place, entry)
            else:
                client.hset(place, entry, before)
        client.zadd(f"{prefix}:versions:loop", {b"soon:x": 0})
        with pytest.raises(CorruptError, match="is damaged"):
            store.versions("loop")
