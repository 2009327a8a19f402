"""The benchmark of delay bounds at the smallest size: its grid, straggler, tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from benchmarks import document
from benchmarks.runner import CaseResult
from benchmarks.suites import asynchrony
from benchmarks.suites.asynchrony import (
    SUITE,
    Results,
    Sizes,
    SlowIterations,
    Spell,
    Straggler,
    idle,
    read_log,
)
from vertexsdk.engine.iterations import Iterations

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


def test_the_grid_is_the_same_for_ever_and_its_streets_lead_both_ways():
    source, target, length = next(asynchrony.grid_blocks(100))
    there = set(zip(source.tolist(), target.tolist(), length.tolist(), strict=True))
    assert there == {(t, s, x) for s, t, x in there}
    assert len(there) == len(source)
    apart = np.abs(source - target)
    assert set(apart.tolist()) == {1, 100}
    assert np.all((apart == 100) | (source // 100 == target // 100))  # none round the edge
    assert (length.min(), length.max()) == (1, 100)
    assert len(source) / (4 * 100 * 99) == pytest.approx(1 - asynchrony.MISSING, abs=0.005)
    assert (
        len(source),
        int(length.sum()),
        int((source * np.arange(len(source)) % 1009).sum()),
    ) == GRID


GRID = (37506, 1896674, 18931400)


def test_a_straggler_takes_longer_and_does_what_it_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    def compute(run: Iterations, *args: Any) -> str:
        time.sleep(0.05)
        return "computed"

    monkeypatch.setattr(Iterations, "_compute", compute)
    plan, none = SimpleNamespace(topologies=("a", "b")), cast(Any, None)
    log = str(tmp_path / "log")
    for least, lasts in ((0.0, 0.2), (0.1, 0.35)):
        for p in (0, 1):
            part = SimpleNamespace(partition=p, plan=plan)
            run = SlowIterations(part, none, none)
            run.straggler = Straggler(2, 4.0, log, least, turn=1e9)
            assert run._compute() == "computed"
        slow, fast = read_log(log)[-2:]
        assert (slow.partition, fast.partition) == (0, 1)
        assert 0.05 <= fast.ended - fast.began < 0.2
        assert slow.ended - slow.began >= lasts


def test_each_partition_is_slow_in_its_turn():
    straggler = Straggler(3, 4.0, "log", turn=0.5)
    turns = [straggler.slow_at(now) for now in (10.5, 10.9, 11.0, 11.5, 12.0)]
    assert turns == [0, 0, 1, 2, 0]


def test_idle_is_the_share_in_which_partitions_are_not_at_work():
    slow = [Spell(1, 0.0, 4.0), Spell(1, 4.0, 8.0)]
    assert idle([*slow, Spell(0, 0.0, 1.0), Spell(0, 4.0, 5.0)]) == pytest.approx(0.375)
    assert idle([*slow, Spell(0, 0.0, 8.0)]) == 0
    assert idle([*slow, Spell(0, 0.0, 8.0), Spell(2, 2.0, 6.0)]) == pytest.approx(1 / 6)


def _results(sizes: Sizes | None = None, others: float = 0.0, problem: str | None = None) -> str:
    """A report in which "auto" takes a tenth of the hops and a quarter of the time."""
    results = Results(MACHINE, ["bench", "asynchrony"], sizes or Sizes())

    def case(name: str, *runs: tuple[str, dict[str, float]]) -> None:
        figures = {f"{run} {k}": [v] for run, found in runs for k, v in found.items()}
        figures |= {"vertices": [9.0]} | {f"{run} checked": [1.0] for run, _ in runs}
        results.cases[name] = CaseResult(name, figures, problem, 5, 1, others)

    slow = {"seconds": 8.0, "hops": 2000.0, "prepares": 0.0, "updates": 50.0, "idle": 0.9}
    fast = {"seconds": 2.0, "hops": 200.0, "prepares": 40.0, "updates": 50.0, "idle": 0.2}
    fast |= {"delay_bound": 1024.0, "boundary_share": 0.01}
    case("a-few", ("B=1", slow), ("B=256", fast))
    late = {"late": 600.5, "hops": 1234.0}
    case("b-grid-structure", ("B=1", slow), ("B=4", late), ("auto", fast))
    del results.cases["b-grid-structure"].figures["B=4 checked"]
    case("b-rmat-hash", ("B=1", slow), ("auto", slow | {"seconds": 9.0}))
    case("c-grid", *((f"{b} {k}", f) for b, f in (("B=1", slow), ("auto", fast))
                     for k in ("even", "straggler")))  # fmt: skip
    timed = {"seconds": 1.0, "kernel": 1.0}
    case("d-components", ("B=1 alone", timed), ("B=256 beside", timed | {"kernel": 1.1}))
    return document.markdown(SUITE.document(results))


def test_tables_say_what_was_found():
    text = _results()
    assert (
        "| 4 | 256 | **2.00** (1, 2.00 to 2.00) | – | 200 | 50 | 40 | – | – | 0.8 | exact |" in text
    )
    assert "| grid, ldg, 1.00% of vertices at a boundary | auto: 1024 | 200 | 10× |" in text
    assert "| 4 | 1,234 | 1.62× | > 600 | – | – | – | – |" in text
    assert "| grid | auto | **2.00** (1, 2.00 to 2.00) |" in text
    assert "| 90% | 90% |" in text
    assert "| components | 1 of 2, the other is empty | 256 |" in text


def test_aims_are_judged_at_their_sizes_on_a_quiet_machine_only():
    whole = _results()
    assert "hops on the grid by structure, B=1 / auto | 10 × | ≥ 5 | reached |" in whole
    assert "seconds on R-MAT by hash, auto / B=1 | 1.125 × | ≤ 1.05 | **not reached** |" in whole
    assert "prepares at B=1, R-MAT, 4 partitions | 0  | ≤ 0 | reached |" in whole
    assert (
        "one slow / none slow on the grid, auto over B=1 | 1 × | ≤ 0.6 | **not reached** |" in whole
    )
    assert "sweeps / iterations, components | 1.1 × | ≤ 1.15 | reached |" in whole
    for other in (_results(Sizes(scale=19)), _results(Sizes(grid=30)), _results(others=0.3)):
        assert "| reached |" not in other
        assert "| **not reached** |" not in other
    wrong = _results(problem="wrong answer: 3 of 5 distances differ")
    assert "3 of 5 distances differ" in wrong
    assert "| exact |" not in wrong
    assert "seconds on the grid by structure, B=1 / auto | 4 × | ≥ 3 | reached |" in whole
    assert len({target.title for target in SUITE.targets}) == len(SUITE.targets)


def test_smoke_run(tmp_path: Path):
    out = tmp_path / "out"
    command = [
        sys.executable,
        "-m",
        "benchmarks",
        "asynchrony",
        "--scale",
        "8",
        "--parts",
        "c-rmat",
    ]
    command += ["--bounds", "1,8", "--partitions", "2", "--repeats", "1", "--partitioner", "fennel"]
    command += ["--out", str(out), "--cache", str(tmp_path / "cache")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=240)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    figures = json.loads(path.read_text())["cases"]["c-rmat"]["figures"]
    for name in ("B=1 even", "B=1 straggler", "B=8 even", "B=8 straggler"):
        assert figures[f"{name} checked"] == [1.0]
        assert 0 < figures[f"{name} idle"][0] < 1
    assert figures["B=1 even prepares"] == [0.0] != figures["B=8 even prepares"]
    text = path.with_suffix(".md").read_text()
    assert "## A straggler" in text
    assert str(tmp_path) not in text + path.read_text()


def test_bad_arguments_are_refused(capsys: pytest.CaptureFixture[str], tmp_path: Path):
    for bad in (
        "--parts=a,z",
        "--bounds=4,auto",
        "--bounds=1,0",
        "--bounds=1,x",
        "--scale=40",
        "--turn=0",
    ):
        with pytest.raises(SystemExit) as stop:
            SUITE.main([bad, "--cache", str(tmp_path)])
        assert stop.value.code == 2
    assert "Traceback" not in capsys.readouterr().err
