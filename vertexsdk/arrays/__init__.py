"""Arrays without a graph: columns as bytes, buffers, threads, compiled loops.

What lives here knows no vertex, no Spark and no store: columns as bytes and back, with a checksum
for each; arrays which the processes of a host share; scratch memory; numbers of threads; `njit`.
"""

__all__ = [
    "allocate",
    "arrow_strings",
    "column_codec",
    "column_table",
    "id_hash",
    "jit",
    "json_values",
    "packed_strings",
    "private_files",
    "scratch",
    "shared_memory",
    "threads",
]
