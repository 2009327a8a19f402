"""All that one run of the suite found, and the numbers that are read out of it."""

from __future__ import annotations

import statistics

from benchmarks.runner import SuiteResults
from benchmarks.scaling.sizes import Sizes

__all__ = ["Points", "Results"]

Points = dict[tuple[float, ...], list[float]]
"""Figures by the numbers that they depend on."""


class Results(SuiteResults[Sizes]):
    """Figures by case, and by the numbers that they depend on."""

    __slots__ = ()

    def points(self, case: str, name: str) -> Points:
        """What a case noted under a name, ascending; nothing beside a wrong answer."""
        found = self.cases.get(case)
        if found is None or found.wrong:
            return {}
        head = f"{name} @"
        points = {
            tuple(float(x) for x in key[len(head) :].split(",")): list(values)
            for key, values in found.figures.items()
            if key.startswith(head)
        }
        return dict(sorted(points.items()))

    def medians(self, case: str, name: str) -> tuple[list[float], list[float]]:
        """The first numbers of such figures, and the median of each."""
        points = self.points(case, name)
        return [x[0] for x in points], [statistics.median(y) for y in points.values()]

    def median_at(self, case: str, name: str, *at: float) -> float | None:
        """None where there is no such figure."""
        found = self.points(case, name).get(at)
        return statistics.median(found) if found else None
