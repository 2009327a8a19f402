"""All that one run of the suite found, and the numbers that are read out of it."""

from __future__ import annotations

import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.asynchrony.sizes import Sizes
from benchmarks.evolving.parent import Found

__all__ = ["Results"]


@dataclass(slots=True)
class Results:
    """One run: where, how, and what each case found."""

    machine: dict[str, Any]
    command: list[str]
    sizes: Sizes
    cases: dict[str, Found] = field(default_factory=dict)

    def figures(self, case: str, name: str) -> list[float]:
        """What the case noted under the name; what it noted before it failed counts, but not
        beside a wrong answer."""
        found = self.cases.get(case)
        if found is None or (found.problem or "").startswith("wrong"):
            return []
        return found.figures.get(name, [])

    def median(self, case: str, name: str) -> float | None:
        """None where there is no figure of that name."""
        found = self.figures(case, name)
        return statistics.median(found) if found else None

    def ratio(self, case: str, over: str, under: str) -> float | None:
        """Of two medians; None where either is missing. Where a run was ended, over the seconds
        that it had."""
        top, bottom = self.median(case, over), self.median(case, under)
        if top is None and over.endswith(" seconds"):
            top = self.median(case, over.removesuffix("seconds") + "late")
        return top / bottom if top is not None and bottom else None

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        return [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]

    def others(self) -> float:
        """The largest share of the cores that other programs used during any case."""
        return max([0.0, *(case.others for case in self.cases.values())])

    def plain(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "machine": self.machine,
            "command": self.command,
            "sizes": asdict(self.sizes),
            "cases": {name: asdict(case) for name, case in self.cases.items()},
        }
