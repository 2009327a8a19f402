"""What other systems call the built-in programs.

A name is *understood* if it means exactly what the program here computes, on every graph on which
the other system has it; else it is suggested, with the difference.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping

# Names of NetworkX, igraph, GraphX, GraphFrames and Neo4j GDS, without their marks: see `_plain`.
_UNDERSTOOD = {
    "betweenness_centrality": "betweenness",
    "breadth_first_search": "bfs",
    "coloring": "colouring",
    "connected_components": "wcc",
    "local_clustering_coefficient": "lcc",
    "maximal_independent_set": "mis",
    "maximal_matching": "matching",
    "minimum_spanning_forest": "forest",
    "minimum_spanning_tree": "forest",
    "scc": "scc",
    "single_source_dijkstra_path_length": "sssp",
    "single_source_shortest_path_length": "bfs",
    "strongly_connected_components": "scc",
    "triangle_count": "triangles",
    "triangles": "triangles",
    "wcc": "wcc",
    "weakly_connected_components": "wcc",
}
_PATHS = "lengths of paths from `origin`; `bfs` counts edges, result.path(to) has the vertices"
_LABELS = "all labels change at once, for 10 iterations, and of equals the smallest wins"
_CORES = "every vertex counts a neighbour once, whichever way edges go"
_DIFFERENT = {
    "bfs_tree": ("bfs", "numbers of edges from `origin`; result.path(to) has the vertices"),
    "average_clustering": ("lcc", "the coefficient of each vertex"),
    "asyn_lpa_communities": ("cdlp", _LABELS),
    "closeness_centrality": ("closeness", "its field closeness; its value is harmonic"),
    "clustering": (
        "lcc",
        "directed edges count as in LDBC Graphalytics",
    ),
    "clustering_coefficient": ("lcc", "the coefficient of each vertex"),
    "community_leiden": ("leiden", "without direction, the same for every run"),
    "community_multilevel": ("louvain", "without direction, the same for every run"),
    "core_number": ("kcore", _CORES),
    "coreness": ("kcore", _CORES),
    "degree_centrality": ("degree", "numbers of edges, not divided"),
    "delta_stepping": ("sssp", _PATHS),
    "dijkstra": ("sssp", _PATHS),
    "dijkstra_path": ("sssp", _PATHS),
    "dijkstra_path_length": ("sssp", _PATHS),
    "eigenvector_centrality": ("eigenvector", "edge values do not count"),
    "fast_label_propagation_communities": ("cdlp", _LABELS),
    "greedy_color": ("colouring", "another order, so other colours"),
    "harmonic_centrality": ("closeness", "sums of 1/distance, not divided"),
    "in_degree": ("degree", "its field in_degree"),
    "jaccard_coefficient": ("edge_similarity", "of the pairs that an edge joins"),
    "k1coloring": ("colouring", "another order, so other colours"),
    "k_core": ("kcore", "the largest k of each vertex; keep those of your k or more"),
    "k_core_decomposition": ("kcore", _CORES),
    "k_truss": ("truss", "result.edges() has its edges"),
    "katz_centrality": ("katz", "scores are not divided by their length"),
    "label_propagation": ("cdlp", _LABELS),
    "label_propagation_communities": ("cdlp", _LABELS),
    "louvain_communities": ("louvain", "without direction, the same for every run"),
    "neighborhood": ("khop", "from the vertices with the attribute `source` = 1"),
    "node_similarity": ("similarity", "to `origin`; `edge_similarity` is of every edge"),
    "out_degree": ("degree", "its field out_degree"),
    "page_rank": ("pagerank", "ranks add up to 1"),
    "parallel_personalized_page_rank": ("ppr", "by the vertex attribute `jump`"),
    "personalized_page_rank": ("ppr", "by the vertex attribute `jump`"),
    "random_walk": ("walks", "how often each vertex is visited"),
    "shortest_path": ("sssp", _PATHS),
    "shortest_path_length": ("sssp", _PATHS),
    "shortest_paths": ("sssp", _PATHS),
    "single_source_bellman_ford": ("sssp", _PATHS),
    "single_source_dijkstra": ("sssp", _PATHS),
    "single_source_shortest_path": ("bfs", "numbers of edges; result.path(to) has the vertices"),
    "spanning_tree": ("forest", "the minimum spanning forest, by edge values"),
    "square_clustering": ("squares", "how many cycles of four edges, not a share"),
    "static_page_rank": ("pagerank", "ranks add up to 1; give `iterations` for a fixed number"),
    "transitivity": ("lcc", "the coefficient of each vertex"),
}


def _plain(name: str) -> str:
    """Return a name without what systems differ in: `gds.triangleCount.stream`, `nx.triangles`.

    >>> [_plain(name) for name in ("gds.triangleCount.stream", "triangle_count")]
    ['trianglecount', 'trianglecount']
    """
    name = re.sub(r"^(gds|nx|networkx|algo)\.(alpha\.|beta\.)?", "", name.strip())
    name = re.sub(r"\.(stream|stats|mutate|write)$", "", name)
    return re.sub(r"[\W_]", "", name).lower()


def understood(name: str) -> str:
    """Return the built-in program that another system's name means exactly, else the name itself.

    >>> understood("stronglyConnectedComponents"), understood("clustering")
    ('scc', 'clustering')
    """
    return {_plain(other): ours for other, ours in _UNDERSTOOD.items()}.get(_plain(name), name)


def program_hint(name: str, classes: Mapping[str, type]) -> str:
    """Return what to write in place of a name that is not understood; "" if nothing is near.

    Args:
        name: that somebody gave.
        classes: the built-in programs, by name.
    """
    for other, (ours, difference) in _DIFFERENT.items():
        if _plain(other) == _plain(name):
            return f"; the nearest is {ours!r}: {difference}"
    known = {other: ours for other, (ours, _) in _DIFFERENT.items()} | _UNDERSTOOD
    known |= {cls.__name__: ours for ours, cls in classes.items()}
    by_plain = {_plain(other): ours for other, ours in known.items()}
    by_plain |= {_plain(ours): ours for ours in classes}
    near = difflib.get_close_matches(_plain(name), by_plain, 1, 0.7)
    return f"; did you mean {by_plain[near[0]]!r}?" if near else ""
