"""All suites in turn: what each is called with, what they come to, that one failure stops none."""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import pytest

from benchmarks import every
from benchmarks.document import Document, Section, Table, save
from benchmarks.registry import SUITES, Suite, fit_in
from benchmarks.summary import Ran, summary

MACHINE = {
    "date": "2026-01-02 03:04 UTC", "processor": "P", "cores": 2, "memory": 8 << 30,
    "load_average": 0.5, "system": "Linux", "python": "3.11", "revision": "abc", "versions": {},
}  # fmt: skip
AIMS = [["load", "9 s", "≤ 8", "**not reached**"], ["run", "1 s", "≤ 8", "reached"]]
AIMS += [["hop", "1 ms", "≤ 60", "machine not quiet"]]
WRONG = [["run", "wrong answer: 3 distances differ"]]


def result(folder: Path, stem: str = "batch-x") -> list[Path]:
    aims = Table(["what ours must reach", "measured", "aim", ""], AIMS)
    parts = [aims, Table(["", "SciPy"], WRONG)]
    made = Document("batch", "T", "about", "./dev bench batch", MACHINE, "", "**Not quiet.**")
    made.sections.append(Section("All", parts=parts))
    return save(made, {}, folder, stem)


@pytest.mark.parametrize("suite", SUITES.values(), ids=list(SUITES))
def test_every_suite_takes_what_it_is_said_to(suite: Suite, capsys: pytest.CaptureFixture[str]):
    with pytest.raises(SystemExit) as ended:
        suite.load().main(["--help"])
    assert ended.value.code == 0
    known = set(re.findall(r"--[a-z-]+", capsys.readouterr().out))
    assert {"--out", "--cache", *suite.takes} <= known
    assert bool(suite.quick()) == suite.always
    assert {w.partition("=")[0] for w in suite.quick() if w.startswith("--")} <= known


def options(*words: str) -> argparse.Namespace:
    return every._parser().parse_args(list(words))


def test_options_go_to_the_suites_that_take_them(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(Suite, "load", lambda self: argparse.Namespace(quick="--repeats 1"))
    asked = options("--quick", "--scale", "12", "--edges", "e.txt", "--out", "O", "--cache", "C")
    places = ["--out", "O", "--cache", "C"]
    both, none = Suite("a", ("--scale", "--edges")), Suite("b")
    assert every.arguments_for(both, asked) == [
        "--repeats", "1", "--scale", "12", "--edges", "e.txt", *places,
    ]  # fmt: skip
    assert every.arguments_for(SUITES["scaling"], asked)[2:-4] == [
        "--scales", "8..12", "--scale", "14",
    ]  # fmt: skip
    assert every.arguments_for(none, asked) == ["--repeats", "1", *places]
    assert every.arguments_for(both, options("--out", "O", "--cache", "C")) == places


def test_a_size_that_fits_the_machine():
    gib = 1 << 30
    assert fit_in(22 * gib, 2) == 20
    assert fit_in(22 * gib, 1) == 19
    assert fit_in(8 * gib, 2) == 19
    assert fit_in(256 * gib, 64) == 22
    assert fit_in(256 * gib, 4) == 21
    assert fit_in(1, 0) == 12
    memory = [fit_in(2**k, 64) for k in range(20, 45)]
    assert memory == sorted(memory)


def test_bad_arguments_are_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    with pytest.raises(SystemExit) as ended:
        every.main(["--suites", "batch,nonsense"])
    assert ended.value.code == 2
    assert "no suite 'nonsense'" in capsys.readouterr().err
    assert every.main(["--edges", str(tmp_path / "none.txt")]) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1


SCRIPT = """
import shutil, sys, time
print("told", file=sys.stderr)
name, made, out = sys.argv[1:]
if name == "asynchrony":
    time.sleep(60)
if name == "batch":
    shutil.copytree(made, out, dirs_exist_ok=True)
sys.exit(dict(batch=0, evolving=1)[name])
"""


def test_all_run_even_if_one_fails_or_takes_too_long(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
):
    def command(suite: Suite, arguments: list[str]) -> list[str]:
        return [sys.executable, "-S", "-c", SCRIPT, suite.name, str(made), str(out)]

    made, out = tmp_path / "made", tmp_path / "out"
    result(made)
    monkeypatch.setattr(every, "command_of", command)
    names = "evolving,asynchrony,batch"
    words = ["--suites", names, "--scale", "8", "--out", str(out), "--time-limit", "3"]
    assert every.main([*words, "--cache", str(tmp_path / "cache")]) == 1
    said, told = capfd.readouterr()
    assert told.count("told") == 3
    assert "[2/3] asynchrony" in told
    assert "evolving: failed, or an answer is wrong" in said
    assert "asynchrony: ended after its limit of 3 s" in said
    assert "batch: done; 1 of 2 aims reached; 1 not judged: machine not quiet" in said
    assert f"the page: {out / 'index.html'}" in said
    assert (out / "index.html").exists()


def test_the_summary_names_what_went_wrong(tmp_path: Path):
    written = result(tmp_path)
    lines = summary([Ran("batch", 1, 2.0, 9.0, written), Ran("state", -9, 1.0, 9.0, [])], None)
    assert lines.splitlines() == [
        "batch: failed, or an answer is wrong; 1 of 2 aims reached; "
        "1 not judged: machine not quiet",
        "  not reached: load: 9 s, aim ≤ 8",
        "  WRONG: run, SciPy: wrong answer: 3 distances differ",
        "  Not quiet.",
        *(f"  {path}" for path in written),
        "state: ended with status -9",
    ]
    assert [Ran("x", ended, 1, 1, []).status for ended in (0, 1, 2, -9, 143, None)] == [
        0, 1, 2, 1, 1, 1,
    ]  # fmt: skip
