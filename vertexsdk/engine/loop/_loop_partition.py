"""A partition of a loop whose graph changes, as commands see it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from vertexsdk.compile.plan import Plan
from vertexsdk.engine.commands import CreatePartition, LoopCommand, LoopReport, RestoreState
from vertexsdk.engine.loop._snapshot_writer import WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps

Array = NDArray[Any]


class LoopPartition(Protocol):
    """A graph and a program's state on it, which goes on from before or is computed anew.

    Attributes:
        plan: of the loop.
        refused: the last batch was refused, as a change met no edge.
        restarted: why iterations began with `init` again in this command, or "".
        sent: bytes to other partitions in this command, without those that `iterate` reports.
    """

    plan: Plan
    refused: bool
    restarted: str
    sent: int

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
    def vertices(self) -> int:
        """How many vertices the partition has."""

    @property
    def edges(self) -> int:
        """How many edges the partition has; each edge counts in one partition."""

    @property
    def aggregates(self) -> dict[str, Any]:
        """What aggregators read last."""

    def create(self, create: CreatePartition) -> Steps[None]:
        """Begin with a graph, before iteration 0."""

    def fork(self) -> Self:
        """Return a partition with the same content, to be changed apart from this one."""

    def enter(self, plan: Plan) -> None:
        """Go on as a partition of another loop."""

    def supersede(self, other: Self) -> None:
        """Go on in the place of a partition, of which this is a fork."""

    def close(self) -> None:
        """Free the memory; the partition is used no more."""

    def add_names(self, codes: Array, offsets: Array, data: Array) -> None:
        """Add names of vertices, packed, each with a code that none has yet."""

    def new_names(self) -> list[str]:
        """Names that came up here since the last call and have no code yet."""

    def take(
        self, columns: Mapping[str, Array], *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; with `strict` none if one of them is absent.

        Args:
            columns: `kind`, `source`, `target` and `value` as those of `Changes`, ids as int64;
                for events programs also `sent`, see `Deltas.columns`.

        Returns:
            Counts by the names of `COUNTS`, the changes which were absent, and vertices touched. A
            change is counted by the partition of its source.
        """

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        """Iterate to the end of the run or fixed point, or as far as the command allows."""

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, or of a delta of what changed since the last call, if any."""

    def snapshot(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Take what a snapshot is to hold, as it is now.

        Returns:
            Whether the state is in it, and what writes it, in any thread, while this goes on.
        """

    def restore(self, state: RestoreState) -> Steps[None]:
        """Have the state of a snapshot, before iteration 0."""
