"""`vertexsdk stream`: a base file, change files, an answer every so many changes."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Call

CHANGES = "+ 1 4 0.5\n- 2 3\n~ 3 4 9\nbad line\n- 9 9\n+ 7 1 3 # comment\n+ 4 5 0.25\n- 5 6\n"


@pytest.fixture
def base(state: str) -> str:
    Path("base.txt").write_text("1 2 1\n2 3 1\n3 4 1\n5 6 2\n")
    Path("changes.txt").write_text(CHANGES)
    return "base.txt"


def rows(path: str) -> dict[str, str]:
    head, *lines = Path(path).read_text().splitlines()
    assert head == "vertex,value"
    return dict(line.split(",") for line in lines)


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
    assert any("line 4: 'bad' is no sign of a change" in line for line in done.lines)
    assert done.lines[-1] == (
        "7 changes: 3 edges added, 2 removed, 1 given another value, "
        "1 of edges that are not there, 1 bad lines left out"
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
        ("bad line", "changes.txt, line 2: 'bad' is no sign of a change"),
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
