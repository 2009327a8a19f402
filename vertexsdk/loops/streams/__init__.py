"""Streams into a loop: files that may grow, and streaming DataFrames."""

__all__ = ["dataframe_stream", "file_stream", "intake"]
