"""Structured Streaming into a main loop: exactly once over restarts, and how a stream dies."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

from tests.loops.recording import RecordingLoop
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.errors import InputError, RunError
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.changes.table import read_rows
from vertexsdk.loops.streams.file_stream import start_stream

COLUMNS = "kind string, source long, target long, value double"
NOW: dict[str, Any] = {"availableNow": True}


def flow(main: RecordingLoop, frame: Any, **given: Any) -> Any:
    return start_stream(main, frame, given)


def frame_of(spark: SparkSession, inbox: Path, columns: str = COLUMNS) -> DataFrame:
    reader = spark.readStream.schema(columns).option("maxFilesPerTrigger", 1)
    return reader.csv(str(inbox))


def put(inbox: Path, number: int, *lines: str) -> None:
    inbox.mkdir(exist_ok=True)
    (inbox.parent / "new").write_text("".join(f"{line}\n" for line in lines))
    (inbox.parent / "new").rename(inbox / f"{number}.csv")
    time.sleep(0.01)  # Spark takes files by their time


def test_a_stream_goes_on_from_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    inbox, check = tmp_path / "in", str(tmp_path / "check")
    put(inbox, 1, "+,1,2,0.5", "+,2,3,")
    put(inbox, 2, "-,1,2,", "~,2,3,7")

    def before(number: int) -> None:
        if number == 1:
            raise RuntimeError("power cut\nand more")

    main = RecordingLoop(before=before)
    stream = flow(main, frame_of(spark, inbox), checkpointLocation=check, trigger=NOW)
    with pytest.raises(RunError, match=r"^the stream failed after 2 changes: power cut; these are"):
        stream.awaitTermination(60)
    assert not stream.isActive
    [(source, offset)] = main.offsets.items()
    assert offset == 0
    put(inbox, 3, "+,5,6,")
    main.before = lambda number: None
    stream = flow(main, frame_of(spark, inbox), checkpointLocation=check, trigger=NOW)
    assert stream.awaitTermination(60)
    assert main.offsets == {source: 2}
    assert main.edges == {(2, 3): 7.0, (5, 6): 1.0}
    assert main.taken == 5
    found = stream.progress()
    assert (found.received, found.taken_in, found.behind, found.running) == (3, 3, 0, False)
    # Spark was ended before it noted the end of batch 2, so that it gives it again.
    (tmp_path / "check" / "commits" / "2").unlink()
    (tmp_path / "check" / "commits" / ".2.crc").unlink(missing_ok=True)
    stream = flow(main, frame_of(spark, inbox), checkpointLocation=check, trigger=NOW)
    assert stream.awaitTermination(60)
    assert (stream.progress().received, main.taken) == (1, 5)
    # Another loop has not seen batches 0 to 2.
    put(inbox, 4, "+,8,9,")
    other = flow(RecordingLoop(), frame_of(spark, inbox), checkpointLocation=check, trigger=NOW)
    with pytest.raises(InputError, match="starts at batch 3, but this loop has not ingested"):
        other.awaitTermination(60)


def test_any_records_by_a_function_or_an_ingester(spark: SparkSession) -> None:
    class Pairs:
        def batch(self, records: Any) -> Changes:
            return Changes.of([("+", row.value, row.value + 1) for row in records])

    def pairs(frame: DataFrame) -> Any:
        return [("+", row.value, -1) for row in frame.collect()]

    rate = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 5).load()
    for deltas in (pairs, Pairs):
        main = RecordingLoop()
        with flow(main, rate, deltas=deltas) as stream:
            end = time.monotonic() + 60
            while main.taken < 10:
                assert time.monotonic() < end
                assert stream.exception is None
                time.sleep(0.02)
        assert main.taken % 5 == 0
        assert len(main.edges) == main.taken
        assert not stream.isActive
        assert stream.exception is None


def test_a_source_that_dies(spark: SparkSession, tmp_path: Path) -> None:
    inbox = tmp_path / "in"
    put(inbox, 1, "+,1,2,7", "+,1,3,6", "nonsense,,,")
    main = RecordingLoop()
    often = {"processingTime": "10 milliseconds"}
    stream = flow(main, frame_of(spark, inbox), trigger=often, time_column="value")
    end = time.monotonic() + 60
    while main.taken < 2:
        assert time.monotonic() < end
        time.sleep(0.02)
    put(inbox, 2, "+,1,4,6.5")
    while main.taken < 3:
        assert time.monotonic() < end
        time.sleep(0.02)
    assert (stream.progress().late, stream.progress().bad_lines, main.bad) == (2, 1, 1)
    shutil.rmtree(inbox)
    inbox.write_text("no directory any more")
    with pytest.raises(RunError, match=r"^the stream failed after 3 changes: .*") as caught:
        stream.awaitTermination(60)
    assert "\n" not in str(caught.value)
    assert "terminated with exception" not in str(caught.value)
    stream.stop()


def test_what_cannot_be_streamed(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="is not a streaming one"):
        flow(RecordingLoop(), spark.range(3))
    inbox = tmp_path / "in"
    put(inbox, 1, "1,2")
    frame = frame_of(spark, inbox, "source long, target long")
    with pytest.raises(InputError, match=r"columns are source, target; there is no kind"):
        flow(RecordingLoop(), frame)
    with pytest.raises(InputError, match="the stream did not start: "):
        flow(RecordingLoop(), frame_of(spark, inbox), trigger={"processingTime": "soon"})


def test_queries_beside_a_stream_and_going_on_after_it(spark: SparkSession, tmp_path: Path) -> None:
    inbox, url = tmp_path / "in", f"lmdb://{tmp_path}/state"
    put(inbox, 1, "+,2,3", "bad")
    graph = Graph.from_arrays([1], [2], spark=spark)

    def wait_for(main: MainLoop, changes: int) -> None:
        end = time.monotonic() + 60
        while main.changes < changes:
            assert time.monotonic() < end
            time.sleep(0.02)

    with MainLoop(ConnectedComponents, graph, backend=url) as main:
        with main.start(inbox) as stream:
            wait_for(main, 1)
            assert main.query().lookup([3]) == {3: {"component": 1}}
            put(inbox, 2, "+,0,1", "+,3,4")
            wait_for(main, 3)
            assert main.query().lookup([4]) == {4: {"component": 0}}
        assert stream.progress().bad_lines == 1
        offsets = main.offsets
    assert offsets == {str(inbox / "1.csv"): 10, str(inbox / "2.csv"): 12}
    put(inbox, 3, "-,3,4", "-,0,1")
    with MainLoop.resume(spark, ConnectedComponents, backend=url) as main:
        assert main.start(inbox, follow=False).awaitTermination(60)
        assert (main.changes, main.counts["removed"]) == (5, 2)
        assert main.query().lookup([1, 3, 4]) == {1: {"component": 1}, 3: {"component": 1}}


def test_rows() -> None:
    table = pa.table({
        "kind": ["+", "x", "remove", "~", None, "+", "change", "+"],
        "source": ["1", "1", "2", "3", "4", "five", "6", "7"],
        "target": [2, 2, 3, 4, 5, 6, 7, None],
        "value": [0.5, 1, None, None, 1, 1, 6, 1],
        "at": [1, 2, 3, 4, 5, 6, 2, 7],
    })  # fmt: skip
    columns, bad, time = read_rows(table, LineFormat(integers=True), "batch 3", "at")
    changes = Changes(*columns)
    assert changes.kind.tolist() == [0, 1, 2]
    assert changes.source.to_pylist() == [1, 2, 6]
    assert changes.target.to_pylist() == [2, 3, 7]
    assert str(changes.value.tolist()) == "[0.5, nan, 6.0]"
    assert [*changes.places] == [f"batch 3, row {k}" for k in (1, 3, 7)]
    assert time.tolist() == [1, 3, 2]
    assert [
        (k, str(line).removeprefix("batch 3, "))
        for k, line in zip(bad.before, bad.first, strict=True)
    ] == [
        (1, "row 2: kind 'x'; use '+', '-' or '~'"),
        (2, "row 4: a change of a value needs one"),
        (2, "row 5: kind None; use '+', '-' or '~'"),
        (2, "row 6: id 'five' is not an integer, but those of the graph are"),
        (3, "row 8: target is null"),
    ]
    columns, bad, _ = read_rows(table, LineFormat(integers=False), "batch 3")
    named = Changes(*columns)
    assert named.source.to_pylist() == ["1", "2", "five", "6"]
    assert named.target.to_pylist()[0] == "2"
    whole = table.set_column(3, "value", pa.array([0.5] * 8))
    assert not any(map(len, read_rows(whole, LineFormat(True, "int64"), "b")[0]))
    texts = table.set_column(3, "value", pa.array(["2.5", "1", None, "3", "1", "1", "six", "1"]))
    columns, bad, _ = read_rows(texts, LineFormat(True), "b")
    assert str(columns[3].tolist()) == "[2.5, nan, 3.0]"
    assert "b, row 7: value 'six' is not a number" in map(str, bad.first)
    with pytest.raises(InputError, match="value is bool; make it a number"):
        read_rows(table.set_column(3, "value", pa.array([True] * 8)), LineFormat(True), "b")
    with pytest.raises(InputError, match="source is double"):
        read_rows(table.set_column(1, "source", pa.array([1.5] * 8)), LineFormat(True), "b")


def test_very_many_bad_rows_are_counted() -> None:
    ids = ["x" * 1000, "1"] * 5000
    table = pa.table({"kind": ["+"] * 10_000, "source": ids, "target": ["1"] * 10_000})
    columns, bad, _ = read_rows(table, LineFormat(integers=True), "batch 3")
    assert (len(Changes(*columns)), len(bad), len(bad.first)) == (5000, 5000, 100)
    assert bad.before.tolist() == list(range(5000))
    assert str(bad.first[99]).startswith("batch 3, row 199: id 'xxx")
    assert len(str(bad.first[99])) < 200


_LARGE_BATCH = """
from pyspark.sql import functions as F
import vertexsdk
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk import session

spark = session("local[2]", **{"spark.driver.maxResultSize": "1m"})
graph = vertexsdk.Graph.from_arrays([1, 2], [2, 3], spark=spark)
with vertexsdk.MainLoop(ConnectedComponents, graph, backend="memory://") as main:
    rates = spark.readStream.format("rate").option("rowsPerSecond", 1_000_000).load()
    ends = [F.col("value").alias("source"), (F.col("value") + 1).alias("target")]
    stream = main.start(rates.select(F.lit("+").alias("kind"), *ends))
    try:
        stream.awaitTermination(60)
    except vertexsdk.VertexError as error:
        print(type(error).__name__, error)
spark.stop()
"""


@pytest.mark.processes
@pytest.mark.full
def test_a_batch_that_is_too_large() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _LARGE_BATCH], capture_output=True, text=True, timeout=240
    )
    assert done.stdout.startswith("InputError batch "), done.stderr
    assert "is larger than spark.driver.maxResultSize: raise that, or limit" in done.stdout
    assert done.stdout.count("\n") == 1
    assert done.stderr.count("\n") == 1
