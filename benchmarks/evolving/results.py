"""All that one run of the suite found, and the numbers that are read out of it."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from typing import Any

from benchmarks.evolving.parent import Found
from benchmarks.evolving.sizes import Sizes
from benchmarks.turns import Outcome, Standing

TITLES = {
    "shortest_paths": "shortest paths",
    "components": "components",
    "pagerank": "PageRank to 1e-6",
}
SCRATCH = {
    "shortest_paths": "shortest_paths",
    "components": "components",
    "pagerank": "pagerank_converged",
}
"""The measures from scratch that stand beside a program's queries."""


@dataclass(slots=True)
class Results:
    """One run: where, how, what each case found, and what others did at the instant."""

    machine: dict[str, Any]
    command: list[str]
    sizes: Sizes
    cases: dict[str, Found] = field(default_factory=dict)
    instant: str = ""
    standings: dict[str, Standing] = field(default_factory=dict)

    def figures(self, case: str, name: str) -> list[float]:
        """What the case noted under the name; empty if it did not end well."""
        return self.cases[case].of(name) if case in self.cases else []

    def median(self, case: str, name: str) -> float | None:
        found = self.figures(case, name)
        return statistics.median(found) if found else None

    def percentile(self, case: str, name: str, share: float) -> float | None:
        """By nearest rank: the least figure that ``share`` of them do not exceed."""
        found = sorted(self.figures(case, name))
        return found[math.ceil(share * len(found)) - 1] if found else None

    def rate(self, case: str, name: str) -> float | None:
        """All that went through over all seconds, from rates of equal batches."""
        found = self.figures(case, name)
        return statistics.harmonic_mean(found) if found else None

    def scratch(self, system: str, program: str) -> float | None:
        """Seconds of a run from scratch on the graph of the instant."""
        outcome = self.outcome(system, program)
        return statistics.median(outcome.seconds) if outcome and outcome.seconds else None

    def outcome(self, system: str, program: str) -> Outcome | None:
        standing = self.standings.get(system)
        return standing.outcomes.get(SCRATCH[program]) if standing else None

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        found = [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]
        for standing in self.standings.values():
            if standing.unavailable:
                found.append(f"{standing.title}: not available: {standing.unavailable}")
            for measure, outcome in standing.outcomes.items():
                if outcome.problem:
                    found.append(f"{standing.title}, {measure}: {outcome.problem}")
        return found

    def wrong(self) -> bool:
        """Whether any answer was wrong, or a case of ours failed."""
        answers = [o.problem or "" for s in self.standings.values() for o in s.outcomes.values()]
        return any(case.problem for case in self.cases.values()) or any(
            problem.startswith("wrong") for problem in answers
        )

    def others(self) -> float:
        """The largest share of the cores that other programs used during any measure."""
        outcomes = [o.others for s in self.standings.values() for o in s.outcomes.values()]
        return max([0.0, *(case.others for case in self.cases.values()), *outcomes])

    def plain(self) -> dict[str, Any]:
        """Everything, for JSON."""
        return {
            "machine": self.machine,
            "command": self.command,
            "sizes": asdict(self.sizes),
            "cases": {name: asdict(case) for name, case in self.cases.items()},
            "instant": self.instant,
            "systems": {name: asdict(s) for name, s in self.standings.items()},
        }


def ratio(over: float | None, under: float | None) -> float | None:
    """None where either is missing."""
    return over / under if over is not None and under else None
