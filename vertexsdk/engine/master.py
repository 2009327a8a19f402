"""The decision of all partitions after an iteration: continue, or stop and why. Pure, no I/O."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vertexsdk.program.algebra import Algebra, VertexId


@dataclass(slots=True)
class IterationStats:
    """The work of one iteration, in one partition or in all."""

    updates: int = 0  # vertices which gathered (events level: deltas gathered)
    changed: int = 0  # vertices which scattered
    messages: int = 0  # messages sent along edges or by id
    pending: int = 0  # vertices with something to gather in the next iteration
    sent: int = 0  # updates on their way to other partitions
    aggregates: dict[str, Any] = field(default_factory=dict)

    @property
    def is_empty(self) -> bool:
        """True if no vertex gathered, and none is to gather in the next iteration."""
        return not (self.updates or self.pending or self.sent)

    def add(self, other: IterationStats, algebras: Mapping[str, Algebra]) -> None:
        """Take in another partition's progress in the same iteration."""
        self.updates += other.updates
        self.changed += other.changed
        self.messages += other.messages
        self.pending += other.pending
        self.sent += other.sent
        if algebras:
            self.aggregates = combine_aggregates(self.aggregates, other.aggregates, algebras)


def combine_aggregates(
    a: Mapping[str, Any], b: Mapping[str, Any], algebras: Mapping[str, Algebra]
) -> dict[str, Any]:
    """Combine two partial values of every aggregator."""
    return {name: _combined(f, a[name], b[name]) for name, f in algebras.items()}


def _combined(algebra: Algebra, a: Any, b: Any) -> Any:
    if algebra.type is VertexId:  # names at the events level, where the identity is a number
        for one, other in ((a, b), (b, a)):
            if one == algebra.identity:
                return other
    return algebra.combined(a, b)


@dataclass
class Master:
    """The state of one synchronous loop: the next iteration, and what aggregators read in it.

    Attributes:
        algebras: the algebra of each aggregator, by name.
        always: every vertex gathers in every iteration, so quiet means that nothing changed.
        rounds: a fixed point begins another round, unless a round has just begun and changed none.
        max_iterations: the last iteration to run; None for no limit.
        converged: the program's rule.
        iteration: the next one to run.
        aggregates: what aggregators read in it.
        round: the round in which it is; round 0 begins with `init`.
        begins: it begins that round.
        reason: why there is no other iteration to run; None where there is.
    """

    algebras: Mapping[str, Algebra]
    always: bool
    max_iterations: int | None
    converged: Callable[[int, Mapping[str, Any]], bool]
    iteration: int = 0
    aggregates: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    rounds: bool = False
    round: int = 0
    begins: bool = False

    def __post_init__(self) -> None:
        if not self.aggregates:
            self.aggregates = self.identity()

    def identity(self) -> dict[str, Any]:
        """Return what aggregators read without contributions."""
        return {name: a.identity for name, a in self.algebras.items()}

    def total(self, parts: Iterable[IterationStats]) -> IterationStats:
        """Return what an iteration did in all partitions."""
        step = IterationStats(aggregates=self.identity())
        for part in parts:
            step.add(part, self.algebras)
        return step

    def advance(self, progress: IterationStats) -> bool:
        """Take in a finished iteration; return whether there is another one to run."""
        done, previous = self.iteration, self.aggregates
        began, self.begins = self.begins, False
        if self.rounds and not began and done > 0 and progress.is_empty:
            # Messages came from other partitions, and changed no vertex's aggregate. It does not
            # count, as one partition does without it.
            self._begin_round()
            return True
        self.aggregates = dict(progress.aggregates)
        self.iteration = done + 1
        if done > 0 and self.converged(done, self.aggregates):
            self.reason = "converged"
        elif self.max_iterations is not None and done >= self.max_iterations:
            self.reason = "max_iterations"
        elif began and not (progress.changed or progress.pending or progress.sent):
            self.reason = "quiet"
        elif done > 0 and not began and self._quiet(progress, previous):
            if self.rounds:
                self._begin_round()
            else:
                self.reason = "quiet"
        return self.reason is None

    def _begin_round(self) -> None:
        self.round, self.begins = self.round + 1, True

    def _quiet(self, progress: IterationStats, previous: Mapping[str, Any]) -> bool:
        if progress.pending or progress.sent:
            return False
        if not self.always:
            return True
        return progress.changed == 0 and all(
            _same(previous[k], v) for k, v in self.aggregates.items()
        )


def _same(a: Any, b: Any) -> bool:
    return bool(a == b or (a != a and b != b))
