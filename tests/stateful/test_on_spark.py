"""Stateful classes on resident processors of Spark, and in stores that are servers."""

from __future__ import annotations

import random
from contextlib import ExitStack
from typing import Any

import numpy as np
import pytest
from pyspark.sql import SparkSession

from tests.stateful.forty_programs import Recommender
from tests.stateful.histories import CALLS, History
from tests.stateful.own_elements import Board
from tests.stateful.programs import Divided, KeyValue, Visits, WordCount
from tests.stateful.test_oracle import run_history
from tests.support.seeds import seed
from vertexsdk import Stateful, StatefulLoop


@pytest.mark.parametrize("cls", [WordCount, Visits, Divided, Recommender, Board])
@pytest.mark.parametrize("partitions", [1, 2])
def test_answers_on_processors_are_those_of_a_plain_object(
    spark: SparkSession, cls: type[Stateful], partitions: int, tmp_path: Any
) -> None:
    chance = random.Random(seed())
    url = f"lmdb://{tmp_path}/store"
    options: dict[str, Any] = {"backend": url, "spark": spark, "snapshot_every": 40}
    with ExitStack() as forks:
        with StatefulLoop(cls, partitions=partitions, **options) as flow:
            history = History(cls, flow, chance)
            for _ in range(15):
                history.step()
            flow.rescale(3 - partitions)
            history.check()
            fork = history.fork()
            forks.callback(fork.flow.close)
            for _ in range(5):
                history.step()
            begun = flow._snapshots._calls
            while flow.progress()["calls"] < begun + 40:  # until one is due after so many calls
                history.step()
            history.check()
            with flow._lock:
                flow._snapshots.collect(waits=True)
            assert flow.progress()["snapshots"] > 1
            fork.check()
        fork.step()  # on processors that were the loop's
        fork.check()
    history.flow = StatefulLoop.resume(cls, backend=url, partitions=3 - partitions, spark=spark)
    with history.flow:
        history.check()
        history.step()


def test_kernels_run_on_processors(spark: SparkSession, tmp_path: Any) -> None:
    """With "require" a task element that its processor did not compile raises."""
    keys = np.random.default_rng(seed()).integers(-(1 << 62), 1 << 62, 20_000)
    values = np.arange(len(keys)) / 7
    expected = dict(zip(keys.tolist(), values.tolist(), strict=True))
    options: dict[str, Any] = {"spark": spark, "compiled": "require"}
    with StatefulLoop(
        KeyValue, backend=f"lmdb://{tmp_path}/store", partitions=2, **options
    ) as flow:
        flow.put.map(keys, values)
        flow.rescale(1)
        assert flow.get.map(keys) == [expected[key] for key in keys.tolist()]


def test_a_data_frame_of_spark_is_mapped(spark: SparkSession) -> None:
    frame = spark.createDataFrame([(k, float(k)) for k in range(100)], "key long, value double")
    with StatefulLoop(KeyValue, backend="memory://frame", spark=spark, partitions=2) as flow:
        flow.put.map(frame)
        assert flow.get.map(range(101)) == [*map(float, range(100)), 0.0]


@pytest.mark.parametrize("backend", ["redis", "postgres"])
@pytest.mark.parametrize("cls", CALLS)
def test_resumed_loops_continue_on_servers(
    cls: type[Stateful], backend: str, request: pytest.FixtureRequest
) -> None:
    run_history(cls, request.getfixturevalue(f"{backend}_url"), random.Random(seed()))
