"""What a run of the suite ``batch`` found."""

from __future__ import annotations

import statistics
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.batch.runner import MeasureResult, SystemResult
from benchmarks.graphs import BenchGraph

OURS = "ours"

Result = tuple[BenchGraph, list[SystemResult]]


@dataclass(slots=True)
class Run:
    """One call of the suite: where, how, and what was found on each graph.

    ``results`` are those on the graphs that were asked for; ``small`` on a smaller one, of
    measures that take too long on these.
    """

    machine: dict[str, Any]
    command: list[str]
    limits: dict[str, Any]
    results: list[Result] = field(default_factory=list)
    small: Result | None = None

    def every(self) -> Iterator[Result]:
        """The results on all graphs."""
        yield from self.results
        if self.small:
            yield self.small

    def standings(self) -> list[SystemResult]:
        """What all systems did on all graphs."""
        return [standing for _, found in self.every() for standing in found]

    def outcomes(self) -> list[MeasureResult]:
        """All measures of all systems on all graphs."""
        return [outcome for standing in self.standings() for outcome in standing.outcomes.values()]

    def wrong(self) -> bool:
        """Whether any answer was wrong, or one of our own measures failed."""
        everyone = self.standings()
        if any(s.unavailable and s.system.startswith(OURS) for s in everyone):
            return True
        return any(
            outcome.problem
            and (outcome.problem.startswith("wrong") or standing.system.startswith(OURS))
            for standing in everyone
            for outcome in standing.outcomes.values()
        )

    def name(self) -> str:
        """The graphs that were asked for, as the end of a file's name."""
        names = [g.name.partition(".")[0].lower().replace(" ", "-") for g, _ in self.results]
        return names[0] + (f"-to-{names[-1]}" if len(names) > 1 else "")


def median(outcome: MeasureResult | None) -> float | None:
    """Seconds, None where there are none."""
    return statistics.median(outcome.seconds) if outcome and outcome.seconds else None
