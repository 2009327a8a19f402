"""Who has the slots of a cluster: graphs give them back, and are named where there are too few."""

from __future__ import annotations

import gc
import logging
import weakref
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from vertexsdk import Graph, MainLoop, run
from vertexsdk.algorithms import Degree
from vertexsdk.transport import resident, transport
from vertexsdk.transport import spark as spark_transport
from vertexsdk.transport.inprocess import InProcessWorkers

SLOTS = 5


class IdleLaunch:
    """Processors that have slots and do nothing."""

    def __init__(self, sc: Any, partitions: int) -> None:
        self.application, self.partitions, self.alive = sc.applicationId, partitions, True
        resident._launches.add(self)  # type: ignore[arg-type]

    def run(self, function: Any) -> list[Any]:
        return []

    def close(self) -> None:
        self.alive = False


class Jobs(InProcessWorkers):
    """What stands for Spark jobs."""

    def __init__(self, session: Any, partitions: int) -> None:
        super().__init__(partitions)


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Something like a transport, whose cluster has `SLOTS` slots."""
    sc = SimpleNamespace(applicationId="slots", master="spark://x", getConf=dict)
    session: Any = SimpleNamespace(sparkContext=sc)
    monkeypatch.setattr(spark_transport, "Launch", IdleLaunch)
    monkeypatch.setattr(spark_transport, "ShuffleWorkers", Jobs)
    monkeypatch.setattr(spark_transport, "stopped", lambda context: False)
    monkeypatch.setattr(spark_transport.SparkWorkers, "_slots", lambda self: SLOTS)
    monkeypatch.setattr(resident, "_launches", weakref.WeakSet())
    gc.disable()
    yield SimpleNamespace(
        workers=lambda partitions, by_jobs=False: spark_transport.SparkWorkers(session, partitions)
    )
    gc.enable()
    gc.collect()
    for thread in [*transport._closing]:  # they need what is patched here
        thread.join(20)


def a_graph(cluster: Any, partitions: int = 3, title: str = "") -> Graph:
    graph = Graph.from_arrays([1, 2], [2, 3], partitions=partitions)
    graph.transport, graph.title = cluster, title
    return graph


def in_a_cycle(graph: Graph) -> None:
    """Start a graph's processors, and leave it to the collector."""
    graph.me = graph  # type: ignore[attr-defined]
    assert graph.workers.resident  # type: ignore[attr-defined]


def test_a_graph_that_nobody_refers_to_gives_its_slots_back(cluster: Any) -> None:
    in_a_cycle(a_graph(cluster))
    assert a_graph(cluster).workers.resident  # type: ignore[attr-defined]


def test_the_graphs_that_have_the_slots_are_named(
    cluster: Any, caplog: pytest.LogCaptureFixture
) -> None:
    first, second = a_graph(cluster, 1, "loop 'main'"), a_graph(cluster, 2)
    assert first.workers.resident  # type: ignore[attr-defined]
    assert second.workers.resident  # type: ignore[attr-defined]
    second.workers.title = "a graph of 3 vertices and 2 edges"
    with caplog.at_level(logging.WARNING, "vertexsdk"):
        assert not a_graph(cluster, 4).workers.resident  # type: ignore[attr-defined]
    (line,) = caplog.messages
    assert "4 partitions need 5 free slots, and there are 2, as " in line
    assert "a graph of 3 vertices and 2 edges (2 slots), loop 'main' (1 slots) have some" in line
    assert "close() of loops and unpersist() of graphs that you do not use" in line
    second.unpersist()
    first.unpersist()
    assert a_graph(cluster, 4).workers.resident  # type: ignore[attr-defined]


def test_graphs_on_spark_are_named_and_give_their_slots_back(
    spark: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """Whatever of the session's slots earlier tests have left."""
    gc.collect()
    edges = [1, 2, 3], [2, 3, 4]
    for _ in range(3):  # each has more than half of the slots
        graph = Graph.from_arrays(*edges, spark=spark, partitions=3)
        graph.me = graph  # type: ignore[attr-defined]
        run(Degree, graph, backend="memory://slots").close()
        assert graph.workers.resident  # type: ignore[attr-defined]
        del graph
    graph = Graph.from_arrays(*edges, spark=spark, partitions=3)
    with MainLoop(Degree, graph, backend="memory://slots", loop="holder", replace=True) as loop:
        loop.query().close()
        other = Graph.from_arrays(*edges, spark=spark, partitions=4)
        with caplog.at_level(logging.WARNING, "vertexsdk"):
            assert not other.workers.resident  # type: ignore[attr-defined]
        assert "loop 'holder' (3 slots)" in caplog.text
    graph.unpersist()
    other.unpersist()
