"""The interface for users: `run`, main loops and branches, streams into them, and results.

The history of a loop is a list of versions in a store; a version is committed whole or not at all.
Changes are durable before they are acknowledged.
"""

__all__ = [
    "arguments",
    "branch_loop",
    "change_log",
    "data_source",
    "durations",
    "edge_times",
    "estimate",
    "exact_versions",
    "explain",
    "find_program",
    "history",
    "ledger",
    "loop_store",
    "main_loop",
    "main_loops",
    "metrics",
    "networkx_backend",
    "output",
    "paths",
    "query_service",
    "request_client",
    "request_service",
    "result",
    "run",
    "signals",
    "snapshot_policy",
    "snapshot_thread",
    "streams",
    "subscription",
    "turns",
    "window",
]
