"""Values of type bytes: each way in, each way out, and what is refused."""

from __future__ import annotations

import base64
import json
import random
from collections.abc import Callable
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.stateful.histories import BYTES
from tests.stateful.programs import Blobs
from tests.support.seeds import seed
from vertexsdk import (
    InputError,
    Map,
    Partitioned,
    PerPartition,
    ProgramError,
    RowsState,
    StateElement,
    Stateful,
    StatefulClient,
    StatefulLoop,
    gather_all,
    on_all,
)
from vertexsdk.arrays.arrow_table import Table, encode
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.packed_strings import PackedBytes, pack_bytes, take_strings, unpack_bytes
from vertexsdk.cli import main
from vertexsdk.engine.keyed.calls import Calls, join_values, python_values, take_values
from vertexsdk.engine.keyed.keyed_engine import described_table
from vertexsdk.state import version_history
from vertexsdk.state.stored_columns import accepted
from vertexsdk.stateful import call_columns, stateful_client
from vertexsdk.stateful.analysis import program_of
from vertexsdk.stateful.call_service import as_plain, of_plain
from vertexsdk.testing.state_elements import StateElementSuite

ROWS = np.array([[0, 1], [2, -1], [3, 0], [0, 0], [9, 9]], np.float32)
AS_BYTES = [row.tobytes() for row in ROWS]
WAYS: dict[str, Callable[[], Any]] = {
    "list": lambda: AS_BYTES,
    "generator": lambda: iter(AS_BYTES),
    "bytearrays and memoryviews": lambda: [bytearray(AS_BYTES[0]), *map(memoryview, AS_BYTES[1:])],
    "binary": lambda: pa.array(AS_BYTES),
    "large binary": lambda: pa.array(AS_BYTES, pa.large_binary()),
    "fixed size binary": lambda: pa.array([b"\7" * 8, *AS_BYTES], pa.binary(8)).slice(1),
    "binary view": lambda: pa.array(AS_BYTES, pa.binary_view()),
    "chunks": lambda: pa.chunked_array([pa.array(AS_BYTES[:2]), pa.array(AS_BYTES[2:])]),
    "dictionary": lambda: pa.array(AS_BYTES).dictionary_encode(),
    "array": lambda: ROWS.copy(),
    "array of another order": lambda: np.asfortranarray(ROWS),
    "part of an array": lambda: np.column_stack([ROWS, ROWS])[:, :2],
    "packed": lambda: PackedBytes(pack_bytes(AS_BYTES).offsets, ROWS.copy().view("u1").ravel()),
    "pandas": lambda: pd.Series(AS_BYTES),
    "pandas with Arrow": lambda: pd.Series(AS_BYTES, dtype=pd.ArrowDtype(pa.binary())),
    "array of objects": lambda: np.array(AS_BYTES, object),
}


class Rows(Stateful):
    """A row of features for each key."""

    rows = Partitioned(Map(int, y=float, x=bytes), key="key")

    def put(self, key: int, x: bytes, y: float = 0.5) -> bytes:
        self.rows[key].x, self.rows[key].y = x, y
        return x

    def total(self, key: int) -> float:
        return float(np.frombuffer(self.rows[key].x, np.float32).sum())


@pytest.mark.parametrize("way", WAYS)
def test_map_takes_rows_as_their_bytes(way: str, monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = random.Random(seed()).choice([1, 2, 7])
    monkeypatch.setattr(call_columns, "_FIRST", 2)
    monkeypatch.setattr(call_columns, "_BYTES", 24)
    monkeypatch.setattr(version_history, "_BATCHES", 10)
    url = f"memory://rows-{way.replace(' ', '-')}"
    with StatefulLoop(Rows, backend=url, partitions=partitions, replace=True) as flow:
        given = WAYS[way]()
        assert flow.put.map(range(5), given) == AS_BYTES
        if isinstance(given, np.ndarray) and given.ndim == 2:
            given[:] = 7  # the log has what was given
        if isinstance(given, PackedBytes):
            given.data[:] = 7
        for _ in range(10):  # until the blocks of the log are written again, as one
            flow.put(9, b"")
        flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(Rows, backend=url) as flow:
        assert flow.total.map(range(5)) == ROWS.sum(axis=1).tolist()
        assert flow.lookup(1) == {1: {"y": 0.5, "x": AS_BYTES[1]}}


def test_map_takes_tables_with_binary_columns() -> None:
    table = pa.table({"y": [1.0] * 5, "x": pa.array(AS_BYTES), "key": range(5)})
    with StatefulLoop(Rows, backend="memory://rows-tables", replace=True) as flow:
        for one in (table, table.to_pandas(), table.to_batches()[0], table.slice(5)):
            assert flow.put.map(one) == AS_BYTES[: len(one)]
        assert flow.put.map([(7, b"a\0", 2)]) == [b"a\0"]
        assert flow.put.map([], ROWS[:0]) == flow.put.map([], pack_bytes([])) == []
        assert flow.put.map([1, 2], np.zeros((2, 0))) == [b"", b""]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (np.array([b"a\0"]), r"NumPy drops zeros at the end of values of type .*S2; give a list"),
        (np.zeros((1, 2, 2)), "an array of numbers of two dimensions, whose rows"),
        (np.array([[b"a"]], object), "an array of numbers of two dimensions, whose rows"),
        (np.arange(1), "0 is not bytes; convert it"),
        ([np.zeros(2)], r"is not bytes; call its tobytes\(\), or declare"),
        (["a"], r"'a' is not bytes; call its encode\(\), or declare"),
        (b"a", "bytes is one value; give a list of them"),
        (pa.array([None], pa.binary()), "there are nulls; fill them"),
        (PackedBytes(np.array([0, 2]), np.zeros(1, np.uint8)), "does not rise from 0 to the 1"),
        (PackedBytes(np.array([0, 1]), np.zeros(1, np.int8)), "packed bytes are uint8"),
    ],
)
def test_values_that_are_not_bytes_are_refused(given: Any, said: str) -> None:
    with StatefulLoop(Rows, backend="memory://rows-refused", replace=True) as flow:
        with pytest.raises(InputError, match=f"^Rows.put, parameter x: .*{said}") as error:
            flow.put.map([1], given)
        assert "\n" not in str(error.value)
        with pytest.raises(InputError, match="packed bytes are uint8, for a parameter of type"):
            flow.total.map(pack_bytes([b"a"]))
        assert flow.progress()["calls"] == 0
    with pytest.raises(InputError, match=r"Rows.put\(\), parameter x: 'a' is not bytes"):
        Rows().put(1, "a")  # type: ignore[arg-type]


def test_bytes_are_not_keys() -> None:
    with pytest.raises(ProgramError, match="Map: a key of type bytes is not supported: use int, s"):
        Map(bytes, int)
    with pytest.raises(ProgramError, match="use int, float, bool, str, bytes"):
        Map(int, list)
    with pytest.raises(ProgramError, match="give combine="):
        PerPartition(Map(int, bytes))

    class Keys(Stateful):
        rows = Partitioned(Map(str, int), key="key")

        def add(self, key: bytes) -> None:
            self.rows[key] += 1  # type: ignore[index]

    with pytest.raises(ProgramError, match="the keys of rows are str: annotate the parameter as"):
        program_of(Keys)


@pytest.mark.parametrize("rows", [[], [0], [6, 0, 6], list(range(7))])
def test_packed_bytes_are_taken_and_joined(rows: list[int]) -> None:
    for values in (BYTES, [b"abcd"] * 7, [b""] * 7):
        packed = pack_bytes(values)
        taken = take_values(packed, np.array(rows, np.int64))
        joined = join_values([taken, packed])
        assert isinstance(joined, PackedBytes)
        assert isinstance(taken, PackedBytes)
        assert unpack_bytes(*joined) == [*(values[k] for k in rows), *values]
        offset = take_strings(packed.offsets[1:], packed.data, np.arange(6))  # within others
        assert unpack_bytes(*offset) == values[1:]


def test_a_damaged_log_of_bytes_is_refused() -> None:
    """Its columns have names of their own, and offsets that are not theirs are found."""
    program = program_of(Rows)
    calls = Calls.of(program, [(0, (1, b"\xff\0", 0.5)), (0, (2, b"", 0.5))])
    columns, described = calls.columns(), Calls.described(program)
    again = Calls.from_columns(accepted(columns, described))
    again.check(program)
    assert isinstance(again.arguments[0, 1], PackedBytes)
    assert python_values(again.arguments[0, 1]) == [b"\xff\0", b""]
    for name, damage in (
        ("0.1.binary.offsets", np.array([0, 3, 2])),
        ("0.1.binary.offsets", np.array([0, 1, 9])),
        ("0.1.binary.offsets", np.array([0, 2])),
        ("0.1.binary.bytes", np.zeros(2)),
    ):
        with pytest.raises(CorruptError):
            accepted({**columns, name: damage}, described)
    as_text = {name.replace(".binary", ""): column for name, column in columns.items()}
    with pytest.raises(CorruptError, match="2 calls of put have 0 arguments"):
        Calls.from_columns(accepted(as_text, described)).check(program)


def test_a_snapshot_with_values_of_another_type_is_refused() -> None:
    described = described_table(program_of(Rows).tables["rows"])
    columns = {"id": np.array([1]), "y": np.zeros(1), "x": np.array([b"a"], object)}
    assert accepted(columns, described)["x"].tolist() == [b"a"]
    with pytest.raises(CorruptError, match="column 'x' has values that are not bytes"):
        accepted({**columns, "x": np.array(["a"], object)}, described)


def test_columns_of_bytes_are_stored_without_pickles() -> None:
    for values in ([*BYTES], [b"a"], []):
        data = b"".join(encode({"x": np.array([*values, None], object)[:-1]}))
        table = Table(data)
        assert not table.is_pickled("x")
        assert table.column("x", verify=True).tolist() == values
        assert [table.row("x", k) for k in range(len(values))] == values
    assert Table(b"".join(encode({"x": np.array([b"a", "a"], object)}))).is_pickled("x")


class BagState(RowsState):
    def add(self, key: Any, value: bytes) -> int:
        row = (*self.row_of(key, ()), value)
        self.put(key, row)
        return len(row)

    def all(self, key: Any) -> list[bytes]:
        return list(self.row_of(key, ()))

    def to_fields(self, row: Any) -> Any:
        return b"".join(row), ",".join(str(len(one)) for one in row)

    def from_fields(self, fields: Any) -> Any:
        data, sizes = fields
        ends = list(accumulate(map(int, sizes.split(","))))
        return tuple(data[low:high] for low, high in pairwise([0, *ends]))

    def combine(self, one: Any, other: Any) -> Any:
        return tuple(sorted(one + other))


class Bag(StateElement):
    """Any number of values for each key."""

    state, reads, writes = BagState, ("all",), ("add",)

    def __init__(self, key: type) -> None:
        super().__init__(key, data=bytes, sizes=str)


class TestBag(StateElementSuite):
    def element(self, key: type) -> StateElement:
        return Bag(key)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return (chance.choice(BYTES[:-1]),) if method == "add" else ()


class Bags(Stateful):
    bags = PerPartition(Bag(int))
    newest = PerPartition(Map(int, bytes), combine=max)

    def add(self, key: int, value: bytes) -> None:
        self.bags.add(key, value)
        self.newest[key] = value

    def all(self, key: int) -> list[bytes]:
        found = gather_all(on_all(self.bags).all(key))
        return sorted(value for part in found for value in part)


def test_bytes_of_partitions_are_combined() -> None:
    values = [b"\xff\0", b"", b"a\0", b"\xff"]
    with StatefulLoop(Bags, backend="memory://bags", partitions=7, replace=True) as flow:
        flow.add.map([1] * 4, values)
        for partitions in (2, 1):
            flow.rescale(partitions)
            assert flow.all(1) == sorted(values)
        assert flow.lookup(1, "newest") == {1: {"value": b"\xff\0"}}
        assert flow.lookup(1, "bags")[1]["data"] == b"".join(sorted(values))


# Other processes


def test_a_client_calls_with_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    url, plain = "memory://bytes-client", Blobs()
    monkeypatch.setattr(stateful_client, "_BYTES", 1 << 20)
    with StatefulLoop(Blobs, backend=url, partitions=2, replace=True) as flow:
        flow.serve()
        with StatefulClient("Blobs", backend=url) as client:
            assert client.put(1) is plain.put(1) is None
            for value in BYTES[1:]:
                assert client.put(1, value) == plain.put(1, value)
            with pytest.raises(InputError, match="parameter value: 'a' is not bytes"):
                client.put(1, "a")
            values = np.arange(12, dtype=np.uint8).reshape(3, 4)
            assert client.first.map([5, 6, 7], values) == [row.tobytes() for row in values]
            assert client.take.map([5] * 3, BYTES[:3]) == [values[0].tobytes(), *BYTES[1:3]]
            assert client.learn("a", 2, b"\0") == {"y": 2.0, "x": b"\0"}
            assert client.parts(b"\xff", "a,b") == [b"\0\xff", b"\xff"]


@pytest.mark.parametrize(
    "value",
    [b"", b"\xff", [b"a", [b"b"]], {"#bytes": "YQ=="}, {"##bytes": b"a"}, {"#": 1}, {"a": b"b"},
     {"#bytes": b"a", "b": 1}, {}, {"": b""}],
)  # fmt: skip
def test_answers_with_bytes_are_json(value: Any) -> None:
    assert of_plain(json.loads(json.dumps(as_plain(value)))) == value


@pytest.mark.parametrize("value", [7, "*", None])
def test_requests_with_bytes_that_are_not_base64_are_refused(value: Any) -> None:
    with pytest.raises(InputError, match="is not base64, as bytes are"):
        of_plain([{"#bytes": value}])


def test_parquet_files_have_bytes_and_texts_do_not(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"key": range(5), "x": pa.array(AS_BYTES)}), path, row_group_size=2)
    for name, text in (("a.csv", "key,x\n1,a\n"), ("a.tsv", "key\tx\n1\ta\n"), ("a.txt", "a\n")):
        (tmp_path / name).write_text(text)
    with StatefulLoop(Rows, backend="memory://bytes-stream", partitions=2, replace=True) as flow:
        assert flow.put.start(path).awaitTermination()
        assert flow.total.map(range(5)) == ROWS.sum(axis=1).tolist()
        for name in ("a.csv", "a.tsv", "a.txt"):
            with pytest.raises(InputError, match=f"{name}: x is bytes, which a text does not have"):
                flow.put.start(tmp_path / name).awaitTermination()
        assert flow.progress()["calls"] == 5
    with StatefulLoop(Blobs, backend="memory://bytes-default", replace=True) as flow:
        (tmp_path / "keys.csv").write_text("key\n3\n")
        assert flow.put.start(tmp_path / "keys.csv").awaitTermination()
        assert flow.lookup(3, "one") == {3: {"value": b"\0"}}


def test_the_command_line_prints_base64(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    url = f"lmdb://{tmp_path}/store"
    shown = base64.b64encode(AS_BYTES[1]).decode()
    table = pa.table({"key": [1], "x": pa.array([AS_BYTES[1]])})
    pq.write_table(table, tmp_path / "rows.parquet")

    def printed(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, "--backend", url]) == status
        return capsys.readouterr()[bool(status)]

    call = ["call", "Rows", "put", "--file", f"{tmp_path}/rows.parquet"]
    with StatefulLoop(Rows, backend=url, partitions=2) as flow:
        flow.serve()
        assert printed(*call) == f"{shown}\n"
        assert printed(*call, "--json") == f'"{shown}"\n'
        printed(*call, "--output", f"{tmp_path}/out.csv")
        assert (tmp_path / "out.csv").read_text() == (
            f"key,x,y,answer,error\n1,{shown},0.5,{shown},\n"
        )
        said = printed("call", "Rows", "put", "1", "a", status=2)
        assert said.startswith("vertexsdk: x is bytes, which a text does not have: give")
        assert said.count("\n") == 1
    assert printed("query", "Rows", "--key", "1") == f"1 y=0.5 x={shown}\n"
    assert json.loads(printed("query", "Rows", "--json")) == {"key": 1, "y": 0.5, "x": shown}


def test_postgres_shows_bytea(postgres_url: str) -> None:
    import psycopg

    place, _, rest = postgres_url.partition("?schema=")
    schema = rest.partition("&")[0]
    with psycopg.connect(place, autocommit=True, options=f"-c search_path={schema}") as link:
        with StatefulLoop(Rows, backend=postgres_url, partitions=7, snapshot_every=1) as flow:
            for key, value in enumerate([b"", b"\0", b"\xff\\"]):
                flow.put(key, value)
        query = "SELECT vertex, x, x::text FROM vertex_state ORDER BY 1"
        assert link.execute(query).fetchall() == [
            (0, b"", "\\x"), (1, b"\0", "\\x00"), (2, b"\xff\\", "\\xff5c")
        ]  # fmt: skip
        columns = link.execute("SELECT field, type, col FROM vertex_fields ORDER BY 1").fetchall()
        assert columns == [("x", "bytea", "x"), ("y", "double precision", "y")]
    with StatefulLoop.resume(Rows, backend=postgres_url) as flow:
        assert flow.lookup(2) == {2: {"y": 0.5, "x": b"\xff\\"}}
