"""Words counted by windows of 10 to 100 ms, and read at their ends (figure 8 of the SDG paper)."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import WordCount
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.spark_streams import streaming_session
from benchmarks.keyed.windows import WORDS_OF_A_LINE, Text, sustained
from vertexsdk import StatefulLoop

LINES = (1, 10_000, 100_000)  # of a micro-batch
_ROOT = Path(__file__).parent.parent.parent
_BYTEWAX = ".venv-bytewax/lib/python*/site-packages"  # made by ./dev bench
_WARM = 4  # micro-batches


def words(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process: one `add.map` and one `count.map` for each window."""
    text = Text()
    with StatefulLoop(WordCount, backend=f"lmdb://{process.scratch}/state") as flow:
        given, there = text.take(100)
        flow.add.map(given)
        flow.count.map(there)
        for window in sizes.windows:
            search = sustained(process, window, sizes.seconds)
            lines = next(search, None)
            while lines is not None:
                given, there = text.take(lines)
                began = time.perf_counter()
                flow.add.map(given)
                flow.count.map(there)
                lines = _next(search, time.perf_counter() - began)
        expected = text.expected()
        if flow.count.map(list(expected)) != list(expected.values()):
            raise Wrong("counts of words differ")


def _next(search: Any, took: float) -> int | None:
    try:
        return int(search.send(took))
    except StopIteration:
        return None


def words_by_bytewax(process: CaseProcess, sizes: Sizes) -> None:
    """By a dataflow of Bytewax with one worker, which keeps nothing; counts go to its sink."""
    named = os.environ.get("VERTEXSDK_BYTEWAX")  # a folder
    sys.path += [named] if named else map(str, _ROOT.glob(_BYTEWAX))
    try:
        import bytewax.operators as op
    except ImportError:
        process.note("not installed", 1)
        return
    from bytewax.dataflow import Dataflow
    from bytewax.inputs import DynamicSource, StatelessSourcePartition
    from bytewax.outputs import DynamicSink, StatelessSinkPartition
    from bytewax.testing import run_main

    text, counts = Text(), dict[str, int]()
    searches = [sustained(process, window, sizes.seconds) for window in sizes.windows]
    missing = 0  # words of this window that are not counted yet

    class Lines(StatelessSourcePartition):  # type: ignore[misc]
        def __init__(self) -> None:
            self.began: float | None = None

        def next_batch(self) -> Iterable[str]:
            nonlocal missing
            if missing:
                return []
            took = None if self.began is None else time.perf_counter() - self.began
            lines = next(searches[0], None) if took is None else _next(searches[0], took)
            while lines is None:
                searches.pop(0)
                if not searches:
                    raise StopIteration
                lines = next(searches[0], None)
            given, _ = text.take(lines)
            missing, self.began = lines * WORDS_OF_A_LINE, time.perf_counter()
            return given

    class Source(DynamicSource):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Lines:
            return Lines()

    class Count(op.StatefulBatchLogic):  # type: ignore[misc]
        def __init__(self, count: int | None) -> None:
            self.count = count or 0

        def on_batch(self, values: list[int]) -> tuple[list[tuple[int, int]], bool]:
            self.count += len(values)
            return [(len(values), self.count)], False

        def snapshot(self) -> int:
            return self.count

    class Counts(StatelessSinkPartition):  # type: ignore[misc]
        def write_batch(self, items: list[tuple[str, tuple[int, int]]]) -> None:
            nonlocal missing
            for word, (new, count) in items:
                counts[word] = count
                missing -= new

    class Sink(DynamicSink):  # type: ignore[misc]
        def build(self, step_id: str, worker_index: int, worker_count: int) -> Counts:
            return Counts()

    flow = Dataflow("words")
    lines = op.input("lines", flow, Source())
    keyed = op.flat_map("words", lines, lambda line: [(word, 1) for word in line.split()])
    op.output("counts", op.stateful_batch("count", keyed, Count), Sink())
    run_main(flow)
    if counts != text.expected():
        raise Wrong("counts of words differ")


def words_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By Structured Streaming, one micro-batch after the other: how long one with so many lines is.

    Lines are made within the JVM; what has changed goes to a table in memory.
    """
    from pyspark.sql import functions as f

    spark = streaming_session(sizes)
    texts = Text()
    given = [texts.take(1)[0][0] for _ in range(1000)]
    table = f.array(*map(f.lit, given))
    for lines in LINES:
        stream = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", lines).load()
        line = f.element_at(table, (f.col("value") % len(given) + 1).cast("int"))
        counts = stream.select(f.explode(f.split(line, " ")).alias("word")).groupBy("word").count()
        query = (
            counts.writeStream.format("memory").queryName(f"words{lines}").outputMode("update")
            .option("checkpointLocation", str(process.scratch / f"checkpoint-{lines}")).start()
        )  # fmt: skip
        while query.isActive and len(query.recentProgress) < _WARM:
            time.sleep(0.1)
        time.sleep(sizes.seconds)
        query.stop()
        done = [p for p in query.recentProgress if p["numInputRows"]]
        took = [p["durationMs"]["triggerExecution"] / 1000 for p in done[_WARM - 1 :]]
        process.note(f"micro-batch {lines}", statistics.median(took))
        _check(spark, f"words{lines}", given, sum(p["numInputRows"] for p in done))


def _check(spark: Any, table: str, given: list[str], least: int) -> None:
    """Compare with the counts of the lines that there were, which are in order.

    Raises:
        Wrong: they differ, or there were fewer lines than are known of.
    """
    found = dict(map(tuple, spark.table(table).groupBy("word").max("count").collect()))
    lines = sum(found.values()) // WORDS_OF_A_LINE
    right: dict[str, int] = defaultdict(int)
    for number, line in enumerate(given):
        times = lines // len(given) + (number < lines % len(given))
        for word in line.split() if times else ():
            right[word] += times
    if lines < least or found != right:
        raise Wrong("counts of words differ")
