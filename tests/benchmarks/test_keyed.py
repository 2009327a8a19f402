"""The benchmark of stateful classes at the smallest size: its tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from benchmarks import document
from benchmarks.runner import CaseResult, Notes
from benchmarks.suites import keyed as suite
from benchmarks.suites.keyed import CASES, SUITE, Sizes

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


def test_what_was_not_measured_is_said_once() -> None:
    r = suite.Results(MACHINE, ["bench", "keyed"], Sizes())
    r.cases["count-spark"] = CaseResult("count-spark", {}, "it was lost")
    assert document.markdown(SUITE.document(r)).count("**Not measured:** count-spark") == 1


def _report(sizes: Sizes | None = None, others: float = 0.0) -> str:
    r = suite.Results(MACHINE, ["bench", "keyed"], sizes or Sizes())

    def case(name: str, **figures: list[float]) -> None:
        named = {key.replace("_", " "): values for key, values in figures.items()}
        r.cases[name] = CaseResult(name, named, None, others=others)

    for name, put in (("valkey", 2e5), ("lmdb-1", 1.5e6)):
        case(name, put=[put], get=[0.5 * put], one_put=[6e-4], one_get=[2e-3])
    puts = {"100 MB none 10": [100.0], "100 MB asynchronous 10": [96.0, 97.0, 90.0]}
    case("states", **puts, **{"100 MB asynchronous 10 longest": [0.2]})
    case("processors", **{"4 × 25 MB none 2": [8e5]})
    case("count-lmdb", events=[9e5])
    case("count-spark", events=[3e4])
    case("words-lmdb", **{"10 ms": [0.0], "25 ms": [4e5], "50 ms": [5e5], "100 ms": [6e5]})
    case("words-bytewax", not_installed=[1.0])
    case("words-spark", **{"micro-batch 10000": [0.5]})
    case("restore", **{"1 to 1": [9.0], "2 to 2": [5.0]})
    case("ratings-lmdb", **{"1:5": [900.0]})
    case("ratings-spark", **{"1:5": [90.0]})
    case("chain", **{"chain none 3": [200.0], "chain asynchronous 3": [190.0]})
    return document.markdown(SUITE.document(r))


def test_tables_and_targets_say_what_was_measured() -> None:
    text = _report()
    for line in (
        "| put in bulk, LMDB |  | 1.5 M/s | ≥ 1 | reached |",
        "| get in bulk, LMDB |  | 0.75 M/s | ≥ 1 | **not reached** |",
        "| put, LMDB / Valkey | Valkey | 7.5 × | ≥ 5 | reached |",
        "| one put, LMDB |  | 0.6 ms | ≤ 1 | reached |",
        "| one get, LMDB |  | 2 ms | ≤ 1 | **not reached** |",
        "| Valkey, pipelines of 1,000, appendfsync everysec | 200,000 | 100,000 |",
        "asynchronous snapshots every 10 s | no snapshots | 0.96 × | ≥ 0.95 | reached |",
        "| 100 MB | 10 s | asynchronous | 96 | 0.96× | **0.200** (1) |",
        "| 4 × 25 MB | 2 s | none | 800,000 | 1× |",
        "| transformWithStateInPandas, RocksDB | 30 × | ≥ 20 | reached |",
        "lengths kept up with |  | 3 of 4 | ≥ 4 | **not reached** |",
        "| words/s in windows of 10 ms | Bytewax | not installed | – | shown |",
        "| stateful class | not kept up with | 400,000 | 500,000 | 600,000 |",
        "| 10,000 lines | 0.500 s | 200,000 |",
        "1,000 MB restored by 2 processors from 2 | 1 from 1 | 1.8 × | ≥ 1.6 | reached |",
        "| recommendations to ratings 1:5 | Structured Streaming | 10× | – | shown |",
        "three shuffles, asynchronous snapshots every 3 s | no snapshots | 0.95 × | ≥ 0.97 |",
    ):
        assert line in text, line
    for other in (_report(Sizes(keys=9)), _report(others=0.5)):
        assert "reached |" not in other
    assert {case for group in SUITE.groups.values() for case in group} <= CASES.keys()
    assert len({target.title for target in SUITE.targets}) == len(SUITE.targets)


class _Clock:
    """Time that passes when somebody sleeps, and what was noted."""

    def __init__(self) -> None:
        self.now, self.figures = 0.0, dict[str, float]()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def perf_counter(self) -> float:
        return self.now

    def note(self, name: str, value: float) -> None:
        self.figures[name] = value


@pytest.mark.parametrize(("each", "fixed", "right"), [(0.0005, 0.0, 76), (0.0, 0.06, 0)])
def test_as_many_lines_as_a_window_has_time_for(
    each: float, fixed: float, right: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock: Any = _Clock()
    monkeypatch.setattr(suite, "time", clock)
    search = suite.sustained(clock, 50, 1.0)
    lines = next(search, 0)
    while lines:
        took = lines * each + fixed
        clock.sleep(took)
        try:
            lines = search.send(took)
        except StopIteration:
            break
    assert clock.figures == {"50 ms": pytest.approx(right * 10 / 0.05)}


class _Process(Notes):
    """What a case needs of its process."""

    def __init__(self, scratch: Path) -> None:
        self.scratch, self.figures = scratch, dict[str, list[float]]()

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(value)


@pytest.mark.parametrize(
    ("case", "figure"),
    [
        ("lists-1", "get"), ("states", "1 MB none 0.1"), ("chain-inprocess", "chain none 0.1"),
        ("count-lmdb", "events"), ("words-lmdb", "100 ms"), ("ratings-lmdb", "5:1"),
    ],
)  # fmt: skip
def test_cases_without_spark_have_right_answers(case: str, figure: str, tmp_path: Path) -> None:
    process: Any = _Process(tmp_path)
    sizes = Sizes(
        keys=500, calls=2000, turns=1, states=(1,), kinds=("none",), intervals=(0.1,),
        chain_intervals=(0.1,), turn=0.1, rounds=1, events=5000, counted=100, windows=(100,),
        seconds=0.2, repeats=1, ratings=300, requests=30,
    )  # fmt: skip
    CASES[case](process, sizes)
    assert process.figures[figure]


def test_smoke_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "benchmarks", "keyed", "--parts", "dict,lmdb-1",
        "--keys", "500", "--calls", "2000", "--turns", "1", "--single", "3",
        "--out", str(out), "--cache", str(tmp_path / "cache"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    cases = json.loads(path.read_text())["cases"]
    assert cases["lmdb-1"]["figures"]["put"][0] > 0
    assert len(cases["lmdb-1"]["figures"]["one get"]) == 3
    text = path.with_suffix(".md").read_text()
    assert "stated for other sizes" in text
    assert str(tmp_path) not in text + path.read_text()
