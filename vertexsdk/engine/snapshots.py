"""Snapshots of a loop's partitions: what is asked for, and what came of it.

Between two supersteps no message is on its way, so what all partitions hold then is consistent
(Carbone et al., "Lightweight asynchronous snapshots for distributed dataflows", 2015, section 4.1,
of one stage). Each takes over copies, or a fork whose pages are copied as they are written to, and
continues; a thread encodes and stores them meanwhile (Fernandez et al., "Making state explicit for
imperative big data processing", USENIX ATC 2014, section 5: consistent and dirty state).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from vertexsdk.state import SegmentRef


@dataclass(frozen=True, slots=True)
class SnapshotRequest:
    """A snapshot to be written by all partitions.

    Attributes:
        number: number of the snapshot, ascending.
        token: its own; what changed is known since the snapshot whose token a partition has.
        graph: with the edges; else only the state, for the edges are in the store with the change
            log.
        whole: with every vertex, not only those that changed since the snapshot before.
        waits: report when it is stored; else a thread writes while the loop continues.
    """

    number: int
    token: str = ""
    graph: bool = False
    whole: bool = False
    waits: bool = False


@dataclass(slots=True)
class SnapshotPart:
    """The part of a snapshot that one partition has stored.

    Attributes:
        number: number of the snapshot.
        segments: for `Store.commit`.
        state: whether the state is in them; it is not before iteration 0.
        pause: seconds for which the partition stood still.
        seconds: until everything was stored.
        failure: why it could not be stored, in one line; "" if it was.
    """

    number: int
    segments: list[SegmentRef] = field(default_factory=list)
    state: bool = False
    pause: float = 0.0
    seconds: float = 0.0
    failure: str = ""
