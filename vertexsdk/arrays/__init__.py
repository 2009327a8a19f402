"""Arrays without a graph: columns as bytes, buffers, threads, compiled loops.

Nothing here knows of vertices, Spark or the store: Arrow tables with checksums, raw columns, memory
shared by the processes of a host, packed strings, scratch buffers, thread pools, and `njit`.
"""

__all__ = [
    "arrow_messages",
    "arrow_table",
    "buffers",
    "corruption",
    "file_mapping",
    "hash_index",
    "id_hash",
    "jit",
    "json_values",
    "memory_limit",
    "packed_strings",
    "prefetch",
    "private_files",
    "radix_sort",
    "raw_columns",
    "shared_memory",
    "split_words",
    "threads",
    "unaligned",
]
