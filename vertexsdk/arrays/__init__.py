"""Arrays without a graph: columns as bytes, buffers, threads, compiled loops.

Nothing here knows of vertices, Spark or the store: the column codec with its checksums, memory
shared by the processes of a host, packed strings, scratch buffers, thread pools, and `njit`.
"""

__all__ = [
    "arrow_strings",
    "buffers",
    "column_codec",
    "column_table",
    "id_hash",
    "jit",
    "json_values",
    "packed_strings",
    "private_files",
    "shared_memory",
    "threads",
]
