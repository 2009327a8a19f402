"""What the driver asks of the partitions of a loop whose graph changes, and what they answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.answer_checks import Counts, add_counts
from vertexsdk.engine.commands import EdgeColumns, Version, WorkDone
from vertexsdk.engine.snapshots import SnapshotPart, SnapshotRequest
from vertexsdk.engine.supersteps import RunPosition
from vertexsdk.errors import VertexError
from vertexsdk.graph.changes.changes import COUNTS
from vertexsdk.state import EncodedSegment, SegmentRef


@dataclass(frozen=True, slots=True)
class CreatePartition:
    """Make the partitions of a graph which is loaded: their keys, and who is named."""

    topologies: tuple[str, ...]
    named: NDArray[np.int64]  # ids, or ranks of names, ascending
    code_step: int | None = None  # between the codes of names; None where ids are integers
    names: tuple[NDArray[np.int64], NDArray[np.uint8]] | None = None  # all; None: those it has
    nodes: tuple[SegmentRef, ...] = ()  # of an events loop's checkpoint, to go on from there


@dataclass(frozen=True, slots=True)
class BeginRun:
    """Make the partitions of a run, before its first iteration or where a snapshot was taken.

    Attributes:
        segments: of the snapshot, of all partitions that there were then; empty for none.
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
        segments: of kind "snapshot", of any number of partitions, oldest first.
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
    it goes on from a `position`, by one superstep. A snapshot is of the state before the
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
    """What a task tells the driver; see `CommandResult`."""

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
    checksum: int = 0  # of a run's graph, see `graph_checksum`

    @classmethod
    def total(cls, reports: Sequence[LoopReport]) -> LoopReport:
        """What all partitions tell; what they decide alike is in the report of each."""
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
