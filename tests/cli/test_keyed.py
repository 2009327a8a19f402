"""`vertexsdk serve` and `vertexsdk call`."""

from __future__ import annotations

import contextlib
import inspect
import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.cli.conftest import Done
from tests.stateful.programs import Names, Visits, WordCount
from vertexsdk import InputError, RunError, StatefulClient, StatefulLoop, StateInputError
from vertexsdk.cli import main

SOURCE = f"from vertexsdk import Map, Partitioned, Stateful\n\n\n{inspect.getsource(WordCount)}"


@pytest.fixture
def command(state: str, capfd: pytest.CaptureFixture[str]) -> Callable[..., Done]:
    """A command, in this process and without Spark."""

    def call(*arguments: str) -> Done:
        capfd.readouterr()
        status = main(list(arguments))
        return Done(status, *capfd.readouterr())

    return call


def test_a_call(command: Callable[..., Done], state: str) -> None:
    with StatefulLoop(Visits, backend=state) as flow:
        flow.serve()
        assert command("call", "Visits", "visit", "ann", "1.5").out == "1\n"
        assert command("call", "Visits", "visit", "ann", "3").out == "2\n"
        assert json.loads(command("call", "Visits", "state", "ann").out) == {
            "count": 2, "last": 3.0, "blocked": False, "note": ""
        }  # fmt: skip
        assert command("call", "Visits", "count_of", "bob").out == ""
        assert command("call", "Visits", "count_of", "bob", "--json").out == "null\n"
        assert command("call", "Visits", "known", "ann").out == "true\n"
        assert command("call", "Visits", "block", "ann").status == 0
        done = command("call", "Visits", "visit", "ann", "4")
        assert (done.status, len(done.lines)) == (1, 1)
        assert "'ann' is blocked: 3" in done.err


@pytest.mark.parametrize(
    ("arguments", "status", "said"),
    [
        (["Words", "count", "be"], 2, "no loop 'Words'"),
        (["WordCount", "cuont", "be"], 2, "no method 'cuont'; did you mean 'count'?"),
        (["WordCount", "count"], 2, "WordCount.count(word: str) takes other arguments"),
        (["WordCount", "count", "to", "be"], 2, "takes other arguments; 2 were given"),
        (["Names", "name_of", "x"], 2, "user is 'x'; it has to be an int"),
        (["Names", "set_name", "1", "a", "maybe"], 2, "keep is 'maybe'; it has to be a bool"),
        (["Other", "count", "be"], 2, "no process answers the calls of loop 'Other'"),
        (["WordCount", "count", "be", "--output", "a.csv"], 2, "--output is for --file"),
        (["WordCount", "count", "--file", "none.txt"], 2, "none.txt: no such file"),
        (["WordCount", "count", "--file", "a.txt", "--output", "a.txt"], 2, "name a .csv file"),
    ],
)
def test_calls_that_are_refused(
    command: Callable[..., Done], state: str, arguments: list[str], status: int, said: str
) -> None:
    Path("a.txt").write_text("be\n")
    with (
        StatefulLoop(WordCount, backend=state) as words,
        StatefulLoop(Names, backend=state) as names,
        StatefulLoop(WordCount, backend=state, loop="Other"),
    ):
        words.serve()
        names.serve()
        done = command("call", *arguments)
        assert (done.status, len(done.lines)) == (status, 1)
        assert said in done.err


def test_the_calls_of_a_file(command: Callable[..., Done], state: str) -> None:
    Path("lines.txt").write_text("to be or not to be\nbe\n")
    Path("words.csv").write_text("word\nbe\nto\nthat\n")
    Path("names.csv").write_text("user,name\n1,ann\nx,bob\n2,\n1,cid\n")
    with (
        StatefulLoop(WordCount, backend=state) as words,
        StatefulLoop(Names, backend=state) as names,
    ):
        words.serve()
        names.serve()
        assert command("call", "WordCount", "add", "--file", "lines.txt").status == 0
        done = command("call", "WordCount", "count", "--file", "words.csv", "--output", "out.csv")
        assert done.status == 0
        assert Path("out.csv").read_text() == "word,answer,error\nbe,3,\nto,2,\nthat,0,\n"
        assert command("call", "WordCount", "count", "--file", "words.csv").out == "3\n2\n0\n"
        done = command("call", "Names", "set_name", "--file", "names.csv", "--output", "out.csv")
        assert done.status == 1
        assert "names.csv, line 3: user is 'x'; it has to be an int; skipped" in done.lines[0]
        assert "1 of 3 calls raised, the first: " in done.lines[1]
        rows = Path("out.csv").read_text().splitlines()
        assert (rows[0], rows[1], rows[3]) == (
            "user,name,keep,answer,error", "1,ann,False,,", "1,cid,False,ann,"
        )  # fmt: skip
        assert "a name cannot be empty" in rows[2]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["wc.py:Words"], "wc.py has no Stateful subclass 'Words'; it has: WordCount"),
        (["none.py:WordCount"], "no such file: none.py"),
        (["wc.py:WordCount", "--feed", "add"], "write it as METHOD=FILES"),
        (["wc.py:WordCount", "--feed", "ad=a.txt"], "no method 'ad'; did you mean 'add'?"),
        (["wc.py:WordCount", "--feed", "count=a.txt"], "count changes no state"),
        (["wc.py:WordCount", "--feed", "add=b.txt"], "b.txt: no such file"),
        (["wc.py:WordCount", "--resume", "--replace"], "leave out one of the two"),
        (["wc.py:WordCount", "--partitions", "0"], "at least 1"),
    ],
)
def test_services_that_are_refused(
    command: Callable[..., Done], arguments: list[str], said: str
) -> None:
    Path("wc.py").write_text(SOURCE)
    Path("a.txt").write_text("be\n")
    done = command("serve", *arguments)
    assert (done.status, len(done.lines)) == (2, 1)
    assert said in done.err


def test_calls_that_were_acknowledged_are_not_dropped(
    command: Callable[..., Done], state: str
) -> None:
    Path("wc.py").write_text(SOURCE)
    with StatefulLoop(WordCount, backend=state) as flow:
        flow.add("be")
    done = command("serve", "wc.py:WordCount")
    assert (done.status, len(done.lines)) == (2, 1)
    assert "continue with `vertexsdk serve --resume`, give another --loop, or drop" in done.err
    done = command("state", "rescale", "WordCount", "--partitions", "2")
    assert "is of a stateful class, and not a main loop: continue with `vertexsdk serve" in done.err


@contextlib.contextmanager
def served(state: str, *more: str) -> Iterator[subprocess.Popen[str]]:
    """A process of `vertexsdk serve` that takes calls, or has ended."""
    arguments = [sys.executable, "-m", "vertexsdk", "serve", "wc.py:WordCount", "--resume", *more]
    with subprocess.Popen(
        [*arguments, "--feed", "add=inbox/", "--follow"], stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def count(state: str, word: str, at_least: int) -> int:
    """Ask for a count until it is so large."""
    end, answer = time.monotonic() + 90, -1
    while time.monotonic() < end and answer < at_least:
        with (
            contextlib.suppress(InputError, StateInputError, RunError),  # not yet, or no more
            StatefulClient("WordCount", backend=state) as client,
        ):
            answer = client.count(word)
        time.sleep(0.1)
    return answer


@pytest.mark.processes
def test_a_service_that_is_fed_and_killed(state: str) -> None:
    """Killed and resumed nothing is lost or doubled; SIGTERM ends it with a snapshot."""
    Path("wc.py").write_text(SOURCE)
    Path("inbox").mkdir()
    Path("inbox/1.txt").write_text("to be or not to be\n")
    with served(state, "--partitions", "2") as process:
        assert count(state, "be", 2) == 2
        process.kill()
        process.wait()
    Path("inbox/2.txt").write_text("be\n" * 5)
    with served(state) as process:
        assert count(state, "be", 7) == 7
        asked = [sys.executable, "-m", "vertexsdk", "call", "WordCount", "count", "be"]
        done = subprocess.run(asked, capture_output=True, text=True, timeout=60)
        assert (done.returncode, done.stdout, done.stderr) == (0, "7\n", "")
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 0
        assert process.stderr is not None
        assert "6 calls have changed state; add: 5 calls" in process.stderr.read()
    assert main(["query", "WordCount", "--key", "be"]) == 0
    with StatefulLoop.resume(WordCount, backend=state) as flow:
        assert flow.progress()["calls_since_snapshot"] == 0
