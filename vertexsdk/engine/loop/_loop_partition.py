"""A partition of a loop whose graph changes, as commands see it."""

from __future__ import annotations

from typing import Any, Protocol

from numpy.typing import NDArray

from vertexsdk.compile.plan import Plan
from vertexsdk.engine.loop._arena import Arena
from vertexsdk.engine.loop._commands import LoopCommand, LoopReport
from vertexsdk.engine.loop._new_partition import NewPartition
from vertexsdk.engine.loop._partition_graph import PartitionGraph
from vertexsdk.engine.supersteps import Steps

Array = NDArray[Any]


class LoopPartition(Protocol):
    """A graph and a program's state on it, which goes on from before or is computed anew.

    Attributes:
        plan: of the loop.
        arena: where it is.
        graph: in the arena.
        refused: the last batch was refused, as a change met no edge.
    """

    plan: Plan
    arena: Arena
    graph: PartitionGraph
    refused: bool

    @property
    def begun(self) -> bool:
        """Whether iterations go on from the state before."""

    @property
    def clock(self) -> int:
        """How many iterations there were; it never falls."""

    @property
    def pending(self) -> int:
        """How many vertices are to gather."""

    @property
    def aggregates(self) -> dict[str, Any]:
        """What aggregators read last."""

    def create(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""

    def refresh(self) -> None:
        """Take the arrays of the arena again, after they were moved or made longer."""

    def keep(self) -> None:
        """Leave in the arena what another partition on a fork of it needs to know."""

    def take(
        self, kind: Array, source: Array, target: Array, value: Array, *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; with `strict` none if one of them is absent.

        Args:
            kind, source, target, value: as those of `Changes`, ids as int64.

        Returns:
            Counts by the names of `COUNTS`, the changes which were absent, and vertices touched. A
            change is counted by the partition of its source.
        """

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        """Iterate to the end of the run or fixed point, or as far as the command allows."""

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, or of a delta of what changed since the last call, if any."""
