"""The model held against this machine: its iterations of PageRank beside those measured here."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.scaling.projection import Costs, messages
from benchmarks.scaling.results import Results
from vertexsdk.iterating import SHUFFLE

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

    There is no network: all partitions share the cores, and take turns where they are more. Runs
    with so few messages that they went by the driver are left out.
    """
    cores, edges = r.sizes.cores, float(16 << r.sizes.scale)
    found = []
    for partitions in r.sizes.partitions:
        numbers = [
            r.median("local-2", f"partitions pagerank {name}", partitions)
            for name in ("loop", "vertices", "ghosts", "bytes", "hops")
        ]
        loop, vertices, crossing, size, hops = (number or 0.0 for number in numbers)
        if not hops or size / hops <= SHUFFLE:
            continue
        sent = crossing * costs.message_bytes
        work = edges * costs.edge + crossing * costs.message + sent * costs.byte
        work += costs.task * partitions + costs.pair * partitions**2
        thought = partitions * messages(edges, vertices, partitions)
        model = costs.hop + work / cores
        found.append(Compared(partitions, thought, crossing, model, loop / hops))
    return found
