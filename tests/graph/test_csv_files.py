"""CSV files as they are out there, of edges, vertices and changes: each has its right value."""

from __future__ import annotations

import bz2
import gzip
import logging
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from vertexsdk.errors import InputError
from vertexsdk.graph.changes import change_files
from vertexsdk.graph.changes.change_files import ChangeFiles
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.graph import Graph, Variant
from vertexsdk.graph.topology.edge_attributes import NO_INT
from vertexsdk.graph.vertex_file import vertices_at

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BOM = "\ufeff"
Rows = Sequence[tuple[Any, Any, float]]

# The text of a file, and its edges.
EDGES: dict[str, tuple[str, Rows]] = {
    "bom": (f"{BOM}1,2\n2,3\n", [(1, 2, 1.0), (2, 3, 1.0)]),
    "bom, header": (f"{BOM}source,target\n1,2\n", [(1, 2, 1.0)]),
    "bom, quoted header": (f'{BOM}"source","target"\n1,2\n', [(1, 2, 1.0)]),
    "pandas": (",source,target\n0,10,11\n1,11,12\n", [(10, 11, 1.0), (11, 12, 1.0)]),
    "pandas, value": (",source,target,value\n0,10,11,0.5\n", [(10, 11, 0.5)]),
    "R": ('"","source","target"\n"1","a","b"\n"2","b","c"\n', [("a", "b", 1.0), ("b", "c", 1.0)]),
    "quotes": ('"a","b"\nb,c\n', [("a", "b", 1.0), ("b", "c", 1.0)]),
    "quoted commas": ('"Lee, Ann","say ""hi"""\n', [("Lee, Ann", 'say "hi"', 1.0)]),
    "hashtags": ("#python,#rust\n#rust,C#\n", [("#python", "#rust", 1.0), ("#rust", "C#", 1.0)]),
    "comments above": ("# by hand\n# from,to\nsource,target\n1,2\n", [(1, 2, 1.0)]),
    "blanks": ("Area 51,7\n7,New York\n", [("7", "New York", 1.0), ("Area 51", "7", 1.0)]),
    "cities": ("New York,Boston\n", [("New York", "Boston", 1.0)]),
    "blanks around": ("source, target , value\n1 , 2, 0.5\n", [(1, 2, 0.5)]),
    "src,dst": ("src,dst,weight\n1,2,3\n", [(1, 2, 3.0)]),
    "other order": ("weight,dst,note,src\n3,2,x,1\n,4,#,3\n", [(1, 2, 3.0), (3, 4, 1.0)]),
    "no value": ("1,2,\n2,3,5\n", [(1, 2, 1.0), (2, 3, 5.0)]),
    "decimals": ("1.0,2.5\n1,2\n", [("1", "2", 1.0), ("1.0", "2.5", 1.0)]),
    "dates": ("2024-01-31,2024-02-01\n", [("2024-01-31", "2024-02-01", 1.0)]),
    "truths": ("true,false\nnull,NA\n", [("null", "NA", 1.0), ("true", "false", 1.0)]),
    "hours": ("12:30,13:00\n", [("12:30", "13:00", 1.0)]),
    "padded": ("007,08\n7,8\n", [("007", "08", 1.0), ("7", "8", 1.0)]),
    "unicode": ("Zoë,Åsa\n", [("Zoë", "Åsa", 1.0)]),
    "CR": ("source,target\r1,2\r2,3\r", [(1, 2, 1.0), (2, 3, 1.0)]),
    "CR LF": ("1,2\r\n\r\n2,3\r\n", [(1, 2, 1.0), (2, 3, 1.0)]),
    "no end": ("1,2\n2,3", [(1, 2, 1.0), (2, 3, 1.0)]),
    "empty rows": ("1,2\n,\n\n2,3\n", [(1, 2, 1.0), (2, 3, 1.0)]),
    "time stamps": ("source,target,time\n1,2,1082040961\n", [(1, 2, 1.0)]),
}

# The text of a file, and what is said.
BAD_EDGES: dict[str, tuple[str, str]] = {
    "no target": ("1,2\n2,,\n", r"line 2: expected 2 columns, got 3"),
    "empty target": ("1,2,5\n2,,7\n", r"line 2: the target is empty; write an id"),
    "empty source": (f"{BOM}source,target\n1,2\n\n ,7\n", r"line 4: the source is empty"),
    "quoted empty": ('source,target\n"",7\n', r"line 2: the source is empty"),
    "semicolons": ("source;target\n1;2\n", r"by ';': give separator=';'$"),
    "bars": ("1|2|5\n3|4|5\n", r"by '\|': give separator='\|'"),
    "LDBC": ("Person.id|Person.id|creationDate\n1|2|2010\n", r"not separated by ',' but by '\|'"),
    "one blank": ("1 2\n3 4\n", r"not separated by ',' but by ' '"),
    "from,to": ("from,to\n1,2\n", r"columns are from, to; name them .* source=, target=$"),
    "follower": ("follower,followee\nann,bob\n", r"columns are follower, followee; name them"),
    "unnamed": (",a,b\n0,1,2\n", r"columns are \(none\), a, b; name them"),
    "four": ("1,2,3,4\n", r"4 columns without a header: write one"),
    "one": ("source\n1\n", r"one column; an edge has a source and a target"),
    "cells": ("source,target\n1,2\n3,4,5\n", r"line 3: expected 2 columns, got 3: '3,4,5'"),
    "a value": ("1,2,5\n\n3,4,x\n5,6,7\n", r"line 3, column value: a value is not a number .*x"),
    "quote": ('1,"2\n3,4\n', r"a quoted cell has a line end, or a quote is not closed"),
    "range": ("1,2\n3,9223372036854775808\n", r"line 2, column target: '9+.*beyond int64"),
}


def pack(path: Path, data: bytes, packing: str) -> str:
    if packing == "gz":
        data = gzip.compress(data)
    elif packing == "bz2":
        data = bz2.compress(data)
    path = path.with_name(path.name + (f".{packing}" if packing else ""))
    path.write_bytes(data)
    return str(path)


def edges_of(graph: Graph) -> list[tuple[Any, Any, float]]:
    table = graph.to_arrow().to_pydict()
    return [*zip(table["source"], table["target"], table["value"], strict=True)]


@pytest.mark.sample(33)
@pytest.mark.parametrize("packing", ["", "gz", "bz2"])
@pytest.mark.parametrize("case", EDGES)
def test_edges(tmp_path: Path, case: str, packing: str) -> None:
    text, rows = EDGES[case]
    path = pack(tmp_path / "edges.csv", text.encode(), packing)
    assert edges_of(Graph.read(path)) == sorted(rows)


@pytest.mark.parametrize("packing", ["", "gz"])
def test_an_edge_list_after_a_byte_order_mark(tmp_path: Path, packing: str) -> None:
    path = pack(tmp_path / "edges.txt", f"{BOM}1 2\n2 3\n".encode(), packing)
    for partitions in (1, 2):
        assert edges_of(Graph.read(path, partitions=partitions)) == [(1, 2, 1.0), (2, 3, 1.0)]


@pytest.mark.parametrize("case", [case for case in EDGES if case != "quoted commas"])
def test_edges_with_tabs_in_partitions(tmp_path: Path, case: str) -> None:
    text, rows = EDGES[case]
    path = pack(tmp_path / "edges.tsv", text.replace(",", "\t").encode(), "")
    assert edges_of(Graph.read(path, partitions=3)) == sorted(rows)


@pytest.mark.parametrize("packing", ["", "gz"])
@pytest.mark.parametrize("case", BAD_EDGES)
def test_bad_edges(tmp_path: Path, case: str, packing: str) -> None:
    text, said = BAD_EDGES[case]
    path = pack(tmp_path / "edges.csv", text.encode(), packing)
    with pytest.raises(InputError, match=said) as caught:
        Graph.read(path).materialise(Variant("out", "float64"))
    assert path in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", ["edges.csv", "edges.txt", "edges.csv.gz"])
def test_utf_16_is_named(tmp_path: Path, name: str) -> None:
    data = "1,2\n".encode("utf-16")
    (tmp_path / name).write_bytes(gzip.compress(data) if name.endswith("gz") else data)
    with pytest.raises(InputError, match="UTF-16, or no text; convert it to UTF-8"):
        Graph.read(str(tmp_path / name))
    with pytest.raises(InputError, match="UTF-16, or no text; convert it to UTF-8"):
        vertices_at(None, str(tmp_path / name))
    if not name.endswith("gz"):
        with pytest.raises(InputError, match="UTF-16, or no text; convert it to UTF-8"):
            [*ChangeFiles([str(tmp_path / name)], LineFormat(True))]


def test_columns_and_separators_that_are_said(tmp_path: Path) -> None:
    path = tmp_path / "knows.csv"
    path.write_text("Person.id|Person.id|creationDate\n933|4139|2010-03-13\n4139|7|2011-01-01\n")
    graph = Graph.read(str(path), separator="|", source="Person.id", target="Person.id.1")
    assert edges_of(graph) == [(933, 4139, 1.0), (4139, 7, 1.0)]
    path.write_text("from;km;to\nann;1.5;bob\n")
    graph = Graph.read(str(path), separator=";", source="from", target="to", value="km")
    assert edges_of(graph) == [("ann", "bob", 1.5)]
    wrong: dict[str, dict[str, Any]] = {
        "give both source= and target=": {"source": "from"},
        "no column 'no' for target=; columns are from, km, to": {"source": "from", "target": "no"},
        "is not a single character": {"separator": "::"},
    }
    for said, options in wrong.items():
        with pytest.raises(InputError, match=said):
            Graph.read(str(path), **{"separator": ";", **options})
    (tmp_path / "edges.txt").write_text("1 2\n")
    with pytest.raises(InputError, match="are of CSV files"):
        Graph.read(str(tmp_path / "edges.txt"), separator=";")


def test_a_directory_where_one_file_has_no_header(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("source,target\n1,2\n")
    (tmp_path / "b.csv").write_text("3,4\n")
    (tmp_path / "c.tsv").write_text("5\t6\n")
    (tmp_path / "d.txt").write_text("7 8\n")
    graph = Graph.read(str(tmp_path))
    assert edges_of(graph) == [(1, 2, 1.0), (3, 4, 1.0), (5, 6, 1.0), (7, 8, 1.0)]
    (tmp_path / "a.csv").write_text("target,source\n1,2\n")
    assert edges_of(Graph.read(str(tmp_path / "a.csv"))) == [(2, 1, 1.0)]
    for header in ("note,source,target", "target,source"):
        (tmp_path / "a.csv").write_text(f"{header}\n1,2{',3' * header.count('note')}\n")
        with pytest.raises(InputError, match=r"b\.csv: has no header, and .*a\.csv has; write"):
            Graph.read(str(tmp_path))


def test_names_of_columns_in_an_edge_list_are_refused(tmp_path: Path) -> None:
    for line in ("source target", f"{BOM}# c\nsrc,dst,weight", '"source","target"'):
        (tmp_path / "edges.txt").write_text(f"{line}\n1 2\n")
        with pytest.raises(InputError, match=r"the first line has names of columns: name the file"):
            Graph.read(str(tmp_path / "edges.txt"))
    (tmp_path / "edges.txt").write_text("source,target\n1,2\n")
    assert edges_of(Graph.read(str(tmp_path / "edges.txt"), format="csv")) == [(1, 2, 1.0)]
    (tmp_path / "edges.txt").write_bytes(b"1 2\r3 4\r")
    with pytest.raises(InputError, match="lines end by CR alone"):
        Graph.read(str(tmp_path / "edges.txt"))


@pytest.mark.parametrize(
    ("name", "text", "valued", "said"),
    [
        ("e.txt", "1 2 1082040961\n3 4 1082155839\n", True, "look like times"),
        ("e.csv", "1,2,1082040961\n3,4,1082155839\n", True, "look like times"),
        ("e.txt", "1 2 1082040961\n", False, None),
        ("e.txt", "1 2 0.5\n3 4 1082155839\n", True, None),
        ("e.txt", "1 2 5 1082040961\n", False, "fields after the third"),
        ("e.csv", "source,target,value\n1,2,1082040961\n", True, None),
    ],
)
def test_times_and_more_fields_are_said(
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    name: str,
    text: str,
    valued: bool,
    said: str | None,
) -> None:
    (tmp_path / name).write_text(text)
    graph = Graph.read(str(tmp_path / name))
    with caplog.at_level(logging.WARNING):
        graph.materialise(Variant("out", "float64" if valued else None))
        graph.materialise(Variant("in", "float64" if valued else None))
    assert len(caplog.messages) == (said is not None)
    assert all(said is not None and said in message for message in caplog.messages)


VERTICES: dict[str, tuple[str, list[Any], list[Any] | None]] = {
    "ids": ("7\n\n8\n", [7, 8], None),
    "bom": (f"{BOM}7\n8\n", [7, 8], None),
    "bom, header": (f"{BOM}id\n7\n8\n", [7, 8], None),
    "pandas": (",id,name\n0,7,Ann Lee\n1,8,\n", [7, 8], ["Ann Lee", None]),
    "R": ('"","id","name"\n"1","a","Ann, Lee"\n', ["a"], ["Ann, Lee"]),
    "quotes": ('"a"\nb\n', ["a", "b"], None),
    "hashtags": ("#python\n#rust\n", ["#python", "#rust"], None),
    "blanks": ("Area 51\n7\n", ["Area 51", "7"], None),
    "commas": ('"Lee, Ann"\n', ["Lee, Ann"], None),
    "padded": ("id,name\n007,x\n7,y\n", ["007", "7"], ["x", "y"]),
    "lines in cells": ('id,name\n7,"two\nlines"\n8,x\n', [7, 8], ["two\nlines", "x"]),
    "CR": ("id,name\r7,x\r", [7], ["x"]),
    "other place": ("name,ID\nx,7\n", [7], ["x"]),
}
BAD_VERTICES = {
    "empty": ("id,name\n7,x\n,y\n", r"line 3: the id is empty"),
    "names": ("name,age,x\nann,3,4\n", r"columns are name, age, x; name one `id`"),
    "semicolons": ("id;name\n7;x\n", r"give separator=';'"),
    "cells": ("id,name\n7,x,y\n", r"line 2: expected 2 columns, got 3"),
}


@pytest.mark.parametrize("packing", ["", "gz"])
@pytest.mark.parametrize("case", VERTICES)
def test_vertices(tmp_path: Path, case: str, packing: str) -> None:
    text, ids, names = VERTICES[case]
    vertices = vertices_at(None, pack(tmp_path / "v.csv", text.encode(), packing))
    assert vertices.column.to_pylist() == ids
    if names is not None:
        assert vertices.attributes is not None
        assert vertices.attributes["name"].to_pylist() == names


@pytest.mark.parametrize("case", BAD_VERTICES)
def test_bad_vertices(tmp_path: Path, case: str) -> None:
    text, said = BAD_VERTICES[case]
    (tmp_path / "v.csv").write_text(text)
    with pytest.raises(InputError, match=said):
        vertices_at(None, str(tmp_path / "v.csv"))


def test_names_of_attributes_in_a_list_of_vertices_are_refused(tmp_path: Path) -> None:
    (tmp_path / "v.txt").write_text("id,weight\n1,2\n")
    with pytest.raises(InputError, match=r"first line has names of columns: name the file \.csv"):
        vertices_at(None, str(tmp_path / "v.txt"))
    (tmp_path / "v.txt").write_text("id kind\n1 User\n")
    assert vertices_at(None, str(tmp_path / "v.txt")).column.to_pylist() == [1]


def test_edges_and_vertices_of_r_match(tmp_path: Path) -> None:
    edges = pack(tmp_path / "e.csv", b'"","source","target"\n"1","Ann","Bob C"\n', "")
    vertices = pack(tmp_path / "v.csv", b'"","id","age"\n"1","Bob C",7\n"2","Ann",8\n', "")
    assert Graph.read(edges, vertices=vertices).num_vertices == 2


Change = tuple[int, Any, Any, str]
CHANGES: dict[str, tuple[str, bool, list[Change]]] = {
    "signs": (
        "+,1,2,0.5\n-,2,3\n~,1,2,7\n", True,
        [(0, 1, 2, "0.5"), (1, 2, 3, "nan"), (2, 1, 2, "7.0")],
    ),
    "header": (
        "kind,source,target,value\nadd,1,2,\nremove,2,3,\n", True,
        [(0, 1, 2, "nan"), (1, 2, 3, "nan")],
    ),
    "other order": (f"{BOM}target,kind,source\n2,+,1\n", True, [(0, 1, 2, "nan")]),
    "pandas": (",kind,source,target\n0,+,10,11\n", True, [(0, 10, 11, "nan")]),
    "hashtags": ("+,#python,C#\n", False, [(0, "#python", "C#", "nan")]),
    "blanks": ("+,Area 51,New York\n", False, [(0, "Area 51", "New York", "nan")]),
    "quotes": ('"+","a, b","c"\n', False, [(0, "a, b", "c", "nan")]),
    "padded": ("+,007,7\n", False, [(0, "007", "7", "nan")]),
    "CR": ("+,1,2\r-,1,2\r", True, [(0, 1, 2, "nan"), (1, 1, 2, "nan")]),
}  # fmt: skip


def changes(
    path: Path, form: LineFormat, block: int | None = None
) -> tuple[list[Change], list[str], list[int]]:
    before = change_files._BLOCK
    change_files._BLOCK = block or before
    rows: list[Change] = []
    bad: list[str] = []
    stops: list[int] = []
    try:
        for batch in ChangeFiles([str(path)], form):
            c = batch.changes
            ends = c.source.to_pylist(), c.target.to_pylist()
            rows += zip(c.kind.tolist(), *ends, map(str, c.value.tolist()), strict=True)
            bad += [str(b).removeprefix(f"{path}, ") for b in batch.bad.first]
            stops += batch.stop.tolist()
    finally:
        change_files._BLOCK = before
    return rows, bad, stops


@pytest.mark.parametrize("block", [None, 6])
@pytest.mark.parametrize("case", CHANGES)
def test_changes(tmp_path: Path, case: str, block: int | None) -> None:
    text, integers, wanted = CHANGES[case]
    (tmp_path / "c.csv").write_bytes(text.encode())
    rows, bad, stops = changes(tmp_path / "c.csv", LineFormat(integers), block)
    assert (rows, bad) == (wanted, [])
    lines = text.encode().replace(b"\r", b"\n").splitlines(keepends=True)
    ends = [sum(map(len, lines[: k + 1])) for k in range(len(lines))]
    assert stops == ends[len(ends) - len(stops) :]


@pytest.mark.parametrize("block", [None, 7])
def test_bad_changes_have_their_lines(tmp_path: Path, block: int | None) -> None:
    (tmp_path / "c.csv").write_text(
        "kind,source,target,value\n+,1,2,3\n*,1,2,3\n\n+,,2,3\n+,1,a,3\n+,1,2\n+,1,2,x\n-,1,2,\n"
    )
    rows, bad, _ = changes(tmp_path / "c.csv", LineFormat(True), block)
    assert [row[0] for row in rows] == [0, 1]
    assert [line.split(":")[0] for line in bad] == [f"line {k}" for k in (3, 5, 6, 7, 8)]
    said = ["kind '*'", "source is null", "'a' is not an integer", "expected 4 columns, got 3",
            "value 'x' is not a number"]  # fmt: skip
    assert all(wanted in line for wanted, line in zip(said, bad, strict=True))


def test_times_and_attributes_of_changes(tmp_path: Path) -> None:
    (tmp_path / "c.csv").write_text("+,1,2,0.5,100\n-,1,2,,200\n")
    [batch] = ChangeFiles([str(tmp_path / "c.csv")], LineFormat(True, timed=5))
    assert batch.changes.time.tolist() == [100.0, 200.0]
    (tmp_path / "c.csv").write_text("kind,source,target,lanes,length\n+,1,2,3,1.5\n+,1,3,,2\n")
    form = LineFormat(True, "length=float64,lanes=int64")
    [batch] = ChangeFiles([str(tmp_path / "c.csv")], form)
    bits = batch.changes.value
    assert bits[:, 0].copy().view(np.float64).tolist() == [1.5, 2.0]
    assert bits[:, 1].tolist() == [3, NO_INT]
    (tmp_path / "c.csv").write_text("from,to\n1,2\n")
    with pytest.raises(InputError, match="write a header kind,source,target"):
        [*ChangeFiles([str(tmp_path / "c.csv")], LineFormat(True))]


@pytest.mark.parametrize("case", ["bom, header", "pandas", "R", "other order", "hashtags", "CR LF"])
def test_spark_reads_the_same_lines(spark: SparkSession, tmp_path: Path, case: str) -> None:
    """What comes from other file systems comes by Spark, and is read by the same code."""
    from vertexsdk.graph.load.dataframes import edges_by_spark, whole_files
    from vertexsdk.graph.load.files import Form

    text, rows = EDGES[case]
    for packing in ("", "gz"):
        path = pack(tmp_path / "edges.csv", text.encode(), packing)
        for partitions in (1, 2):
            edges = edges_by_spark(spark, [path], Form())
            assert edges_of(Graph(spark, edges, partitions=partitions)) == sorted(rows)
            assert edges_of(Graph.read(spark, path, partitions=partitions)) == sorted(rows)
    vertices, ids, _ = VERTICES["R"]
    path = pack(tmp_path / "v.csv", vertices.encode(), "gz")
    assert [*whole_files(spark, path).values()] == [Path(path).read_bytes()]
    assert vertices_at(spark, path).column.to_pylist() == ids


def test_several_files_by_spark(spark: SparkSession, tmp_path: Path) -> None:
    from vertexsdk.graph.load.dataframes import edges_by_spark
    from vertexsdk.graph.load.files import Form

    texts: dict[str, Callable[[int], str]] = {
        "a": lambda k: f"source,target,value\n{k},{k + 1},0.5\n",
        "b": lambda k: f"{k},{k + 1},2\n",
        "c": lambda k: f"source,target\n{k},{k + 1}\n",
    }
    wanted = []
    for k, (name, text) in enumerate(sorted(texts.items())):
        (tmp_path / f"{name}.csv").write_text(text(10 * k))
        wanted.append((10 * k, 10 * k + 1, [0.5, 2.0, 1.0][k]))
    paths = [str(tmp_path / f"{name}.csv") for name in texts]
    edges = edges_by_spark(spark, paths, Form())
    assert edges_of(Graph(spark, edges, partitions=2)) == wanted
