"""Graphs in this process, without Spark: every program, kind of ids and number of partitions."""

from __future__ import annotations

import gzip
import json
import random
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.reference import reference
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop, Program, run
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    Coreness,
    LabelPropagation,
    PageRank,
    ShortestPaths,
)
from vertexsdk.cli import main

PROGRAMS: dict[type, dict[str, Any]] = {
    BreadthFirstSearch: {"origin": 1},
    ConnectedComponents: {},
    Coreness: {},
    LabelPropagation: {},
    PageRank: {},
    ShortestPaths: {"origin": 1},
}


def edges_of(rng: random.Random, n: int) -> dict[tuple[int, int], float]:
    pairs = [(1, 2)] + [(rng.randint(1, n), rng.randint(1, n)) for _ in range(3 * n)]
    return {pair: float(rng.randint(1, 9)) for pair in pairs}


def graph_of(edges: dict[tuple[int, int], float], text: bool, **options: Any) -> Graph:
    ids = [[f"v{x:03}" if text else x for x in column] for column in zip(*edges, strict=True)]
    return Graph.from_arrays(*ids, list(edges.values()), **options)


def number(vertex: Any) -> int:
    return int(str(vertex).removeprefix("v"))


def plain(rows: Any) -> dict[int, Any]:
    return {number(v): row for v, row in rows}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("text", [False, True])
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.sample(3)
def test_answers_equal_those_of_the_reference(program: Any, text: bool, compiled: bool) -> None:
    rng = random.Random(seed())
    edges = edges_of(rng, 20)
    params = dict(PROGRAMS[program])
    lines = [(a, b, x) for (a, b), x in edges.items()]
    expected = reference(Program(program), lines, params=params)
    if text and "origin" in params:
        params["origin"] = "v001"
    for partitions in (1, 2, 7):
        graph = graph_of(edges, text, partitions=partitions)
        result = run(program, graph, params=params, backend="memory://", compiled=compiled)
        got = plain(result.rows())
        if text and program in (ConnectedComponents, LabelPropagation):
            got = {v: dict.fromkeys(row, number(*row.values())) for v, row in got.items()}
        for v, row in expected.state.items():
            assert got[v] == pytest.approx(row, rel=1e-9), (partitions, v)
        result.close()
        graph.unpersist()


@pytest.mark.sample(3)
@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("text", [False, True])
def test_a_main_loop_with_branches(partitions: int, text: bool, tmp_path: Path) -> None:
    rng = random.Random(seed())
    edges = edges_of(rng, 15)
    name = (lambda x: f"v{x:03}") if text else (lambda x: x)
    origin = {"origin": name(1)}
    store = f"lmdb://{tmp_path}/store"
    with MainLoop(
        ShortestPaths, graph_of(edges, text, partitions=partitions), params=origin, backend=store
    ) as loop:
        for _ in range(4):
            batch = []
            for _ in range(5):
                a, b, x = rng.randint(1, 18), rng.randint(1, 18), float(rng.randint(1, 9))
                if (a, b) in edges and rng.random() < 0.5:
                    del edges[a, b]
                    batch.append(("-", name(a), name(b)))
                else:
                    edges[a, b] = x
                    batch += [("-", name(a), name(b)), ("+", name(a), name(b), x)]
            loop.ingest(batch)
            expected = reference(
                Program(ShortestPaths), [(a, b, x) for (a, b), x in edges.items()],
                vertices=[1], params={"origin": 1},
            ).state  # fmt: skip
            assert plain(loop.query().rows()) == expected
            with loop.fork() as branch:
                branch.apply([("+", name(1), name(99), 1.0)])
                assert plain(branch.result().rows())[99] == {"length": 1.0}
    with MainLoop.resume(None, ShortestPaths, backend=store) as loop:
        assert plain(loop.query().rows()) == expected


@pytest.mark.full
def test_no_spark_is_imported(tmp_path: Path) -> None:
    (tmp_path / "e.txt").write_text("1 2\n2 3\n")
    code = (
        "import sys, vertexsdk as v\n"
        "from vertexsdk.algorithms import ConnectedComponents as C\n"
        "g = v.Graph.read('e.txt', undirected=True)\n"
        "print(dict(v.run(C, g, backend='memory://').rows()), 'pyspark' in sys.modules)\n"
    )
    out = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
        timeout=240,
    ).stdout
    same = {v: {"component": 1} for v in (1, 2, 3)}
    assert out == f"{same} False\n"


def test_files_that_spark_would_read(tmp_path: Path) -> None:
    with gzip.open(tmp_path / "a.txt.gz", "wt") as file:
        file.write("# a comment\n1 2 5\n2 3\n")
    with gzip.open(tmp_path / "b.csv.gz", "wt") as file:
        file.write("source,target,value\n1,2,5\n2,3,1\n")
    (tmp_path / "c.csv").write_text("value,target,source\n5,2,1\n1,3,2\n")
    table = pa.table({"src": [1, 2], "dst": [2, 3], "weight": [5, 1]})
    pq.write_table(table, tmp_path / "d.parquet")
    for name in ("a.txt.gz", "b.csv.gz", "c.csv", "d.parquet"):
        for partitions in (1, 2):
            graph = Graph.read(str(tmp_path / name), partitions=partitions)
            result = run(ShortestPaths, graph, params={"origin": 1}, backend="memory://")
            assert [row["length"] for _, row in result.rows()] == [0.0, 5.0, 6.0], name
    with pytest.raises(InputError, match="only Spark can read this; pass a session"):
        Graph.read("s3a://bucket/edges")


def test_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("e.txt").write_text("1 2\n2 3\n")
    Path("c.txt").write_text("+ 3 4\n- 1 2\n")
    common = ["--edges", "e.txt", "--engine", "local", "--undirected"]
    assert main(["run", "wcc", *common, "--output", "o.csv", "--stats", "s.json"]) == 0
    assert Path("o.csv").read_text() == "vertex,value\n1,1\n2,1\n3,1\n"
    assert json.loads(Path("s.json").read_text())["partitions"] == 1
    assert main(["stream", "wcc", *common, "--changes", "c.txt", "--output", "q.csv"]) == 0
    assert Path("q-1.csv").read_text() == "vertex,value\n2,2\n3,2\n4,2\n"
    assert main(["run", "wcc", *common, "--master", "local[2]"]) == 2
