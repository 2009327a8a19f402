"""What a user works with: `run`, main loops and branches, streams into them, and results.

The history of a loop is a list of versions in a store; a version is committed whole or not at all.
Changes are durable before they are acknowledged.
"""

__all__ = [
    "arguments",
    "branch_loop",
    "data_source",
    "estimate",
    "exact_versions",
    "explain",
    "find_program",
    "loop_store",
    "main_loop",
    "main_loops",
    "metrics",
    "networkx_backend",
    "output",
    "query_service",
    "request_client",
    "request_service",
    "rescale",
    "result",
    "run",
    "signals",
    "snapshot_policy",
    "snapshot_thread",
    "streams",
    "windows",
]
