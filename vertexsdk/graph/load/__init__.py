"""Edges from files, DataFrames and other libraries' graphs to resident topologies."""

__all__ = [
    "adjacency_rows",
    "arrow",
    "blocks",
    "build_topology",
    "condition",
    "csv",
    "dataframes",
    "files",
    "followed_files",
    "lines",
    "load_task",
    "sources",
    "tables",
    "text",
    "transpose",
]
