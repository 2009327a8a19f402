"""Suite ``learning``: models of instances that arrive, beside systems that learn anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import partial

from benchmarks import cells
from benchmarks.case_process import CaseProcess
from benchmarks.document import Chart, Series, Table
from benchmarks.learning import instants, points, rates
from benchmarks.learning.data import ALPHA
from benchmarks.learning.instants import KINDS
from benchmarks.learning.rates import BOLD, BRANCHES, RATES
from benchmarks.learning.sizes import Sizes
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, ratio

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "points-ours": points.ours,
    "points-scikit-learn": points.scikit_learn,
    "points-mllib": points.mllib,
    "points-river": points.river,
    "instants-svm": instants.svm,
    "instants-kmeans": instants.kmeans,
    "rates-svm": rates.svm,
    "rates-words": rates.words,
}


WAYS = ("passes", "solve")  # in which ours comes near the best loss
_OTHERS = {"MLlib": ("points-mllib", 5.0), "scikit-learn": ("points-scikit-learn", 1.0)}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def there(self) -> float | None:
        """Seconds of ours until it is near the best loss, in the way that is faster."""
        took = [self.median("points-ours", f"there by {way}") for way in WAYS]
        return _least(took)

    def from_nothing(self, case: str) -> float | None:
        """The same with what it takes to have the instances."""
        there = self.there() if case == "points-ours" else self.median(case, "there")
        return None if there is None else there + (self.median(case, "ingest") or 0.0)

    def least(self, case: str, numerator: str, denominator: str) -> float | None:
        """The smallest of the ratios of all shares; None where one is missing."""
        ratios = [
            self.ratio(case, f"{numerator} {share}", case, f"{denominator} {share}")
            for share in self.sizes.shares
        ]
        return None if None in ratios else _least(ratios)


def area(r: Results, case: str, name: str) -> float | None:
    """The mean of the objective over the stream."""
    values = r.figures(case, f"{name} objective")
    return sum(values) / len(values) if values else None


def _least(values: Iterable[float | None]) -> float | None:
    return min((value for value in values if value is not None), default=None)


def _over(above: float | None, below: float | None) -> float | None:
    return None if above is None or not below else above / below


def _there(r: Results, beside: str) -> float | None:
    return _over(r.median(beside, "there"), r.there())


def _from_nothing(r: Results, beside: str) -> float | None:
    return _over(r.from_nothing(beside), r.from_nothing("points-ours"))


def _bold(r: Results, case: str) -> float | None:
    return _over(area(r, case, BOLD), _least(area(r, case, name) for name in RATES))


def _targets() -> Iterator[Target[Results]]:
    for beside, (case, bound) in _OTHERS.items():
        measure = ratio("points-ours", "points", case)
        yield Target("points/s", measure, bound, "×", True, beside)
        for title, find in (("instances there", _there), ("from an empty learner", _from_nothing)):
            title = f"time to 1.01 × the best loss, {title}"
            yield Target(title, partial(find, beside=case), bound, "×", True, beside)
    for name, case, bound in (("SVM", "instants-svm", 10.0), ("k-means", "instants-kmeans", 8.0)):
        for beside, other, least in (("MLlib", "mllib", bound), ("batch", "batch", 1.0)):
            lowest = partial(Results.least, case=case, numerator=other, denominator="approximating")
            title = f"{name}, from an instant to the answer, least of all shares"
            yield Target(title, lowest, least, "×", True, beside)
    for name, case in (("SVM", "rates-svm"), ("logistic regression", "rates-words")):
        title = f"{name}, {BOLD}: area under the objective"
        yield Target(title, partial(_bold, case=case), 1.1, beside="the best fixed rate")


def _shown(r: Results) -> Iterator[list[str]]:
    if r.figures("points-river", "not installed"):
        yield ["points/s", "River", "not installed", "–", "shown"]
    elif value := r.ratio("points-ours", "points", "points-river"):
        yield ["points/s", "River", cells.times(value), "–", "shown"]


def _charts(r: Results, case: str, title: str) -> list[Chart]:
    """Two charts with a line for each rate, over percent of the stream."""
    shown = (
        ("objective", "Objective on all instances", "objective", r.sizes.batches),
        ("branch", "From an instant to the answer", "s", BRANCHES),
    )
    return [
        chart
        for figure, what, unit, count in shown
        for chart in _lines(r, case, figure, f"{what}, {title}", unit, count)
    ]


def _lines(r: Results, case: str, figure: str, title: str, unit: str, count: int) -> list[Chart]:
    at = [100 * (number + 1) / count for number in range(count)]
    series = []
    for name in (BOLD, *RATES):
        values: list[float | None] = list(r.figures(case, f"{name} {figure}"))
        if len(values) == count:
            series.append(Series("ours, " + name if name == BOLD else name, values))
    names = [f"{percent:g}" for percent in at]
    x_title = "percent of the stream"
    return [Chart("lines", title, unit, names, series, x=at, x_title=x_title)] if series else []


_PEERS = {
    "points-mllib": "MLlib `LogisticRegression`, local[1]",
    "points-scikit-learn": "scikit-learn `SGDClassifier`, one thread",
}
_LEARNT = {"instants-svm": "Support vector machine", "instants-kmeans": "k-means"}
_RATED = {"rates-svm": "SVM", "rates-words": "logistic regression on bags of words"}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Logistic regression", [_points(r)]),
        *((f"{title}: from an instant to the answer", [_instants(r, case)])
          for case, title in _LEARNT.items()),
        *((f"Rates of descent, {title}", [_rates(r, case), *_charts(r, case, title)])
          for case, title in _RATED.items()),
    ]  # fmt: skip


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        f"The objective is the mean loss plus {ALPHA:g} / 2 times the squares of the weights, in "
        "all systems; ours is in this process, with one partition. Medians.",
        f"Logistic regression: {s.points:,} points of two Gaussian classes that overlap, 28 "
        f"features. Points/s: of {s.passes} passes of ours over all of them, each with the "
        "objective then; of passes of scikit-learn; of iterations of MLlib. *One pass* is a call "
        "of `partial_fit` with one instance, which chooses the sample anew. *There*: until the "
        "loss is at most 1.01 × the best one, which scikit-learn's `LogisticRegression` finds. "
        "Ours is there by passes of the main loop or by `solve(tol=0.01)`, and the aims are those "
        "of the faster way. BLAS has one thread, but for *all threads*. MLlib ingests Parquet into "
        "a cached DataFrame, and has as few iterations as lead there; scikit-learn has arrays.",
        f"Instants: {s.instances:,} instances in the end. So many percent more arrive, one percent "
        "with each `partial_fit`, then `solve` is timed. *Approximating*: each `partial_fit` makes "
        "a pass over the sample. *Batch*: `passes=0`, and the answer begins with the last one. "
        f"MLlib begins anew with a cached DataFrame on local[{s.cores}]: `LinearSVC` with as few "
        "iterations as lead within 0.1 % of our objective, or until its own convergence, and "
        "`KMeans` until its own.",
        f"Rates: {s.stream:,} instances in {s.batches} batches, a pass over all that are there "
        "after each; objectives are those on all that are there. Bags of words have 60 words of "
        f"{s.columns:,} by Zipf's law, and length 1. A learner with a fixed rate has "
        "`bold_driver=False`. Branches are those of forks, so that the main loop keeps its model.",
        "Objectives are computed by NumPy. Those of a few instances are as good as scikit-learn's; "
        "those of exact models as good as MLlib's, k-means within 1 %.",
    ]  # fmt: skip


def _points(r: Results) -> Table | None:
    case, rows = "points-ours", []
    empty = r.median(case, "ingest") or 0.0
    for way in WAYS:
        name = f"there by {way}"
        own = ("points", "passes") if way == WAYS[0] else ("", "")
        if (took := r.median(case, name)) is not None or r.figures(case, own[0]):
            rows.append([
                f"ours, by {way}", cells.number(r.median(case, own[0])),
                cells.middle(r.figures(case, "ingest")), _until(r, case, r.figures(case, name)),
                cells.seconds(None if took is None else empty + took),
                cells.number(r.median(case, own[1])),
            ])  # fmt: skip
    for figure in ("one pass", "exact", "exact, all threads"):
        if took := r.figures(case, figure):
            rows.append([f"ours, {figure}", "–", "–", cells.middle(took), "–", "–"])
    for case, title in _PEERS.items():
        if r.figures(case, "points"):
            rows.append([
                title, cells.number(r.median(case, "points")),
                cells.middle(r.figures(case, "ingest")), _until(r, case, r.figures(case, "there")),
                cells.seconds(r.from_nothing(case)), cells.number(r.median(case, "passes")),
            ])  # fmt: skip
    if r.figures("points-river", "not installed"):
        rows.append(["River", "not installed", *"––––"])
    elif r.figures("points-river", "points"):
        rows.append(["River", cells.number(r.median("points-river", "points")), *"––––"])
    head = ["", "points/s", "ingest", "there", "there, from nothing", "passes"]
    return filled(head, rows)


def _until(r: Results, case: str, seconds: list[float]) -> str:
    """Seconds, or how near it came."""
    most = r.median(case, "passes without success")
    if seconds or most is None:
        return cells.middle(seconds)
    ratio = r.median(case, "objective after passes")
    return f"not in {most:.0f} passes" + (f": {cells.times(ratio)}" if ratio else "")


def _instants(r: Results, case: str) -> Table | None:
    rows = []
    for share in r.sizes.shares:
        for kind in KINDS:
            if r.figures(case, f"{kind} {share}"):
                rows.append([
                    f"{share} %", kind, cells.middle(r.figures(case, f"{kind} {share}")),
                    cells.times(r.ratio(case, f"mllib {share}", case, f"{kind} {share}")),
                    cells.middle(r.figures(case, f"{kind} arriving {share}")),
                    cells.number(r.median(case, f"{kind} iterations {share}")),
                    _objective(r.median(case, f"objective {share}")),
                ])  # fmt: skip
        if r.figures(case, f"mllib {share}"):
            rows.append([
                f"{share} %", f"MLlib, local[{r.sizes.cores}]",
                cells.middle(r.figures(case, f"mllib {share}")), "–", "–",
                cells.number(r.median(case, f"mllib iterations {share}")),
                _objective(r.median(case, f"mllib objective {share}")),
            ])  # fmt: skip
    head = ["more", "", "to the answer", "MLlib / ours", "arriving", "iterations", "objective"]
    return filled(head, rows)


def _objective(value: float | None) -> str:
    return "–" if value is None else f"{value:.6g}"


def _rates(r: Results, case: str) -> Table | None:
    rows = []
    for name in (BOLD, *RATES):
        objectives = r.figures(case, f"{name} objective")
        branches = r.figures(case, f"{name} branch")
        if objectives and len(branches) == BRANCHES:
            marks = [len(objectives) * (k + 1) // BRANCHES - 1 for k in range(BRANCHES)]
            rows.append([
                name, _objective(area(r, case, name)), *(_objective(objectives[k]) for k in marks),
                *map(cells.seconds, branches), cells.middle(r.figures(case, f"{name} seconds")),
            ])  # fmt: skip
    if best := r.figures(case, "best objective"):
        rows.append(["best model", "–", *map(_objective, best), *"–" * (BRANCHES + 1)])
    percents = [f"{100 * (k + 1) // BRANCHES} %" for k in range(BRANCHES)]
    head = ["", "mean", *(f"objective at {at}" for at in percents)]
    head += [*(f"branch at {at}, s" for at in percents), "a batch"]
    return filled(head, rows)


SUITE = CaseSuite(
    name="learning",
    title="Suite learning: models of instances that arrive",
    about="Linear models and k-means that follow their instances, beside systems that learn from "
    "all of them anew.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()),
    stated=("points", "instances", "shares", "stream", "columns", "batches"),
    stem=lambda s: f"learning-{s.points}",
    groups={
        group: tuple(case for case in CASES if case.startswith(group))
        for group in ("points", "instants", "rates")
    },
    time_limit=3600,
    quick=(
        "--points", "20000", "--most", "20", "--instances", "20000", "--shares", "1,10",
        "--stream", "4000", "--columns", "5000", "--batches", "8", "--turns", "2",
    ),  # about two minutes
)  # fmt: skip
