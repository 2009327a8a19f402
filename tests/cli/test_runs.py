"""`vertexsdk run` and `query`: input in every form, output in every form, read back later."""

from __future__ import annotations

import csv
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vertexsdk as sdk

STATISTICS = {"iterations", "hops", "updates", "prepares", "acknowledges", "messages", "bytes"}

PROGRAM = '''
"""What a stranger writes: helpers beside it, fields of every kind."""
from beside import label_of
from vertexsdk import Min, Vertex, VertexId, param, state


class Nearest(Vertex):
    """The smallest id that leads here."""

    prefix: str = param("seen in ")
    label: str = state("never")
    best: VertexId = state()
    seen: object = state()
    point: float = state(0.0, size=2)
    flag: bool = state(False)
    messages = Min(VertexId)
    result = "best"

    def init(self):
        self.best = self.id
        self.seen = {"init"}
        self.point[1] = 0.5

    def gather(self, iteration, source, delta):
        self.best = min(self.best, delta.value)
        self.label = label_of(self.prefix, iteration)
        self.flag = True

    def scatter(self, iteration):
        self.emitAll(self.best)


class Fails(Nearest):
    def gather(self, iteration, source, delta):
        if iteration == 3:
            raise ValueError("no more")
        self.best = min(self.best, delta.value)
'''


def values(path: str) -> dict[str, str]:
    with open(path, newline="") as file:
        header, *rows = csv.reader(file)
    assert header == ["vertex", "value"]
    return dict(rows)


@pytest.fixture
def program(state: str) -> str:
    Path("mine.py").write_text(PROGRAM)
    Path("beside.py").write_text("def label_of(prefix, k):\n    return f'{prefix}{k}'\n")
    return "mine.py:Nearest"


def test_csv_and_statistics(vertexsdk, edges: str) -> None:
    done = vertexsdk(
        *("run", "sssp", "--edges", edges, "--param", "origin=1"),
        *("--output", "o.csv", "--stats", "s.json"),
    )
    assert (done.status, done.out) == (0, "")
    assert len(done.lines) == 3
    assert done.lines[0].startswith("sssp-run: 5 vertices, 4 edges; 3 iterations, ")
    assert done.lines[2].endswith("read it by: vertexsdk query sssp-run")
    assert values("o.csv") == {"1": "0.0", "2": "1.0", "3": "2.0", "4": "inf", "5": "inf"}
    statistics = json.loads(Path("s.json").read_text())
    assert statistics.keys() >= STATISTICS | {"seconds", "phases", "backend_bytes"}
    assert statistics["iterations"] == 3
    assert statistics["phases"].keys() >= {"load", "compile", "kernel", "commit"}
    assert statistics["backend_bytes"] > 0


def test_parquet_and_fields(vertexsdk, edges: str) -> None:
    run = ("run", "degree", "--edges", edges, "--output", "o.parquet")
    assert vertexsdk(*run, "--field", "in_degree").status == 0
    found = pq.read_table("o.parquet").to_pydict()
    assert found == {"vertex": [1, 2, 3, 4, 5], "value": [1, 1, 1, 0, 1]}
    done = vertexsdk("query", "degree", "--output", "o.csv", "--vertex", "5", "--vertex", "4")
    assert (done.status, values("o.csv")) == (0, {"5": "1", "4": "1"})


def test_query(vertexsdk, edges: str) -> None:
    vertexsdk("run", "degree", "--edges", edges)
    assert vertexsdk("query", "degree").out.splitlines()[3:] == [
        "4 degree=1 in_degree=0 out_degree=1",
        "5 degree=1 in_degree=1 out_degree=0",
    ]
    assert vertexsdk("query", "degree", "--vertex", "4", "--field", "degree").out == "4 degree=1\n"
    lines = vertexsdk("query", "degree", "--json", "--field", "degree").out.splitlines()
    assert json.loads(lines[0]) == {"vertex": 1, "degree": 2}


@pytest.mark.full
def test_another_process_reads_it_without_spark(vertexsdk, edges: str, state: str) -> None:
    vertexsdk("run", "wcc", "--edges", edges)
    environment = {**os.environ, "JAVA_HOME": "/none", "PATH": os.path.dirname(sys.executable)}
    for arguments, expected in {("--vertex", "5"): "5 component=4\n", (): None}.items():
        done = subprocess.run(
            [sys.executable, "-m", "vertexsdk", "query", "wcc", "--backend", state, *arguments],
            capture_output=True, text=True, env=environment, timeout=240,
        )  # fmt: skip
        assert (done.returncode, done.stderr) == (0, "")
        assert done.stdout == (expected or vertexsdk("query", "wcc").out)


def test_edge_files_of_every_form(vertexsdk, state: str) -> None:
    Path("t.txt").write_text("# by hand\n1\t2  0.5\n\n2,3,2\n")
    Path("c.csv").write_text("source,target,value\n1,2,0.5\n2,3,2\n")
    pq.write_table(pa.table({"source": [1, 2], "target": [2, 3], "value": [0.5, 2]}), "p.parquet")
    Path("d").mkdir()
    Path("d/1.txt").write_text("1 2 0.5\n")
    Path("d/2.txt").write_text("2 3 2\n")
    expected = {"1": "0.0", "2": "0.5", "3": "2.5"}
    given = [["t.txt"], ["c.csv"], ["p.parquet"], ["d"], ["d/*.txt"], ["d/1.txt", "d/2.txt"]]
    for paths in given:
        options = [option for path in paths for option in ("--edges", path)]
        run = ("run", "sssp", *options, "--param", "origin=1", "--output", "o.csv")
        done = vertexsdk(*run)
        assert done.status == 0, (paths, done.err)
        assert values("o.csv") == expected, paths


def test_duplicates_directions_and_vertices(vertexsdk, state: str) -> None:
    Path("e.txt").write_text("1 2\n1 2\n3 2\n")
    Path("v.txt").write_text("# alone\n9\n")

    def degrees(*options: str) -> tuple[dict[str, str], str]:
        done = vertexsdk("run", "degree", "--edges", "e.txt", *options, "--output", "o.csv")
        assert done.status == 0, done.err
        return values("o.csv"), done.err

    found, said = degrees()
    assert found == {"1": "1", "2": "2", "3": "1"}
    assert "1 duplicate" in said
    found, said = degrees("--multi")
    assert found == {"1": "2", "2": "3", "3": "1"}
    assert "duplicate" not in said
    assert degrees("--undirected")[0] == {"1": "1", "2": "2", "3": "1"}
    assert degrees("--vertices", "v.txt")[0] == {"1": "1", "2": "2", "3": "1", "9": "0"}


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_stranger_s_program_on_string_ids(vertexsdk, program: str, partitions: int) -> None:
    Path("e.txt").write_text('b a\na c\n"d e\n')
    done = vertexsdk(
        *("run", program, "--edges", "e.txt", "--partitions", partitions, "--param", "prefix=p"),
        *("--output", "o.csv"),
    )
    assert done.status == 0, done.err
    assert (
        "mine.py:11: Nearest: field label is not a number (str); this program runs interpreted"
        in done.err
    )
    assert values("o.csv") == {"a": "a", "b": "b", "c": "a", '"d': '"d', "e": '"d'}
    done = vertexsdk("query", "nearest", "--vertex", "c", "--trusted")
    assert done.out == "c label=p1 best=a seen={'init'} point=[0.0, 0.5] flag=True\n"
    refused = vertexsdk("query", "nearest")
    assert refused.status == 1
    assert "add --trusted if you trust the writer of this store" in refused.err


def test_results_in_python(vertexsdk, program: str, state: str, spark) -> None:
    Path("e.txt").write_text("b a\na c\n")
    vertexsdk("run", program, "--edges", "e.txt")
    result = sdk.read(state, "nearest", trusted=True)
    assert result.lookup("c") == result.lookup(["c"])
    assert result["b"]["best"] == "b"
    assert result.to_dict() == {"a": "a", "b": "b", "c": "a"}
    rows = {row.id: row for row in result.dataframe(spark).collect()}
    assert rows["c"].best == "a"
    assert rows["c"].point == [0.0, 0.5]
    result.close()


def test_a_failed_run_keeps_what_was_committed(vertexsdk, program: str) -> None:
    Path("e.txt").write_text("1 2\n2 3\n3 4\n4 5\n5 6\n")
    run = ("run", "mine.py:Fails", "--edges", "e.txt", "--commit-every", "1")
    done = vertexsdk(*run)
    assert done.status == 1
    assert done.lines[-1].startswith("vertexsdk: ")
    wanted = r"mine\.py:36: Fails\.gather: ValueError: no more \(vertex \d, iteration 3\)$"
    assert re.search(wanted, done.lines[-1])
    assert vertexsdk("query", "fails", "--vertex", "4", "--field", "best", "--trusted").out == (
        "4 best=2\n"
    )


FRAGILE = """
import time
from pathlib import Path

from vertexsdk import Sum, Vertex, state


class Fragile(Vertex):
    count: int = state(1)
    messages = Sum(int)
    always = True
    max_iterations = 12

    def gather(self, iteration, source, delta):
        if self.id == 1:
            time.sleep(0.03)  # so that snapshots are stored meanwhile
            if iteration == 9 and not Path("mended").exists():
                raise ValueError("no more")
        self.count = (self.count * 31 + delta.value * iteration) % 1009

    def scatter(self, iteration):
        self.emitAll(self.count)
"""


def test_a_run_that_failed_goes_on(vertexsdk, edges: str) -> None:
    Path("fragile.py").write_text(FRAGILE)
    run = ("run", "fragile.py:Fragile", "--edges", edges, "--engine", "local", "--resume")
    done = vertexsdk(*run, "--snapshot-every", "2", "--stats", "stats.json")
    assert done.status == 1
    assert done.lines[-1].endswith("ValueError: no more (vertex 1, iteration 9)")
    assert "fragile-run: the store has no snapshot of it: begins at iteration 0" in done.err
    Path("mended").touch()
    assert vertexsdk(*run, "--stats", "stats.json").status == 0
    statistics = json.loads(Path("stats.json").read_text())
    assert 2 <= statistics["resumed_at"] < 9
    assert statistics["iterations"] == 12
    resumed = vertexsdk("query", "fragile").out
    assert vertexsdk(*run[:-1]).status == 0
    assert vertexsdk("query", "fragile").out == resumed
    assert "snapshot" not in vertexsdk("state", "ls").out


def test_versions_and_running_again(vertexsdk, edges: str) -> None:
    run = ("run", "pagerank", "--edges", edges, "--loop", "my ranks")
    assert vertexsdk(*run, "--commit-every", "2", "--max-iterations", "5").status == 0
    at = {k: vertexsdk("query", "my ranks", "--at", k).out for k in (2, 3, 4, 5)}
    assert at[2] == at[3] != at[4] != at[5]
    assert vertexsdk("query", "my ranks").out == at[5]
    done = vertexsdk(*run, "--max-iterations", "3")
    assert done.lines[-1] == "version 3 is in the store; read it by: vertexsdk query 'my ranks'"
    assert vertexsdk("query", "my ranks", "--at", "5").out == vertexsdk("query", "my ranks").out
    assert vertexsdk("query", "my ranks", "--at", "2").status == 2  # the first run's are gone


def test_memory_backend_and_verbose(vertexsdk, edges: str) -> None:
    done = vertexsdk("run", "wcc", "--edges", edges, "--backend", "memory://m", "--verbose")
    assert done.status == 0
    assert "vertexsdk: wcc-run: loading" in done.lines
    assert any("iteration 2 · " in line for line in done.lines)
    assert "query" not in done.lines[-1]


def test_compiled(vertexsdk, program: str, edges: str) -> None:
    done = vertexsdk("run", program, "--edges", edges, "--compiled", "require")
    assert done.status == 2
    assert "field label is not a number" in done.lines[-1]
    Path("s.json").unlink(missing_ok=True)
    vertexsdk("run", "wcc", "--edges", edges, "--compiled", "no", "--stats", "s.json")
    assert json.loads(Path("s.json").read_text())["compiled"] is False


def test_unreachable_is_inf_in_every_output(vertexsdk) -> None:
    Path("two.txt").write_text("1 2\n3 4\n")
    for name in ("o.csv", "o.parquet"):
        done = vertexsdk(
            *("run", "bfs", "--edges", "two.txt", "--param", "origin=1", "--output", name)
        )
        assert done.status == 0, done.err
    assert Path("o.csv").read_text().split()[1:] == ["1,0", "2,1", "3,inf", "4,inf"]
    assert pq.read_table("o.parquet")["value"].to_pylist() == [0.0, 1.0, float("inf"), float("inf")]


TWO = """
from vertexsdk import Sum, Vertex, state
from vertexsdk.program.program import Program

class Reader(Vertex):
    books: int = state(0)
    messages = Sum(int)
    direction = "both"
    def gather(self, iteration, source, delta):
        self.books = delta.value
    def scatter(self, iteration):
        self.emitAll(1)

class Book(Reader):
    share: float = state(0.0)
    result = "share"
    def gather(self, iteration, source, delta):
        self.share = delta.value / 4

library = Program(Reader, Book, name="library")
"""


def test_vertices_of_two_classes_are_shown_each_with_its_own(vertexsdk, state: str) -> None:
    Path("two.py").write_text(TWO)
    Path("edges.txt").write_text("1 11\n1 12\n2 12\n")
    Path("kinds.txt").write_text("11 Book\n12 Book\n")
    run = ("run", "two.py:library", "--edges", "edges.txt", "--vertices", "kinds.txt")
    done = vertexsdk(*run, "--output", "o.csv")
    assert (done.status, values("o.csv")) == (
        0, {"1": "2.0", "2": "1.0", "11": "0.25", "12": "0.5"}
    )  # fmt: skip
    assert vertexsdk("query", "library").out.splitlines() == [
        "1 class=Reader books=2",
        "2 class=Reader books=1",
        "11 class=Book books=0 share=0.25",
        "12 class=Book books=0 share=0.5",
    ]
    done = vertexsdk("query", "library", "--vertex", "12", "--json")
    assert json.loads(done.out) == {"vertex": 12, "class": "Book", "books": 0, "share": 0.5}
    assert vertexsdk("query", "library", "--field", "share").out.splitlines() == [
        "11 class=Book share=0.25",
        "12 class=Book share=0.5",
    ]
    done = vertexsdk("query", "library", "--field", "share", "--vertex", "1")
    assert (done.status, done.lines) == (
        2, ["vertexsdk: vertex 1 is a Reader, which has no field 'share'"]
    )  # fmt: skip
    done = vertexsdk("run", "two.py:library", "--edges", "edges.txt", "--field", "pages")
    assert (done.status, done.lines) == (
        2, ["vertexsdk: no field 'pages'; library has: books, share"]
    )  # fmt: skip


def test_a_vertex_file_with_columns_fills_fields(vertexsdk, state: str) -> None:
    Path("edges.txt").write_text("1 2\n")
    Path("v.csv").write_text("id,tax,seen\n1,0.5,x\n3,2,y\n")
    Path("taxed.py").write_text(TAXED)
    run = ("run", "taxed.py:Taxed", "--edges", "edges.txt", "--vertices", "v.csv")
    assert vertexsdk(*run, "--output", "o.csv").status == 0
    assert values("o.csv") == {"1": "1.5", "2": "8.0", "3": "3.0"}
    Path("v.csv").write_text("id,tax\n1,much\n")
    done = vertexsdk(*run)
    assert (done.status, len(done.lines)) == (2, 1)
    assert "column tax" in done.lines[0]
    assert "Taxed.tax is float" in done.lines[0]


TAXED = """
from vertexsdk import Sum, Vertex, state

class Taxed(Vertex):
    price: float = state(0.0)
    tax: float = state(7.0)
    messages = Sum(float)

    def init(self):
        self.price = 1 + self.tax

    def gather(self, iteration, source, delta):
        self.price = 1 + self.tax

    def scatter(self, iteration):
        self.emitAll(self.price)
"""
