"""Delay bounds on Spark: the same answers in fewer hops, versions on the way, and main loops."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

import vertexsdk
from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.state import open_store
from vertexsdk.testing.oracles import disagreements, expected

LONG, WIDE = 36, 6
URL = "memory://bounded"
PARAMS: dict[str, dict[str, Any]] = {"sssp": {"origin": 0}, "pagerank": {"epsilon": 1e-6}}


def grid(long: int, wide: int) -> list[tuple[int, int, float]]:
    """An oblong of vertices, each joined to the right and downwards, both ways."""
    ids = np.arange(long * wide).reshape(long, wide)
    pairs = [*zip(ids[:, :-1].flat, ids[:, 1:].flat, strict=True)]
    pairs += zip(ids[:-1].flat, ids[1:].flat, strict=True)
    rows = [(int(a), int(b)) for a, b in pairs]
    return [(a, b, 1.0 + (a * 7 + b) % 5 / 4) for a, b in rows + [(b, a) for a, b in rows]]


@pytest.fixture(scope="module")
def graph(spark: SparkSession) -> Iterator[Graph]:
    columns = zip(*grid(LONG, WIDE), strict=True)
    made = Graph.from_arrays(*columns, spark=spark, partitions=4, partitioner="ldg")
    yield made
    made.unpersist()


def answer(name: str, graph: Graph, **options: Any) -> tuple[dict[int, Any], dict[str, Any]]:
    options = {"params": PARAMS.get(name, {}), "backend": URL, "loop": name, **options}
    with contextlib.closing(vertexsdk.run(ALGORITHMS[name], graph, **options)) as result:
        return result.to_dict(), dict(result.statistics)


@pytest.mark.parametrize("name", ["sssp", "wcc", "pagerank"])
def test_answers_and_hops(name: str, graph: Graph) -> None:
    found = {bound: answer(name, graph, delay_bound=bound) for bound in (1, 16, "auto")}
    wanted = expected(name, grid(LONG, WIDE), [], PARAMS.get(name, {}))
    field = next(iter(wanted))
    for bound, (values, statistics) in found.items():
        got = {v: x if isinstance(x, dict) else {field: x} for v, x in values.items()}
        assert not disagreements(wanted, got, 1e-5), bound
        assert bound in (statistics["delay_bound"], "auto")
        assert statistics["delay_bound_reason"]
        assert statistics["reason"] in ("quiet", "converged")
    one, many, auto = (found[bound][1] for bound in (1, 16, "auto"))
    assert (one["prepares"], one["acknowledges"]) == (0, 0)
    assert "delays" not in one
    assert many["hops"] < one["hops"]
    assert auto["delay_bound"] > 1
    assert auto["hops"] < one["hops"]
    for statistics in (many, auto):
        assert sum(statistics["delays"].values()) >= (0 if name == "pagerank" else LONG * WIDE - 1)
        assert {"prepares", "acknowledges", "prepare_messages", "held"} <= statistics.keys()
    if name != "pagerank":
        assert many["prepares"] > 0
        assert many["acknowledges"] > 0


def test_versions_on_the_way(graph: Graph) -> None:
    values, statistics = answer("sssp", graph, delay_bound=16, commit_every=4, loop="often")
    assert statistics["delay_bound"] == 16
    with open_store(URL) as store:
        kept = store.versions("often")
    assert len(kept) > 1
    assert kept[-1] == statistics["iterations"]
    assert lengths(values) == exact()


def test_a_number_of_iterations(graph: Graph) -> None:
    for bound, limit in ((16, 5), (2, 5), (3, 1)):
        values, statistics = answer("sssp", graph, delay_bound=bound, max_iterations=limit)
        got, wanted = lengths(values), exact()
        assert statistics["reason"] == "max_iterations"
        assert statistics["iterations"] <= limit
        assert all(got[v] >= wanted[v] for v in wanted)
        assert got != wanted
    with pytest.raises(InputError, match="it is to end after a number of iterations"):
        answer("pagerank", graph, delay_bound=16, max_iterations=5)


def lengths(values: dict[Any, Any]) -> dict[Any, float]:
    return {v: float(x["length"] if isinstance(x, dict) else x) for v, x in values.items()}


def exact() -> dict[int, float]:
    return dict(expected("sssp", grid(LONG, WIDE), [], {"origin": 0})["length"])


def test_string_ids(spark: SparkSession) -> None:
    edges = [(f"v{a}", f"v{b}", x) for a, b, x in grid(5, 5)]
    columns = zip(*edges, strict=True)
    graph = Graph.from_arrays(*columns, spark=spark, partitions=3)
    wanted = expected("sssp", edges, [], {"origin": "v0"})["length"]
    got, statistics = answer("sssp", graph, delay_bound=16, params={"origin": "v0"}, compiled=False)
    assert statistics["delay_bound"] == 16
    assert lengths(got) == wanted
    graph.unpersist()


@pytest.mark.parametrize("name", ["cdlp", "scc"])
def test_programs_that_need_synchrony(name: str, graph: Graph) -> None:
    with pytest.raises(InputError, match="a delay bound of 4 is not possible: ") as said:
        answer(name, graph, delay_bound=4)
    assert "\n" not in str(said.value)


@pytest.mark.parametrize(("name", "bound"), [("sssp", 16), ("wcc", "auto"), ("pagerank", 4)])
def test_a_main_loop(name: str, bound: Any, spark: SparkSession) -> None:
    edges = {(a, b): x for a, b, x in grid(6, 6)}
    columns = zip(*((a, b, x) for (a, b), x in edges.items()), strict=True)
    graph = Graph.from_arrays(*columns, spark=spark, partitions=2)
    options: Any = {"params": PARAMS.get(name, {}), "backend": URL, "loop": f"main-{name}"}
    options["compiled"] = False
    main = MainLoop(ALGORITHMS[name], graph, delay_bound=bound, **options)

    def check() -> None:
        rows = [(a, b, x) for (a, b), x in edges.items()]
        wanted = expected(name, rows, [0], PARAMS.get(name, {}))
        with contextlib.closing(main.query()) as result:
            columns = result.columns()
            assert result.statistics["delay_bound"] == (1 if bound == "auto" else bound)
        ids = columns["id"].tolist()
        got = {v: {f: columns[f][k].item() for f in wanted} for k, v in enumerate(ids)}
        assert not disagreements(wanted, got, 1e-5)

    check()
    main.ingest([("+", 0, 35, 0.5), ("-", 0, 1), ("-", 7, 8), ("+", 99, 98, 1.0)])
    edges |= {(0, 35): 0.5, (99, 98): 1.0}
    del edges[0, 1], edges[7, 8]
    check()
    before, ahead = main.lookup([0])[0]["version"], 1 if bound == "auto" else bound
    main.ingest([("+", 5, 35, 0.125)])
    with main.fork() as branch:
        branch.result().close()
        newest = main.lookup([0])[0]["version"]
        branch.merge()
    # No update that was under way can be of so late an iteration: see section 5.2 of the paper.
    assert main.lookup([0])[0]["version"] == newest + ahead > before
    edges[5, 35] = 0.125
    check()
    main.close()
    resumed = MainLoop.resume(spark, ALGORITHMS[name], delay_bound=bound, **options)
    main = resumed
    main.ingest([("-", 0, 35), ("+", 3, 30, 0.25)])
    del edges[0, 35]
    edges[3, 30] = 0.25
    check()
    main.close()


def test_a_main_loop_refuses_at_once(spark: SparkSession) -> None:
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, partitions=2)
    for name, bound, said in (("cdlp", 4, "not possible"), ("wcc", 0, "from 1 to")):
        with pytest.raises(InputError, match=said):
            MainLoop(ALGORITHMS[name], graph, delay_bound=bound, backend=URL, loop="refused")
    with open_store(URL) as store:
        assert store.head("refused") is None
    graph.unpersist()


def test_jobs_have_no_delay_bound(graph: Graph) -> None:
    with pytest.raises(InputError, match="leave out exchange='shuffle'"):
        answer("sssp", graph, delay_bound=4, exchange="shuffle")
    _, statistics = answer("sssp", graph, delay_bound="auto", exchange="shuffle")
    assert (statistics["delay_bound"], statistics["delay_bound_reason"]) == (1, "tasks do not stay")
