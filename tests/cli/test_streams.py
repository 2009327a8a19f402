"""`vertexsdk stream`: a base file, change files, an answer every so many changes."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import threading
import time
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from tests.cli.conftest import Call
from tests.support.ports import free_port
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import PageRank
from vertexsdk.engine.commands import Budget
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import Result
from vertexsdk.state import open_store

CHANGES = "+ 1 4 0.5\n- 2 3\n~ 3 4 9\nbad line\n- 9 9\n+ 7 1 3\n+ 4 5 0.25\n- 5 6\n"


@pytest.fixture
def base(state: str) -> str:
    Path("base.txt").write_text("1 2 1\n2 3 1\n3 4 1\n5 6 2\n")
    Path("changes.txt").write_text(CHANGES)
    return "base.txt"


def rows(path: str) -> dict[str, str]:
    head, *lines = Path(path).read_text().splitlines()
    assert head == "vertex,value"
    return dict(line.split(",") for line in lines)


@pytest.mark.parametrize(("keep", "answers"), [("1", [3]), ("2", [2, 3]), ("all", [1, 2, 3])])
def test_answers_that_stay(
    vertexsdk: Call, base: str, state: str, keep: str, answers: list[int]
) -> None:
    done = vertexsdk(
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "--query-every", 3,
        "--keep-answers", keep,
    )  # fmt: skip
    assert done.status == 0, done.err
    with open_store(state) as store:
        assert store.loops() == ["wcc", *(f"wcc-{k}" for k in answers)]
    done = vertexsdk(
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "--keep-answers", 0
    )
    assert done.status == 2
    assert "--keep-answers" in done.err


def test_a_query_every_three_changes(vertexsdk: Call, base: str) -> None:
    done = vertexsdk(
        "stream", "sssp", "--edges", base, "--changes", "changes.txt", "--param", "origin=1",
        "--query-every", 3, "--output", "out.csv", "--stats", "stats.json",
    )  # fmt: skip
    assert done.status == 0, done.err
    first = {"1": "0.0", "2": "1.0", "3": "inf", "4": "0.5", "5": "inf", "6": "inf"}
    assert rows("out-1.csv") == first
    second = {**first, "5": "0.75", "6": "2.75", "7": "inf"}
    assert rows("out-2.csv") == second
    del second["6"]
    assert rows("out-3.csv") == second
    assert not Path("out-4.csv").exists()
    assert any("line 4: 'bad' is not a sign of a change" in line for line in done.lines)
    assert done.lines[-1] == (
        "7 changes: 3 edges added, 2 removed, 1 given another value, "
        "1 of absent edges, 1 bad lines skipped"
    )
    statistics = json.loads(Path("stats.json").read_text())
    assert statistics["changes"] == 7
    assert statistics["bad_lines"] == statistics["absent"] == 1
    assert [q["num_vertices"] for q in statistics["queries"]] == [6, 7, 6]
    assert vertexsdk("query", "sssp-1", "--vertex", 4).out == "4 length=0.5\n"
    assert vertexsdk("query", "sssp", "--vertex", 5).out == "5 length=0.75\n"


def test_one_query_at_the_end(vertexsdk: Call, base: str) -> None:
    Path("more.txt").write_text("+ 6 1\n")
    done = vertexsdk(
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "more.txt",
        "--output", "out.parquet", "--loop", "groups",
    )  # fmt: skip
    assert done.status == 0, done.err
    assert Path("out-1.parquet").exists()
    assert not Path("out-2.parquet").exists()
    assert vertexsdk("query", "groups", "--vertex", 6).out == "6 component=1\n"


def test_no_changes_at_all(vertexsdk: Call, base: str) -> None:
    Path("changes.txt").write_text("# nothing yet\n")
    done = vertexsdk("stream", "wcc", "--edges", base, "--changes", "changes.txt",
                     "--output", "out.csv")  # fmt: skip
    assert done.status == 0, done.err
    assert rows("out-1.csv")["4"] == "1"


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("bad line", "changes.txt, line 2: 'bad' is not a sign of a change"),
        ("- 9 9", "changes.txt, line 2: there is no edge 9 -> 9 to remove or change"),
        ("~ 4 3 2", "changes.txt, line 2: there is no edge 4 -> 3 to remove or change"),
    ],
)
def test_strict(vertexsdk: Call, base: str, line: str, said: str) -> None:
    Path("changes.txt").write_text(f"+ 1 9\n{line}\n")
    done = vertexsdk("stream", "wcc", "--edges", base, "--changes", "changes.txt", "--strict")
    assert done.status == 2
    assert len(done.lines) == 1
    assert said in done.err


def test_a_change_file_that_is_not_there(vertexsdk: Call, base: str) -> None:
    done = vertexsdk("stream", "wcc", "--edges", base, "--changes", "none.txt")
    assert done.status == 2
    assert "none.txt: no such file" in done.err


def append(path: str, text: str) -> None:
    with Path(path).open("a") as file:
        file.write(text)


def test_follow_resume_and_how_stale_it_is(vertexsdk: Call, base: str) -> None:
    stream = (
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "inbox", "--resume",
        "--query-every", 5, "--output", "out.csv",
    )  # fmt: skip
    Path("inbox").mkdir()
    Path("inbox/1.txt").write_text("+ 8 9")
    done = vertexsdk(*stream, "--follow", "--idle", 0.2)
    assert done.status == 0, done.err
    assert done.lines[0] == "wcc: not in the store yet; starting from --edges"
    assert [line.split(":")[0] for line in done.lines if "query" in line] == ["wcc-1", "wcc-2"]
    assert done.lines[-1].startswith("8 changes: 4 edges added, 2 removed")
    append("changes.txt", "+ 9 10\n")
    Path("inbox/2.txt").write_text("- 8 9\n+ 5 11\n")
    done = vertexsdk(*stream, "--stats", "s.json")
    assert done.status == 0, done.err
    assert done.lines[-1] == "3 changes: 2 edges added, 1 removed, 0 given another value"
    assert json.loads(Path("s.json").read_text())["total_changes"] == 11
    assert rows("out-4.csv") == {
        "1": "1", "2": "1", "3": "1", "4": "1", "5": "1", "7": "1", "9": "9", "10": "9", "11": "1",
    }  # fmt: skip
    done = vertexsdk("query", "wcc", "--vertex", 10)
    assert done.out == "10 component=9\n"
    assert done.lines[0].startswith("wcc: version ")
    assert done.lines[0].endswith(" after 11 changes, exact")
    assert vertexsdk(*stream).lines[-1].startswith("0 changes")
    assert not Path("out-5.csv").exists()  # nothing came, so query 4 is answered again
    append("changes.txt", "+ 1 12\nworse\n- 77 1\n")
    done = vertexsdk(*stream, "--strict")
    assert done.status == 2
    assert "changes.txt, line 11: 'worse' is not a sign" in done.lines[-1]
    done = vertexsdk(*stream)
    assert "2 changes: 1 edges added" in done.lines[-1]
    assert "1 of absent edges, 1 bad lines skipped" in done.lines[-1]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.full
def test_a_signal_ends_what_is_followed(vertexsdk: Call, base: str, number: signal.Signals) -> None:
    ended = threading.Event()

    def go_on_and_end() -> None:
        for k, text in ((1, "+ 9 2\n- 1 4\n+ 1 4\n"), (2, "+ 1 13")):
            while not Path(f"out-{k}.csv").exists() and not ended.wait(0.01):
                pass
            append("changes.txt", text)
        os.kill(os.getpid(), number)

    def unheard(*_: object) -> None:
        """What comes when the command has ended must not end the tests."""

    usual, before = signal.signal(number, unheard), unheard
    other = threading.Thread(target=go_on_and_end)
    other.start()
    done = vertexsdk(
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "--query-every", 5,
        "--follow", "--output", "out.csv",
    )  # fmt: skip
    ended.set()
    other.join()
    after = signal.signal(number, usual)
    assert done.status == 0, done.err
    assert done.lines[-1].startswith("10 changes: ")  # not the line which has no end yet
    assert after == before
    assert rows("out-2.csv")["9"] == "1"


def test_an_approximation_between_queries(vertexsdk: Call, base: str) -> None:
    Path("a.txt").write_text("+ 9 1 1\n+ 2 8 1\n")
    Path("b.txt").write_text("+ 8 7 1\n")
    done = vertexsdk(
        "stream", "sssp", "--edges", base, "--changes", "a.txt", "b.txt", "--param", "origin=9",
        "--budget-iterations", 2, "--budget-ms", 60000, "--query-every", 3,
    )  # fmt: skip
    assert done.status == 0, done.err
    assert vertexsdk("query", "sssp-1", "--vertex", 7).out == "7 length=4.0\n"
    assert vertexsdk("query", "sssp", "--at", 2, "--vertex", 7).status == 2  # is not there yet


def test_times_that_run_backwards(vertexsdk: Call, base: str) -> None:
    Path("t.txt").write_text("10 + 1 6\n9 + 1 7\n12 + 1 8\n")
    stream = ("stream", "wcc", "--edges", base, "--changes", "t.txt", "--time-column", 1)
    done = vertexsdk(*stream)
    assert done.status == 0, done.err
    assert (
        "t.txt, line 2: its time is before that of an earlier change; applied all the same"
        in done.lines[0]
    )
    assert done.lines[-1].endswith("0 given another value, 1 late")
    done = vertexsdk(*stream, "--strict", "--replace")
    assert (done.status, len(done.lines)) == (2, 1)
    assert "line 2: its time is before" in done.err


def test_what_is_said_of_a_main_loop(vertexsdk: Call, state: str) -> None:
    graph = Graph.from_arrays([1], [2])
    with MainLoop(PageRank, graph, backend=state) as main:
        main.ingest([("+", 2, 3)])
        for more in (("--vertex", "1"), ("--json",), ("--output", "o.csv")):
            done = vertexsdk("query", "pagerank", *more)
            assert (done.status, done.lines) == (
                2, ["vertexsdk: loop 'pagerank' has no answer yet at version 1, after 1 changes: "
                    "wait for its first query, or have one computed: --exact, --at 1"],
            )  # fmt: skip
        main.query().close()
        main.budget = Budget(iterations=1)
        main.ingest([("+", 3, 4)])
        main.budget = None
        main.ingest([("+", 4, 5), ("+", 4, 6)])
        number = main.read().iteration
    done = vertexsdk("query", "pagerank", "--vertex", 1, "--field", "rank")
    assert (done.status, len(done.lines)) == (0, 1)
    said = f"pagerank: version {number} after 4 changes, 2 of them not reflected yet, residual 0."
    assert done.lines[0].startswith(said)
    done = vertexsdk("query", "pagerank", "--vertex", 77)
    assert (done.status, done.lines) == (2, ["vertexsdk: no vertex 77 in loop 'pagerank'"])


def test_the_residual_is_said_where_there_is_one() -> None:
    ledger = Ledger({}, False, None, received=1500, reflected=500, state=True, residual=0.0025)
    url = "memory://staleness"
    with open_store(url) as store:
        store.commit("ranks", iteration=7, segments=[], statistics=ledger.statistics())
        assert Result(url, "ranks").staleness() == (
            "ranks: version 7 after 1,500 changes, 1,000 of them not reflected yet, residual 0.0025"
        )


def test_loops_that_cannot_be_gone_on_with(vertexsdk: Call, base: str) -> None:
    assert vertexsdk("stream", "wcc", "--edges", base, "--changes", "changes.txt").status == 0
    for arguments, said in (
        (("query", "none"), "there is no loop 'none' in "),
        (
            ("stream", "bfs", "--loop", "wcc", "--resume", "--param", "origin=1"),
            "loop 'wcc' belongs to program wcc, not to bfs",
        ),
        (("stream", "wcc", "--idle", "1"), "--idle needs --follow"),
        (("stream", "wcc", "--idle", "-1", "--follow"), "-1 is not allowed; at least 0"),
        (("stream", "wcc", "--budget-ms", "x"), "'x' is not a whole number"),
    ):
        graph = ("--edges", base, "--changes", "changes.txt") if arguments[0] == "stream" else ()
        done = vertexsdk(*arguments, *graph)
        assert (done.status, len(done.lines)) == (2, 1), done.err
        assert said in done.err


def test_metrics_of_a_stream(vertexsdk: Call, base: str) -> None:
    port = free_port()
    seen: list[str] = []

    def watch() -> None:
        end = time.monotonic() + 100
        while time.monotonic() < end and "changes_total" not in "".join(seen[-1:]):
            with contextlib.suppress(OSError):
                url = f"http://127.0.0.1:{port}/metrics"
                with urllib.request.urlopen(url, timeout=10) as reply:
                    text = reply.read().decode()
                if 'vertexsdk_changes_total{loop="wcc"} 7.0' in text:
                    seen.append(text)
            time.sleep(0.05)

    thread = threading.Thread(target=watch)
    thread.start()
    done = vertexsdk(
        "stream", "wcc", "--edges", base, "--changes", "changes.txt", "--engine", "local",
        "--follow", "--idle", 2, "--metrics-port", port,
    )  # fmt: skip
    thread.join()
    assert done.status == 0, done.err
    assert done.lines[0] == f"metrics: http://127.0.0.1:{port}/metrics"
    families = {f.name: f for f in text_string_to_metric_families(seen[-1])}
    assert families["vertexsdk_behind_changes"].samples[0].labels == {"loop": "wcc"}
    with pytest.raises(OSError, match="refused"):
        urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics", timeout=10)


def test_a_metrics_port_in_use(vertexsdk: Call, base: str, state: str) -> None:
    """It is said in a line, before anything is loaded or stored."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = vertexsdk(
            "stream", "wcc", "--edges", base, "--changes", "changes.txt", "--metrics-port", port
        )
    assert done.status == 2
    assert done.lines == [
        f"vertexsdk: metrics cannot be served on 127.0.0.1:{port}: Address already in use; give "
        "another port, or 0 for any free one"
    ]
    assert not Path("state").exists()


def test_a_window(vertexsdk: Call, base: str) -> None:
    Path("t.txt").write_text("0 + 50 51\n86400 + 51 52\n604800 + 60 61\n1000 + 70 71\n5 + 51 52\n")
    stream = ("stream", "wcc", "--edges", base, "--changes", "t.txt", "--window", "7d")
    done = vertexsdk(*stream)
    assert (done.status, len(done.lines)) == (2, 1)
    assert "--window needs the time of each change: add --time-column K" in done.err
    stream = (*stream, "--time-column", 1, "--query-every", 2, "--stats", "s.json")
    done = vertexsdk(*stream)
    assert done.status == 0, done.err
    assert done.lines[-1].endswith(", 1 overtaken by newer changes of their edges, 1 expired")
    statistics = json.loads(Path("s.json").read_text())
    assert [s["changes"] for s in statistics["queries"]] == [2, 4, 5]
    assert vertexsdk("query", "wcc-2", "--vertex", 52).out == "52 component=51\n"
    Path("u.txt").write_text("700000 + 60 62\n")
    done = vertexsdk(*stream[:5], "u.txt", *stream[5:], "--resume")
    assert done.status == 0, done.err
    assert json.loads(Path("s.json").read_text())["expired"] == 2
