"""A graph that changes: every query equals the oracle on the graph as it is then."""

from __future__ import annotations

import inspect
import random
import re
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.random_changes import Edges, random_rows
from vertexsdk import Changes, Graph, InputError, MainLoop, read, run
from vertexsdk.algorithms import ALGORITHMS, ConnectedComponents, ShortestPaths
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import disagreements, expected

PARAMS: dict[str, dict[str, Any]] = {
    "bfs": {"origin": 3},
    "pagerank": {"epsilon": 1e-6},
    "sssp": {"origin": 3},
}


def wanted(name: str, edges: Edges, undirected: bool) -> dict[str, Any]:
    params = PARAMS.get(name, {})
    rows = [(a, b, x) for (a, b), x in sorted(edges.items())]
    return expected(name, rows, list(params.values())[:1] if "origin" in params else [], params,
                    undirected=undirected)  # fmt: skip


# The others are tested without Spark, in tests/algorithms/test_catalogue.py.
NAMES = ["bfs", "cdlp", "degree", "kcore", "lcc", "pagerank", "scc", "sssp", "wcc"]


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", NAMES)
def test_queries_equal_the_oracle(
    name: str, spark_or_none: SparkSession | None, tmp_path: Path
) -> None:
    number = NAMES.index(name)
    rng = random.Random(number)
    undirected, partitions = bool(number % 2), (1, 2, 7)[number % 3]
    edges: Edges = {}
    while len(edges) < 25:
        random_rows(rng, edges, 5, undirected=undirected, vertices=range(14))
    first = [*zip(*((a, b, x) for (a, b), x in edges.items()), strict=True)]
    graph = Graph.from_arrays(
        *first, spark=spark_or_none, undirected=undirected, partitions=partitions
    )
    options: Any = {"params": PARAMS.get(name, {}), "backend": f"lmdb://{tmp_path}/state"}
    with MainLoop(ALGORITHMS[name], graph, **options) as main:
        for _ in range(3):
            number = rng.randint(1, 12)
            main.ingest(random_rows(rng, edges, number, undirected=undirected, vertices=range(14)))
            result = main.query()
            warm = main.queries > 1 and main.from_init is None
            start, reason = (result.statistics[x] for x in ("start", "start_reason"))
            if name != "pagerank" or "took more" not in reason:  # than from `init`
                assert start == ("warm" if warm else "init")
            columns = result.columns()
            answer = wanted(name, edges, undirected)
            got = {
                v: {f: columns[f][k].item() for f in answer}
                for k, v in enumerate(columns["id"].tolist())
            }
            assert not disagreements(answer, got, 1e-4 if name == "pagerank" else 1e-9)
    assert main.queries == 3


def test_counts_and_earlier_answers_are_kept(spark: SparkSession, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays([1, 2], [2, 3], [1.0, 1.0], spark=spark)
    with MainLoop(ShortestPaths, graph, params={"origin": 1}, backend=url, loop="roads") as main:
        assert main.query().lookup([3]) == {3: {"length": 2.0}}
        counts = main.ingest([("+", 1, 3, 0.5), ("-", 8, 9), ("~", 1, 2, 4), ("+", 2, 3)])
        assert counts == {"added": 1, "removed": 0, "changed": 1, "unchanged": 1, "absent": 1}
        result = main.query()
        assert result.statistics["start"] == "warm"
        assert result.statistics["changes"] == 4
        main.ingest([("-", 1, 2), ("-", 1, 3)])
        assert main.query().lookup([1, 2, 3]) == {
            1: {"length": 0.0}, 2: {"length": float("inf")}, 3: {"length": float("inf")},
        }  # fmt: skip
    assert [read(url, f"roads-{k}").lookup([3])[3]["length"] for k in (1, 2)] == [2.0, 0.5]
    assert read(url, "roads").lookup([3])[3]["length"] == float("inf")


@pytest.mark.parametrize("shared", [False, True], ids=["alone", "in branches"])
def test_the_newest_answers_are_kept(spark: SparkSession, tmp_path: Path, shared: bool) -> None:
    """A loop has a bounded number of them, but for those that are being read."""
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
    run(ConnectedComponents, graph, backend=url, loop="wcc-77").close()  # no answer of this loop

    def answers() -> list[int]:
        with open_store(url) as store:
            assert {"wcc", "wcc-77"} <= {*store.loops()}
            return sorted(int(n[4:]) for n in store.loops() if n not in ("wcc", "wcc-77"))

    options: Any = {"backend": url, "loop": "wcc", "keep_answers": 2}
    with MainLoop(ConnectedComponents, graph, **options) as main:
        main.shared = shared
        first = main.query()
        for k in range(2, 6):
            main.ingest([("+", k, k + 2)])
            main.query().close()
        assert answers() == [1, 4, 5]
        assert first.lookup([3, 4]) == {3: {"component": 1}}
        first.close()
        main.ingest([("+", 8, 9)])
        main.query().close()
        assert answers() == [5, 6]
    with MainLoop.resume(spark, ConnectedComponents, **{**options, "keep_answers": 1}) as main:
        main.query()
        assert answers() == [7]
        main.query()  # whose result nobody has
        assert answers() == [8]
    options |= {"keep_answers": None, "replace": True}
    with MainLoop(ConnectedComponents, graph, **options) as main:
        for _ in range(3):
            main.query().close()
        assert answers() == [1, 2, 3, 8]
    with open_store(url) as store:
        assert store.audit().unreferenced == []
    with pytest.raises(InputError, match="keep_answers is 0; give 1 or more"):
        MainLoop(ConnectedComponents, graph, backend=url, keep_answers=0)


def test_a_hundred_answers_are_kept_by_default() -> None:
    for method in (MainLoop.__init__, MainLoop.resume):
        assert inspect.signature(method).parameters["keep_answers"].default == 100


def test_strict_takes_in_all_or_nothing(spark: SparkSession, tmp_path: Path) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=2)
    url = f"lmdb://{tmp_path}/state"
    with MainLoop(ConnectedComponents, graph, backend=url, strict=True) as main:
        with pytest.raises(InputError, match=r"change 2 of the batch: there is no edge 5 -> 6"):
            main.ingest([("-", 1, 2), ("-", 5, 6)])
        assert main.changes == 0
        assert main.query().lookup([2])[2] == {"component": 1}


def test_string_ids_that_come_later(spark: SparkSession, tmp_path: Path) -> None:
    graph = Graph.from_arrays(["m", "n"], ["n", "o"], spark=spark, partitions=2)
    with MainLoop(ConnectedComponents, graph, backend=f"lmdb://{tmp_path}/state") as main:
        assert main.query().lookup(["o"]) == {"o": {"component": "m"}}
        main.ingest([("+", "a", "o"), ("-", "m", "n"), ("+", "x", "y")])
        found = main.query().lookup(["a", "m", "n", "o", "x", "y"])
    assert {v: row["component"] for v, row in found.items()} == {
        "a": "a", "n": "a", "o": "a", "x": "x", "y": "x",
    }  # fmt: skip  # and m has lost its last edge


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize(
    ("ids", "origin"),
    [(["1", "001", "x"], "001"), (["+7", "7", "x"], "+7"), ([5, 7, 9], "7"), ([-5, -7, 9], "-7")],
)
def test_vertices_that_parameters_name_by_text(
    ids: list[Any], origin: str, partitions: int, spark: SparkSession, tmp_path: Path
) -> None:
    graph = Graph.from_arrays(ids[:2], ids[1:], spark=spark, partitions=partitions)
    params = {"origin": origin}
    want = {ids[0]: {"length": float("inf")}, ids[1]: {"length": 0.0}, ids[2]: {"length": 1.0}}
    if origin == ids[0]:
        want = {v: {"length": float(k)} for k, v in enumerate(ids)}
    url = f"lmdb://{tmp_path}/state"
    assert dict(run(ShortestPaths, graph, params=params, backend=url, loop="run").rows()) == want
    with MainLoop(ShortestPaths, graph, params=params, backend=url) as main:
        assert dict(main.query().rows()) == want


@pytest.mark.parametrize("origin", ["+7", "007", " 7", "7.0"])
def test_text_that_is_no_integer_as_it_would_be_printed(origin: str, tmp_path: Path) -> None:
    graph, url = Graph.from_arrays([5, 7], [7, 9]), f"lmdb://{tmp_path}/state"
    with pytest.raises(InputError, match=re.escape(f"{origin!r} is not a vertex")):
        run(ShortestPaths, graph, params={"origin": origin}, backend=url)
    with pytest.raises(InputError, match=re.escape(f"{origin!r} is not a vertex")):
        MainLoop(ShortestPaths, graph, params={"origin": origin}, backend=url)


def test_what_cannot_be_done(spark: SparkSession, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays([1], [2], spark=spark)
    with pytest.raises(InputError, match="'x' is not a vertex"):
        MainLoop(ShortestPaths, graph, params={"origin": "x"}, backend=url)
    with pytest.raises(InputError, match="parallel edges"):
        MainLoop(ConnectedComponents, Graph.from_arrays([1], [2], spark=spark, multi=True))
    with MainLoop(ConnectedComponents, graph, backend=url) as main:
        with pytest.raises(InputError, match="NoneType is not a batch of changes"):
            main.ingest(None)  # type: ignore[arg-type]
        with pytest.raises(InputError, match="ids are integers"):
            main.ingest([("+", "a", "b")])
        assert main.ingest(Changes.of([])) == dict.fromkeys(main.counts, 0)
        main.ingest([("-", 1, 2)])
        main.ingest([("+", 4, 3)])
        assert main.query().lookup([4]) == {4: {"component": 3}}


def test_values_of_edges_where_there_were_none(spark: SparkSession, tmp_path: Path) -> None:
    """Partitions which begin without an edge keep fractions too."""
    graph = Graph.from_arrays([0], [1], [0.5], spark=spark, partitions=7)
    url = f"lmdb://{tmp_path}/state"
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=url, compiled=False) as main:
        main.ingest([("+", k, k + 1, 0.5) for k in range(1, 12)])
        assert main.query().lookup([12])[12]["length"] == 6.0
