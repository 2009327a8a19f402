"""All that one run of the suite found, and the numbers that are read out of it."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.evolving.parent import Found
from benchmarks.scaling.sizes import Sizes

__all__ = ["Points", "Results"]

Points = dict[tuple[float, ...], list[float]]
"""Figures by the numbers that they depend on."""


@dataclass(slots=True)
class Results:
    """One run: where, how, and what each case found."""

    machine: dict[str, Any]
    command: list[str]
    sizes: Sizes
    cases: dict[str, Found] = field(default_factory=dict)

    def points(self, case: str, name: str) -> Points:
        """What a case noted under a name, ascending; nothing beside a wrong answer."""
        found = self.cases.get(case)
        if found is None or (found.problem or "").startswith("wrong"):
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

    def median(self, case: str, name: str, *at: float) -> float | None:
        """None where there is no such figure."""
        found = self.points(case, name).get(at)
        return statistics.median(found) if found else None

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        return [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]

    def others(self) -> float:
        """The largest share of the cores that other programs used during any case."""
        return max([0.0, *(case.others for case in self.cases.values())])

    def plain(self) -> dict[str, Any]:
        """Everything but where it was made, which the document has."""
        return {
            "sizes": asdict(self.sizes),
            "cases": {name: asdict(case) for name, case in self.cases.items()},
        }
