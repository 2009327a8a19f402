"""What the driver of an events loop tells its tasks, and what they tell it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vertexsdk.compile.plan import Plan
from vertexsdk.engine._master import IterationStats, Master
from vertexsdk.engine.events._event_changes import AppliedChanges, EventBatch
from vertexsdk.engine.events._records import Chain
from vertexsdk.engine.task import make_master
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.state import SegmentRef


@dataclass(frozen=True, slots=True)
class EventsCommand:
    """What a hop is to do, in this order; None, False or empty for nothing.

    Attributes:
        key: under which the version that it makes is kept.
        chains: of the version that it begins from, per partition.
        loop: what `self.loop` is.
        load: read the graph that was loaded under `Plan.topologies`, and send it to its places.
        named: vertices which are there without edges, as an Arrow array; with `load`.
        restore: nodes of a checkpoint.
        wake: let every vertex scatter.
        batch: take in changes; with `strict` only if each meets its edge.
        steps: run so many iterations at most, one unless partitions stay where they are, and no
            longer than `seconds`.
        unfinished: the loop has not ended; else only changes make it run.
        limit: the iteration which is the last by the program's own rule.
        write: "base", or "delta" where that will do; after iterations only if they have ended.
        checkpoint: write edges and nodes, and what the driver wants to be remembered.
        names: of string ids, for what is written.
        drop: what to forget.
    """

    key: str
    chains: tuple[Chain, ...]
    loop: str
    iteration: int = 0
    aggregates: dict[str, Any] = field(default_factory=dict)
    num_vertices: int = 0
    load: bool = False
    named: Any = None
    restore: tuple[SegmentRef, ...] = ()
    wake: bool = False
    batch: EventBatch | None = None
    strict: bool = False
    steps: int = 0
    seconds: float = 1.0
    unfinished: bool = True
    limit: int | None = None
    write: str | None = None
    checkpoint: bool = False
    remember: Any = None
    names: StringIds | None = None
    drop: tuple[str, ...] = ()


@dataclass(slots=True)
class EventsReport:
    """What a task tells the driver; `history` as in `RunReport`."""

    partition: int
    chain: Chain = ()
    taken: AppliedChanges = field(default_factory=AppliedChanges)
    history: list[IterationStats] = field(default_factory=list)
    reason: str | None = None
    vertices: int = 0
    edges: int = 0
    moved: bool = False
    born: list[Any] = field(default_factory=list)
    segments: list[SegmentRef] = field(default_factory=list)
    wrote: bool = False
    whole: bool = False
    bytes: int = 0  # on their way at the end
    exchanged: int = 0  # bytes that came to where they were sent, between iterations
    remembered: Any = None
    lost: str | None = None
    seconds: dict[str, float] = field(default_factory=dict)


def master_at(
    plan: Plan, iteration: int, aggregates: dict[str, Any], num_vertices: int, limit: int | None
) -> Master:
    """The state machine of the loop, before an iteration."""
    master = make_master(plan, num_vertices)
    master.iteration, master.max_iterations = iteration, limit
    if aggregates:
        master.aggregates = dict(aggregates)
    return master
