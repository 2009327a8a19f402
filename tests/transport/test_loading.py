"""How edges come to processors from files, rows and arrays: each once, whatever fails meanwhile."""

from __future__ import annotations

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zmq
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from tests.support.seeds import seed
from vertexsdk import Graph, InputError, RunError, run
from vertexsdk.algorithms import ConnectedComponents, PageRank
from vertexsdk.errors import LostError
from vertexsdk.transport import resident as resident_module
from vertexsdk.transport.block_receiver import HEADER, close_receivers, open_receiver, received
from vertexsdk.transport.channels import CHUNK, Keys
from vertexsdk.transport.resident import WINDOW, Loader
from vertexsdk.transport.transport import DRIVER, Block, Blocks, LocalBlocks

pytestmark = pytest.mark.cluster

PAIRS = [(k % 17, (7 * k + 3) % 41) for k in range(300)]


def write(place: Path, seed: int) -> None:
    """Edges, some of them twice, in files of every kind; `words` has names for ids."""
    rng = random.Random(seed)
    ends = [(rng.randrange(50), rng.randrange(50)) for _ in range(400)]
    values = [float(rng.randrange(1, 9)) for _ in ends]
    rows = [(a, b, x) for (a, b), x in zip(ends, values, strict=True)]
    (place / "text").mkdir()
    for k, some in enumerate((rows[:70], rows[70:])):
        (place / "text" / f"{k}").write_text("".join(f"{a} {b} {x}\n" for a, b, x in some))
    (place / "words").write_text("".join(f"v{a} v{b} {x}\n" for a, b, x in rows))
    (place / "quoted.csv").write_text(
        "value,target,source\n" + "".join(f'{x},{b},"{a}"\n' for a, b, x in rows)
    )
    columns = zip(*rows, strict=True)
    table = pa.table(dict(zip(("source", "target", "value"), map(list, columns), strict=True)))
    pq.write_table(table, place / "edges.parquet", row_group_size=90)


def answer(graph: Graph, program: Any = PageRank, exchange: Any = "auto") -> dict[Any, Any]:
    options: Any = {"backend": "memory://", "exchange": exchange}
    params = {"iterations": 4} if program is PageRank else {}
    with contextlib.closing(run(program, graph, params=params, **options)) as result:
        return dict(result.rows())


def loaded(spark: SparkSession, place: str, partitions: int) -> list[tuple[str, bool, bool]]:
    """Whether processors have the graph, and the answer of this process, by the kind of input."""

    def frame() -> Any:
        return spark.read.parquet(f"{place}/edges.parquet").repartition(3)

    table = pq.read_table(f"{place}/edges.parquet")
    arrays = [table[name].to_numpy() for name in ("source", "target", "value")]
    options: Any = {"partitions": partitions}
    sources: dict[str, tuple[Any, Graph]] = {
        name: (Graph.read(spark, f"{place}/{name}", **options),
               Graph.read(f"{place}/{name}", **options))
        for name in ("text", "words", "quoted.csv", "edges.parquet")
    }  # fmt: skip
    local = Graph.read(f"{place}/edges.parquet", **options)
    sources["arrays"] = Graph.from_arrays(*arrays, spark=spark, **options), local
    named = frame().selectExpr("concat('v', source) source", "concat('v', target) target", "value")
    names = Graph.read(f"{place}/words", undirected=True, **options)
    sources["names"] = Graph.from_dataframe(named, undirected=True, **options), names
    found = []
    for name, (graph, other) in sources.items():
        program = ConnectedComponents if name == "names" else PageRank
        same = answer(graph, program) == answer(other, program)
        found.append((name, graph.workers.resident, same))
        graph.unpersist()
    # The rows of a DataFrame have no order, so the last of equal edges may be another one.
    unique = frame().dropDuplicates(["source", "target"]).drop("value")
    graph = Graph.from_dataframe(unique, **options)
    expected = answer(Graph.from_arrays(*arrays[:2], **options))
    found.append(("frame", graph.workers.resident, _close(answer(graph), expected)))
    by_jobs = answer(graph, exchange="shuffle") if partitions == 2 else expected
    found.append(("frame, by jobs", graph.workers.resident, _close(by_jobs, expected)))
    graph.unpersist()
    return found


def _close(found: dict[Any, Any], expected: dict[Any, Any]) -> bool:
    return found.keys() == expected.keys() and all(
        abs(found[v]["rank"] - expected[v]["rank"]) < 1e-12 for v in expected
    )


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_every_kind_of_input(driver: Driver, tmp_path: Path, partitions: int) -> None:
    write(tmp_path, seed())
    for name, resident, same in driver.run(loaded, str(tmp_path), partitions):
        assert resident, name
        assert same, name


def hurt(spark: SparkSession, partitions: int, mark: str, what: str) -> tuple[Any, Any, str, bool]:
    """What is said, and the answer, where a task fails, or ends a processor, half-way."""

    def rows(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            half = batch.num_rows // 2
            yield batch.slice(0, half)
            if what != "always" and not Path(mark).exists():
                Path(mark).touch()
                if what == "kill":
                    os.kill(processors[-1], signal.SIGKILL)
                    yield batch.slice(half)
                    continue
                raise ValueError("once")
            if what == "always":
                raise ValueError("no more rows")
            yield batch.slice(half)

    frame = spark.createDataFrame(PAIRS, "source long, target long").coalesce(1)
    graph = Graph.from_dataframe(frame.mapInArrow(rows, frame.schema), partitions=partitions)
    processors = graph.workers.run(lambda partition: os.getpid())
    said, found, after = "", None, True
    try:
        found = answer(graph)
    except RunError as error:
        said = str(error)
        after = processors == graph.workers.run(lambda partition: os.getpid())
    graph.unpersist()
    return found, answer(Graph.from_arrays(*zip(*PAIRS, strict=True))), said, after


@pytest.mark.parametrize("partitions", [1, 2, 3])
def test_a_loader_task_that_runs_twice(driver: Driver, tmp_path: Path, partitions: int) -> None:
    found, expected, said, _ = driver.run(hurt, partitions, str(tmp_path / "mark"), "once")
    assert (tmp_path / "mark").exists()
    assert said == ""
    assert _close(found, expected)


def test_a_loader_task_that_fails_half_way(driver: Driver, tmp_path: Path) -> None:
    found, _, said, same = driver.run(hurt, 2, str(tmp_path / "mark"), "always")
    assert found is None
    assert "ValueError: no more rows" in said
    assert "\n" not in said
    assert same, "the processors stay"


@pytest.mark.parametrize("partitions", [1, 3])
def test_a_processor_that_is_lost_while_loading(
    driver: Driver, tmp_path: Path, partitions: int
) -> None:
    found, expected, said, _ = driver.run(hurt, partitions, str(tmp_path / "mark"), "kill")
    assert (tmp_path / "mark").exists()
    assert said == ""
    assert _close(found, expected)


def refused(spark: SparkSession, place: str) -> list[str]:
    """What is said of bad input."""
    said = []
    nulls = spark.createDataFrame([(1, 2), (None, 3)], "source long, target long")
    for graph in (
        Graph.read(spark, f"{place}/bad.txt", partitions=3),
        Graph.from_dataframe(nulls, partitions=2),
    ):
        try:
            graph.materialise()
        except InputError as error:
            said.append(str(error))
        graph.unpersist()
    return said


def test_the_first_bad_line_is_named(driver: Driver, tmp_path: Path) -> None:
    lines = ["1 2\n"] * 1_500_000
    lines[700_000] = "1 2 three\n"
    lines[1_400_000] = "1 2 four\n"
    (tmp_path / "bad.txt").write_text("".join(lines))
    line, null = driver.run(refused, str(tmp_path))
    assert "bad.txt, line 700001" in line
    assert "three" in line
    assert "the edges, column source: an id is null" in null


def test_only_attempts_that_succeeded_count(monkeypatch: pytest.MonkeyPatch) -> None:
    keys, _ = Keys.fresh()
    addresses = [open_receiver("load", keys, "127.0.0.1", "vertexsdk-test/sockets", 0)]
    loader = Loader(keys, tuple(addresses))

    class Attempt:
        number = 0

        @classmethod
        def get(cls) -> Attempt:
            return cls()

        def taskAttemptId(self) -> int:
            Attempt.number += 1
            return Attempt.number

    def blocks(name: bytes, fail: bool = False) -> Iterator[Block]:
        yield 0, name * (CHUNK // 2 + 1)
        if fail:
            raise ValueError("half-way")
        yield 0, name

    monkeypatch.setattr(resident_module, "TaskContext", Attempt)
    with pytest.raises(ValueError, match="half-way"):
        list(loader(1, blocks(b"bb", fail=True)))
    assert list(loader(0, blocks(b"aa"))) == [(0, 2)]
    assert list(loader(1, blocks(b"BB"))) == [(1, 3)]
    assert list(loader(0, blocks(b"AA"))) == [(0, 4)]
    found = [bytes(block[:1]) + b"%d" % len(block) for block in received("load", {0: 4, 1: 3})]
    long = 2 * (CHUNK // 2 + 1)
    assert found == [b"A%d" % long, b"A2", b"B%d" % long, b"B2"]
    assert received("load", {0: 4}) == []
    close_receivers()


def test_a_loader_waits_for_acknowledgements() -> None:
    keys, secret = Keys.fresh()
    del secret
    context = zmq.Context()
    slow = context.socket(zmq.ROUTER)  # which takes what comes, and does not answer
    address = f"tcp://127.0.0.1:{slow.bind_to_random_port('tcp://127.0.0.1')}"
    made: list[int] = []

    def blocks() -> Iterator[Block]:
        for k in range(20):
            made.append(k)
            yield 0, bytes(CHUNK)

    class Open(Keys):
        def connect(self, sock: Any, server: bytes) -> None:
            sock.reconnect_ivl = -1

    loader = Loader(Open(keys.driver, keys.public, keys.secret), ((address, ""),), wait=0.5)
    assert list(loader(0, blocks())) == [None]
    assert len(made) == 20, "Spark ends a task that has not read its input"
    sent = 0
    while slow.poll(100):
        _, header, chunk = slow.recv_multipart()
        assert HEADER.unpack(header)[0] == 0
        sent += len(chunk)
    context.destroy(linger=0)
    assert sent == WINDOW


def gone(spark: SparkSession) -> tuple[str, bool, list[bytes]]:
    """What is said where a processor is lost while the driver loads; and of a new one."""
    from vertexsdk.transport.spark import SparkTransport

    def join(partition: int, command: None, blocks: Blocks) -> Iterator[Block]:
        yield DRIVER, b"%d" % sum(len(block) for _, block in blocks)

    def blocks() -> Iterator[Block]:
        yield 0, b"first"
        os.kill(workers.run(lambda partition: os.getpid())[1], signal.SIGKILL)
        for _ in range(8):
            yield 1, bytes(CHUNK)

    workers = SparkTransport(spark).workers(2)
    try:
        workers.exchange(join, blocks=LocalBlocks(blocks()))
        said = ""
    except LostError as error:
        said = str(error)
    whole = workers.intact()
    workers.close()
    other = SparkTransport(spark).workers(2)
    exchange = other.exchange(join, blocks=LocalBlocks([(0, b"a"), (1, b"bc")]))
    reports = exchange.hop(None)
    other.close()
    return said, whole, reports


def test_the_loss_of_a_processor_is_said_while_the_driver_loads(driver: Driver) -> None:
    said, whole, reports = driver.run(gone)
    assert said.startswith("a processor was lost with its partition")
    assert not whole
    assert reports == [b"1", b"2"]
