"""Streams of changes into a main loop: files that may grow, and streaming DataFrames."""

__all__ = ["file_stream", "intake"]
