"""All that one run of the suite found, and the numbers that are read out of it."""

from __future__ import annotations

import math
import statistics
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from benchmarks.batch.runner import MeasureResult, SystemResult
from benchmarks.evolving.beside import Beside, graph_name
from benchmarks.evolving.sizes import Sizes
from benchmarks.runner import CaseResult, SuiteResults

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
class Results(SuiteResults[Sizes]):
    """One run: what each case measured, and what others did at the instant.

    Attributes:
        files: what is in files of one's own.
        arrived: from scratch after each share of the edges: by share, by system.
        ours: our cases on the graphs of those beside, by graph; ``cases`` has the suite's own.
    """

    instant: str = ""
    files: str = ""
    standings: dict[str, SystemResult] = field(default_factory=dict)
    arrived: dict[str, dict[str, SystemResult]] = field(default_factory=dict)
    beside: dict[str, Beside] = field(default_factory=dict)
    ours: dict[str, dict[str, CaseResult]] = field(default_factory=dict)

    def figures(self, case: str, name: str) -> list[float]:
        """What the case noted under the name; empty if it did not end well."""
        return self.cases[case].of(name) if case in self.cases else []

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

    def outcome(self, system: str, program: str) -> MeasureResult | None:
        standing = self.standings.get(system)
        return standing.outcomes.get(SCRATCH[program]) if standing else None

    @property
    def graph(self) -> str:
        return graph_name(self.sizes)

    def ours_on(self, graph: str, case: str) -> CaseResult | None:
        """What our case found on a graph."""
        return (self.cases if graph == self.graph else self.ours.get(graph, {})).get(case)

    def arrived_seconds(self, system: str, program: str, share: float) -> float | None:
        """Median seconds from scratch after a share of the edges."""
        standing = self.arrived.get(f"{share:g}", {}).get(system)
        outcome = standing.outcomes.get(SCRATCH[program]) if standing else None
        return statistics.median(outcome.seconds) if outcome and outcome.seconds else None

    def problems(self) -> list[str]:
        """What did not end well, in words."""
        found = [f"{name}: {case.problem}" for name, case in self.cases.items() if case.problem]
        for graph, cases in self.ours.items():
            found += [f"{name} on {graph}: {c.problem}" for name, c in cases.items() if c.problem]
        for standing in self._standings():
            if standing.unavailable:
                found.append(f"{standing.title}: not available: {standing.unavailable}")
            for measure, outcome in standing.outcomes.items():
                if outcome.problem:
                    found.append(f"{standing.title}, {measure}: {outcome.problem}")
        for one in self.beside.values():
            if one.unavailable:
                found.append(f"{one.title}: not available: {one.unavailable}")
            for graph, cases in one.tried.items():
                for name, case in cases.items():
                    if case.problem:
                        best = one.best(name)
                        least = f"; the largest that it finished is {best}" if best else ""
                        found.append(f"{one.title}, {name} on {graph}: {case.problem}{least}")
        return list(dict.fromkeys(found))

    def from_scratch(self) -> list[SystemResult]:
        """What others found after each of the shares."""
        return [s for standings in self.arrived.values() for s in standings.values()]

    def _standings(self) -> list[SystemResult]:
        return [*self.standings.values(), *self.from_scratch()]

    def _streamed(self) -> list[CaseResult]:
        each = (cases for one in self.beside.values() for cases in one.tried.values())
        return [case for cases in each for case in cases.values()]

    def _mine(self) -> list[CaseResult]:
        there = (case for cases in self.ours.values() for case in cases.values())
        return [*self.cases.values(), *there]

    def wrong(self) -> bool:
        """Whether any answer was wrong, or a case of ours failed."""
        answers = [o.problem or "" for s in self._standings() for o in s.outcomes.values()]
        answers += [case.problem or "" for case in self._streamed()]
        return any(case.problem for case in self._mine()) or any(
            problem.startswith("wrong") for problem in answers
        )

    def others(self) -> float:
        """The largest share of the cores that other programs used during any measure."""
        outcomes = [o.others for s in self._standings() for o in s.outcomes.values()]
        cases = [case.others for case in [*self._mine(), *self._streamed()]]
        return max([0.0, *cases, *outcomes])

    def plain(self) -> dict[str, Any]:
        """Everything, for JSON."""
        own_files = {
            "edges_file": Path(self.sizes.edges_file).name,
            "changes_files": [Path(name).name for name in self.sizes.changes_files],
        }
        return {
            "sizes": asdict(self.sizes) | own_files,
            "cases": _plain(self.cases),
            "systems": {name: asdict(s) for name, s in self.standings.items()},
            "arrived": {
                share: {name: asdict(s) for name, s in systems.items()}
                for share, systems in self.arrived.items()
            },
            "beside": {
                name: {graph: _plain(cases) for graph, cases in one.tried.items()}
                for name, one in self.beside.items()
            },
            "ours": {graph: _plain(cases) for graph, cases in self.ours.items()},
        }


def _plain(cases: dict[str, CaseResult]) -> dict[str, Any]:
    return {name: case.plain() for name, case in cases.items()}


def ratio(over: float | None, under: float | None) -> float | None:
    """None where either is missing."""
    return over / under if over is not None and under else None
