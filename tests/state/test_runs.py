"""Runs on every backend: the same bytes come out, and a store of one host is for one host."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np
import psycopg
import pytest

import vertexsdk
from vertexsdk.algorithms.pagerank import PageRank
from vertexsdk.engine.batch_run import refuse_other_hosts
from vertexsdk.errors import InputError
from vertexsdk.state import open_store
from vertexsdk.transport.spark import SparkTransport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_the_same_run_on_each_backend(
    spark: SparkSession, tmp_path: Path, redis_url: str, postgres_url: str
) -> None:
    random = np.random.default_rng(5)
    edges = tmp_path / "edges.txt"
    np.savetxt(edges, random.integers(0, 300, (2000, 2)), fmt="%d")
    graph = vertexsdk.Graph.read(spark, str(edges), partitions=2)
    written = {}
    urls = [f"lmdb://{tmp_path}/store", "memory://runs", redis_url, postgres_url]
    for number, url in enumerate(urls):
        result = vertexsdk.run(
            PageRank, graph, backend=url, loop="ranks", max_iterations=6, commit_every=2,
            progress=False,
        )  # fmt: skip
        output = tmp_path / f"out-{number}.csv"
        result.write(str(output))
        written[url] = output.read_bytes()
        with open_store(url) as store:
            assert store.versions("ranks")[-1] == 6
            assert len(store.versions("ranks")) == 3
            found = store.audit()
            assert (found.missing, found.corrupt, found.unreferenced) == ([], [], [])
    graph.unpersist()
    assert len(set(written.values())) == 1
    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    with psycopg.connect(postgres_url.partition("?")[0]) as link:
        rows = link.execute(
            f"SELECT vertex, rank FROM {schema}.vertex_state WHERE loop = 'ranks'".encode()
        ).fetchall()
    lines = written[postgres_url].decode().split()
    assert len(rows) in (len(lines), len(lines) - 1)


@pytest.mark.parametrize("host", ["10.1.2.3", "far.example"])
def test_lmdb_is_refused_where_executors_are_on_other_hosts(tmp_path: Path, host: str) -> None:
    infos = [SimpleNamespace(host=lambda: "localhost"), SimpleNamespace(host=lambda: host)]
    tracker: Any = SimpleNamespace(getExecutorInfos=lambda: infos)
    context = SimpleNamespace(sc=lambda: SimpleNamespace(statusTracker=lambda: tracker))
    spark: Any = SimpleNamespace(
        sparkContext=SimpleNamespace(
            _jsc=context,
            master="spark://far.example:7077",
            applicationId="application",
            getConf=dict,
        )
    )
    transport = SparkTransport(spark)
    with open_store(f"lmdb://{tmp_path}/store") as store:
        with pytest.raises(InputError, match=f"one host, but executors are on {host}.*shared"):
            refuse_other_hosts(transport, store)
        infos.pop()
        refuse_other_hosts(transport, store)


def test_redis_and_postgres_are_for_several_hosts(redis_url: str, postgres_url: str) -> None:
    asked: list[str] = []

    class Cluster:
        """A transport that remembers what it was asked for."""

        def __getattr__(self, name: str) -> Any:
            asked.append(name)
            raise InputError(f"{name} was asked for")

    transport: Any = Cluster()
    for url in (redis_url, postgres_url):
        with open_store(url) as store:
            refuse_other_hosts(transport, store)
    assert asked == []  # where executors are makes no difference to these
    with open_store("memory://") as store, pytest.raises(InputError, match="other_hosts"):
        refuse_other_hosts(transport, store)
