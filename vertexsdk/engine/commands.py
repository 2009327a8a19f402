"""The commands that a loop or run gives its engine, and the results that it returns.

A loop, main or branch, gives commands: changes to take in, a budget of iterations, whether to write
the state. Its engine executes them where the partitions are, and returns their results. `fork`
gives a branch an engine of its own, which starts from the state that this one has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine._master import IterationStats
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import COUNTS, Changes
from vertexsdk.graph.graph import Graph
from vertexsdk.program.program import Program
from vertexsdk.state import EncodedSegment, SegmentRef
from vertexsdk.state.address import Address

# Of one partition: codes of sources and targets (int64[k]), and messages (k,) or (k, size).
EdgeColumns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the iterations that a loop does; without limits it iterates to the fixed point.

    Args:
        iterations: the largest number of iterations; None is no limit.
        seconds: seconds after which no further iteration starts; None is no limit.
        cancelled: called between commands; once it returns True, the loop stops at the end of
            the current iteration.
        report: called between commands with the work done so far.
        slice: seconds of iterations in a command.

    Raises:
        InputError: a limit is negative or not a number.

    Example:
        >>> from vertexsdk import Graph, MainLoop
        >>> from vertexsdk.algorithms import PageRank
        >>> graph = Graph.from_arrays([1, 2, 3], [2, 3, 1], spark=spark)
        >>> budget = Budget(iterations=5, seconds=0.5)  # after each batch of changes
        >>> with MainLoop(PageRank, graph, backend="memory://docs", budget=budget) as main:
        ...     counts = main.ingest([("+", 1, 3)])
        ...     main.lookup(3)[3]["behind"]
        0
    """

    iterations: int | None = None
    seconds: float | None = None
    cancelled: Callable[[], bool] | None = None
    report: Callable[[WorkDone], None] | None = None
    slice: float = 1.0

    def __post_init__(self) -> None:
        count, seconds = self.iterations, self.seconds
        if count is not None and not (isinstance(count, int | np.integer) and count >= 0):
            raise InputError(f"a limit of {count!r} iterations; make it an integer of 0 or more")
        if seconds is not None and not (
            isinstance(seconds, int | float | np.number) and seconds >= 0
        ):
            raise InputError(f"a time limit of {seconds!r}; make it seconds, 0 or more")


QUIET = Budget()


@dataclass(frozen=True, slots=True)
class Version:
    """The state at the end of an iteration, which partitions have written to the store.

    Attributes:
        iteration: of the run.
        segments: of all partitions in which anything has changed since the version before.
        aggregates: what aggregators read last.
        work: that was done since the command began.
        vertices: of the graph.
        reason: why the run has ended, if it has.
        statistics: of bounded iterations.
    """

    iteration: int
    segments: list[SegmentRef]
    aggregates: dict[str, Any]
    work: WorkDone
    vertices: int
    reason: str | None = None
    statistics: dict[str, Any] = field(default_factory=dict)

    def joined(self, other: Version) -> Version:
        """With what another partition wrote of the same iteration."""
        self.work.join(other.work)
        return replace(
            self, segments=self.segments + other.segments, vertices=self.vertices + other.vertices
        )


@dataclass(frozen=True, slots=True)
class Versions:
    """Which versions of a run are written while it goes on, beside that of its end.

    Attributes:
        every: so many iterations; None for none.
        after: an earlier try has committed up to this iteration.
        add: called with each version, in order, as soon as it is durable.
    """

    every: int | None
    after: int
    add: Callable[[Version], object]


@dataclass(frozen=True, slots=True)
class RunSnapshots:
    """When snapshots of a run are taken, and who takes them.

    Attributes:
        iterations: after so many; None: not because of their number.
        seconds: so long after the one before; None: not because of time.
        add: called with the work done until a snapshot, and its segments, when all are stored.
        drop: called with segments of one that will not be complete, and why: "" if the run ended.
    """

    iterations: int | None
    seconds: float | None
    add: Callable[[WorkDone, list[SegmentRef]], object]
    drop: Callable[[list[SegmentRef], str], object]


@dataclass(frozen=True, slots=True)
class Command:
    """What an engine is to do, in this order, all of it at an iteration's end.

    Attributes:
        changes: to take in; None or empty for none.
        ref: the segment which holds them, where they are in the store already.
        strict: take in none of them if one meets no edge to remove or change.
        budget: iterations to run then; None for none.
        write: write what of the state has changed since it was last written.
        versions: of a run, to be written on the way.
        snapshots: of a run, to be taken on the way.
        before: the work of a run that was done before this process went on with it.
    """

    changes: Changes | None = None
    ref: SegmentRef | None = None
    strict: bool = False
    budget: Budget | None = None
    write: bool = False
    versions: Versions | None = None
    snapshots: RunSnapshots | None = None
    before: WorkDone | None = None


@dataclass(slots=True)
class WorkDone:
    """What a number of iterations did, of all partitions; `IterationStats` is what one did.

    `touched` counts vertices which gathered or began, each time they did. `hops` counts
    exchanges of all partitions, of one partition its commands; they sent `bytes` to each other.

    `residual` is how far the state is from the fixed point, as the program's rule measures it:
    an upper bound of what the aggregates showed last, or None where there is no rule. `quiet`:
    the program's rule ended it, so what is there is exact.
    """

    iterations: int = 0
    updates: int = 0
    messages: int = 0
    touched: int = 0
    hops: int = 0
    bytes: int = 0
    residual: float | None = None
    quiet: bool = False
    reason: str | None = None
    seconds: float = 0.0

    def add(self, other: WorkDone | IterationStats) -> None:
        """Count what one more iteration did, or several more; how they ended is not taken over."""
        self.updates += other.updates
        self.messages += other.messages
        if isinstance(other, WorkDone):
            self.iterations += other.iterations
            self.touched += other.touched
            self.hops += other.hops
            self.bytes += other.bytes
        else:
            self.iterations += 1
            self.touched += other.updates

    def join(self, other: WorkDone) -> None:
        """Count what another partition did in the same iterations."""
        for name in ("updates", "messages", "touched", "bytes"):
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class CommandResult:
    """What became of a command.

    Attributes:
        counts: changes by what they met, see `COUNTS`.
        absent: numbers of the changes which met no edge; with `strict` nothing was taken in then.
        work: of the iterations.
        iteration: of the loop now; it never falls.
        segments: of the state, as `Store.commit` takes them; empty if nothing had changed.
        unwritten: those of them that are small, and so not in the store yet.
        whole: the segments are bases, to stand alone: vertices have come or gone.
        num_vertices, num_edges: of the graph now.
        start: "warm" if the iterations went on from the state before, else "init".
        start_reason: why.
        aggregates: what the program's aggregators read last.
        not_finite: how many values of the state that was written are NaN and infinite, by column.
        statistics: what else is to be said: `hops`, `bytes`, seconds per phase, ...
        messages: of a run of a class with `edge_values`, the last messages of each partition.
    """

    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    absent: list[int] = field(default_factory=list)
    work: WorkDone = field(default_factory=WorkDone)
    iteration: int = 0
    segments: list[SegmentRef] = field(default_factory=list)
    unwritten: list[EncodedSegment] = field(default_factory=list)
    whole: bool = False
    num_vertices: int = 0
    num_edges: int = 0
    start: str = "init"
    start_reason: str = ""
    aggregates: dict[str, Any] = field(default_factory=dict)
    not_finite: dict[str, tuple[int, int]] = field(default_factory=dict)
    statistics: dict[str, Any] = field(default_factory=dict)
    messages: list[EdgeColumns] = field(default_factory=list)


@dataclass(frozen=True)
class Setting:
    """What an engine is made for.

    Attributes:
        program: of any number of classes.
        graph: what it begins with.
        params: values of the program's parameters, as the user gave them.
        backend: URL of the store that segments are written to.
        loop: the name that segments are written under.
        options: of its runs.
        nodes: of a checkpoint, for an events program to stand there.
    """

    program: Program
    graph: Graph
    params: Mapping[str, Any]
    backend: str | Address
    loop: str
    options: RunOptions = field(default_factory=RunOptions)
    nodes: Sequence[SegmentRef] = ()
