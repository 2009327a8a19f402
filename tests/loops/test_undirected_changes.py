"""Undirected graphs whose changes name an edge both ways: order, logs, forks, older stores."""

from __future__ import annotations

import json
import random
import warnings
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.events.events_programs import Weights, both_ways, weights
from tests.support.random_changes import Edges, Row, applied, random_rows, turned
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import ALGORITHMS, ConnectedComponents, Coreness, ShortestPaths
from vertexsdk.testing.oracles import disagreements, expected

# Programs by every path that edges take: in place, arranged anew, events; int and string ids.
WAYS: list[tuple[str, int, bool, bool]] = [
    # name, partitions, string ids, compiled
    ("kcore", 1, False, True),
    ("kcore", 2, True, True),
    ("sssp", 1, False, True),
    ("sssp", 1, False, False),
    ("sssp", 4, True, True),  # of the two loops one has processors, and one has jobs
    ("wcc", 2, False, False),
    ("wcc", 1, True, True),
    ("pagerank", 2, False, True),
    ("degree", 1, False, True),
    ("weights", 1, False, False),
    ("weights", 2, True, False),
]


def names(strings: bool) -> list[Any]:
    # as strings they sort otherwise than as numbers, and one holds another
    return [f"v{k}" for k in range(12)] if strings else [*range(6), 2**40, -7, 100, 9, 10, 11]


def answer(name: str, edges: Edges, params: dict[str, Any]) -> Any:
    if name == "weights":
        return weights(both_ways(edges, undirected=True))
    rows = [(a, b, x) for (a, b), x in sorted(edges.items())]
    origin = [params["origin"]] if "origin" in params else []
    return expected(name, rows, origin, params, undirected=True)


def check(name: str, main: Any, edges: Edges, params: dict[str, Any]) -> None:
    """Compare a query of a main loop, or a branch's result, with the oracle."""
    result = main.query() if isinstance(main, MainLoop) else main.result(timeout=60)
    state = dict(result.rows())
    wanted = answer(name, edges, params)
    if name == "weights":
        # vertices of an events program stay, with an empty sum, when their last edge has gone
        assert {v: row["total"] for v, row in state.items() if row["total"]} == {
            v: x for v, x in wanted.items() if x
        }
    else:
        assert not disagreements(wanted, state, 1e-5 if name == "pagerank" else 1e-9)
    result.close()


@pytest.mark.parametrize("way", range(len(WAYS)))
@pytest.mark.sample(3)
def test_answers_equal_the_oracle(
    way: int, spark_or_none: SparkSession | None, tmp_path: Path
) -> None:
    """Batches, resumes and forks of older versions drawn at random; and the same turned round."""
    name, partitions, strings, compiled = WAYS[way]
    spark = spark_or_none
    rng = random.Random(seed())
    vertices = names(strings)
    edges: Edges = {}
    while len(edges) < 8:
        random_rows(rng, edges, 6, undirected=True, vertices=vertices)
    params = {"origin": rng.choice(sorted(edges))[0]} if name == "sssp" else {}
    program: Any = Weights if name == "weights" else ALGORITHMS[name]
    options: Any = {"compiled": compiled} if name != "weights" else {}
    loops = []
    columns = [*zip(*((a, b, x) for (a, b), x in edges.items()), strict=True)]
    for loop in ("one", "turned"):
        graph = Graph.from_arrays(*columns, spark=spark, undirected=True, partitions=partitions)
        url = f"lmdb://{tmp_path}/{loop}"
        loops.append(MainLoop(program, graph, params=params, backend=url, loop=loop, **options))
    history = {loops[0].iteration: dict(edges)}
    for turn in range(3):
        before = dict(edges)
        rows = random_rows(rng, edges, rng.randint(4, 16), undirected=True, vertices=vertices)
        assert applied(before, rows, undirected=True) == edges
        cut = rng.randint(0, len(rows))
        loops[0].ingest(rows)
        for part in (rows[:cut], rows[cut:]):  # split otherwise, and spelled otherwise
            loops[1].ingest(turned(rng, part))
        history[loops[0].iteration] = dict(edges)
        assert loops[0].counts == loops[1].counts
        if turn == 1 or rng.random() < 0.3:
            loops = [again(spark, program, main, options) for main in loops]
        if edges and (turn == 2 or rng.random() < 0.5):
            for main in loops:
                check(name, main, edges, params)
            history[loops[0].iteration] = dict(edges)
    at = rng.choice(sorted(k for k, graph in history.items() if graph))
    with loops[0].fork("older", at=at) as branch:
        check(name, branch, history[at], params)
    for main in loops:
        main.close()


def again(spark: SparkSession | None, program: Any, main: MainLoop, options: Any) -> MainLoop:
    """The loop as another process finds it whose driver was killed: with its log, no checkpoint."""
    main._history.engine.close()
    main._history.store.close()
    where: Any = {"backend": main.backend, "loop": main.loop, "trusted": True}
    return MainLoop.resume(spark, program, **where, **options)


def test_a_strict_loop_takes_both_spellings(spark: SparkSession, tmp_path: Path) -> None:
    graph = Graph.from_arrays([1], [2], spark=spark, undirected=True)
    url = f"lmdb://{tmp_path}/state"
    with MainLoop(Coreness, graph, backend=url, strict=True) as main:
        assert main.ingest([("+", 3, 1), ("-", 1, 3), ("~", 2, 1, 5)])["absent"] == 0
        assert {v: row["core"] for v, row in dict(main.query().rows()).items()} == {1: 1, 2: 1}
        with pytest.raises(InputError, match=r"change 2 of the batch: .* between 1 and 4 to"):
            main.ingest([("-", 2, 1), ("-", 4, 1)])


def test_tables_and_streams(spark: SparkSession, tmp_path: Path) -> None:
    """Changes of DataFrames and of Structured Streaming come in by the same way."""
    rows: list[Row] = [("+", "b", "a", 5.0), ("~", "a", "b", 3.0), ("+", "c", "a", 1.0),
                       ("-", "a", "c", 1.0)]  # fmt: skip
    graph = Graph.from_arrays(["a"], ["d"], [1.0], spark=spark, undirected=True, partitions=2)
    url = f"lmdb://{tmp_path}/state"
    schema = "kind string, source string, target string, value double"
    with MainLoop(ShortestPaths, graph, params={"origin": "a"}, backend=url) as main:
        main.ingest(spark.createDataFrame(rows[:2], schema).coalesce(1))
        inbox = tmp_path / "inbox"
        inbox.mkdir()
        lines = [json.dumps(dict(zip(("kind", "source", "target", "value"), r, strict=True)))
                 for r in rows[2:]]  # fmt: skip
        (inbox / "1.json").write_text("\n".join(lines))
        source = spark.readStream.schema(schema).json(str(inbox))
        stream = main.start(
            source, checkpointLocation=str(tmp_path / "place"), trigger={"availableNow": True}
        )
        stream.awaitTermination()
        state = dict(main.query().rows())
    assert {v: row["length"] for v, row in state.items()} == {"a": 0.0, "b": 3.0, "d": 1.0}


@pytest.mark.parametrize("value", [1e300, float("inf"), 0.5])
def test_values_that_a_program_does_not_read_reach_no_kernel(
    value: float, spark: SparkSession, tmp_path: Path
) -> None:
    """NumPy has nothing to say to the user, whatever the values are."""
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark, undirected=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with MainLoop(ConnectedComponents, graph, backend=f"lmdb://{tmp_path}/state") as main:
            main.ingest([("+", 3, 4, value), ("-", 1, 2), ("~", 2, 3, value)])
            state = dict(main.query().rows())
    assert {v: row["component"] for v, row in state.items()} == {2: 2, 3: 2, 4: 2}
