"""The commands that a loop or run gives its engine, those of partitions, and the results.

A loop, main or branch, gives commands: changes to take in, a budget of iterations, whether to write
the state. Its engine executes them where the partitions are, and returns their results. `fork`
gives a branch an engine of its own, which starts from the state that this one has.

What an engine asks of its partitions is a `LoopCommand`, and what each of them answers a
`LoopReport`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.engine.supersteps import RunPosition
from vertexsdk.errors import InputError, VertexError
from vertexsdk.graph.changes.changes import COUNTS, Changes
from vertexsdk.graph.graph import Graph
from vertexsdk.program.program import Program
from vertexsdk.state import EncodedSegment, SegmentRef
from vertexsdk.state.address import Address

Counts = dict[str, tuple[int, int]]  # values that are NaN, and infinite, by column

# Of one partition: codes of sources and targets (int64[k]), and messages (k,) or (k, size).
EdgeColumns = tuple[NDArray[Any], NDArray[Any], NDArray[Any]]


@dataclass(frozen=True, slots=True)
class AnswerStart:
    """The start of the answers of a loop, but for the first, which begins with `init`.

    Attributes:
        strategy: "warm" where iterations continue from the state before, and "init" where they
            begin anew. "local" and "history": the answer follows from the last one, or they do.
        choice: the delay bound of iterations from `init`.
        reason: why every answer begins with `init`; None where not all do.
        history_bytes: bytes that the history of iterations may take in all partitions; None for
            no other limit than that of the engine.
    """

    strategy: Literal["warm", "init", "local", "history"]
    choice: BoundChoice
    reason: str | None = None
    history_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Budget:
    """Limits of the iterations that a loop does; without limits it iterates to the fixed point.

    Args:
        iterations: the largest number of iterations; None for no limit.
        seconds: seconds after which no further iteration starts; None for no limit.
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
        iteration: the iteration at whose end the state was written.
        segments: those of all partitions in which anything has changed since the version before.
        aggregates: what aggregators read last.
        work: the work done since the command began.
        vertices: number of vertices of the graph.
        reason: why the run has ended, if it has.
        statistics: statistics of bounded iterations.
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
    """The versions of a run to write while it runs, besides the last one.

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
    """The schedule of a run's snapshots, and the functions that take them.

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
    """The work for an engine, in this order, all of it at an iteration's end.

    Attributes:
        changes: to take in; None or empty for none.
        ref: the segment which holds them, where they are in the store already.
        strict: take in none of them if one meets no edge to remove or change.
        budget: iterations to run then; None for none.
        write: write what of the state has changed since it was last written.
        versions: the versions of a run to write on the way.
        snapshots: the snapshots of a run to take on the way.
        before: the work of a run that was done before this process continued it.
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
    """The work of a number of iterations, of all partitions; `IterationStats` is that of one.

    `touched` counts vertices which gathered or began, each time they did. `hops` counts
    exchanges of all partitions, of one partition its commands; they sent `bytes` to each other.

    `residual` is how far the state is from the fixed point, as the program's rule measures it:
    an upper bound of what the aggregates showed last, or None without a rule. `quiet`:
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
    """The outcome of a command.

    Attributes:
        counts: changes by what they met (`COUNTS`).
        absent: numbers of the changes which met no edge; with `strict` nothing was taken in then.
        work: the work of the iterations.
        iteration: the loop's iteration now; it never falls.
        segments: those of the state, as `Store.commit` takes them; empty if nothing had changed.
        unwritten: those of them that are small, and so not in the store yet.
        whole: the segments are bases, to stand alone: vertices have come or gone.
        num_vertices, num_edges: the size of the graph now.
        start: "warm" if the iterations continued from the previous state, else "init".
        start_reason: why.
        aggregates: what the program's aggregators read last.
        not_finite: how many values of the state that was written are NaN and infinite, by column.
        statistics: what else is to be said: `hops`, `bytes`, seconds per phase, ...
        messages: the last messages of each partition, in a run of a class with `edge_values`.
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
    """The settings that an engine is made with.

    Attributes:
        program: a program of any number of classes.
        graph: what it begins with.
        params: values of the program's parameters, as the user gave them.
        backend: URL of the store that segments are written to.
        loop: the name that segments are written under.
        options: options of its runs.
        nodes: segments of a checkpoint, from which an events program continues.
    """

    program: Program
    graph: Graph
    params: Mapping[str, Any]
    backend: str | Address
    loop: str
    options: RunOptions = field(default_factory=RunOptions)
    nodes: Sequence[SegmentRef] = ()


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Make the partitions of a graph which is loaded: their keys, and who is named."""

    topologies: tuple[str, ...]
    named: NDArray[np.int64]  # ids, or ranks of names, ascending
    code_step: int | None = None  # between the codes of names; None where ids are integers
    names: tuple[NDArray[np.int64], NDArray[np.uint8]] | None = None  # all; None: those it has
    nodes: tuple[SegmentRef, ...] = ()  # of an events loop's checkpoint, to continue from


@dataclass(frozen=True, slots=True)
class BeginRun:
    """Make the partitions of a run, before its first iteration or where a snapshot was taken.

    Attributes:
        segments: segments of the snapshot, of all its partitions; empty for none.
        alike: vertices are divided among partitions as they were then.
        trusted: pickled objects in them may be read.
    """

    segments: tuple[SegmentRef, ...] = ()
    alike: bool = True
    trusted: bool = False


@dataclass(frozen=True, slots=True)
class RestoreState:
    """Have the state of a snapshot, which was taken of the same graph, before iteration 0.

    Attributes:
        segments: segments of kind "snapshot", of any number of partitions, oldest first.
        codes: those which string ids had then (int64[n], ascending), and those which they have
            now; None where ids are integers, or all codes are the same.
    """

    segments: tuple[SegmentRef, ...]
    codes: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None


@dataclass(frozen=True, slots=True)
class LoopCommand:
    """One job: from `version`, which the partition must be at, to the next.

    `changes` are encoded columns, or the segment that has them. With `iterate` iterations run until
    the loop is quiet, for `seconds`, and at most `iterations` of them. With `write` the state goes
    to the store when they end; where they are not the `last`, only if the loop is quiet. A command
    that `goes_on` continues the iterations of the one before, whose seconds were over. With
    `fork` another partition is made, under that key, which stands where this one stands then.

    A run is written at its end, and each `every` iterations `after` one; `attempts` are those of
    the segments committed last, by partition, which deltas are made from. Where tasks do not stay
    it continues from a `position`, by one superstep. A snapshot is of the state before the
    iterations of its command.
    """

    version: int
    create: CreatePartition | None = None
    changes: bytes | SegmentRef | None = None
    strict: bool = False
    iterate: bool = False
    seconds: float = 1.0
    goes_on: bool = False
    iterations: int | None = None
    write: bool = False
    last: bool = True
    fork: str | None = None
    adopt: str | None = None  # stand where this fork stands
    snapshot: SnapshotRequest | None = None
    restore: RestoreState | None = None
    end: bool = False  # let go of the partition
    begin: BeginRun | None = None
    every: int | None = None
    after: int = 0
    attempts: tuple[str | None, ...] = ()
    position: RunPosition | None = None


@dataclass(slots=True)
class LoopReport:
    """The report of a task to the driver, most of which becomes a `CommandResult`."""

    version: int
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    absent: list[int] = field(default_factory=list)
    work: WorkDone = field(default_factory=WorkDone)
    warm: bool = True
    restarted: str = ""
    aggregates: dict[str, Any] = field(default_factory=dict)
    clock: int = 0
    segments: list[SegmentRef] = field(default_factory=list)
    unwritten: list[EncodedSegment] = field(default_factory=list)  # those that the driver stores
    refused: bool = False  # the changes, because one of them met no edge
    vertices: int = 0
    edges: int = 0
    pending: int = 0
    failure: VertexError | None = None
    seconds: dict[str, float] = field(default_factory=dict)
    memory: int = 0  # bytes
    used_memory: float = 0.0  # share of the limit of the container
    statistics: dict[str, Any] = field(default_factory=dict)  # of bounded iterations
    ranks: NDArray[np.int64] | None = None  # of a new partition's names, where it has its own
    names: list[str] = field(default_factory=list)  # that came up, and have no code yet
    versions: list[Version] = field(default_factory=list)  # of a run, that were written
    position: RunPosition | None = None  # of a run, where tasks do not stay
    not_finite: Counts = field(default_factory=dict)  # of the state that was written
    messages: list[EdgeColumns] = field(default_factory=list)  # of a run that has edge values
    snapshots: list[SnapshotPart] = field(default_factory=list)  # that were stored since
    cut: WorkDone = field(default_factory=WorkDone)  # of the command, before its snapshot
    checksum: int = 0  # of a run's graph (`graph_checksum`)

    @classmethod
    def total(cls, reports: Sequence[LoopReport]) -> LoopReport:
        """Combine the reports of all partitions; what they decide alike is in each report."""
        total = reports[0]
        for report in reports[1:]:
            for name, count in report.counts.items():
                total.counts[name] += count
            total.absent += report.absent
            total.segments += report.segments
            total.unwritten += report.unwritten
            for name in ("vertices", "edges", "pending"):
                setattr(total, name, getattr(total, name) + getattr(report, name))
            total.work.join(report.work)
            total.versions = list(map(Version.joined, total.versions, report.versions))
            if total.position is not None and report.position is not None:
                ends = total.position.ends + report.position.ends
                total.position = replace(total.position, ends=ends)
            total.memory = max(total.memory, report.memory)
            total.used_memory = max(total.used_memory, report.used_memory)
            total.names += report.names
            total.messages += report.messages
            total.snapshots += report.snapshots
            total.cut.join(report.cut)
            total.checksum = (total.checksum + report.checksum) % (1 << 64)
            total.not_finite = add_counts(total.not_finite, report.not_finite)
            if total.ranks is not None and report.ranks is not None:
                total.ranks = np.concatenate([total.ranks, report.ranks])
            for name, value in report.seconds.items():
                total.seconds[name] = max(total.seconds.get(name, 0.0), value)
        total.absent.sort()
        ends = () if total.position is None else total.position.ends
        total.failure = total.failure or next((e.failure for e in ends if e.failure), None)
        return total


def add_counts(a: Counts, b: Counts) -> Counts:
    """Return the counts of two partitions."""
    return {n: (a.get(n, (0, 0))[0] + b.get(n, (0, 0))[0], a.get(n, (0, 0))[1] +
                b.get(n, (0, 0))[1]) for n in {**a, **b}}  # fmt: skip
