"""A loaded partition as arrays: edges, ids, attributes, and the partition of each vertex."""

__all__ = [
    "edge_attributes",
    "id_codec",
    "id_index",
    "name_codes",
    "placement",
    "string_ids",
    "target_rows",
    "topology",
]
