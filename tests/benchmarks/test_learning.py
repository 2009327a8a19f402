"""The benchmark of learners at the smallest size: its instances, tables, one run."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks import document
from benchmarks.answers import Wrong
from benchmarks.runner import CaseResult, Notes
from benchmarks.suites import learning as suite
from benchmarks.suites.learning import CASES, SUITE, Sizes

ROOT = Path(__file__).parents[2]
MACHINE = {"versions": {}, "date": "2026-11-21", "processor": "", "cores": 2, "memory": 1}
MACHINE |= {"system": "", "revision": "", "python": "", "load_average": 0}
SMALL = Sizes(
    points=400, passes=2, most=2, instances=600, shares=(1, 5), stream=400, columns=600,
    batches=4, turns=2,
)  # fmt: skip


def test_what_was_not_measured_is_said_once() -> None:
    r = suite.Results(MACHINE, ["bench", "learning"], Sizes())
    r.cases["points-mllib"] = CaseResult("points-mllib", {}, "it was lost")
    assert document.markdown(SUITE.document(r)).count("**Not measured:** points-mllib") == 1


def _results(sizes: Sizes | None = None, others: float = 0.0) -> suite.Results:
    r = suite.Results(MACHINE, ["bench", "learning"], sizes or Sizes())

    def case(name: str, figures: dict[str, list[float]]) -> None:
        r.cases[name] = CaseResult(name, figures, None, others=others)

    case("points-ours", {
        "points": [6e6], "ingest": [30.0], "there by solve": [2.0, 3.0, 1.0],
        "passes without success": [50.0], "objective after passes": [1.02], "exact": [4.0],
    })  # fmt: skip
    case("points-mllib", {"points": [1e6], "ingest": [40.0], "there": [8.0], "passes": [3.0]})
    case("points-scikit-learn", {"points": [5e6], "there": [2.5], "passes": [4.0]})
    case("points-river", {"not installed": [1.0]})
    svm = {f"mllib {share}": [10.0 * share] for share in r.sizes.shares}
    svm |= {f"approximating {share}": [0.5 * share] for share in r.sizes.shares}
    svm |= {f"batch {share}": [0.25 + 0.25 * share] for share in r.sizes.shares}
    case("instants-svm", {**svm, "objective 5": [0.78], "mllib objective 5": [0.79]})
    case("instants-kmeans", {"mllib 1": [9.0], "approximating 1": [1.0]})
    mean = {"bold driver": 0.6, "rate 0.5": 0.9, "rate 0.1": 0.5, "rate 0.05": 0.7}
    case("rates-svm", {
        name: values for rate, value in mean.items() for name, values in {
            f"{rate} objective": [value + 0.1, value - 0.1] * 10, f"{rate} seconds": [1.0] * 20,
            f"{rate} branch": [1.0, 2.0, 3.0, 4.0],
        }.items()
    } | {"best objective": [0.4] * 4})  # fmt: skip
    return r


def test_tables_and_targets_say_what_was_measured() -> None:
    text = document.markdown(SUITE.document(_results()))
    for line in (
        "| points/s | MLlib | 6 × | ≥ 5 | reached |",
        "| points/s | scikit-learn | 1.2 × | ≥ 1 | reached |",
        "| points/s | River | not installed | – | shown |",
        "the best loss, instances there | MLlib | 4 × | ≥ 5 | **not reached** |",
        "from an empty learner | MLlib | 1.5 × | ≥ 5 | **not reached** |",
        "the best loss, instances there | scikit-learn | 1.25 × | ≥ 1 | reached |",
        "| SVM, from an instant to the answer, least of all shares | MLlib | 20 × | ≥ 10 | reached",
        "least of all shares | batch | 0.525 × | ≥ 1 | **not reached** |",
        "area under the objective | the best fixed rate | 1.2 × | ≤ 1.1 | **not reached** |",
        "| ours, by passes | 6,000,000 | **30.0** (1) | not in 50 passes: 1.02× | – | – |",
        "| ours, by solve | – | **30.0** (1) | **2.00** (3) | 32.0 | – |",
        "| 5 % | approximating | **2.50** (1) | 20× | – | – | 0.78 |",
        "| 5 % | MLlib, local[2] | **50.0** (1) | – | – | – | 0.79 |",
        "| bold driver | 0.6 | 0.7 | 0.5 | 0.7 | 0.5 | 1.00 | 2.00 | 3.00 | 4.00 | **1.00** (20) |",
        "| best model | – | 0.4 | 0.4 | 0.4 | 0.4 | – |",
    ):
        assert line in text, line
    assert "k-means, from an instant" not in text  # some shares have no figures
    for other in (_results(Sizes(points=9)), _results(others=0.5)):
        assert "reached |" not in document.markdown(SUITE.document(other))
    assert {case for group in SUITE.groups.values() for case in group} == CASES.keys()
    assert len({(t.title, t.measure) for t in SUITE.targets}) == len(SUITE.targets)


def test_charts_have_a_line_for_each_rate_over_the_stream() -> None:
    report = SUITE.document(_results())
    charts = [part for s in report.sections for part in s.parts if isinstance(part, document.Chart)]
    objective, branch = charts
    assert objective.x == [5.0 * (k + 1) for k in range(20)]
    assert branch.x == [25.0, 50.0, 75.0, 100.0]
    assert [series.name for series in objective.series] == [
        "ours, bold driver", "rate 0.5", "rate 0.1", "rate 0.05",
    ]  # fmt: skip
    assert objective.series[0].values[:2] == pytest.approx([0.7, 0.5])


def test_instances_are_as_they_are_said_to_be() -> None:
    X, y = suite.two_classes(4000)
    assert X.shape == (4000, 28)
    assert np.linalg.norm(X[y == 1].mean(0) - X[y == 0].mean(0)) == pytest.approx(0.75, abs=0.2)
    points = suite.clouds(500)
    centres = points[:10]
    squares = ((points[:, None] - centres) ** 2).sum(axis=2).min(axis=1)
    assert suite.inertia(points, centres) == pytest.approx(squares.mean())
    words, y = suite.bags_of_words(300, 2000)
    assert np.allclose((words.toarray() ** 2).sum(axis=1), 1)
    assert words.nnz / 300 <= 60
    counts = (words.toarray() > 0).sum(axis=0)
    assert counts[9] > 3 * counts[99] > 0  # Zipf's law
    assert set(y) == {0, 1}
    assert (suite.two_classes(9)[0] == suite.two_classes(9)[0]).all()


def test_an_objective_that_is_too_high_is_wrong() -> None:
    suite.check_objective("it", 1.001, 1.0, 0.01)
    suite.check_objective("it", 0.5, 1.0, 0.01)
    for found in (1.02, float("nan")):
        with pytest.raises(Wrong, match="of it is"):
            suite.check_objective("it", found, 1.0, 0.01)


class _Process(Notes):
    """What a case needs of its process."""

    def __init__(self) -> None:
        self.figures: dict[str, list[float]] = {}

    def note(self, name: str, value: float) -> None:
        self.figures.setdefault(name, []).append(float(value))


@pytest.mark.parametrize(
    ("case", "figure", "count"),
    [
        ("points-ours", "exact", 2), ("points-scikit-learn", "points", 2),
        ("points-river", "not installed", 1), ("rates-svm", "rate 0.5 branch", 4),
        ("rates-words", f"{suite.BOLD} objective", 4),
    ],
)  # fmt: skip
def test_cases_without_spark_have_right_answers(case: str, figure: str, count: int) -> None:
    process: Any = _Process()
    CASES[case](process, SMALL)
    assert len(process.figures[figure]) == count


@pytest.mark.parametrize("case", [suite.svm_at_instants, suite.kmeans_at_instants])
def test_answers_at_instants(case: Any) -> None:
    process: Any = _Process()
    told: list[Any] = []
    case(process, SMALL, lambda *given: told.append(given))
    for kind in suite.KINDS:
        for share in SMALL.shares:
            assert len(process.figures[f"{kind} {share}"]) == SMALL.turns
    ((_, problem, objectives),) = told
    assert problem.ends() == [571, 599]
    assert objectives == [process.figures[f"objective {share}"][0] for share in SMALL.shares]


def test_a_wrong_answer_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    right = suite.LinearSVM.solve

    def wrong(self: Any) -> Any:
        model = right(self)
        model.intercept_ = model.intercept_ + 0.5
        return model

    monkeypatch.setattr(suite.LinearSVM, "solve", wrong)
    process: Any = _Process()
    with pytest.raises(Wrong, match="support vector machine"):
        suite.svm_at_instants(process, SMALL, lambda *_: None)


@pytest.mark.parametrize(
    ("case", "figure"),
    [
        ("points-mllib", "there"), ("instants-kmeans", "mllib objective 5"),
        ("instants-svm", "mllib objective 5"),
    ],
)  # fmt: skip
@pytest.mark.timeout(300)  # the first fit of a JVM is slow
@pytest.mark.usefixtures("spark")
def test_cases_with_mllib_have_right_answers(case: str, figure: str, tmp_path: Path) -> None:
    process: Any = _Process()
    process.scratch = tmp_path
    CASES[case](process, replace(SMALL, shares=(5,), turns=1))
    (value,) = process.figures[figure]
    if case != "points-mllib":
        within = 1.01 if case == "instants-kmeans" else 1.001
        assert process.figures["objective 5"][0] <= within * value


def test_smoke_run(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command = [
        sys.executable, "-m", "benchmarks", "learning", "--parts", "points-river,points-ours",
        "--points", "300", "--passes", "2", "--most", "2", "--turns", "1",
        "--out", str(out), "--cache", str(tmp_path / "cache"),
    ]  # fmt: skip
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=100)
    assert done.returncode == 0, done.stderr
    (path,) = out.glob("*.json")
    figures = json.loads(path.read_text())["cases"]["points-ours"]["figures"]
    assert figures["one pass"][0] > 0
    assert figures["exact, all threads"][0] > 0
    text = path.with_suffix(".md").read_text()
    assert "stated for other sizes" not in text  # beside nothing there is no aim
    assert "| River | not installed |" in text
    assert str(tmp_path) not in text + path.read_text()
