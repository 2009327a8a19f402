"""What the README and the pages that go on from it show is what runs: program, commands, Python."""

from __future__ import annotations

import csv
import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import networkx as nx
import pytest
from pyspark.sql import SparkSession

from vertexsdk.cli import main

pytestmark = pytest.mark.full  # runs the README

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()


def blocks(text: str) -> list[str]:
    return re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)


PROGRAM, WITHOUT_SPARK, ON_SPARK, CHANGING = blocks((ROOT / "docs" / "start.md").read_text())
(STREAM,) = blocks((ROOT / "docs" / "streams.md").read_text())
COMMANDS = re.findall(r"^vertexsdk (run examples/.*|query distance .*)$", README, re.M)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A directory with the README's program and the examples, to run things in."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    (tmp_path / "examples" / "distance.py").write_text(PROGRAM)
    return tmp_path


def python(*arguments: str | Path, cwd: Path) -> str:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=cwd, capture_output=True, text=True, timeout=240
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def distances(edges: Path, origin: str) -> dict[str, float]:
    """The oracle: every vertex's distance from `origin`, by NetworkX."""
    graph = nx.read_edgelist(edges, create_using=nx.DiGraph)
    reached = nx.single_source_shortest_path_length(graph, origin)
    return {vertex: float(reached.get(vertex, "inf")) for vertex in graph}


def test_the_program_is_the_example() -> None:
    assert (ROOT / "examples" / "distance.py").read_text() == PROGRAM


def test_the_readme_shows_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    *program, keyed = blocks(README)
    assert program == [PROGRAM, WITHOUT_SPARK]
    (tmp_path / "words.py").write_text(keyed)
    runpy.run_path(str(tmp_path / "words.py"))
    assert capsys.readouterr().out == "2\n"
    assert len(README.splitlines()) < 150


def test_the_program_has_ten_lines() -> None:
    body = re.sub(r'""".*?"""', "", PROGRAM)
    assert len([line for line in body.splitlines() if line.strip()]) <= 10


def test_commands(
    checkout: Path,
    spark: SparkSession,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    """In this process, on the tests' session; the demo starts a process for each of the two."""
    monkeypatch.chdir(checkout)
    state = f"lmdb://{checkout / 'state'}"
    ran, asked = (
        shlex.split(line.replace("lmdb:///tmp/vertexsdk-state", state)) for line in COMMANDS
    )
    assert main(ran) == 0
    with (checkout / "distance.csv").open(newline="") as file:
        values = {row["vertex"]: float(row["value"]) for row in csv.DictReader(file)}
    expected = distances(ROOT / "examples" / "data" / "stdlib-imports.txt", "asyncio")
    assert values == expected
    capfd.readouterr()
    assert main(asked) == 0
    assert f"{expected['sys']}" in capfd.readouterr().out


def test_from_python(checkout: Path) -> None:
    script = checkout / "examples" / "script.py"
    inbox = checkout / "examples" / "inbox"
    inbox.mkdir()
    (inbox / "1.csv").write_text("+,json,re\n-,asyncio,asyncio.events\n")
    script.write_text(WITHOUT_SPARK + ON_SPARK + CHANGING + STREAM + "spark.stop()\n")
    printed = python(script, cwd=checkout / "examples")
    expected = distances(ROOT / "examples" / "data" / "stdlib-imports.txt", "asyncio")
    assert str(expected["sys"]) in printed
    assert expected["json"] != 1.0  # or the change below would change nothing
    assert "{'json': {'steps': 1.0}}" in printed
    assert "asyncio" in printed
    assert re.search(r"^2 changes .* 0 behind \{'re': \{'steps': 2.0\}\}$", printed, re.M)


def test_without_spark_and_java(checkout: Path) -> None:
    script = checkout / "examples" / "script.py"
    script.write_text(WITHOUT_SPARK + "import sys\nprint('pyspark' in sys.modules)\n")
    printed = python(script, cwd=checkout / "examples").splitlines()
    expected = distances(ROOT / "examples" / "data" / "stdlib-imports.txt", "asyncio")
    assert printed == [str({"sys": {"steps": expected["sys"]}}), "False"]
