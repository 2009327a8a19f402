"""Triggers on resident processors of Spark."""

from __future__ import annotations

import random
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.seeds import seed
from tests.triggers.histories import CASES, History
from vertexsdk import TriggerLoop


@pytest.mark.parametrize("name", ["words", "rank", "distances", "sensors"])
def test_rows_on_processors_are_those_of_the_batch_job(
    spark: SparkSession, name: str, tmp_path: Any
) -> None:
    case, chance = CASES[name], random.Random(seed())
    url = f"lmdb://{tmp_path}/store"
    with TriggerLoop(case.cls, backend=url, spark=spark, partitions=2, snapshot_every=5) as loop:
        history = History(case, loop, chance)
        for _ in range(6):
            history.step()
        history.check()
        with loop.fork() as fork:
            what_if = History(case, fork, chance, history.rows)
            what_if.step()
            what_if.check()
        history.check()
        loop.rescale(1)
        history.step()
        history.check()
    history.loop = TriggerLoop.resume(case.cls, backend=url, spark=spark, partitions=2)
    with history.loop:
        history.step()
        history.check()


def test_tables_of_spark_and_streams(spark: SparkSession, tmp_path: Any) -> None:
    cls = CASES["words"].cls
    with TriggerLoop(cls, backend=f"lmdb://{tmp_path}/store", spark=spark, partitions=2) as loop:
        loop.upsert("pages", spark.createDataFrame([("a", "x y"), ("b", "y")], ["url", "text"]))
        spark.createDataFrame([("c", "y z")], ["url", "text"]).write.parquet(f"{tmp_path}/pages")
        frame = spark.readStream.schema("url string, text string").parquet(f"{tmp_path}/pages")
        stream = loop.start("pages", frame, checkpointLocation=f"{tmp_path}/checkpoint")
        loop.process_all_available()
        stream.stop()
        assert {row["word"]: row["count"] for row in loop.read("words").to_pylist()} == {
            "x": 1, "y": 3, "z": 1,
        }  # fmt: skip
