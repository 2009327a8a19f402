"""Edges from files, DataFrames and other libraries' graphs to resident topologies."""

__all__ = ["arrow", "build_topology", "followed_files", "paths", "tables", "transpose"]
