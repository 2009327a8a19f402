"""The benchmark of triggers at the smallest size: its pages, tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import document
from benchmarks.answers import Wrong
from benchmarks.runner import CaseResult, Notes
from benchmarks.suites import triggers as suite
from benchmarks.suites.triggers import CASES, DIMENSIONS, SUITE
from benchmarks.triggers import pages
from benchmarks.triggers.sizes import Sizes

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}
SMALL = Sizes(
    rows=200, pairs=2, graph=20, degrees=(3,), partials=(5, 40), totals=4, texts=40, pages=40,
    shares=(1.0, 50.0), items=(60, 100), clusters=5, turns=2,
)  # fmt: skip


def test_what_was_not_measured_is_said_once() -> None:
    r = suite.Results(MACHINE, ["bench", "triggers"], Sizes())
    r.cases["reuse"] = CaseResult("reuse", {}, "it was lost")
    assert document.markdown(SUITE.document(r)).count("**Not measured:** reuse") == 1


def _results(sizes: Sizes | None = None, others: float = 0.0) -> suite.Results:
    r = suite.Results(MACHINE, ["bench", "triggers"], sizes or Sizes())

    def case(name: str, figures: dict[str, list[float]]) -> None:
        r.cases[name] = CaseResult(name, figures, None, others=others)

    case("writes-lmdb", {
        "none": [2e5], "silent": [1.9e5], "none kept": [1.0] * 3, "silent kept": [0.98, 0.9, 0.99],
        "+1 kept": [0.5],
    })  # fmt: skip
    case("preemption", {"200 every": [9.0], "200 every events": [5e5], "200 every runs": [5e5]})
    sums = {f"800 Sum(float) {how}": [s] for how, s in (("with", 2e-5), ("without", 5e-5))}
    case("reuse", sums | {f"{name} accumulation": [s[0] / 10] for name, s in sums.items()})
    ours = {"0.01": [0.001], "0.1": [0.01], "1": [0.1], "10": [1.0], "100": [10.0]}
    case("words-ours", {**ours, "all pages": [5.0]})
    case("words-spark", {"batch": [1.0, 3.0, 2.0]})
    case("words-pathway", {"not installed": [1.0]})
    case("pagerank-ours", {share: [30 * s[0]] for share, s in ours.items()})
    case("pagerank-spark", {"batch": [10.0]})
    case("clustering", {
        "1000": [1.0], "1000 iterations": [4.0], "mllib 1000": [0.5], "10000": [2.0],
        "mllib 10000": [3.0], "50000": [9.0], "mllib 50000": [90.0],
    })  # fmt: skip
    return r


def test_tables_and_targets_say_what_was_measured() -> None:
    text = document.markdown(SUITE.document(_results()))
    for line in (
        "| writes with a trigger that does not run, LMDB | no triggers | 0.98 × | ≥ 0.97 | reached",
        "| writes with a +1 for each, LMDB | no triggers | 0.5 × | ≥ 0.88 | **not reached** |",
        "| word count, 1 % changes | Spark | 20 × | ≥ 20 | reached |",
        "| PageRank, 1 % changes | Spark | 3.333 × | ≥ 20 | **not reached** |",
        "| clustering, least of all numbers of items | MLlib | 0.5 × | ≥ 1 | **not reached** |",
        "| word count: the batch job is faster from | Spark | 20 % | – | shown |",
        "| PageRank: the batch job is faster from | Spark | 3.3 % | – | shown |",
        "| word count, 1 % changes | Pathway | not installed | – | shown |",
        "| LMDB | one that does not run | 190,000 | 0.98× |",
        "| 200 | every | 500,000 | 500,000 | 9.00 |",
        "| Sum(float) | 800 | 20.0 | 50.0 | 2.5× | 2.0 | 5.0 | 2.5× |",
        "| 10 % | **1.00** (1, 1.00 to 1.00) | 2.00 | 2× |",
        "| all pages, new | **5.00** (1, 5.00 to 5.00) | 2.00 | 0.4× |",
        "| 1,000 | 4 | 1.00 | 0.500 | 0.5× |",
    ):
        assert line in text, line
    for other in (_results(Sizes(rows=9)), _results(others=0.5)):
        assert "reached |" not in document.markdown(SUITE.document(other))
    assert {case for group in SUITE.groups.values() for case in group} <= CASES.keys()
    assert len({target.title for target in SUITE.targets}) == len(SUITE.targets)


def test_where_the_batch_job_is_faster() -> None:
    r = _results()
    for seconds, where in (([0.0001], "below 0.01 %"), ([50.0], "above 100 %"), ([], "–")):
        r.cases["words-spark"].figures["batch"] = seconds
        assert r.crossover("words") == where


def test_charts_have_a_line_for_each_system() -> None:
    report = SUITE.document(_results())
    charts = [part for s in report.sections for part in s.parts if isinstance(part, document.Chart)]
    words_chart, _ = charts
    assert words_chart.x == list(Sizes().shares)
    assert [(s.name, s.values[0]) for s in words_chart.series] == [("ours", 0.001), ("Spark", 2.0)]


def test_so_many_pages_change() -> None:
    changing = pages.Pages(200, pages.texts)
    before = changing.graph()
    urls, values = changing.change(10)
    assert len(set(urls)) == len(values) == 20
    assert changing.graph() == before | dict(zip(urls, values, strict=True))
    assert {len(text.split()) for text in values} == {50}
    assert len(changing.change(0.01)[0]) == 1
    assert pages.Pages(200, pages.texts).change(10) == (urls, values)
    graph = pages.Pages(50, pages.links).graph()
    assert all(0 < len(set(own)) == len(own) and set(own) <= graph.keys() for own in graph.values())


class _Process(Notes):
    """What a case needs of its process."""

    def __init__(self, scratch: Path) -> None:
        self.scratch = self.cache = scratch
        self.figures: dict[str, list[float]] = {}

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(float(value))


@pytest.mark.parametrize(
    ("case", "figure", "count"),
    [
        ("writes-memory", "+1 kept", 2), ("writes-lmdb", "none", 2),
        ("preemption", "3 every runs", 1), ("reuse", "40 Sum(float) without accumulation", 20),
        ("words-ours", "50", 2), ("words-pathway", "not installed", 1), ("pagerank-ours", "1", 2),
    ],
)  # fmt: skip
def test_cases_without_spark_have_right_answers(
    case: str, figure: str, count: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VERTEXSDK_PATHWAY_PYTHON", str(tmp_path / "none"))
    process: Any = _Process(tmp_path)
    CASES[case](process, SMALL)
    assert len(process.figures[figure]) == count


def test_fewer_triggers_run_with_preemption(tmp_path: Path) -> None:
    process: Any = _Process(tmp_path)
    CASES["preemption"](process, SMALL)
    (rounds,), (every,) = (process.figures[f"3 {kind} runs"] for kind in ("rounds", "every"))
    assert rounds < every


def _lloyd(process: Any, sizes: Sizes, points: Any, start: Any, iterations: int) -> Any:
    """Return the centres after so many iterations, by NumPy."""
    process.note("iterations", iterations)
    centres = start
    for _ in range(iterations):
        nearest = ((points[:, None] - centres) ** 2).sum(axis=2).argmin(axis=1)
        last, centres = centres, np.array([points[nearest == k].mean(0) for k in range(len(start))])
    assert np.allclose(last, centres) or not iterations
    return centres


def test_clusters_are_those_of_as_many_iterations(tmp_path: Path) -> None:
    process: Any = _Process(tmp_path)
    suite.clustering(process, SMALL, _lloyd)
    assert process.figures["iterations"] == [
        process.figures[f"{n} iterations"][0] for n in SMALL.items
    ]
    with pytest.raises(Wrong, match="centres of 60 items"):
        suite.clustering(_again(process), SMALL, lambda *_: np.zeros((5, DIMENSIONS)))


def _again(process: Any) -> Any:
    return _Process(process.scratch / "again")


def test_wrong_answers_are_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(Wrong, match="counts of words"):
        suite.check_words({"a": 2}, ["a", "b"])
    monkeypatch.setattr(suite, "_DAMPING", 0.5)  # of what is compared with
    with pytest.raises(Wrong, match="L1 error of ranks"):
        suite.ranks(_Process(tmp_path), SMALL)


@pytest.mark.parametrize(
    ("case", "figure"),
    [("words-spark", "batch"), ("pagerank-spark", "iterations"), ("clustering", "mllib 100")],
)
@pytest.mark.timeout(300)  # the first job of a JVM is slow
@pytest.mark.usefixtures("spark")
def test_batch_jobs_have_right_answers(case: str, figure: str, tmp_path: Path) -> None:
    process: Any = _Process(tmp_path)
    CASES[case](process, SMALL)
    assert len(process.figures[figure]) == SMALL.turns


def test_smoke_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "benchmarks", "triggers", "--parts", "writes-memory,words-ours",
        "--rows", "100", "--pairs", "1", "--texts", "50", "--shares", "1", "--turns", "1",
        "--out", str(out), "--cache", str(tmp_path / "cache"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    cases = json.loads(path.read_text())["cases"]
    assert cases["writes-memory"]["figures"]["+1"][0] > 0
    text = path.with_suffix(".md").read_text()
    assert "stated for other sizes" in text
    assert str(tmp_path) not in text + path.read_text()
