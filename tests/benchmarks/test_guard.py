"""The regression guard: what it compares with what, and what makes it fail. Without Spark."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks import guard as command
from benchmarks.guard import Comparison, Stored, better, compared, failed, read, stored_as
from benchmarks.timing import in_turns

MACHINE = {"date": "2026-01-02 03:04 UTC", "processor": "P", "cores": 2, "revision": "abc"}


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "guard.json"
    lines = {"rank": {"ratio": 2.0, "factor": 3.0}, "load": {"ratio": 0.5, "factor": 1.5}}
    path.write_text(json.dumps({"lines": lines}))
    return path


def run(
    monkeypatch: pytest.MonkeyPatch, path: Path, *found: list[Comparison], more: str = ""
) -> int:
    """The command, with what its process would have measured the first and the second time."""
    turns = iter(found)
    monkeypatch.setattr(command, "measured", lambda cache, limit: next(turns))
    arguments = ["--file", str(path), "--cache", str(path.parent), *more.split()]
    return command.main(arguments)


def test_a_line_fails_only_beyond_its_own_margin(stored: Path):
    lines = read(stored)
    within = [Comparison("rank", "SciPy", [5.9, 1.0]), Comparison("load", "SciPy", [0.74, 1.0])]
    assert failed(within, lines) == []
    beyond = [Comparison("rank", "SciPy", [6.1, 1.0]), Comparison("load", "SciPy", [0.76, 1.0])]
    assert failed(beyond, lines) == [
        "rank: 3.0 times the stored ratio",
        "load: 1.5 times the stored ratio",
    ]


def test_a_line_which_is_not_measured_or_wrong_fails(stored: Path):
    lines = read(stored)
    found = [Comparison("load", "SciPy", [0.1, 1.0], "wrong answer: 3 distances differ")]
    assert failed(found, lines) == [
        "rank: stored, but not measured",
        "load: wrong answer: 3 distances differ",
    ]
    new = [
        Comparison("rank", "SciPy", [1, 1]),
        Comparison("load", "SciPy", [0, 1]),
        Comparison("new", "x", [9, 1]),
    ]
    assert failed(new, lines) == []


def test_the_table_shows_stored_and_found(stored: Path):
    found = [
        Comparison("rank", "SciPy", [0.25, 0.1]),
        Comparison("load", "SciPy", [0.8, 1.0]),
        Comparison("new", "x", [1, 2]),
        Comparison("lost", "x", [], "did not start"),
    ]
    rows = [line.strip("| ").split(" | ") for line in compared(found, read(stored)).splitlines()]
    assert rows[2] == ["rank", "SciPy", "0.25", "0.1", "2.5", "2", "6", "good"]
    assert rows[3][-1] == "**beyond its margin**"
    assert rows[4][-1] == "not stored yet"
    assert rows[5][-1] == "**did not start**"
    faster = compared([Comparison("rank", "SciPy", [0.05, 0.1])], read(stored))
    assert "better by more than its margin" in faster


def test_the_exit_status_and_a_second_look(
    stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    good = [Comparison("rank", "SciPy", [2, 1]), Comparison("load", "SciPy", [0.5, 1])]
    slow = [Comparison("rank", "SciPy", [7, 1]), Comparison("load", "SciPy", [0.5, 1])]
    assert run(monkeypatch, stored, good) == 0
    assert run(monkeypatch, stored, slow, good) == 0
    assert run(monkeypatch, stored, slow, slow) == 1
    assert "check: rank: 3.5 times the stored ratio" in capsys.readouterr().err


def test_store_keeps_margins_and_is_read_again(stored: Path, monkeypatch: pytest.MonkeyPatch):
    found = [Comparison("load", "SciPy", [0.12345, 1]), Comparison("new", "x", [3, 1])]
    assert run(monkeypatch, stored, found, more="--store") == 0
    assert read(stored) == {"load": Stored(0.123, 1.5), "new": Stored(3.0, 3.0)}
    assert json.loads(stored.read_text())["machine"]
    before = stored.read_text()
    wrong = [Comparison("load", "SciPy", [], "wrong answer")]
    assert run(monkeypatch, stored, wrong, more="--store") == 1
    assert stored.read_text() == before
    assert stored_as(found, {}, MACHINE)["stored"] == MACHINE["date"]


@pytest.mark.parametrize(
    "text", ["", "[]", '{"lines": {"a": {"ratio": 0, "factor": 3}}}', '{"lines": {"a": {}}}']
)
def test_a_bad_file_is_one_line(
    text: str, stored: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    stored.write_text(text)
    assert run(monkeypatch, stored) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_the_better_of_two_and_turns():
    first = [
        Comparison("a", "x", [4, 1]),
        Comparison("b", "x", [1, 1]),
        Comparison("c", "x", [], "wrong"),
    ]
    second = [
        Comparison("a", "x", [2, 1]),
        Comparison("b", "x", [3, 1]),
        Comparison("c", "x", [1, 1]),
    ]
    best = better(first, second)
    assert [(f.title, f.problem, f.seconds) for f in best] == [
        ("a", None, [2, 1]),
        ("b", None, [1, 1]),
        ("c", "wrong", []),
    ]
    said: list[str] = []
    times = {"ours": iter([3.0, 1.0, 2.0]), "peer": iter([5.0, 6.0, 4.0])}

    def side(name: str) -> float:
        said.append(name)
        return next(times[name])

    assert in_turns(3, [lambda: side("ours"), lambda: side("peer")]) == [1.0, 4.0]
    assert said == ["ours", "peer"] * 3


def test_the_stored_file_of_the_repository_is_good():
    assert len(read(command.STORED)) >= 8


def test_a_process_that_does_not_end_is_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(command.sys, "executable", "/bin/cat")  # cat: no such option
    (line,) = command.measured(tmp_path, 10)
    assert line.problem == "the measuring process ended with status 1"
