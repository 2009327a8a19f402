"""What a loop shows to other threads, and to Prometheus, while it is busy."""

from __future__ import annotations

import contextlib
import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from pyspark.sql import SparkSession

from tests.loops.test_branch_loops import Endless
from vertexsdk import Graph, InputError, MainLoop, RunError
from vertexsdk.algorithms import ConnectedComponents, PageRank
from vertexsdk.engine.commands import Budget, WorkDone
from vertexsdk.errors import LostError
from vertexsdk.loops.streams import counters
from vertexsdk.loops.streams.counters import LoopCounters, Rate


@pytest.fixture
def main(tmp_path: Path) -> Iterator[MainLoop]:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], partitions=2)
    url = f"lmdb://{tmp_path}/state"
    with MainLoop(ConnectedComponents, graph, backend=url, loop="wcc") as loop:
        yield loop


@pytest.fixture
def endless(spark: SparkSession, tmp_path: Path) -> Iterator[MainLoop]:
    """A loop on a processor whose queries never end by themselves."""
    graph = Graph.from_arrays([1, 2], [2, 1], spark=spark, partitions=1)
    url = f"lmdb://{tmp_path}/endless"
    with MainLoop(Endless, graph, backend=url, loop="endless", compiled=False) as loop:
        yield loop


def soon(condition: Callable[[], bool]) -> None:
    """Wait until a condition holds, which it does in a moment."""
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def ask(main: MainLoop, **limits: Any) -> None:
    """Ask a query that meets its limit."""
    with pytest.raises(RunError, match="met its"):
        main.query(**limits)


def metrics(address: str) -> dict[tuple[str, str], float]:
    """The samples that an address serves, by name and loop, or by state where they have one."""
    with urllib.request.urlopen(address, timeout=10) as reply:
        assert reply.headers["Content-Type"].startswith("application/openmetrics-text")
        text = reply.read().decode()
    return {
        (sample.name, sample.labels.get("vertexsdk_state") or sample.labels["loop"]): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def test_numbers_are_those_of_the_answers(main: MainLoop) -> None:
    before = main.progress()
    assert (before["vertices"], before["edges"]) == (4, 3)
    assert before["last_query_seconds"] is None
    main.ingest([("+", 4, 5), ("+", 5, 6), ("-", 1, 2)])
    between = main.progress()
    assert (between["changes"], between["behind"], between["edges"]) == (3, 3, 4)
    assert between["changes_per_second"] > 0
    with contextlib.closing(main.query()) as result:
        done = dict(result.statistics)
    assert done["bytes"] > 0
    with main.fork():
        now = main.progress()
        assert now["branches"] == 1
    assert now == json.loads(json.dumps(now))
    assert (now["loop"], now["state"], now["version"]) == ("wcc", "idle", main.iteration)
    assert (now["behind"], now["vertices"], now["queries"]) == (0, done["num_vertices"], 1)
    assert now["supersteps"] == done["iterations"]
    for name in ("updates", "messages"):
        assert now[name] == done[name] > 0
    assert now["bytes"] == done["bytes"] + between["bytes"]
    assert now["query_seconds"] == now["last_query_seconds"] >= now["superstep_seconds"] > 0
    assert now["commits"] > between["commits"] > 0
    assert now["commit_seconds"] > between["commit_seconds"] > 0
    main.ingest([("+", 4, 7), ("-", 2, 3)])
    assert main.progress()["bytes"] > now["bytes"]  # what was wrong is withdrawn at once
    main.query().close()
    last = main.progress()
    assert last["branches"] == 0
    assert last["query_seconds"] == now["query_seconds"] + last["last_query_seconds"]
    main.close()
    assert main.progress()["state"] == "closed"


def test_a_busy_loop_is_seen_from_another_thread(endless: MainLoop) -> None:
    """One query takes the loop until its limit; `progress` neither waits nor stands still."""
    thread = threading.Thread(target=ask, args=(endless,), kwargs={"timeout": 4.0})
    thread.start()
    soon(lambda: endless.progress()["supersteps"] > 0)
    first = endless.progress()
    assert first["state"] == "query"
    soon(lambda: endless.progress()["supersteps"] > first["supersteps"])
    assert thread.is_alive()
    assert not endless._history.lock.acquire(blocking=False)
    began = time.perf_counter()
    endless.progress()
    assert time.perf_counter() - began < 1.0
    assert thread.is_alive()
    thread.join()
    last = endless.progress()
    assert (last["state"], last["queries"], last["last_query_seconds"]) == ("idle", 0, None)


def test_ingestion_beside_a_query_shows_both(endless: MainLoop) -> None:
    endless.shared = True  # so that a query runs in a branch, and the loop is free
    reading, go = threading.Event(), threading.Event()
    outcome = endless._history._outcome

    def slow(*command: Any) -> Any:
        reading.set()
        assert go.wait(60)
        return outcome(*command)

    asking = threading.Thread(target=ask, args=(endless,), kwargs={"timeout": 4.0})
    asking.start()
    soon(lambda: endless.progress()["supersteps"] > 0)  # those of the branch, as they are done
    endless._history._outcome = slow  # type: ignore[method-assign]
    ingesting = threading.Thread(target=endless.ingest, args=([("+", 2, 3)],))
    ingesting.start()
    assert reading.wait(60)
    shown = endless.progress()
    go.set()
    ingesting.join()
    asking.join()
    assert shown["state"] == "ingest+query"
    assert shown["changes"] == 0
    assert endless.progress()["changes"] == 1


def test_restarts_and_restores_are_shown(main: MainLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    main.query().close()
    seen = []
    config, engine = main._history.config, main._history.engine
    restore = config.restore

    def watched(*args: Any) -> Any:
        seen.append(main.progress()["state"])
        return restore(*args)

    def lost(_: Any) -> Any:
        raise LostError("an executor was lost")

    object.__setattr__(config, "restore", watched)
    monkeypatch.setattr(engine, "execute", lost)
    main.ingest([("+", 1, 9)])
    assert seen == ["ingest+restore"]
    assert main.progress()["restarts"] == 1
    assert main.query().lookup([9]) == {9: {"component": 1}}


def test_a_try_after_a_loss_adds_to_the_work_before() -> None:
    counters, reported = LoopCounters(), []
    budget = counters.counting(Budget(report=reported.append))
    assert budget.report is not None
    for first, second in ((2, 5), (1, 7)):  # of two tries
        work = WorkDone(iterations=first, messages=10 * first)
        budget.report(work)
        work.iterations, work.messages = second, 10 * second
        budget.report(work)
    assert counters.numbers()["supersteps"] == 12
    assert counters.numbers()["messages"] == 120
    assert len(reported) == 4


def test_a_rate_is_of_the_last_ten_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 100.0
    monkeypatch.setattr(counters.time, "monotonic", lambda: now)
    rate = Rate()
    assert rate.per_second() == 0
    now = 102.0
    rate.add(10)
    assert rate.per_second() == rate.per_second(ended=True) == 5
    now = 109.0
    rate.add(70)
    now = 112.5
    assert rate.per_second() == 7
    assert rate.per_second(ended=True) == pytest.approx(80 / 9)
    now = 119.5
    assert rate.per_second() == 0
    for k in range(1000):
        now = 200.0 + k
        rate.add(3)
    assert rate.per_second() == 3
    assert len(rate._counts) < 15


def test_metrics_of_a_running_loop(main: MainLoop, endless: MainLoop) -> None:
    address = main.serve_metrics()
    assert not [name for name, _ in metrics(address) if name == "vertexsdk_last_query_seconds"]
    main.ingest([("+", 4, 5), ("+", 5, 6)])
    main.query().close()
    main.ingest([("-", 1, 2)])
    found, shown = metrics(address), main.progress()
    for name, key in {
        "changes_total": "changes", "behind_changes": "behind", "edges": "edges",
        "vertices": "vertices", "version": "version", "branches": "branches",
        "query_seconds_count": "queries", "query_seconds_sum": "query_seconds",
        "last_query_seconds": "last_query_seconds", "commit_seconds_count": "commits",
        "commit_seconds_sum": "commit_seconds", "superstep_seconds_count": "supersteps",
        "superstep_seconds_sum": "superstep_seconds", "updates_total": "updates",
        "messages_total": "messages", "sent_bytes_total": "bytes", "restarts_total": "restarts",
    }.items():  # fmt: skip
        assert found[f"vertexsdk_{name}", "wcc"] == shown[key], name
    assert [state for (name, state), on in found.items() if name == "vertexsdk_state" and on] == [
        "idle"
    ]
    other = endless.serve_metrics()
    thread = threading.Thread(target=ask, args=(endless,), kwargs={"timeout": 3.0})
    thread.start()
    soon(lambda: metrics(other)["vertexsdk_state", "query"] == 1)
    thread.join()
    assert metrics(other)["vertexsdk_superstep_seconds_count", "endless"] > 0
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(address.replace("/metrics", "/"), timeout=10)
    main.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=10)
    assert metrics(other)


def test_metrics_that_cannot_be_served(main: MainLoop, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=rf"127.0.0.1:{port}: Address already in use; give an"):
            main.serve_metrics(port)
    with pytest.raises(InputError, match="give another port"):
        main.serve_metrics(70_000)
    monkeypatch.setitem(sys.modules, "prometheus_client.core", None)
    with pytest.raises(InputError, match=r"^metrics need .* pip install 'vertexsdk\[metrics\]'$"):
        main.serve_metrics()


def test_a_loop_on_processors(spark: SparkSession, tmp_path: Path) -> None:
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], spark=spark, partitions=2)
    with MainLoop(PageRank, graph, backend=f"lmdb://{tmp_path}/state", budget=Budget(2)) as main:
        main.ingest([("+", 1, 3)])
        shown = main.progress()
        assert (shown["changes"], shown["behind"], shown["edges"]) == (1, 0, 4)
        assert shown["supersteps"] == 2
        assert shown["bytes"] > 0
    graph.unpersist()
