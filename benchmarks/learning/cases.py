"""The cases: each is one function, run in a process of its own."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.case_process import CaseProcess
from benchmarks.learning import instants, points, rates
from benchmarks.learning.sizes import Sizes

__all__ = ["CASES"]

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
