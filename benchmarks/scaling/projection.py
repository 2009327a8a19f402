"""A model of PageRank on many executors: costs in, a table out. Pure; it measures nothing.

One partition per executor. Vertices are placed by the hash of their ids, so an edge leads to
another partition with probability 1 - 1/P. Messages to one vertex are combined before they leave,
so that a partition sends as many as it has different targets elsewhere: with m/P edges that each
hit one of n vertices evenly, about n (1 - 1/P) (1 - exp(-m / (P n))). Hubs combine better.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["BUNDLE", "SLOTS", "Assumed", "Costs", "Projected", "fewest", "messages", "project"]

BUNDLE = 2**31 - 2**16  # bytes from one partition to one other in a hop: Spark's record length
SLOTS = 2**31 - 1  # vertices and ghosts of a partition: int32


@dataclass(frozen=True, slots=True)
class Costs:
    """Measured. Seconds of a core unless it says otherwise.

    Attributes:
        hop: wall seconds of a hop whatever it does.
        task, pair: of a task; of one block that it sends, which another one reads.
        driver_task, driver_pair: seconds of the driver for each task, each pair of partitions.
        message: a combined message, coded, taken in, without what its bytes cost on their way.
        message_bytes: of a combined message.
        byte, driver_byte: a byte by the shuffle; by the driver, wall seconds.
        commit, commit_byte: wall seconds of a commit; of each byte of it, at one store.
        edge: an edge in an iteration of PageRank.
        load: an edge read, routed, sorted, kept.
        edge_memory, vertex_memory, ghost_memory: bytes.
    """

    hop: float
    task: float
    pair: float
    driver_task: float
    driver_pair: float
    message: float
    message_bytes: float
    byte: float
    driver_byte: float
    commit: float
    commit_byte: float
    edge: float
    load: float
    edge_memory: float
    vertex_memory: float
    ghost_memory: float


@dataclass(frozen=True, slots=True)
class Assumed:
    """Not measured.

    Attributes:
        edges, edges_per_vertex: the graph.
        cores, memory: of an executor; bytes.
        network: bytes per second into and out of an executor, both at once.
        edge_bytes: of an edge on its way to its partition, while loading.
        state_bytes: committed for a vertex: its id and its rank.
        stores: servers that share what is committed.
    """

    edges: float = 1e11
    edges_per_vertex: float = 16.0
    cores: float = 16.0
    memory: float = 128 * 2.0**30
    network: float = 1.25e9
    edge_bytes: float = 24.0
    state_bytes: float = 16.0
    stores: float = 1.0


@dataclass(frozen=True, slots=True)
class Projected:
    """One size of cluster. Seconds are of one iteration but for ``load``; bytes of one executor.

    ``refused``: why it would not run at all, empty where it would.
    """

    executors: int
    memory: float
    messages: float
    sent: float
    bundle: float
    kernel: float
    shuffle: float
    driver: float
    commit: float
    by_driver: float
    load: float
    refused: tuple[str, ...]

    @property
    def seconds(self) -> float:
        """Of an iteration whose messages go by the shuffle, and which is committed."""
        return sum(self.parts().values())

    def parts(self) -> dict[str, float]:
        """The seconds of an iteration, by what they are spent on."""
        return {
            "kernel": self.kernel, "shuffle": self.shuffle, "driver": self.driver,
            "commit": self.commit,
        }  # fmt: skip

    @property
    def limit(self) -> str:
        """What stands in the way first: what keeps it from running, or what takes longest."""
        return ", ".join(self.refused) or self.longest().replace("commit", "store")

    def longest(self, *, commits: bool = True) -> str:
        """The part of an iteration that takes longest; perhaps of one that is not committed."""
        parts = {name: v for name, v in self.parts().items() if commits or name != "commit"}
        return max(parts, key=lambda name: parts[name])


def messages(edges: float, vertices: float, partitions: int) -> float:
    """Combined messages that one partition sends to others in an iteration.

    >>> messages(1e6, 1e4, 1)
    0.0
    """
    combined = -math.expm1(-edges / partitions / vertices)
    return vertices * (1 - 1 / partitions) * combined


def project(costs: Costs, executors: int, assumed: Assumed | None = None) -> Projected:
    """What one size of cluster would take."""
    a = assumed or Assumed()
    p = executors
    vertices = a.edges / a.edges_per_vertex
    edges, own = a.edges / p, vertices / p
    sent = messages(a.edges, vertices, p)
    bytes_sent = sent * costs.message_bytes
    bundle = bytes_sent / (p - 1) if p > 1 else 0.0
    memory = edges * costs.edge_memory + own * costs.vertex_memory + sent * costs.ghost_memory
    work = sent * costs.message + bytes_sent * costs.byte + costs.pair * p
    refused = [
        name
        for name, over in (
            ("memory", memory > a.memory),
            ("block over 2 GiB", bundle > BUNDLE),
            ("over 2^31 slots", own + sent > SLOTS),
        )
        if over
    ]
    return Projected(
        executors=p,
        memory=memory,
        messages=sent,
        sent=bytes_sent,
        bundle=bundle,
        kernel=edges * costs.edge / a.cores,
        shuffle=work / a.cores + bytes_sent / a.network,
        driver=costs.hop + costs.task + costs.driver_task * p + costs.driver_pair * p * p,
        commit=costs.commit + vertices * a.state_bytes * costs.commit_byte / a.stores,
        by_driver=bytes_sent * p * costs.driver_byte,
        load=edges * costs.load / a.cores + edges * a.edge_bytes * (1 - 1 / p) / a.network,
        refused=tuple(refused),
    )


def fewest(costs: Costs, assumed: Assumed | None = None, most: int = 1 << 20) -> int | None:
    """The least number of executors on which nothing is refused; None where ``most`` are too few.

    What is refused for so many may be refused for fewer, never the other way round.
    """
    low, high = 0, most
    if project(costs, most, assumed).refused:
        return None
    while high - low > 1:
        middle = (low + high) // 2
        if project(costs, middle, assumed).refused:
            low = middle
        else:
            high = middle
    return high
