"""What learners must reach, and beside what."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from benchmarks import cells
from benchmarks.beside import BesideResults, beside_rows, beside_table
from benchmarks.document import Table
from benchmarks.learning.rates import BOLD, RATES
from benchmarks.learning.sizes import Sizes
from benchmarks.targets import Target

__all__ = ["TARGETS", "WAYS", "Results", "area", "table"]

_STATED = ("points", "instances", "shares", "stream", "columns", "batches")
WAYS = ("passes", "solve")  # in which ours comes near the best loss
_OTHERS = {"MLlib": ("points-mllib", 5.0), "scikit-learn": ("points-scikit-learn", 1.0)}


class Results(BesideResults[Sizes]):
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


def _targets() -> Iterator[tuple[str, Target[Results]]]:
    for beside, (case, bound) in _OTHERS.items():
        measure = partial(
            Results.ratio, case="points-ours", name="points", beside=case, other="points"
        )
        yield beside, Target("points/s", measure, bound, at_least=True)
        title = "time to 1.01 × the best loss, instances there"
        yield beside, Target(title, partial(_there, beside=case), bound, at_least=True)
        title = "time to 1.01 × the best loss, from an empty learner"
        yield beside, Target(title, partial(_from_nothing, beside=case), bound, at_least=True)
    for name, case, bound in (("SVM", "instants-svm", 10.0), ("k-means", "instants-kmeans", 8.0)):
        for beside, other, least in (("MLlib", "mllib", bound), ("batch", "batch", 1.0)):
            measure = partial(
                Results.least, case=case, numerator=other, denominator="approximating"
            )
            title = f"{name}, from an instant to the answer, least of all shares"
            yield beside, Target(title, measure, least, at_least=True)
    for name, case in (("SVM", "rates-svm"), ("logistic regression", "rates-words")):
        title = f"{name}, {BOLD}: area under the objective"
        yield "the best fixed rate", Target(title, partial(_bold, case=case), 1.1)


_BESIDE = tuple(_targets())
TARGETS = tuple(target for _, target in _BESIDE)


def table(r: Results) -> Table | None:
    """All that was measured; judged at the default sizes on a quiet machine."""
    rows = beside_rows(_BESIDE, r, _STATED)
    if r.figures("points-river", "not installed"):
        rows.append(["points/s", "River", "not installed", "–", "shown"])
    elif ratio := r.ratio("points-ours", "points", "points-river", "points"):
        rows.append(["points/s", "River", cells.times(ratio), "–", "shown"])
    return beside_table(rows)
