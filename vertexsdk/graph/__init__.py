"""The graph: `topology` has a loaded partition, `load` reads edges, `changes` are changes of them.

A topology is one partition's adjacency, and never changes. Nothing here iterates. `graph` is what
a user holds.
"""

__all__ = [
    "changes",
    "checkpoint",
    "graph",
    "load",
    "partitioner",
    "topology",
    "vertex_file",
]
