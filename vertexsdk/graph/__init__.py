"""The graph: ids, topologies, placement, and the ways in for edges and for changes.

A topology is one partition's adjacency, and never changes. An `EdgeSet` is a graph's edges where
they change. Nothing here iterates.
"""

__all__ = [
    "changes",
    "checkpoint",
    "edge_attributes",
    "edge_kernels",
    "edge_set",
    "graph",
    "id_codec",
    "load",
    "name_codes",
    "partitioners",
    "placement",
    "string_ids",
    "topology",
    "vertex_file",
]
