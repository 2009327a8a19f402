"""Whoever reaches a port and has no key takes nothing and stops nothing."""

from __future__ import annotations

import os
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from urllib.parse import urlsplit

import pytest
import zmq
from pyspark.sql import SparkSession

from tests.loops.test_descriptors import few_descriptors
from tests.support.threaded_stage import ThreadedStage
from vertexsdk import Graph, run
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.errors import LostError
from vertexsdk.transport import channels, resident
from vertexsdk.transport.block_receiver import close_receivers, open_receiver
from vertexsdk.transport.channels import CHUNK, Keys, Lost, join, split
from vertexsdk.transport.resident import Launch, ResidentExchange
from vertexsdk.transport.resident_worker import Worker
from vertexsdk.transport.transport import DRIVER, PEERS, Blocks


def scan(address: str, times: int) -> None:
    """Open and close connections, as a port scan does; some of them say something."""
    place = urlsplit(address)
    for k in range(times):
        with socket.create_connection((place.hostname, place.port), timeout=10) as sock:
            sock.sendall((b"", b"GET / HTTP/1.1\r\n\r\n", b"\xff\0\0\0\0\0\0\0\1\x7f\3")[k % 3])


def ports(launch: Launch) -> list[str]:
    """Where strangers reach the driver, and each processor."""
    driver = launch._socket.getsockopt_string(zmq.LAST_ENDPOINT).rstrip("\0")
    return [driver, *(far for far, _ in launch._addresses)]


@pytest.fixture
def launch(monkeypatch: pytest.MonkeyPatch) -> Iterator[Launch]:
    """Two processors that are threads; their driver's port was scanned while they started."""
    register = Launch._register

    def scanned(launch: Launch) -> None:
        launch._addresses = []
        scan(ports(launch)[0], 30)
        register(launch)

    monkeypatch.setattr(Launch, "_register", scanned)
    launch = Launch(ThreadedStage(), 2)  # type: ignore[arg-type]
    yield launch
    launch.close()


def test_a_port_scan_ends_no_processor(launch: Launch) -> None:
    where = ports(launch)

    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        came = b""
        for k in range(4):
            scan(where[command], 9)
            yield 1 - partition, str(k).encode()
            blocks, _ = yield PEERS, ""
            came += blocks[0][1]
        yield DRIVER, came

    exchange = ResidentExchange(launch, task)
    for command in range(3):  # 216 connections
        assert exchange.hop(command) == [b"0123", b"0123"]
    scan(where[0], 50)  # while nobody waits
    assert launch.run(lambda p: p) == [0, 1]
    assert launch.alive


def test_a_lost_processor_is_noticed_among_strangers(launch: Launch) -> None:
    for address in ports(launch):
        scan(address, 10)

    def end(partition: int) -> None:
        if partition == 1:
            raise Lost
        time.sleep(0.01)

    with pytest.raises(LostError):
        launch.run(end)
    assert not launch.alive


GREETING = b"\xff" + bytes(8) + b"\x7f\3\0" + b"CURVE".ljust(20, b"\0") + bytes(32)


def ends(address: str, said: bytes) -> bool:
    """Whether the other end of a connection closes it, after its own greeting of 64 bytes."""
    place = urlsplit(address)
    with socket.create_connection((place.hostname, place.port), timeout=4) as sock:
        sock.sendall(said)
        while came := sock.recv(4096):
            assert len(came) <= len(GREETING)
    return True


def test_a_stranger_s_frame_is_not_read(launch: Launch) -> None:
    """Its size is known from its first bytes; those that it lets follow are never in memory."""
    receiver, _ = open_receiver("load", launch._keys, "127.0.0.1", launch._place, 9)
    try:
        for address in (*ports(launch), receiver):
            for size in (5 << 20, 3 << 30, (1 << 63) - 1):
                assert ends(address, GREETING + b"\6" + size.to_bytes(8, "big") + bytes(99))
    finally:
        close_receivers()
    assert launch.run(lambda p: p) == [0, 1]


def test_a_frame_may_be_as_long_as_ours_are(launch: Launch) -> None:
    whole = bytes(3 * CHUNK + 1)
    assert [len(x) for x in launch.run(lambda _, sent=whole: sent)] == [len(whole)] * 2


def test_who_shows_no_key_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(channels, "HANDSHAKE_MS", 50)
    keys, secret = Keys.fresh()
    made, authenticator = channels.context(keys)
    sock = made.socket(zmq.ROUTER)
    try:
        keys.serve(sock, secret)
        address = f"tcp://127.0.0.1:{sock.bind_to_random_port('tcp://127.0.0.1')}"
        for said in (b"", GREETING[:11], GREETING):
            assert ends(address, said)
    finally:
        authenticator.stop()
        made.destroy(linger=0)


def test_messages_that_come_again_by_another_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever has the key of a processor sends all that it sends once more, from elsewhere."""
    send, send_report, start = Worker._send, Worker._send_report, Worker.__init__
    registered: Counter[int] = Counter()
    registers, others = dict[int, bytes](), dict[Worker, zmq.Socket[bytes]]()
    change = threading.Condition()

    def joined(frames: list[bytes]) -> list[bytes]:
        parts = join(frames)
        if parts[0] == b"register":
            with change:
                partition = pickle.loads(parts[1])[0]
                registers[partition] = parts[1]
                registered[partition] += 1
                change.notify_all()
        return parts

    def started(worker: Worker, partition: int, *rest: Any) -> None:
        with change:  # the last one registers when the first one has done so twice
            assert partition < 2 or change.wait_for(lambda: registered[0] == 2, 20)
        start(worker, partition, *rest)
        with change:
            assert partition == 2 or change.wait_for(lambda: registered[partition] == 1, 20)
        others[worker] = sock = worker.context.socket(zmq.DEALER)
        worker.keys.connect(sock, worker.keys.driver)
        sock.connect(rest[1])
        if partition < 2:
            sock.send_multipart(split([b"register", registers[partition]]))

    def sent(worker: Worker, *message: Any) -> None:
        for _ in range(2):
            send(worker, *message)

    def reported(worker: Worker, number: bytes, clock: Any, code: int, report: bytes) -> None:
        send_report(worker, number, clock, code, report)
        stamped = clock.stamp().prepend_to(report)
        others[worker].send_multipart(split([number, pickle.dumps(code), stamped]))

    monkeypatch.setattr(resident, "join", joined)
    monkeypatch.setattr(Worker, "__init__", started)
    monkeypatch.setattr(Worker, "_send", sent)
    monkeypatch.setattr(Worker, "_send_report", reported)
    launch = Launch(ThreadedStage(), 3)  # type: ignore[arg-type]

    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        for target in range(3):
            yield target, b"%d" % partition
        blocks, _ = yield PEERS, ""
        if partition == 2:
            time.sleep(0.05)  # meanwhile the reports of the others come twice
        yield DRIVER, b"".join(block for _, block in blocks) + command

    exchange = ResidentExchange(launch, task)
    for command in (b"a", b"b", b"c"):
        assert exchange.hop(command) == [b"012" + command] * 3
    assert launch.run(lambda p: p) == [0, 1, 2]
    launch.close()


@pytest.mark.full
def test_many_connections_while_the_driver_is_idle(launch: Launch) -> None:
    """Events of connections that nobody takes are not kept until ZeroMQ's own thread waits."""
    for address in ports(launch):
        scan(address, 2_500)
    assert launch.run(lambda p: p) == [0, 1]


STRANGERS = """
import socket, sys, time
from urllib.parse import urlsplit
places = [urlsplit(address) for address in sys.argv[1:]]
sys.stdin.readline()
held = [socket.create_connection((p.hostname, p.port)) for p in places for _ in range(60)]
print("connected", flush=True)
sys.stdin.read()
"""


@pytest.mark.full
def test_strangers_who_take_all_descriptors(launch: Launch) -> None:
    """Their connections are more than this process may open; the launch outlives them."""

    def task(partition: int, command: Any, blocks: Blocks) -> Any:
        yield 1 - partition, b"%d" % partition
        blocks, _ = yield PEERS, ""
        yield DRIVER, blocks[0][1] + command

    exchange = ResidentExchange(launch, task)
    command = [sys.executable, "-c", STRANGERS, *ports(launch)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
        with few_descriptors(60):
            assert child.stdin is not None
            assert child.stdout is not None
            child.stdin.write(b"\n")
            child.stdin.flush()
            assert child.stdout.readline() == b"connected\n"
            for answer in (b"a", b"b", b"c"):
                assert exchange.hop(answer) == [b"1" + answer, b"0" + answer]
            with pytest.raises(OSError, match="Too many open files"):
                [open(os.devnull) for _ in range(60)]  # noqa: SIM115
            assert exchange.hop(b"d") == [b"1d", b"0d"]
        child.communicate()
    assert launch.run(lambda p: p) == [0, 1]
    assert launch.alive


@pytest.mark.cluster
def test_a_port_scan_beside_a_run_on_spark(spark: SparkSession) -> None:
    source, target = [k % 50 for k in range(200)], [(7 * k) % 53 for k in range(200)]
    graph = Graph.from_arrays(source, target, spark=spark, partitions=2)
    with run(ConnectedComponents, graph, backend="memory://scanned") as result:
        expected = result.to_dict()
    (launch,) = (x for x in resident._launches if x.alive and x.partitions == 2)
    done = threading.Event()

    def strangers() -> int:
        scans = 0
        while not done.is_set() or scans < 200:
            for address in ports(launch):
                scan(address, 3)
                scans += 3
        return scans

    with ThreadPoolExecutor(1) as pool:
        scans = pool.submit(strangers)
        try:
            for _ in range(3):
                with run(ConnectedComponents, graph, backend="memory://scanned") as result:
                    assert result.to_dict() == expected
        finally:
            done.set()
        assert scans.result() >= 200
    assert launch.alive
    graph.unpersist()
