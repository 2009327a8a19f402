"""What the partitions of a graph that changes tell each other at the end of a superstep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from vertexsdk.engine._master import IterationStats
from vertexsdk.engine.supersteps import SuperstepEnd
from vertexsdk.program.algebra import Algebra


@dataclass(slots=True)
class PartitionEnd(SuperstepEnd):
    """What one partition tells, and, as `total`, what all of them do.

    Attributes:
        edits: edges that changes add, remove or give another value.
        removed: how many of them are not added.
        absent: changes which met no edge.
        suspects: vertices whose value may have to be withdrawn.
        falling: a message got worse in an iteration, or `init` is no fixed point.
        unsure: levels do not tell which values support each other.
    """

    edits: int = 0
    removed: int = 0
    absent: int = 0
    suspects: int = 0
    falling: bool = False
    unsure: bool = False

    @classmethod
    def total(cls, ends: Sequence[PartitionEnd], algebras: Mapping[str, Algebra]) -> PartitionEnd:
        """What all partitions say together; whether it is late is for partition 0 to say."""
        total = cls(IterationStats(aggregates={k: a.identity for k, a in algebras.items()}))
        for end in ends:
            total.vertices += end.vertices
            total.edits += end.edits
            total.removed += end.removed
            total.absent += end.absent
            total.suspects += end.suspects
            total.falling |= end.falling
            total.unsure |= end.unsure
            total.failure = total.failure or end.failure
            total.progress.add(end.progress, algebras)
        total.late = ends[0].late
        return total
