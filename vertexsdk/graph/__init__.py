"""The graph: ids, topologies, placement, and the ways in for edges and for changes.

A topology is one partition's adjacency, and never changes.
Nothing here iterates.
"""

__all__ = [
    "changes",
    "checkpoint",
    "checksum",
    "conversions",
    "edge_attributes",
    "graph",
    "id_codec",
    "load",
    "name_codes",
    "partitioners",
    "placement",
    "string_ids",
    "target_rows",
    "topology",
    "variant_info",
    "vertex_file",
]
