"""What the suite measured, as a document."""

from __future__ import annotations

from benchmarks import cells
from benchmarks.beside import add_sections
from benchmarks.document import Chart, Document, Table
from benchmarks.learning import charts, targets
from benchmarks.learning.data import ALPHA
from benchmarks.learning.instants import KINDS
from benchmarks.learning.rates import BOLD, BRANCHES, RATES
from benchmarks.learning.targets import WAYS, Results, area

__all__ = ["Results", "document"]

_PEERS = {
    "points-mllib": "MLlib `LogisticRegression`, local[1]",
    "points-scikit-learn": "scikit-learn `SGDClassifier`, one thread",
}
_LEARNT = {"instants-svm": "Support vector machine", "instants-kmeans": "k-means"}
_RATED = {"rates-svm": "SVM", "rates-words": "logistic regression on bags of words"}


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "learning",
        "Suite learning: models of instances that arrive",
        "Linear models and k-means that follow their instances, beside systems that learn from "
        "all of them anew.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=_notes(r),
    )
    shown: list[tuple[str, list[Table | Chart | None]]] = [
        ("What must be reached", [targets.table(r)]),
        ("Logistic regression", [_points(r)]),
        *((f"{title}: from an instant to the answer", [_instants(r, case)])
          for case, title in _LEARNT.items()),
        *((f"Rates of descent, {title}", [_rates(r, case), *charts.rates(r, case, title)])
          for case, title in _RATED.items()),
    ]  # fmt: skip
    add_sections(report, r, shown)
    return report


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
                cells.middle(r.figures(case, "ingest")), _there(r, case, r.figures(case, name)),
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
                cells.middle(r.figures(case, "ingest")), _there(r, case, r.figures(case, "there")),
                cells.seconds(r.from_nothing(case)), cells.number(r.median(case, "passes")),
            ])  # fmt: skip
    if r.figures("points-river", "not installed"):
        rows.append(["River", "not installed", *"––––"])
    elif r.figures("points-river", "points"):
        rows.append(["River", cells.number(r.median("points-river", "points")), *"––––"])
    head = ["", "points/s", "ingest", "there", "there, from nothing", "passes"]
    return Table(head, rows) if rows else None


def _there(r: Results, case: str, seconds: list[float]) -> str:
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
    return Table(head, rows) if rows else None


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
    return Table(head, rows) if rows else None
