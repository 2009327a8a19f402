"""The benchmark of snapshots at the smallest size: its changes, tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import document
from benchmarks.runner import CaseResult
from benchmarks.suites.snapshots import SUITE, Circle, Results, Sizes

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


def test_batches_lead_back_to_the_graph_that_they_began_with(tmp_path: Path) -> None:
    circle = Circle(6, tmp_path, 10)
    start = circle.graph(0).columns()
    edges = {(s, t): x for s, t, x in zip(*(c.tolist() for c in start), strict=True)}
    for number in range(40):
        batch = circle.changes(number)
        ends = batch.source.to_pylist(), batch.target.to_pylist()
        for kind, *pair, value in zip(batch.kind, *ends, batch.value, strict=True):
            assert (tuple(pair) in edges) == bool(kind)
            if kind:
                del edges[tuple(pair)]
            else:
                edges[tuple(pair)] = int(value)
        if number in (7, 30, 39):
            now = circle.graph(number + 1).columns()
            assert edges == {(s, t): x for s, t, x in zip(*(c.tolist() for c in now), strict=True)}
    assert len(edges) == len(start[0])


def _report(sizes: Sizes | None = None, others: float = 0.0, problem: str | None = None) -> str:
    r = Results(MACHINE, ["bench", "snapshots"], sizes or Sizes())

    def case(name: str, **figures: list[float]) -> None:
        named = {key.replace("_", " "): values for key, values in figures.items()}
        r.cases[name] = CaseResult(name, named, problem, others=others)

    case("intervals-2", none_3=[200.0, 100.0, 200.0], asynchronous_3=[196.0], synchronous_3=[80.0])
    case("intervals-4", none_3=[200.0], asynchronous_3=[180.0], synchronous_10=[70.0])
    r.cases["pause-1"] = CaseResult(
        "pause-1", {"100 MB 1 % pause": [0.001] * 90 + [0.02] * 10}, others=others
    )
    r.cases["pause-2"] = CaseResult("pause-2", {"100 MB 1 % pause": [0.001] * 9})
    case("restore", **{"1_to_1": [4.0], "2_to_2": [2.0], "2_to_4": [1.5], "bytes_2": [9e8]})
    case("loss", answered=[2.0, 3.0], **{f"rate_{k}": [float(k)] for k in range(26)})
    case("day", bytes_10=[1e6], bytes_100=[2.5e6], segments_100=[300.0])
    return document.markdown(SUITE.document(r))


def test_tables_and_targets_say_what_was_measured() -> None:
    text = _report()
    for line in (
        "| 3 s | asynchronous | 196 | 0.98× |",
        "asynchronous snapshots every 3 s / none, 2 processors | 0.98 × | ≥ 0.97 | reached |",
        "every 3 s / none, 4 processors | 0.9 × | ≥ 0.97 | **not reached** |",
        "100 MB, 1 % of the rows, 1 partitions | 20 ms | ≤ 5 | **not reached** |",
        "| 100 MB | 2 | 1 % | 9 | 1 | 1 |",
        "restored by 1 from 1 / by 2 from 2 | 2 × | ≥ 1.6 | reached |",
        "| 2 | 4 | **1.50** (1, 1.50 to 1.50) |",
        "the next answer after a processor is killed | 2.5 s | ≤ 5 | reached |",
        "bytes on disk after a day / after a tenth of it | 2.5 × | ≤ 2 | **not reached** |",
        "| 100 % | 2.5 | 300 |",
    ):
        assert line in text, line
    assert "1 % of the rows, 2 partitions" not in text  # of too few snapshots
    for other in (_report(Sizes(scale=9)), _report(others=0.5)):
        assert "| reached |" not in other
        assert "not reached" not in other
    wrong = _report(problem="wrong answer: 3 of 5 distances differ")
    assert "3 of 5 distances differ" in wrong
    assert "0.98" not in wrong
    assert len({target.title for target in SUITE.targets}) == len(SUITE.targets)


def test_smoke_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "benchmarks", "snapshots",
        "--parts", "intervals-inprocess,pause-2,day", "--scale", "8", "--batch", "200",
        "--intervals", "0.1", "--turn", "0.5", "--turns", "1", "--states", "1", "--shares", "1",
        "--pauses", "5", "--snapshots", "100",
        "--out", str(out), "--cache", str(tmp_path / "cache"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    cases = json.loads(path.read_text())["cases"]
    figures = cases["intervals-inprocess"]["figures"]
    assert figures["none 0.1"][0] > 0
    for kind in ("asynchronous", "synchronous"):
        assert figures[f"{kind} 0.1 count"][0] >= 1
    assert np.all(np.array(cases["pause-2"]["figures"]["1 MB 1 % pause"]) > 0)
    assert cases["day"]["figures"]["snapshots"] == [100.0]
    text = path.with_suffix(".md").read_text()
    assert "stated for other sizes" in text
    assert str(tmp_path) not in text + path.read_text()


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    for bad in ("--parts=none", "--intervals=0,1", "--intervals=x", "--scale=40", "--states=0.5"):
        with pytest.raises(SystemExit) as stop:
            SUITE.main([bad, "--cache", str(tmp_path)])
        assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
