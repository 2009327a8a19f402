"""Results of a run: by id, whole, as files, from another process, at an earlier version."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from vertexsdk import INT_MAX, Min, Sum, Vertex, VertexId, param, state
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.errors import InputError, StateError, StateInputError
from vertexsdk.loops.result import Result
from vertexsdk.program.program import Program

EDGES = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 6)]


class Steps(Vertex):
    """Number of edges from `origin`, and by whom it was heard of first."""

    origin: VertexId = param()
    steps: int = state(INT_MAX)
    near: bool = state(False)
    place: float = state(0.0, size=2)
    messages = Min(int)

    def init(self):
        self.steps = 0 if self.id == self.origin else INT_MAX

    def gather(self, iteration, source, delta):
        self.steps = 0 if self.id == self.origin else delta.value
        self.near = self.steps < 3
        self.place[1] = 0.5

    def scatter(self, iteration):
        if self.steps < INT_MAX:
            self.emitAll(self.steps + 1)


def graph(spark: SparkSession, edges: Any, partitions: int, **options: Any) -> vertexsdk.Graph:
    source, target = zip(*edges, strict=True)
    return vertexsdk.Graph.from_arrays(
        source, target, spark=spark, partitions=partitions, **options
    )


@pytest.fixture(scope="module", params=[1, 3])
def steps(request: Any, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Result:
    loaded = graph(spark, EDGES, request.param, vertices=[9])
    result = vertexsdk.run(
        Steps, loaded, params={"origin": 1}, commit_every=2,
        backend=f"lmdb://{tmp_path_factory.mktemp('results')}/store",
    )  # fmt: skip
    loaded.unpersist()
    return result


def test_single_vertices_are_found_and_absent_ones_left_out(steps: Result) -> None:
    row = steps.lookup(3)[3]
    assert (row["steps"], row["near"], row["place"]) == (2, True, [0.0, 0.5])
    assert steps.lookup([4, 77, 1]).keys() == {4, 1}
    assert steps.lookup(np.array([2, 9]), "steps") == {2: {"steps": 1}, 9: {"steps": INT_MAX}}
    assert steps["5"]["steps"] == 4
    with pytest.raises(KeyError, match="77"):
        steps[77]
    with pytest.raises(InputError, match="'x' is not a vertex of loop 'steps-run'"):
        steps.lookup("x")
    with pytest.raises(InputError, match="no field 'step'; steps-run has: steps, near, place"):
        steps.lookup(3, "step")


def test_all_vertices_ascend_by_id(steps: Result) -> None:
    columns = steps.columns()
    assert list(columns) == ["id", "steps", "near", "place"]
    assert columns["id"].tolist() == [1, 2, 3, 4, 5, 6, 9]
    assert columns["steps"].tolist() == [0, 1, 2, 3, 4, 5, INT_MAX]
    assert columns["place"].shape == (7, 2)
    assert steps.to_dict("near") == {
        1: True,
        2: True,
        3: True,
        4: False,
        5: False,
        6: False,
        9: False,
    }
    assert dict(steps.rows("steps"))[6] == {"steps": 5}


def test_as_a_dataframe(steps: Result, spark: SparkSession) -> None:
    frame = steps.dataframe()
    assert frame.columns == ["id", "steps", "near", "place"]
    assert frame.filter("near").orderBy("id").select("id", "place").collect() == [
        (1, [0.0, 0.5]), (2, [0.0, 0.5]), (3, [0.0, 0.5])
    ]  # fmt: skip


def test_as_files(steps: Result, tmp_path: Path) -> None:
    steps.write(str(tmp_path / "o.csv"))
    assert (tmp_path / "o.csv").read_text().split() == [
        "vertex,value", "1,0", "2,1", "3,2", "4,3", "5,4", "6,5", "9,inf"
    ]  # fmt: skip
    steps.write(str(tmp_path / "o.csv"), "place", ids=[4, 2])
    assert (tmp_path / "o.csv").read_text().split("\n")[1:3] == ["4,0.0 0.5", "2,0.0 0.5"]
    steps.write(str(tmp_path / "o.parquet"))
    table = pq.read_table(tmp_path / "o.parquet")
    assert table.column("value").to_pylist() == [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, float("inf")]
    with pytest.raises(InputError, match="no vertex 77 in loop 'steps-run'"):
        steps.write(str(tmp_path / "o.csv"), ids=[77])


def test_an_earlier_version_is_read_as_it_was(steps: Result) -> None:
    early = vertexsdk.read(steps.backend, "steps", at=3)
    assert early.iteration == 2
    assert early.to_dict() == {1: 0, 2: 1, 3: 2, **dict.fromkeys((4, 5, 6, 9), INT_MAX)}
    assert early.lookup(4, "steps") == {4: {"steps": INT_MAX}}
    assert early.statistics["iterations"] == 2
    early.close()
    with pytest.raises(StateInputError, match=r"no loop 'step' in .*: it has 'steps-run'"):
        vertexsdk.read(steps.backend, "step")


SCRIPT = """
import vertexsdk
result = vertexsdk.read({backend!r}, "steps")
print(result.lookup([6])[6]["steps"], sum(result.to_dict("near").values()))
print(result.statistics["reason"], result.string_ids, result.fields)
"""


@pytest.mark.full
def test_from_another_process(steps: Result) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT.format(backend=str(steps.backend))],
        capture_output=True, text=True, check=True, timeout=240,
    )  # fmt: skip
    assert done.stdout.splitlines() == ["5 3", "quiet False ['steps', 'near', 'place']"]


class Named(Vertex):
    """The smallest name that leads here; `memo` is for the curious."""

    first: VertexId = state()
    memo: object = state()
    messages = Min(VertexId)

    def init(self):
        self.first = self.id
        self.memo = (self.id,)

    def gather(self, iteration, source, delta):
        self.first = min(self.first, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.first)


@pytest.mark.parametrize("partitions", [1, 3])
def test_string_ids_and_objects(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    url = f"lmdb://{tmp_path}/store"
    loaded = graph(spark, [("b", "a"), ("c", "b"), ("ä", "c")], partitions)
    result = vertexsdk.run(Named, loaded, backend=url, compiled=False, trusted=True)
    loaded.unpersist()
    assert result.string_ids
    assert result.lookup(["b", "zz"]) == {"b": {"first": "b", "memo": ("b",)}}
    assert result.to_dict() == {"a": "a", "b": "b", "c": "c", "ä": "ä"}
    assert result.columns()["id"].tolist() == ["a", "b", "c", "ä"]
    later = vertexsdk.read(url, "named")
    # Objects can run code when read; the other fields are no danger.
    assert later.lookup("ä", "first") == {"ä": {"first": "ä"}}
    assert later.to_dict("first")["c"] == "c"
    with pytest.raises(StateError, match="trusted=True"):
        later.lookup("ä")
    with pytest.raises(StateError, match="trusted=True"):
        later.columns()


class Grows(Vertex):
    """Every vertex makes one of the opposite sign."""

    heard: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard += delta.value

    def scatter(self, iteration):
        if self.id > 0 and iteration == 0:
            self.addTarget(-self.id)
            self.removeTarget(self.id + 1)
        self.emitAll(self.id)


@pytest.mark.parametrize("partitions", [1, 3])
def test_vertices_that_came_during_the_run_are_there(
    spark: SparkSession, tmp_path: Path, partitions: int
) -> None:
    loaded = graph(spark, [(1, 2), (2, 3)], partitions)
    result = vertexsdk.run(Grows, loaded, backend=f"lmdb://{tmp_path}/store", compiled=False)
    loaded.unpersist()
    ids = [-3, -2, -1, 1, 2, 3]
    assert result.columns()["id"].tolist() == ids
    assert result.statistics["num_vertices"] == 6
    assert result.lookup(ids).keys() == set(ids)
    assert [result.lookup(v)[v]["heard"] for v in (-3, -2, -1)] == [3, 2, 1]


class Reader(Vertex):
    read: int = state(0)
    level: int = state(0)
    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.read = delta.value
        self.level = 7

    def scatter(self, iteration):
        self.emitAll(1)


class Book(Vertex):
    level: int = state(0)
    share: float = state(0.0)
    place: float = state(0.0, size=2)
    messages = Sum(int)
    direction = "both"
    result = "share"

    def gather(self, iteration, source, delta):
        self.share = delta.value / 4
        self.level = 8

    def scatter(self, iteration):
        self.emitAll(10)


@pytest.fixture(scope="module", params=[1, 3])
def library(request: Any, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Result:
    """Readers 1 and 2, books 11 to 13."""
    directory = tmp_path_factory.mktemp("library")
    (directory / "edges.txt").write_text("1 11\n1 12\n2 12\n2 13\n")
    (directory / "kinds.txt").write_text("1 Reader\n2 Reader\n11 Book\n12 Book\n13 Book\n")
    loaded = vertexsdk.Graph.read(
        spark, f"{directory}/edges.txt", f"{directory}/kinds.txt", partitions=request.param
    )
    program = Program(Reader, Book, name="library")
    result = vertexsdk.run(program, loaded, backend=f"lmdb://{directory}/store")
    loaded.unpersist()
    return vertexsdk.read(result.backend, "library")


def test_a_vertex_has_its_own_classs_fields(library: Result) -> None:
    assert library.lookup([1, 12]) == {
        1: {"class": "Reader", "read": 20, "level": 7},
        12: {"class": "Book", "level": 8, "share": 0.5, "place": [0.0, 0.0]},
    }
    assert dict(library.rows())[13]["share"] == 0.25
    assert library.fields == ["read", "level", "share", "place"]


def test_a_field_is_that_of_every_class_which_has_it(library: Result) -> None:
    assert library.to_dict("share") == {11: 0.25, 12: 0.5, 13: 0.25}
    assert library.to_dict("level") == {1: 7, 2: 7, 11: 8, 12: 8, 13: 8}
    assert library.to_dict("Reader.level") == {1: 7, 2: 7}
    assert library.to_dict("Book.level") == {11: 8, 12: 8, 13: 8}
    assert [v for v, _ in library.rows("read")] == [1, 2]
    with pytest.raises(InputError, match="vertex 1 is a Reader, which has no field 'share'"):
        library.require([1], "share")
    with pytest.raises(InputError, match=r"no field 'Book\.read'; library-run has: read, level"):
        library.to_dict("Book.read")


def test_files_have_each_classs_result(library: Result, tmp_path: Path) -> None:
    library.write(str(tmp_path / "o.csv"))
    wanted = {"1": 20.0, "2": 20.0, "11": 0.25, "12": 0.5, "13": 0.25}
    with open(tmp_path / "o.csv", newline="") as file:
        assert {v: float(x) for v, x in list(csv.reader(file))[1:]} == wanted
    library.write(str(tmp_path / "o.parquet"))
    found = pq.read_table(tmp_path / "o.parquet").to_pydict()
    assert dict(zip(map(str, found["vertex"]), found["value"], strict=True)) == wanted
    library.write(str(tmp_path / "o.csv"), ids=[12, 1])
    assert (tmp_path / "o.csv").read_text().split() == ["vertex,value", "12,0.5", "1,20.0"]
    library.write(str(tmp_path / "o.csv"), "read")
    assert (tmp_path / "o.csv").read_text().split() == ["vertex,value", "1,20", "2,20"]


def test_a_table_has_nothing_where_a_class_lacks_the_field(
    library: Result, spark: SparkSession
) -> None:
    columns = library.columns()
    assert columns["class"].tolist() == ["Reader"] * 2 + ["Book"] * 3
    assert columns["read"].tolist() == [20, 20, None, None, None]
    assert columns["place"].tolist() == [[None, None]] * 2 + [[0.0, 0.0]] * 3
    assert columns["level"].tolist() == [7, 7, 8, 8, 8]
    rows = library.dataframe(spark).orderBy("id").collect()
    assert rows[0].asDict() == {
        "id": 1, "class": "Reader", "read": 20, "level": 7, "share": None, "place": None
    }  # fmt: skip
    assert (rows[2]["class"], rows[2]["read"], rows[2]["share"]) == ("Book", None, 0.25)
    assert rows[2]["place"] == [0.0, 0.0]


def test_a_run_and_its_result_open_the_store_once(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from vertexsdk import backends

    urls: list[str] = []
    open_backend = backends.open_backend

    def counted(url: Any, **options: Any) -> Any:
        urls.append(str(url))
        return open_backend(url, **options)

    monkeypatch.setattr(backends, "open_backend", counted)
    url = f"lmdb://{tmp_path}/state"
    graph = vertexsdk.Graph.from_arrays([1, 2], [2, 3], spark=spark)
    result = vertexsdk.run(ALGORITHMS["wcc"], graph, backend=url)
    assert result.to_dict() == {1: 1, 2: 1, 3: 1}
    assert [x for x in urls if x == url] == [url]  # other results may be closed meanwhile
    result.close()
