"""The benchmark of stateful classes at the smallest size: its tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from benchmarks import document
from benchmarks.keyed import table
from benchmarks.keyed.cases import CASES
from benchmarks.keyed.sizes import Sizes
from benchmarks.runner import CaseResult

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}


def _report(sizes: Sizes | None = None, others: float = 0.0) -> str:
    r = table.Results(MACHINE, ["bench", "keyed"], sizes or Sizes())
    for case, put in (("valkey", 2e5), ("lmdb-1", 1.5e6)):
        figures = {"put": [put], "get": [0.5 * put], "one put": [6e-4], "one get": [2e-3]}
        r.cases[case] = CaseResult(case, figures, None, others=others)
    return document.markdown(table.document(r))


def test_tables_and_targets_say_what_was_measured() -> None:
    text = _report()
    for line in (
        "| put in bulk, LMDB | 1.5 M/s | ≥ 1 | reached |",
        "| get in bulk, LMDB | 0.75 M/s | ≥ 1 | **not reached** |",
        "| put, LMDB / Valkey | 7.5 × | ≥ 5 | reached |",
        "| one put, LMDB | 0.6 ms | ≤ 1 | reached |",
        "| one get, LMDB | 2 ms | ≤ 1 | **not reached** |",
        "| Valkey, pipelines of 1,000, appendfsync everysec | 200,000 | 100,000 |",
    ):
        assert line in text, line
    for other in (_report(Sizes(keys=9)), _report(others=0.5)):
        assert "reached |" not in other
    assert CASES.keys() == table._TITLES.keys()


def test_smoke_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "benchmarks", "keyed", "--parts", "dict,lmdb-1,strings-1",
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
