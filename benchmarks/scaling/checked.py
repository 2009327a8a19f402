"""The model held against this machine: its iterations of PageRank beside those measured here."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scaling.ground import ITERATIONS
from benchmarks.scaling.projection import Costs, messages
from benchmarks.scaling.results import Results

__all__ = ["Compared", "compared"]


@dataclass(frozen=True, slots=True)
class Compared:
    """One number of partitions on the cores of this machine; seconds of one iteration.

    ``messages``: that cross, in all, as the model thinks; ``crossing``: as loading found.
    """

    partitions: int
    messages: float
    crossing: float
    model: float
    measured: float


def compared(r: Results, costs: Costs) -> list[Compared]:
    """What the model says of the runs of the case ``local-2`` that had more than one partition.

    There is no network: all partitions share the cores, and take turns where they are more.
    """
    case, cores = "local-2", r.sizes.cores
    found = []
    for partitions in r.sizes.partitions:
        loop = r.median(case, "partitions pagerank loop", partitions)
        vertices = r.median(case, "partitions pagerank vertices", partitions)
        crossing = r.median(case, "partitions pagerank ghosts", partitions)
        hops = r.median(case, "partitions pagerank hops", partitions)
        if partitions == 1 or None in (loop, vertices, crossing, hops):
            continue
        assert loop is not None and vertices is not None and crossing is not None
        edges = float(16 << r.sizes.scale)
        sent = crossing * costs.message_bytes
        work = edges * costs.edge + crossing * costs.message + sent * costs.byte
        work += costs.task * partitions + costs.pair * partitions**2
        found.append(
            Compared(
                partitions,
                partitions * messages(edges, vertices, partitions),
                crossing,
                costs.hop + work / cores,
                loop / (ITERATIONS + 1),
            )
        )
    return found
