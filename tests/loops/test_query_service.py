"""Exact answers for other processes, by the process of a main loop."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import zmq

from tests.support.request_sockets import request_socket
from vertexsdk import Graph, InputError, MainLoop, Program, RunError, StateInputError, read
from vertexsdk.algorithms import ConnectedComponents, PageRank
from vertexsdk.loops import query_service, request_client, request_service
from vertexsdk.loops.request_client import record_name
from vertexsdk.state import open_store
from vertexsdk.transport.channels import Keys


@pytest.fixture(params=["lmdb", "memory"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return "memory://queries" if request.param == "memory" else f"lmdb://{tmp_path}/state"


@pytest.fixture
def main(url: str) -> Iterator[MainLoop]:
    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend=url, loop="loop", replace=True) as main:
        yield main


def components(url: str) -> dict[int, int]:
    with read(url, "loop", exact=True) as answer:
        return answer.to_dict()


def test_an_answer_is_for_the_instant_of_the_question(main: MainLoop, url: str) -> None:
    with pytest.raises(InputError, match="no process answers the queries of loop 'loop'"):
        components(url)
    with pytest.raises(StateInputError, match="no loop 'other'"):
        read(url, "other", exact=True)
    main.serve_queries()
    with pytest.raises(InputError, match="already"):
        main.serve_queries()
    expected = {1: 1, 2: 1}
    for k in range(3, 8):
        assert components(url) == expected
        main.ingest([("+", 1, k)])
        expected[k] = 1
    assert main.queries == 0  # theirs are branches
    assert main.progress()["behind"] == 1  # which are merged
    with read(url, "loop", 3, exact=True) as answer, main.at(3) as wanted:
        assert answer.to_dict() == wanted.to_dict()  # computed beside the open loop
    with open_store(url) as store:
        store.collect(0, alone=True)
        assert store.audit().unreferenced == []
        assert store.verify() == []
    assert components(url) == expected
    main.close()
    with pytest.raises(InputError, match="no process answers"):
        components(url)
    with open_store(url) as store:
        assert store.backend.list_heads() == ["loop"]


@pytest.mark.full
def test_queries_beside_ingest(main: MainLoop, url: str) -> None:
    main.serve_queries()
    done = threading.Event()

    def ask() -> list[int]:
        sizes = []
        while not done.is_set():
            sizes.append(len(components(url)))
        return sizes

    with ThreadPoolExecutor(6) as pool:
        asked = [pool.submit(ask) for _ in range(6)]
        for k in range(3, 103):
            main.ingest([("+", 1, k)])
        done.set()
        for sizes in (future.result() for future in asked):
            assert sizes == sorted(sizes)
            assert sizes
    assert len(components(url)) == 102


def test_an_error_is_that_of_the_loop(tmp_path: Path) -> None:
    url, graph = f"lmdb://{tmp_path}/state", Graph.from_arrays([1, 2, 3], [2, 3, 1])
    with MainLoop(PageRank, graph, params={"epsilon": 1e-12}, backend=url, loop="loop") as main:
        main.serve_queries()
        with pytest.raises(RunError, match="met its time limit"):
            read(url, "loop", exact=True, timeout=0)
        read(url, "loop", exact=True, timeout=60).close()
        main.ingest([("-", 1, 2), ("-", 2, 3), ("-", 3, 1)])
        with read(url, "loop", exact=True) as answer:
            assert answer.to_dict() == {}


def test_the_newest_answers_stay(main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(query_service, "KEEP", 3)
    main.serve_queries()
    opened = [read(url, "loop", exact=True) for _ in range(8)]
    with open_store(url) as store:
        answers = [name for name in store.backend.list_heads() if "-exact-" in name]
    assert sorted(answers) == sorted(answer.loop for answer in opened[-3:])
    for answer in opened:
        assert answer.to_dict() == {1: 1, 2: 1}
        answer.close()


def test_nobody_asks_without_the_keys(main: MainLoop, url: str) -> None:
    main.serve_queries()
    with open_store(url) as store:
        data = store.backend.get_manifest(record_name("loop"))
    address = str(data).split('"address": "')[1].split('"')[0]
    driver = str(data).split('"driver": "')[1].split('"')[0]
    stranger, _ = Keys.fresh()
    for keys in (None, Keys(driver.encode(), stranger.public, stranger.secret)):
        with zmq.Context() as context, context.socket(zmq.REQ) as sock:
            sock.linger = 0
            if keys is not None:
                keys.connect(sock, keys.driver)
            sock.connect(address)
            sock.send_json({})
            assert not sock.poll(700)
    assert components(url) == {1: 1, 2: 1}


BAD_REQUESTS = [
    [b"{}", b"{}"], [b""], [b"", b"", b""], [b"{"], [b"[]"], [b"7"], [b'{"timeout": "x"}'],
    [b'{"timeout": -1}'], [b'{"timeout": NaN}'], [b'{"timeout": true}'], [b"\xff"],
    [b"[" * 100_000],
]  # fmt: skip


def test_requests_of_another_form_are_answered_and_end_no_worker(main: MainLoop, url: str) -> None:
    main.serve_queries()
    with request_socket(url, "loop") as sock:
        for request in BAD_REQUESTS:
            sock.send_multipart([b"", *request])
            assert sock.poll(10_000), request
            _, reply = sock.recv_multipart()
            assert "a query is one frame of JSON" in json.loads(reply)["error"]
    assert components(url) == {1: 1, 2: 1}


def test_who_asks_does_not_wait_for_ever(
    main: MainLoop, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_service, "_WORKERS", 0)
    monkeypatch.setattr(request_client, "_GRACE", 0.1)
    monkeypatch.setattr(request_client, "_LONGEST", 0.1)
    main.serve_queries()
    for timeout in (None, 0.1):
        with pytest.raises(RunError, match="has not answered in 0 s: ask again with another"):
            read(url, "loop", exact=True, timeout=timeout)


PROGRAM = Program(ConnectedComponents, name="wcc")


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "vertexsdk", *map(str, arguments)]


def ask(url: str, *more: str) -> subprocess.CompletedProcess[str]:
    arguments = command("query", "components", "--exact", "--backend", url, *more)
    return subprocess.run(arguments, capture_output=True, text=True, timeout=60)


def wait_for(url: str) -> None:
    """Wait until the queries of a loop are answered."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        with contextlib.suppress(StateInputError), open_store(url, create=False) as store:
            if store.backend.get_manifest(record_name("components")):
                return
        time.sleep(0.1)
    pytest.fail("no process answers")


@pytest.mark.full
def test_the_command_line(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    edges, changes = tmp_path / "edges.txt", tmp_path / "changes.txt"
    edges.write_text("1 2\n")
    changes.write_text("+ 2 3\n")
    stream = subprocess.Popen(
        command("stream", "wcc", "--loop", "components", "--engine", "local", "--edges", edges,
                "--changes", changes, "--follow", "--backend", url),
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stderr=subprocess.PIPE,
    )  # fmt: skip
    try:
        wait_for(url)
        limit = time.monotonic() + 30
        while "3 component=1" not in ask(url).stdout and time.monotonic() < limit:
            pass
        with changes.open("a") as file:
            file.write("+ 7 8\n- 1 2\n")
        while "8 component=7" not in ask(url).stdout and time.monotonic() < limit:
            pass
        done = ask(url, "--vertex", "3", "--json", "--timeout", "30")
        assert done.stdout == '{"vertex": 3, "component": 2}\n', done.stderr
        assert done.returncode == 0
    finally:
        stream.kill()
        stream.communicate(timeout=60)
    done = ask(url)
    assert "has ended or cannot be reached" in done.stderr
    assert done.stderr.count("\n") == 1
    assert done.returncode == 1
    with MainLoop.resume(None, PROGRAM, backend=url, loop="components") as again:
        again.serve_queries()
        with read(url, "components", exact=True) as answer:
            assert answer.to_dict()[8] == 7
    with open_store(url) as store:  # what both processes left
        assert [n for n in store.backend.list_heads() if "-exact-" in n] == []
    assert (
        "--timeout needs --exact"
        in subprocess.run(
            command("query", "components", "--timeout", "3"),
            capture_output=True,
            text=True,
            timeout=240,
        ).stderr
    )
