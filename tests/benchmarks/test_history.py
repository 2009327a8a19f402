"""The benchmark of answers after changes at the smallest size: its tables, and one run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import document
from benchmarks.runner import CaseResult
from benchmarks.suites import history as suite
from benchmarks.suites.history import SUITE, Sizes

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-28", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


def test_gains_are_ratios_to_a_run() -> None:
    r = suite.Results(MACHINE, ["bench", "history"], Sizes(changes=(1, 10)))
    figures = {"1 run": [1.0], "1 1 ingest": [0.01], "1 1 query": [0.01], "1 10 ingest": [0.5]}
    figures |= {"1 10 query": [0.5]}
    r.cases["triangles"] = CaseResult("triangles", figures, None, others=0.0)
    assert r.gain("triangles", 1, 1) == pytest.approx(50)
    assert r.least_gain() == pytest.approx(1)
    assert r.gain("triangles", 2, 1) is None
    text = document.markdown(SUITE.document(r))
    assert "| triangles | 1.00 | 0.0200 (50.0 ×) | 1.00 (1.0 ×) |" in text


def test_the_regret_is_beside_the_better_way() -> None:
    r = suite.Results(MACHINE, ["bench", "history"], Sizes(changes=(1, 10)))
    figures = {"1 bytes": [3.25], "1 1 ingest": [0.1], "1 1 query": [0.1], "1 10 ingest": [0.5]}
    figures |= {"1 10 query": [0.6], "1 1 init ingest": [0.5], "1 1 init query": [0.5]}
    figures |= {"1 run": [1.0], "1 10 init ingest": [0.5], "1 10 init query": [0.5]}
    r.cases["kcore"] = CaseResult("kcore", figures, None, others=0.0)
    assert r.regret("kcore", 1, 1) == 0.0
    assert r.mean_regret() == pytest.approx(0.05)
    assert r.regret("wcc", 1, 1) is None
    assert "| kcore | 3.2 | 0 % | 10 % |" in document.markdown(SUITE.document(r))


@pytest.mark.processes
def test_a_small_run(tmp_path: Path) -> None:
    command = [
        sys.executable, "-m", "benchmarks", "history", "--parts", "degree,wcc", "--scale", "8",
        "--repeats", "1", "--changes", "1,10", "--out", str(tmp_path),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stdout + done.stderr
    (report,) = tmp_path.glob("*.md")
    assert "| degree |" in report.read_text()
