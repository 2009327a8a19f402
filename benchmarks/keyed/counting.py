"""The keys of a stream of Parquet files, counted exactly once: ours and transformWithState."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import KeyCount
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.spark_streams import streaming_session
from vertexsdk import StatefulLoop

_FILES = 8
_TINY = 1_000, 10  # rows and keys of the stream that comes first, untimed


def _written(folder: Path, rows: int, keys: int) -> Any:
    """Write a stream as files; return the count of each key."""
    folder.mkdir()
    drawn = np.random.default_rng(1).integers(0, keys, rows)
    for number, part in enumerate(np.array_split(drawn, _FILES)):
        pq.write_table(pa.table({"key": part}), folder / f"{number}.parquet")
    return np.bincount(drawn, minlength=keys)


def counted(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process."""
    size = sizes.events, sizes.counted
    streams = {"tiny": _TINY, **{f"stream-{k}": size for k in range(sizes.repeats)}}
    for name, (rows, keys) in streams.items():
        folder = process.scratch / name
        right = _written(folder, rows, keys)
        with StatefulLoop(KeyCount, backend=f"lmdb://{process.scratch}/state", loop=name) as flow:
            began = time.perf_counter()
            flow.add.start(f"{folder}/*.parquet").awaitTermination()
            took = time.perf_counter() - began
            if flow.count.map(np.arange(keys)) != right.tolist():
                raise Wrong("counts of keys differ")
        if name != "tiny":
            process.note("events", rows / took)


def counted_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By transformWithStateInPandas, its state in RocksDB."""
    from pyspark.sql.streaming import StatefulProcessor

    class Counter(StatefulProcessor):  # type: ignore[misc]
        def init(self, handle: Any) -> None:
            self.count = handle.getValueState("count", "count long")

        def handleInputRows(self, key: Any, rows: Iterator[Any], timers: Any) -> Iterator[Any]:
            new = sum(map(len, rows))
            self.count.update(((self.count.get()[0] if self.count.exists() else 0) + new,))
            return iter(())

        def close(self) -> None:
            pass

    spark = streaming_session(sizes)
    for name, (rows, keys) in {"tiny": _TINY, "all": (sizes.events, sizes.counted)}.items():
        folder, checkpoint = process.scratch / name, str(process.scratch / f"{name}-checkpoint")
        right = _written(folder, rows, keys)
        began = time.perf_counter()
        (
            spark.readStream.schema("key long").parquet(str(folder)).groupBy("key")
            .transformWithStateInPandas(Counter(), "key long", "Update", "None")
            .writeStream.format("noop").outputMode("update").trigger(availableNow=True)
            .option("checkpointLocation", checkpoint).start().awaitTermination()
        )  # fmt: skip
        took = time.perf_counter() - began
        state = spark.read.format("statestore").option("path", checkpoint)
        state = state.option("stateVarName", "count").load().select("key.key", "value.count")
        found = dict(map(tuple, state.collect()))
        if found != {key: count for key, count in enumerate(right.tolist()) if count}:
            raise Wrong("counts of keys differ")
        if name != "tiny":
            process.note("events", rows / took)
