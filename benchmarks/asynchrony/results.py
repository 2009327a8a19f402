"""All that one run of the suite measured, and the numbers that are read out of it."""

from __future__ import annotations

from benchmarks.asynchrony.sizes import Sizes
from benchmarks.runner import SuiteResults

__all__ = ["Results"]


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def ratio(self, case: str, over: str, under: str) -> float | None:
        """Of two medians; None where either is missing. Where a run was ended, over the seconds
        that it had."""
        top, bottom = self.median(case, over), self.median(case, under)
        if top is None and over.endswith(" seconds"):
            top = self.median(case, over.removesuffix("seconds") + "late")
        return top / bottom if top is not None and bottom else None
