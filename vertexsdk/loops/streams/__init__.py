"""Streams into a loop: files that may grow, and streaming DataFrames."""

__all__ = [
    "counters",
    "dataframe_stream",
    "file_stream",
    "intake",
]
