"""Typed strings stay strings; an id in a text is an integer where it prints back as written."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from vertexsdk.errors import InputError
from vertexsdk.graph.changes.change_files import parse_block
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import read_rows
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.vertex_file import VertexInput

ENDS = {"source": ["007", "7", "12345678901234567890"], "target": ["08", "8", "0"]}
IDS = {*ENDS["source"], *ENDS["target"]}


def parquet(path: Path) -> Graph:
    pq.write_table(pa.table(ENDS), path / "edges.parquet")
    return Graph.read(str(path / "edges.parquet"))


@pytest.mark.parametrize(
    "make",
    [
        lambda _: Graph.from_arrays(ENDS["source"], ENDS["target"]),
        lambda _: Graph.from_arrays(np.array(ENDS["source"], object), ENDS["target"]),
        lambda _: Graph.from_pandas(pd.DataFrame(ENDS)),
        lambda _: Graph.from_pandas(pd.DataFrame(ENDS).astype("category")),
        lambda _: Graph.from_arrow(pa.table(ENDS)),
        lambda _: Graph.from_arrays(ENDS["source"], ENDS["target"], partitions=3),
        parquet,
    ],
)
def test_typed_strings_stay_strings(
    tmp_path: Path, make: Any, caplog: pytest.LogCaptureFixture
) -> None:
    graph = make(tmp_path)
    with caplog.at_level(logging.WARNING):
        assert {*graph.degrees("in")} == IDS
    assert graph.num_edges == 3
    assert graph.string_ids
    assert not caplog.records
    assert graph.contains(["7", "007", "0007"]).tolist() == [True, True, False]


def test_strings_of_digits_alone_stay_strings() -> None:
    graph = Graph.from_arrays(["1", "2"], ["2", "3"], vertices=["9"])
    assert graph.to_arrow()["source"].to_pylist() == ["1", "2"]
    assert graph.num_vertices == 4
    placed = Graph.from_arrays(["1"], ["2"], partitions=2, partitioner={"1": 0, "2": 1})
    assert placed.degrees() == {"1": 1, "2": 0}


def test_an_array_of_objects_that_are_integers_has_integers() -> None:
    graph = Graph.from_arrays(np.array([1, np.int64(2)], object), [2, 3])
    assert graph.degrees() == {1: 1, 2: 1, 3: 0}


@pytest.mark.parametrize("wrong", [1.0, None, float("nan"), (1, 2)])
def test_objects_that_are_no_ids_are_refused(wrong: Any) -> None:
    ids = np.empty(2, object)
    ids[:] = ["a", wrong]
    with pytest.raises(InputError, match="use integers or strings"):
        Graph.from_arrays(ids, ["b", "c"])


@pytest.mark.parametrize(
    ("text", "first"),
    [("007 8\n7 8\n", "'007'"), ("+7 8\n7 8\n", r"'\+7'"), ("1.0 2\n1 2\n", "'1.0'"),
     ("-0 1\n0 1\n", "'-0'"), ("1.0 2.0\n2.0 1\n", "'1.0'"), ("1e3 2\n1000 2\n", "'1e3'")],
)  # fmt: skip
@pytest.mark.parametrize("partitions", [1, 2])
def test_text_that_does_not_print_back_makes_strings_and_is_said(
    tmp_path: Path, text: str, first: str, partitions: int, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "edges").write_text(text)
    with caplog.at_level(logging.WARNING):
        graph = Graph.read(str(tmp_path / "edges"), partitions=partitions)
        assert {*graph.degrees()} == {*text.split()}
    [line] = caplog.messages
    count = len({*text.split()})
    assert line.startswith(f"{first} is not an integer as it would be printed".replace("\\", ""))
    assert f"all {count} ids are taken as strings" in line


def test_a_vertex_file_is_text_too(tmp_path: Path) -> None:
    (tmp_path / "edges").write_text("1 2\n")
    (tmp_path / "vertices").write_text("3\n-4\n")
    graph = Graph.read(str(tmp_path / "edges"), vertices=str(tmp_path / "vertices"))
    assert graph.degrees() == {-4: 0, 1: 1, 2: 0, 3: 0}
    (tmp_path / "vertices").write_text("3\n04\n")
    graph = Graph.read(str(tmp_path / "edges"), vertices=str(tmp_path / "vertices"))
    assert {*graph.degrees("in")} == {"04", "1", "2", "3"}


@pytest.mark.parametrize("vertex", ["007", "+7", " 7", "7.0", 7.0])
def test_an_integer_vertex_is_asked_for_as_it_is_printed(vertex: Any) -> None:
    graph = Graph.from_arrays([7], [8])
    assert graph.code_of(["7", 7, np.int32(8)]).tolist() == [7, 7, 8]
    with pytest.raises(InputError, match="the graph's ids are integers"):
        graph.code_of([vertex])


@pytest.mark.parametrize("wrong", ["007", "+7", "-0", "7.0"])
def test_changes_of_integer_graphs_are_as_ids_are_printed(wrong: str) -> None:
    form = LineFormat(integers=True)
    table = pa.table({"kind": ["+"] * 3, "source": ["7", wrong, "0"], "target": ["8", "8", "8"]})
    columns, bad, _ = read_rows(table, form, "batch 1")
    assert columns[1].to_pylist() == [7, 0]
    reason = f"id {wrong!r} is not an integer, but those of the graph are"
    assert [str(line) for line in bad.first] == [f"batch 1, row 2: {reason}"]
    block = parse_block(f"+ 1 2\n+ {wrong} 2\n".encode(), "f", 1, form)
    assert [str(line) for line in block.bad.first] == [f"f, line 2: {reason}"]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("ids", [[1, 2, 3], ["ann", "bob", "7"]])
def test_attributes_are_of_vertices_of_the_graph(ids: list[Any], partitions: int) -> None:
    graph = Graph.from_arrays(ids[:2], ids[1:], partitions=partitions)
    rich = graph.with_attributes({"id": [ids[2]], "jump": [1.0]})
    assert rich.degrees() == graph.degrees()
    for new in (9, "9", "eve"):
        with pytest.raises(InputError, match=r"not in the graph|is not a vertex"):
            graph.with_attributes({"id": [ids[0], new], "jump": [0.5, 0.5]})
    added = graph.with_attributes({"id": ["9"], "jump": [1.0]}, add_vertices=True)
    nine = 9 if ids[0] == 1 else "9"
    assert added.degrees() == {**graph.degrees(), nine: 0}
    with pytest.raises(InputError, match="add it: add_vertices=True"):
        graph.with_attributes({"id": [9], "jump": [1.0]})


def test_vertices_that_are_added_to_a_graph_that_is_loaded_have_their_names() -> None:
    graph = Graph.from_arrays(["b"], ["c"], partitions=2)
    assert graph.num_vertices == 2
    more = graph.with_vertices(VertexInput.of(["a", "d"]))
    assert more.degrees() == {"a": 0, "b": 1, "c": 0, "d": 0}
    assert Graph.empty(str).with_vertices(VertexInput.of(["7"])).degrees() == {"7": 0}


def test_a_string_does_not_make_strings_of_a_graphs_integers() -> None:
    graph = Graph.from_arrays([1], [2])
    with pytest.raises(InputError, match="'ann' is not a vertex: the graph's ids are integers"):
        graph.with_attributes({"id": ["ann"], "jump": [1.0]}, add_vertices=True)
    assert graph.with_attributes({"id": ["2"], "jump": [1.0]}).degrees() == {1: 1, 2: 0}
