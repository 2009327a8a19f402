"""Main loops of programs of the events level, on Spark."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.engine.events.events_programs import (
    Least,
    PaperPaths,
    Recorder,
    Weights,
    both_ways,
    weights,
)
from tests.support.random_changes import Edges, random_rows
from vertexsdk import Graph, Ingester, InputError, MainLoop, read
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.engine.commands import Budget
from vertexsdk.errors import StateError


def answers(result: Any, field: str) -> dict[Any, Any]:
    return {v: row[field] for v, row in result.rows()}


def test_answers_after_changes(spark: SparkSession, tmp_path: Path) -> None:
    """With two partitions, whose letters cross, and a branch beside the loop."""
    rng, edges = random.Random(5), Edges()
    while len(edges) < 30:
        random_rows(rng, edges, 5, undirected=True)
    columns = zip(*((a, b, x) for (a, b), x in edges.items()), strict=True)
    graph = Graph.from_arrays(
        *columns, spark=spark, vertices=[3, 77], undirected=True, partitions=2
    )
    url = f"lmdb://{tmp_path}/state"
    with MainLoop(Weights, graph, backend=url) as main:
        for start in ("init", "warm"):
            counts = main.ingest(random_rows(rng, edges, 6, undirected=True))
            assert sum(counts.values()) == 6
            result = main.query()
            wanted = weights(both_ways(edges, undirected=True)) | {77: 0.0}
            assert answers(result, "total") == wanted
            assert result.statistics["start"] == start
            assert result.statistics["num_edges"] == len(edges)
        with main.fork("what-if") as branch:
            branch.apply([("+", 3, 77, 9.0)])
            branch.start(timeout=60)
            assert branch.result().lookup([77])[77]["total"] == 9.0
        assert main.lookup([77])[77]["total"] == 0.0


def test_what_is_no_edge_survives_the_driver(spark: SparkSession, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays([1, 2], [2, 3], spark=spark)
    said = [("send", 1, "NOTE", {"a": [1]}), ("+", 1, 4), ("send", 9, "NOTE", None)]
    main = MainLoop(Recorder, graph, backend=url, budget=Budget(1))
    assert main.ingest(said)["added"] == 1
    log = "main: 1,1,2 None,NOTE,{'a': [1]} 1,1,4"
    assert main.lookup([1])[1]["log"] == log
    main.ingest([("send", 9, "LATER", 1)])
    main._history.store.close()  # as if the driver had died, without a checkpoint
    with pytest.raises(StateError, match=r"keeps vertices of recorder.* pass trusted=True"):
        MainLoop.resume(spark, Recorder, backend=url)
    with MainLoop.resume(spark, Recorder, backend=url, trusted=True) as again:
        found = again.query().lookup([1, 9])
    assert found[1]["log"] == log
    assert found[9]["log"].endswith(": None,NOTE,None None,LATER,1")
    main.close()


class Notes(Ingester):
    def ingest(self, record: Any) -> None:
        self.addEdge(record["who"], record["whom"])
        self.send(record["whom"], "NOTE", record["text"])


def test_an_ingester_of_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    records = tmp_path / "records"
    records.mkdir()
    (records / "a.json").write_text('{"who": 1, "whom": 5, "text": "hello"}\n')
    stream = spark.readStream.schema("who long, whom long, text string").json(str(records))
    graph = Graph.from_arrays([1], [2], spark=spark)
    with MainLoop(Recorder, graph, backend=f"lmdb://{tmp_path}/state") as main:
        flow = main.start(stream, deltas=Notes, trigger={"availableNow": True})
        flow.awaitTermination(60)
        found = main.query().lookup([1, 5])
    assert found[5]["log"].endswith(": None,NOTE,hello")
    assert found[1]["log"].endswith(": 1,1,2 1,1,5")


def test_a_checkpoint_is_gone_on_from(spark: SparkSession, tmp_path: Path) -> None:
    """Strings, and names which came later; the vertices are what they were, in all they hold."""
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays(["m", "n"], ["n", "o"], spark=spark, partitions=2)
    with MainLoop(Least, graph, backend=url, snapshot_every=1, budget=Budget()) as main:
        main.ingest([("+", "a", "o"), ("+", "x", "y"), ("send", "p", "HELLO")])
        before = answers(main.query(), "least")
    assert before == dict(zip("amnopxy", "ammapxx", strict=True))
    with MainLoop.resume(spark, Least, backend=url, trusted=True) as again:
        assert again.iteration > 1
        assert answers(again.query(), "least") == before
        again.ingest([("+", "a", "x"), ("+", "0", "m")])
        assert answers(again.query(), "least") == {
            "0": "0",
            **dict(zip("amnopxy", "a000paa", strict=True)),
        }
    assert answers(read(url, "least"), "least")["y"] == "a"


def test_refusals(spark: SparkSession, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    graph = Graph.from_arrays([1], [2], spark=spark)
    with MainLoop(ConnectedComponents, graph, backend=url) as main:
        with pytest.raises(InputError, match="'RATING' for vertex 9 is not a change of an edge"):
            main.ingest([("send", 9, "RATING", 2)])
        assert main.changes == 0
    multi = Graph.from_arrays([1], [2], spark=spark, multi=True)
    with pytest.raises(InputError, match="parallel edges"):
        MainLoop(Recorder, multi, backend=url)
    with pytest.raises(InputError, match="'x' is not a vertex"):
        MainLoop(PaperPaths, graph, params={"origin": "x"}, backend=url)
    with MainLoop(Recorder, graph, backend=url) as main:
        with pytest.raises(InputError, match="ids are integers"):
            main.ingest([("send", "a", "NOTE")])
        with pytest.raises(InputError, match="cannot be pickled"):
            main.ingest([("send", 1, "NOTE", (k for k in "no"))])
        assert main.query().lookup([1])[1]["log"] == "main: 1,1,2"
