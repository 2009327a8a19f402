"""Changes: read from files, given as tuples, applied to a sorted set of edges."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.cast import cast_changes
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.changes import ADD, CHANGE, REMOVE, Changes
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import read_rows


def read(text: str, tmp_path: Path, **options: Any) -> list[tuple[Changes, list[str]]]:
    path = tmp_path / "changes.txt"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    form = LineFormat(options.pop("integers", True), options.pop("value", "float64"))
    return [
        (batch.changes, [str(bad).removeprefix(f"{path}, ") for bad in batch.bad.first])
        for batch in ChangeFiles([str(path)], form, **options)
    ]


def test_a_change_file(tmp_path: Path) -> None:
    text = "# head\n+ 1 2\n\n+\t-3,4 0.5\n \t# more\n~ 1 2 1e3\n- 1 2\n- 1 2 7\n"
    [(batch, bad)] = read(text, tmp_path)
    assert bad == []
    assert batch.kind.tolist() == [ADD, ADD, CHANGE, REMOVE, REMOVE]
    assert batch.source.to_pylist() == [1, -3, 1, 1, 1]
    assert batch.target.to_pylist() == [2, 4, 2, 2, 2]
    assert str(batch.value.tolist()) == "[nan, 0.5, 1000.0, nan, nan]"
    assert batch.places[2].endswith("changes.txt, line 6")


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("* 1 2", "'*' is not a sign of a change; a line begins with +, - or ~"),
        ("1 2 3", "'1' is not a sign of a change; a line begins with +, - or ~"),
        ("+ 1", "2 fields; write + source target [value]"),
        ("+ 1 2 # new", "5 fields; write + source target [value]; a comment is a line of its own"),
        ("+ 1 2 #3", "value '#3' is not a number"),
        ("+ 1 2 3 4", "5 fields; write + source target [value]"),
        ("-", "1 fields; write - source target"),
        ("~ 1 2", "3 fields; write ~ source target value"),
        ("+ 1 2 x", "value 'x' is not a number"),
        ("+ 1 2 nan", "value NaN is not a number"),
        ("+ a 2", "id 'a' is not an integer, but those of the graph are"),
        ("+ 1_0 2", "id '1_0' is not an integer, but those of the graph are"),
        ("+ 9223372036854775808 2", "id '9223372036854775808' is beyond int64"),
    ],
)
def test_bad_lines_are_told_and_left_out(tmp_path: Path, line: str, reason: str) -> None:
    [(batch, bad)] = read(f"+ 1 2\n{line}\n- 1 2\n", tmp_path)
    assert bad == [f"line 2: {reason}"]
    assert batch.kind.tolist() == [ADD, REMOVE]


def test_strings_and_batches(tmp_path: Path) -> None:
    text = "".join(f"+ v{k} w\n" for k in range(5)) + "bad\n"
    read_ = read(text, tmp_path, integers=False, at_once=2)
    assert [len(batch) for batch, _ in read_] == [2, 2, 1]
    assert [len(bad) for _, bad in read_] == [0, 0, 1]
    assert read_[1][0].source.to_pylist() == ["v2", "v3"]
    [(_, bad)] = read("+ \udcff w\n", tmp_path, integers=False)
    assert len(bad) == 1
    assert bad[0].endswith("is not text in UTF-8")


def test_whole_values(tmp_path: Path) -> None:
    [(batch, bad)] = read(f"+ 1 2 {2**53 + 1}\n+ 1 3 0.5\n", tmp_path, value="int64")
    assert batch.value.tolist() == [2**53 + 1]
    assert bad == ["line 2: value '0.5' is not a number"]
    [(batch, bad)] = read(f"+ 1 2 {2**63}\n", tmp_path, value="int64")
    assert bad == [f"line 1: value '{2**63}' is not an int64 value of an edge"]
    assert len(batch) == 0
    [(batch, bad)] = read(f"+ 1 2 {-(2**63)}\n+ 1 2\n", tmp_path, value="int64")
    assert bad == [f"line 1: value '{-(2**63)}' is not an int64 value of an edge"]
    assert batch.value.tolist() == [-(2**63)]  # none


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("*", 1, 2)], "is not a change"),
        ([("+", 1)], "is not a change"),
        ([("~", 1, 2)], "is not a change"),
        ([("~", 1, 2, None)], "is not a change"),
        ([("+", 1.5, 2)], "ids of changes must be integers or strings"),
        ([("+", 1, 2**63)], "beyond int64"),
        ([("+", 1, 2, float("nan"))], "none of them NaN or"),
        ([("+", 1, 2, -(2**63))], r"or -2\*\*63"),
        ([("+", 1, 2, "x")], "must be numbers"),
        ([("+", 1, 2, 2**64)], "must be numbers that int64 or float64 can hold"),
        ([("+", 1, 2, [1]), ("+", 1, 2, [2])], "must be numbers"),
        ([("+", 1, 2, [1]), ("+", 1, 2)], "must be numbers"),
    ],
)
def test_rows_that_are_no_changes(rows: list[Any], said: str) -> None:
    with pytest.raises(InputError, match=said):
        Changes.of(rows)


@pytest.mark.parametrize("kind", [-1, 3, 256, 0.5, "+", None, [0]])
def test_kinds_that_are_none(kind: Any) -> None:
    for kinds in ([kind], np.array([kind])):
        with pytest.raises(InputError, match="the kind of a change is"):
            Changes.from_arrays(kinds, [1], [2])


@pytest.mark.parametrize(
    "ids",
    [pa.array([None], pa.int64()), pa.array([2**63], pa.uint64()), pa.array([b"a"]), [None],
     pa.array([1.5])],
)  # fmt: skip
def test_arrays_of_no_ids(ids: Any) -> None:
    with pytest.raises(InputError, match=r"ids? of (the )?changes"):
        Changes.from_arrays([0], ids, [2])


def test_changes_without_a_value() -> None:
    """In the columns of a graph's values they have a number which no edge has."""
    kinds, ends = [ADD, REMOVE, ADD], [1, 2, 3]
    for value, integers in ((None, None), ([2, None, 2**60], True), ([0.5, None, 2**60], False),
                            (pa.array([2, None, 3]), True), ([None] * 3, None)):  # fmt: skip
        batch = Changes.from_arrays(kinds, ends, ends, value)
        assert batch.value.dtype == (np.int64 if integers else np.float64)
        for dtype in ("float64", "int64") if integers is not False else ("float64",):
            cast = cast_changes(batch, integers=True, value=dtype, undirected=False)
            none = np.isnan(cast.value) if dtype == "float64" else cast.value == -(2**63)
            assert cast.value.dtype == dtype
            assert none.tolist() == ([True] * 3 if integers is None else [False, True, False])
            if integers is not None:
                assert cast.value[0] == float(pa.array(value[:1])[0].as_py())
    assert fit([("+", 1, 2, 2**60 + 1), ("+", 1, 3), ("+", 1, 4, 2.0)]).value.tolist() == [
        2**60 + 1, -(2**63), 2,
    ]  # fmt: skip
    with pytest.raises(InputError, match="a change of a value needs one"):
        Changes.from_arrays([CHANGE], [1], [2])


@pytest.mark.parametrize("dtype", ["float64", "int64"])
@pytest.mark.parametrize("column", ["nulls", "only nulls", "none"])
def test_rows_of_a_table_without_a_value(dtype: str, column: str) -> None:
    value: dict[str, Any] = {"nulls": pa.array([2, None, None]), "only nulls": pa.nulls(3)}
    ends = {"kind": ["+", "+", "~"], "source": [1, 1, 1], "target": [2, 3, 4]}
    table = pa.table(ends | ({} if column == "none" else {"value": value[column]}))
    (kind, *_, values, _), bad, _ = read_rows(table, LineFormat(True, dtype), "b")
    assert kind.tolist() == [ADD, ADD]
    assert [str(line) for line in bad.first] == ["b, row 3: a change of a value needs one"]
    none = np.isnan(values) if dtype == "float64" else values == -(2**63)
    assert none.tolist() == [column != "nulls", True]


@pytest.mark.parametrize("value", [np.inf, -np.inf, 1e300, 2.0**63, -(2.0**63), 0.5, np.nan, 2**63])
def test_values_that_int64_cannot_hold(value: Any) -> None:
    """From tables, as those of Structured Streaming, they are bad rows: no other value is made."""
    kind = pa.uint64() if isinstance(value, int) else pa.float64()
    table = pa.table({
        "kind": ["+"] * 3, "source": [1] * 3, "target": [2, 3, 4],
        "value": pa.array([1, value, 2], kind),
    })  # fmt: skip
    columns, bad, _ = read_rows(table, LineFormat(True, "int64"), "b")
    assert Changes(*columns).value.tolist() == [1, 2]
    assert [str(line) for line in bad.first] == [
        f"b, row 2: value {value} is not an int64 value of an edge"
    ]
    if isinstance(value, float) and value == value:
        with pytest.raises(InputError, match="change 2: the program reads int64 edge values"):
            fit([("+", 1, 2), ("+", 1, 3, value)])


def test_large_integers_beside_floats_are_not_rounded() -> None:
    rows = [
        ("+", 1, 2, 2**53 + 1),
        ("+", 1, 3, 1.0),
        ("+", 1, 4, 1 - 2**63),
        ("+", 1, 5, 2**63 - 1),
    ]
    assert fit(rows).value.tolist() == [2**53 + 1, 1, 1 - 2**63, 2**63 - 1]


def fit(rows: list[Any]) -> Changes:
    return cast_changes(rows, integers=True, value="int64", undirected=False)


def test_a_dataframe(spark: SparkSession) -> None:
    rows = [("+", 1, 2, 0.5), ("remove", 1, 2, None), ("~", 3, 4, 2.0)]
    frame = spark.createDataFrame(rows, "kind string, source long, target long, value double")
    batch = Changes.from_dataframe(frame.coalesce(1))
    assert batch.kind.tolist() == [ADD, REMOVE, CHANGE]
    assert str(batch.value.tolist()) == "[0.5, nan, 2.0]"
    with pytest.raises(InputError, match="there is no target"):
        Changes.from_dataframe(frame.drop("target"))
    with pytest.raises(InputError, match="the changes, row 1: kind 'x'"):
        Changes.from_dataframe(frame.selectExpr("'x' kind", "source", "target"))
    with pytest.raises(InputError, match="the changes, row 1: target is null"):
        Changes.from_dataframe(frame.selectExpr("kind", "source", "null + target as target"))
    named = frame.selectExpr("kind", "source", "'v' || target as target", "int(value) as value")
    batch = Changes.from_dataframe(named.coalesce(1))
    assert (batch.source.to_pylist(), batch.target.to_pylist()) == (
        ["1", "1", "3"], ["v2", "v2", "v4"],
    )  # fmt: skip
    assert batch.value.dtype == np.int64
