"""The batch jobs on Spark: a session, and what they all begin with."""

from __future__ import annotations

from typing import Any

from vertexsdk import session


def session_on(cores: int) -> Any:
    """Return a session on so many cores, with as many partitions after a shuffle."""
    return session(
        f"local[{cores}]",
        **{
            "spark.driver.memory": "6g", "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.adaptive.enabled": "false",
        },
    )  # fmt: skip


def in_memory(spark: Any, table: Any, key: str) -> Any:
    """Return an Arrow table as a DataFrame in memory, its rows divided by a column."""
    frame = spark.createDataFrame(table).repartition(spark.sparkContext.defaultParallelism, key)
    frame = frame.cache()
    frame.count()
    return frame
