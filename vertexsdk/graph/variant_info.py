"""What is counted while a graph is loaded in one variant."""

from __future__ import annotations

from dataclasses import dataclass

from vertexsdk.graph.load.build_topology import Variant


@dataclass(frozen=True, slots=True)
class VariantInfo:
    """Counts taken while a variant was loaded.

    `num_edges` counts edges of the input, without duplicates unless the graph keeps them; an edge
    of an undirected graph counts once. `valued` of the `given` lines had a value (the others
    have value 1). `sizes` has (vertices, adjacency entries, ghosts) of each partition, `keys`
    their resident keys, `kinds` the class names that codes in `Topology.kind` stand for.
    `self_loops` counts vertices with an edge to themselves. `boundary` counts vertices with a
    consumer in another partition, `remote` the adjacency entries that lead to another one.
    """

    variant: Variant
    num_vertices: int
    num_edges: int
    given: int
    duplicates: int
    self_loops: int
    valued: int
    string_ids: bool
    mixed_ids: bool
    kinds: tuple[str, ...]
    sizes: tuple[tuple[int, int, int], ...]
    keys: tuple[str, ...]
    bytes: int
    seconds: float
    boundary: int = 0
    remote: int = 0

    @property
    def boundary_share(self) -> float:
        """The share of vertices with a consumer in another partition, 0 to 1."""
        return self.boundary / max(self.num_vertices, 1)

    @property
    def cut(self) -> float:
        """The share of adjacency entries that lead to another partition, 0 to 1."""
        return self.remote / max(sum(entries for _, entries, _ in self.sizes), 1)

    @property
    def imbalance(self) -> float:
        """The vertices and adjacency entries of the largest partition over those of the mean."""
        loads = [vertices + entries for vertices, entries, _ in self.sizes]
        return max(loads) * len(loads) / max(sum(loads), 1)
