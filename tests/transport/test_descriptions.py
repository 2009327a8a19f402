"""What Spark shows for the jobs of graphs and runs, and that a user's own words come back."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest
from pyspark.sql import SparkSession

from vertexsdk import Graph, RunError, Sum, Vertex, run, state
from vertexsdk.algorithms import PageRank
from vertexsdk.program.vertex import Delta

PROPERTIES = ("spark.job.description", "spark.jobGroup.id")


class Fails(Vertex):
    """It fails in its first iteration."""

    total: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.total = [0.0][iteration]

    def scatter(self, iteration: int) -> None:
        self.emitAll(1.0)


@pytest.fixture
def graph(spark: SparkSession) -> Iterator[Graph]:
    """A ring in two partitions, which nothing has loaded yet."""
    made = Graph.from_arrays([1, 2, 3, 4], [2, 3, 4, 1], spark=spark, partitions=2)
    yield made
    made.unpersist()


@pytest.fixture
def own(spark: SparkSession) -> Iterator[dict[str, str]]:
    """The properties of this thread, with a group and a description of the user's own."""
    sc = spark.sparkContext
    sc.setJobGroup("nightly", "the nightly report")
    yield dict(zip(PROPERTIES, ("the nightly report", "nightly"), strict=True))
    for name in PROPERTIES:
        sc.setLocalProperty(name, None)  # type: ignore[arg-type]


def properties(spark: SparkSession) -> dict[str, Any]:
    return {name: spark.sparkContext.getLocalProperty(name) for name in PROPERTIES}


def jobs(spark: SparkSession, known: int = 0) -> list[tuple[str, str, str]]:
    """Description, group and status of all jobs but the first `known`, as Spark's pages show."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    listed = spark.sparkContext._jsc.sc().statusStore().jobsList(None)
    rows = []
    for job in (listed.apply(k) for k in range(listed.size())):
        given = (job.description(), job.jobGroup())
        texts = (str(text.get()) if text.isDefined() else "" for text in given)
        rows.append((int(job.jobId()), *texts, str(job.status())))
    return [row[1:] for row in sorted(rows)[known:]]


def test_processors_are_a_job_that_says_so(
    spark: SparkSession, graph: Graph, tmp_path: Path
) -> None:
    known = len(jobs(spark))
    run(PageRank, graph, backend=f"lmdb://{tmp_path}/state", max_iterations=3).close()
    assert jobs(spark, known) == [
        ("vertexsdk: 2 processors of a graph", ANY, "RUNNING"),
    ]
    assert properties(spark) == dict.fromkeys(PROPERTIES)


def test_supersteps_by_jobs_are_in_the_group_of_the_user(
    spark: SparkSession, graph: Graph, own: dict[str, str], tmp_path: Path
) -> None:
    graph.held_by_jobs().materialise()
    known = len(jobs(spark))
    url = f"lmdb://{tmp_path}/state"
    run(PageRank, graph, backend=url, loop="ranks", max_iterations=2, exchange="shuffle").close()
    assert list(dict.fromkeys(jobs(spark, known))) == [
        (f"vertexsdk: pagerank as ranks, {step}", "nightly", "SUCCEEDED")
        for step in ("superstep 0", "superstep 1", "superstep 2", "end")
    ]
    assert properties(spark) == own


def test_the_words_of_the_user_come_back_after_a_failure(
    spark: SparkSession, graph: Graph, own: dict[str, str], tmp_path: Path
) -> None:
    known = len(jobs(spark))
    options: Any = {"compiled": False, "exchange": "shuffle"}
    with pytest.raises(RunError, match="IndexError"):
        run(Fails, graph, backend=f"lmdb://{tmp_path}/state", **options)
    found = [text for text, *_ in jobs(spark, known)]
    assert "vertexsdk: fails, superstep 1" in found
    assert properties(spark) == own


def test_a_hop_costs_one_call(spark: SparkSession, graph: Graph) -> None:
    """Where hops are jobs, a description takes far less than a job, of 15 ms or more."""
    with graph.workers.described("one") as describe:
        describe("two")
        began = time.perf_counter()
        for k in range(100):
            describe(f"superstep {k}")
        assert time.perf_counter() - began < 1.0
        assert properties(spark)["spark.job.description"] == "vertexsdk: superstep 99"
