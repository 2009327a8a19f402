"""The end of a superstep: what partitions tell each other, so that all of them decide alike."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any, TypeVar

from vertexsdk.engine.master import IterationStats
from vertexsdk.errors import VertexError
from vertexsdk.transport.transport import PEERS, Blocks

_T = TypeVar("_T")
Steps = Generator[tuple[int, Any], Any, _T]  # a part of a `Task`


@dataclass(slots=True)
class SuperstepEnd:
    """The report of a partition to all others.

    Attributes:
        progress: progress of its iteration.
        vertices: that it has now.
        late: the time of the command is up; that of partition 0 counts.
        failure: why its iteration failed.
    """

    progress: IterationStats = field(default_factory=IterationStats)
    vertices: int = 0
    late: bool = False
    failure: VertexError | None = None


End = TypeVar("End", bound=SuperstepEnd)


@dataclass(frozen=True, slots=True)
class RunPosition:
    """The position of a run between two tasks that each do one superstep.

    Attributes:
        iteration: the one that is next, or if there are `ends` the one that they end.
        aggregates: what aggregators read in it.
        vertices: number of vertices of the graph.
        round, begins: as those of the `Master`.
        ends: the ends of the last superstep, of all partitions, which are not taken in yet.
    """

    iteration: int
    aggregates: dict[str, Any]
    vertices: int
    round: int = 0
    begins: bool = False
    ends: tuple[SuperstepEnd, ...] = ()


def end_superstep(blocks: Blocks, end: End) -> Steps[tuple[Blocks, list[End]]]:
    """Send blocks to other partitions; return what came, and what each partition tells.

    A partition without others does so too: another loop on it may have a turn then.

    Args:
        blocks: (destination, block).
        end: what this partition tells.
    """
    yield from blocks
    ends: tuple[Blocks, list[End]] = yield PEERS, end
    return ends
