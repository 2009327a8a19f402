"""What a new user types first: help, the list of programs, a run; and where the seconds go."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path

import pytest

from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.cli import _main


def test_algorithms_are_listed_with_their_parameters(vertexsdk) -> None:
    done = vertexsdk("algorithms")
    lines = done.out.splitlines()
    assert (done.status, done.err) == (0, "")
    assert [line.split()[0] for line in lines] == sorted(ALGORITHMS)
    assert all(re.match(r"\w+ +[A-Z].{20,}\.", line) for line in lines)
    (sssp,) = [line for line in lines if line.startswith("sssp")]
    assert sssp.endswith("Parameters: origin (required).")
    (pagerank,) = [line for line in lines if line.startswith("pagerank")]
    assert "damping (default 0.85)" in pagerank


OWN = """\
from vertexsdk import Sum, Vertex, param, state
class Mine(Vertex):
    '''Counts to `limit`, slowly.

    And more.
    '''
    limit: int = param(7)
    word: str = param()
    x: float = state(0.0)
    messages = Sum(float)
    def gather(self, iteration, source, delta):
        self.x = delta.value
    def scatter(self, iteration):
        self.emitAll(float(self.limit))
"""


@pytest.mark.parametrize("command", ["run", "stream"])
def test_help_shows_the_parameters_of_a_program(vertexsdk, command: str) -> None:
    Path("own.py").write_text(OWN)
    done = vertexsdk(command, "own.py:Mine", "--help")
    assert (done.status, done.err) == (0, "")
    assert "--edges FILE" in done.out
    assert "mine: Counts to `limit`, slowly.\nThe output value is x." in done.out
    assert re.search(r"limit  int, default 7\n  word   str, required\n$", done.out)
    assert "personalise  a vertex id, default none" in vertexsdk(command, "pagerank", "--help").out
    alone = vertexsdk(command, "--help")
    assert alone.status == 0
    assert "parameters of" not in alone.out.replace("parameters of one", "")
    done = vertexsdk(command, "nope", "--help")
    assert (done.status, len(done.lines)) == (2, 1)


def test_mistakes_are_met_before_spark_starts(
    vertexsdk, edges: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def start(*_: object) -> None:
        raise AssertionError("Spark was started")

    monkeypatch.setattr(_main, "_spark", start)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        dead = f"redis://127.0.0.1:{free.getsockname()[1]}/0"
    for arguments, said in (
        (("--edges", "none.txt"), r"none\.txt: no such file; name an edge file"),
        (("--edges", edges, "--vertices", "no.txt"), r"no\.txt: no such file; name a vertex file"),
        (("--edges", edges, "--backend", dead), r"cannot be reached .*: start the server"),
        (("--edges", edges, "--backend", "lmdb:///dev/null"), r"/dev/null is a file"),
    ):
        for command in (("run", "wcc"), ("stream", "wcc", "--changes", edges)):
            done = vertexsdk(*command, *arguments)
            assert done.status in (1, 2), done.err
            assert len(done.lines) == 1
            assert re.search(said, done.err), done.err


def test_where_the_seconds_go(vertexsdk, edges: str) -> None:
    done = vertexsdk(
        "run", "wcc", "--edges", edges, "--engine", "local", "--stats", "s.json", "--output",
        "o.csv", "--verbose",
    )  # fmt: skip
    assert done.status == 0, done.err
    statistics = json.loads(Path("s.json").read_text())
    total, spent = statistics["total_seconds"], statistics["spent"]
    assert sum(spent.values()) == pytest.approx(total, rel=0.02)
    assert {"import", "check", "spark", "load", "compile", "kernel", "commit", "write"} <= {*spent}
    assert spent["write"] > 0
    (line,) = [line for line in done.lines if " s in all: " in line]
    assert re.match(rf"wcc-run: 5 vertices, .*; {total:.1f} s in all: \w+", line)
    table = [line for line in done.lines if re.match(r"  \w+ +\d+\.\d{3} s  \w", line)]
    assert sum(float(line.split()[1]) for line in table) == pytest.approx(total, abs=0.02)
