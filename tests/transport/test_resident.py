"""Processors that live: equal answers, and what happens when one is lost, stopped or not needed."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from tests.support.clusters import Driver
from tests.support.seeds import seed
from vertexsdk import Graph, MainLoop, Program, run
from vertexsdk.algorithms import ConnectedComponents, PageRank, ShortestPaths
from vertexsdk.arrays import shared_memory
from vertexsdk.errors import InputError, LostError
from vertexsdk.transport.channels import CHUNK, join, local_address, split
from vertexsdk.transport.transport import DRIVER, PEERS, Blocks

pytestmark = pytest.mark.cluster

SLOTS = 6  # of `driver`
LONGEST = 2000  # supersteps of a hop that nobody ends


def edges(seed: int) -> tuple[list[int], list[int]]:
    rng = random.Random(seed)
    pairs = sorted({(rng.randrange(60), rng.randrange(60)) for _ in range(200)} | {(0, 1)})
    return [a for a, _ in pairs], [b for _, b in pairs]


def rows(result: Any) -> dict[str, float]:
    try:
        return {f"{v}.{k}": float(x) for v, row in result.rows() for k, x in row.items()}
    finally:
        result.close()


def taken(spark: SparkSession) -> int:
    from vertexsdk.transport import resident

    of_session = spark.sparkContext.applicationId
    return sum(x.partitions for x in resident._launches if x.application == of_session and x.alive)


def same_answers(spark: SparkSession, seed: int, partitions: int, text: bool) -> list[Any]:
    """Answers of resident processors, of Spark jobs and of this process, by program."""
    ids = [[f"v{x}" if text else x for x in column] for column in edges(seed)]
    origin = {"origin": ids[0][0]}
    programs: list[tuple[Any, dict[str, Any]]] = [
        (PageRank, {"iterations": 5}), (ShortestPaths, origin),
    ]  # fmt: skip
    if not text:
        programs.append((ConnectedComponents, {}))
    found: list[Any] = []
    for program, params in programs:
        for compiled in (True, False):
            given: Any = {"params": params, "backend": "memory://", "compiled": compiled}
            graph = Graph.from_arrays(*ids, spark=spark, partitions=partitions)
            stays = run(program, graph, **given)
            jobs = run(program, graph, exchange="shuffle", **given)
            assert graph.workers.resident
            assert taken(spark) == partitions
            local = run(program, Graph.from_arrays(*ids, partitions=partitions), **given)
            found.append([rows(r) for r in (stays, jobs, local)])
            graph.unpersist()
            assert taken(spark) == 0
    return found


@pytest.mark.parametrize(("partitions", "text"), [(1, True), (2, False), (5, True)])
def test_answers_of_other_transports(driver: Driver, partitions: int, text: bool) -> None:
    for stays, jobs, local in driver.run(same_answers, seed(), partitions, text):
        assert stays == local  # bit for bit
        assert stays == pytest.approx(jobs)


def socket_directories(spark: SparkSession) -> tuple[int, int]:
    """The number of those of two processors while these live, and after they have ended."""
    run = f"vertexsdk-{shared_memory.application(spark.sparkContext.applicationId)}"

    def present() -> set[Path]:
        return {x for root in shared_memory._roots() for x in root.glob(f"{run}/sockets-*")}

    others = present()  # of processors that another test killed
    graph = Graph.from_arrays(*edges(3), spark=spark, partitions=2)
    graph.workers.run(lambda partition: partition)
    assert graph.workers.resident
    living = len(present() - others)
    graph.unpersist()
    end = time.monotonic() + 20.0
    while present() - others and time.monotonic() < end:
        time.sleep(0.1)
    return living, len(present() - others)


def test_the_directories_of_sockets_are_deleted(driver: Driver) -> None:
    assert driver.run(socket_directories) == (2, 0)


def stream(spark: SparkSession, store: str, partitions: int, hurt: str) -> tuple[list[Any], float]:
    """Answers of a main loop whose last processor is killed or stopped on the way."""
    graph = Graph.from_arrays(*edges(7), spark=spark, partitions=partitions)
    found = []
    slowest = 0.0
    with MainLoop(ShortestPaths, graph, params={"origin": 0}, backend=store) as loop:
        rows(loop.query())
        engine: Any = loop._history.engine
        workers = (engine.graph if hasattr(engine, "graph") else graph).workers
        for k in range(3):
            if k == 1 and hurt:
                victim = workers.run(lambda partition: os.getpid())[-1]
                os.kill(victim, getattr(signal, hurt))
            began = time.monotonic()
            loop.ingest([("+", 0, 100 + k, 1.0), ("-", 0, 99 + k)])
            found.append(rows(loop.query()))
            slowest = max(slowest, time.monotonic() - began)
            if k == 1 and hurt == "SIGSTOP":
                with contextlib.suppress(ProcessLookupError):
                    os.kill(victim, signal.SIGCONT)
    graph.unpersist()
    assert taken(spark) == 0
    return found, slowest


@pytest.mark.parametrize(("partitions", "hurt"), [(1, "SIGKILL"), (2, "SIGSTOP")])
def test_a_lost_processor_is_restored(
    driver: Driver, partitions: int, hurt: str, tmp_path: Path
) -> None:
    expected, _ = driver.run(stream, f"lmdb://{tmp_path}/whole", partitions, "")
    found, slowest = driver.run(stream, f"lmdb://{tmp_path}/hurt", partitions, hurt)
    assert found == expected
    assert slowest < 120.0


def too_few_slots(spark: SparkSession) -> tuple[bool, bool, dict[str, Any]]:
    graphs = [Graph.from_arrays(*edges(1), spark=spark, partitions=p) for p in (SLOTS - 1, 1)]
    results = [run(PageRank, g, params={"iterations": 3}, backend="memory://") for g in graphs]
    resident = [g.workers.resident for g in graphs]
    answers = [rows(r) for r in results]
    assert answers[0] == pytest.approx(answers[1])
    for graph in graphs:
        graph.unpersist()
    return resident[0], resident[1], answers[0]


def test_without_free_slots_every_hop_is_a_job(driver: Driver) -> None:
    assert driver.run(too_few_slots)[:2] == (True, False)


def left_alone(spark: SparkSession) -> tuple[bool, bool]:
    """Whether a graph has slots, and whether it still has after its last reference is gone."""
    import gc

    gc.collect()
    gc.disable()  # a reference cycle would keep the slots
    try:
        graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
        run(PageRank, graph, params={"iterations": 2}, backend="memory://").close()
        launch = graph.workers._held  # type: ignore[attr-defined]
        alive = launch.alive
        del graph
        end = time.monotonic() + 20
        while launch.alive and time.monotonic() < end:
            time.sleep(0.1)
        return alive, launch.alive
    finally:
        gc.enable()


def test_a_graph_that_is_no_longer_used_frees_its_slots(driver: Driver) -> None:
    assert driver.run(left_alone) == (True, False)


def failing(spark: SparkSession) -> list[str]:
    from vertexsdk import RunError, Sum, Vertex, state

    class Fails(Vertex):
        total: float = state(0.0)
        messages = Sum(float)

        def init(self) -> None:
            self.total = 1.0

        def gather(self, iteration, source, delta):  # type: ignore[no-untyped-def]
            raise ValueError("vertex 7 is wrong")

        def scatter(self, iteration):  # type: ignore[no-untyped-def]
            for target in self.targets:
                self.emit(target, 1.0)

    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
    said = []
    for _ in range(2):
        try:
            run(Program(Fails), graph, backend="memory://", compiled=False)
        except RunError as error:
            said.append(str(error))
    said.append(str(run(PageRank, graph, backend="memory://").statistics["reason"]))
    graph.unpersist()
    return said


def test_a_method_that_fails_leaves_the_processors_alive(driver: Driver) -> None:
    first, second, reason = driver.run(failing)
    assert "vertex 7 is wrong" in first
    assert first == second
    assert reason == "converged"


def run_again(spark: SparkSession, partitions: int) -> list[Any]:
    """What a task reports of blocks, when the hop in which one failed is run again."""
    from vertexsdk.transport.spark import SparkTransport

    def task(
        partition: int, order: tuple[int, bool], blocks: Blocks
    ) -> Iterator[tuple[int, bytes]]:
        number, bad = order
        if bad and partition == partitions - 1:
            raise InputError("wrong")
        for other in range(partitions):
            yield other, b"%d-%d" % (number, partition)
        yield DRIVER, b" ".join(block for _, block in blocks)

    workers = SparkTransport(spark).workers(partitions)
    assert workers.resident
    exchange = workers.exchange(task)
    said = [exchange.hop((0, False))]
    for _ in range(2):
        with contextlib.suppress(InputError):
            exchange.hop((1, True))
            said.append([b"no failure"])
    said += [exchange.hop((k, False)) for k in (1, 2)]
    exchange.close()
    workers.close()
    return said


@pytest.mark.parametrize("partitions", [3])
def test_a_hop_that_failed_can_be_run_again(driver: Driver, partitions: int) -> None:
    came = [b" ".join(b"%d-%d" % (k, p) for p in range(partitions)) for k in (0, 1)]
    each = [[block] * partitions for block in (b"", *came)]
    assert driver.run(run_again, partitions) == each


def send_much(spark: SparkSession, size: int) -> list[bytes]:
    from vertexsdk.transport import channels
    from vertexsdk.transport.spark import SparkTransport

    def task(partition: int, _: Any, blocks: Blocks) -> Iterator[tuple[int, Any]]:
        block = bytes(range(256)) * (size // 256)
        yield 1 - partition, block
        blocks, _ = yield PEERS, b""  # type: ignore[misc]
        yield DRIVER, b"equal" if blocks == [(1 - partition, block)] else b"different"
        yield 1 - partition, block

    assert size > 2 * channels.CHUNK
    workers = SparkTransport(spark).workers(2)
    assert workers.resident
    try:
        return workers.exchange(task).hop(bytes(size))
    finally:
        workers.close()


def test_long_blocks_go_in_frames(driver: Driver) -> None:
    assert driver.run(send_much, 40 << 20) == [b"equal", b"equal"]


def test_messages_are_cut_into_frames() -> None:
    parts = [b"", b"a", bytes(CHUNK), bytes(2 * CHUNK + 3)]
    frames = [bytes(frame) for frame in split(parts)]
    assert [len(frame) for frame in frames[1:]] == [0, 1, CHUNK, CHUNK, CHUNK, 3]
    assert join(frames) == parts


def cut_off(spark: SparkSession, log: Path) -> tuple[bool, float]:
    """Answers before and after the connection between two processors is cut.

    The log has the number of connections, as the call that cuts may be lost with a processor.
    """
    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)

    def answer() -> dict[str, float]:
        return rows(run(PageRank, graph, params={"iterations": 5}, backend="memory://"))

    def cut(partition: int) -> None:
        import gc

        import zmq

        from vertexsdk.transport.resident_worker import Worker

        worker = next(x for x in gc.get_objects() if isinstance(x, Worker))
        path = worker.nearby.getsockopt_string(zmq.LAST_ENDPOINT).removeprefix("ipc://")
        with contextlib.ExitStack() as opened:
            ends = []
            for name in os.listdir("/proc/self/fd") if partition == 0 else []:
                with contextlib.suppress(OSError, IndexError):
                    end = opened.enter_context(socket.socket(fileno=os.dup(int(name))))
                    if end.getsockname() == path.rstrip("\0"):
                        end.getpeername()  # not of the socket that listens
                        ends.append(end)
            if partition == 0:
                log.write_text(str(len(ends)))
            for end in ends:
                end.shutdown(socket.SHUT_RDWR)

    before = answer()
    with contextlib.suppress(LostError):  # the other one may notice before it is called
        graph.workers.run(cut)
    began = time.monotonic()
    same = answer() == before
    seconds = time.monotonic() - began
    graph.unpersist()
    return same, seconds


def test_a_cut_between_processors_is_noticed(driver: Driver, tmp_path: Path) -> None:
    same, seconds = driver.run(cut_off, tmp_path / "cuts")
    assert (tmp_path / "cuts").read_text() == "1"
    assert same
    assert seconds < 60.0


def idle(spark: SparkSession) -> list[Any]:
    """Slots that are taken, before and after the idle timeout, and whether an answer is equal."""
    from vertexsdk.transport import resident

    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
    usual, resident.IDLE_SECONDS = resident.IDLE_SECONDS, 1.0
    try:
        first = rows(run(PageRank, graph, params={"iterations": 5}, backend="memory://"))
        slots = [taken(spark)]
        end = time.monotonic() + 20
        while taken(spark) and time.monotonic() < end:
            time.sleep(0.1)
        slots.append(taken(spark))
    finally:
        resident.IDLE_SECONDS = usual
    again = run(PageRank, graph, params={"iterations": 5}, backend="memory://")
    slots.append(taken(spark))
    same = rows(again) == first
    graph.unpersist()
    return [*slots, same]


def test_idle_processors_end_and_start_again(driver: Driver) -> None:
    assert driver.run(idle) == [2, 0, 2, True]


def in_threads(spark: SparkSession) -> tuple[int, int, int]:
    """Launches and slots of a graph that three threads use first at the same time."""
    from vertexsdk.transport import resident

    before = list(resident._launches)  # the set alone would forget those that ended
    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)

    def answer(k: int) -> dict[str, float]:
        given: Any = {"params": {"iterations": 5}, "backend": "memory://", "loop": f"t{k}"}
        return rows(run(PageRank, graph, **given))

    with ThreadPoolExecutor(3) as pool:
        answers = list(pool.map(answer, range(3)))
    assert answers[0] == answers[1] == answers[2]
    slots, launches = taken(spark), len(resident._launches) - len(before)
    graph.unpersist()
    return launches, slots, taken(spark)


def test_threads_share_the_processors_of_a_graph(driver: Driver) -> None:
    assert driver.run(in_threads) == (1, 2, 0)


def in_turns(spark: SparkSession, partitions: int, stop: Path) -> tuple[int, bool]:
    """Supersteps of a hop that ends once hops of another exchange have; are all answers right?"""

    def slow(partition: int, command: Any, blocks: Blocks) -> Iterator[tuple[int, Any]]:
        told: list[int] = []
        stops = [False]
        while not any(stops) and len(told) < LONGEST:
            time.sleep(0.05)
            yield (partition + 1) % partitions, b"%d" % len(told)
            came: Any = yield PEERS, stop.exists()
            ((_, block), *_), stops = came
            told.append(int(block))
        yield DRIVER, json.dumps(told).encode()

    def quick(partition: int, command: Any, blocks: Blocks) -> Iterator[tuple[int, bytes]]:
        yield (partition + 1) % partitions, b"%d" % command
        yield DRIVER, b"".join(block for _, block in (yield PEERS, b"")[0])

    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=partitions)
    graph.workers.run(lambda partition: partition)
    long, short = (graph.workers.exchange(task) for task in (slow, quick))
    with ThreadPoolExecutor(1) as pool:
        hop, right = pool.submit(long.hop, None), True
        for k in range(11):
            right &= short.hop(k) == [b"%d" % k] * partitions
        stop.touch()
        told = [json.loads(report) for report in hop.result()]
    graph.unpersist()
    supersteps = len(told[0])
    return supersteps, right and told == [[*range(supersteps)]] * partitions


@pytest.mark.parametrize("partitions", [1, 2])
def test_hops_of_several_exchanges_take_turns(
    driver: Driver, partitions: int, tmp_path: Path
) -> None:
    """How many supersteps are waited for is in `test_resident_worker.py`: here it takes its time.

    Were it all of them, the long hop would never be told to end.
    """
    supersteps, right = driver.run(in_turns, partitions, tmp_path / "stop")
    assert right
    assert supersteps < LONGEST


def forked(spark: SparkSession) -> tuple[str, bool, int]:
    """What a forked process is told, and whether its parent's processors answer after it."""
    graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
    first = rows(run(PageRank, graph, params={"iterations": 5}, backend="memory://"))
    processes = graph.workers.run(lambda partition: os.getpid())
    reader, writer = os.pipe()
    if not (child := os.fork()):
        try:
            graph.workers.run(lambda partition: partition)
        except BaseException as error:
            os.write(writer, str(error).encode())
        graph.workers.close()
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    alive = graph.workers.run(lambda partition: os.getpid()) == processes
    same = rows(run(PageRank, graph, params={"iterations": 5}, backend="memory://")) == first
    graph.unpersist()
    return said, same and alive, taken(spark)


def test_a_forked_process_leaves_the_processors_alone(driver: Driver) -> None:
    said, same, slots = driver.run(forked)
    assert "forked" in said
    assert same
    assert slots == 0


def not_started(spark: SparkSession) -> tuple[bool, str, bool]:
    """A launch whose workers cannot register in time: every hop is a job, and one line says so."""
    from vertexsdk.transport import resident

    lines = StringIO()
    handler = logging.StreamHandler(lines)
    logging.getLogger("vertexsdk").addHandler(handler)
    usual, resident.START_SECONDS = resident.START_SECONDS, -1.0
    try:
        graph = Graph.from_arrays(*edges(1), spark=spark, partitions=2)
        jobs = rows(run(PageRank, graph, params={"iterations": 5}, backend="memory://"))
    finally:
        resident.START_SECONDS = usual
        logging.getLogger("vertexsdk").removeHandler(handler)
    local = Graph.from_arrays(*edges(1), partitions=2)
    same = jobs == pytest.approx(
        rows(run(PageRank, local, params={"iterations": 5}, backend="memory://"))
    )
    stays = graph.workers.resident
    graph.unpersist()
    return stays, lines.getvalue(), same


def test_processors_that_do_not_start_are_replaced_by_jobs(driver: Driver) -> None:
    stays, lines, same = driver.run(not_started)
    assert not stays
    assert "processors did not start, so each iteration is a Spark job: 0 of 2" in lines
    assert same


STOPPED = """
import time
from vertexsdk import Graph, RunError, run, session
from vertexsdk.algorithms import Degree
from vertexsdk.transport import resident

resident.SLOT_SECONDS = 60.0  # the machine may be busy
spark = session("local[3]")
graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], spark=spark)
run(Degree, graph, backend="memory://", progress=False).close()
assert graph.workers.resident
spark.stop()
time.sleep(1)
try:
    run(Degree, graph, backend="memory://", progress=False)
except RunError as error:
    print("said:", error)
graph.unpersist()
again = Graph.from_arrays([1, 2, 3], [2, 3, 1], spark=session("local[3]"))
run(Degree, again, backend="memory://", progress=False).close()
print("resident:", again.workers.resident)
"""


def test_a_session_that_stops_takes_its_processors_along() -> None:
    done = subprocess.run(
        [sys.executable, "-c", STOPPED], capture_output=True, text=True, timeout=180, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    first, second = done.stdout.splitlines()
    assert "session was stopped; start one, and make the graph with it" in first
    assert second == "resident: True"


def test_addresses_are_those_of_a_url(monkeypatch: pytest.MonkeyPatch) -> None:
    assert local_address("127.0.0.1") == "127.0.0.1"
    assert local_address("[::1]") == "[::1]"
    both = [
        (socket.AF_INET6, socket.SOCK_DGRAM, 17, "", ("::1", 9, 0, 0)),
        (socket.AF_INET, socket.SOCK_DGRAM, 17, "", ("127.0.0.1", 9)),
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    assert local_address("localhost") == "127.0.0.1"
