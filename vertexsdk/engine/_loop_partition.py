"""The partition of a main loop or branch, as its task sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, Self

from numpy.typing import NDArray

from vertexsdk.compile.plan import Plan
from vertexsdk.engine.commands import CreatePartition, LoopCommand, LoopReport, RestoreState
from vertexsdk.engine.snapshot_writer import WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps

Array = NDArray[Any]


class LoopPartition(Protocol):
    """A graph and a program's state on it, which continues from before or is computed anew.

    Attributes:
        plan: plan of the loop.
        refused: the last batch was refused, as a change met no edge.
        restarted: why iterations began with `init` again in this command, or "".
        bytes_sent: bytes to other partitions in this command, without those that `iterate` reports.
    """

    plan: Plan
    refused: bool = False
    restarted: str = ""
    bytes_sent: int = 0

    @property
    def begun(self) -> bool:
        """True if iterations continue from the previous state."""

    @property
    def clock(self) -> int:
        """The number of iterations; it never falls."""

    @property
    def pending(self) -> int:
        """The number of vertices that are to gather."""

    @property
    def vertices(self) -> int:
        """The number of vertices of the partition."""

    @property
    def edges(self) -> int:
        """The number of edges of the partition; each edge counts in one partition."""

    @property
    def aggregates(self) -> dict[str, Any]:
        """The values that aggregators read last."""

    def create(self, create: CreatePartition) -> Steps[None]:
        """Begin with a graph, before iteration 0."""

    def fork(self) -> Self:
        """Return a partition with the same content, to be changed apart from this one."""

    def enter(self, plan: Plan) -> None:
        """Continue as a partition of another loop."""

    def supersede(self, other: Self) -> None:
        """Continue in the place of a partition, of which this is a fork."""

    def close(self) -> None:
        """Free the memory; the partition is no longer used."""

    def add_names(self, codes: Array, offsets: Array, data: Array) -> None:
        """Add names of vertices, packed, each with a code that none has yet."""

    def new_names(self) -> list[str]:
        """Names that came up here since the last call and have no code yet."""
        return []

    def take(
        self, columns: Mapping[str, Array], *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; with `strict` none if one of them is absent.

        Args:
            columns: `kind`, `source`, `target` and `value` as those of `Changes`, ids as int64;
                for events programs also `sent` (`Deltas.columns`).

        Returns:
            Counts by the names of `COUNTS`, the changes which were absent, and vertices touched. A
            change is counted by the partition of its source.
        """

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        """Iterate to the end of the run or fixed point, or as far as the command allows."""

    def written(self) -> tuple[str, dict[str, Array]] | None:
        """The columns of a base, or of a delta of what changed since the last call, if any."""

    def capture(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Take what a snapshot is to hold, as it is now.

        Returns:
            Whether the state is in it, and what writes it, in any thread, while this continues.
        """

    def restore(self, state: RestoreState) -> Steps[None]:
        """Have the state of a snapshot, before iteration 0, where it is not in the graph."""
        del state
        yield from ()
