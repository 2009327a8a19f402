"""Versioned state: segments, manifests and heads in a backend chosen by URL.

store = open_store("lmdb:///path")
ref = store.put_segment(loop, partition, iteration, "base", {"id": ids, "rank": ranks})
version = store.commit(loop, iteration=iteration, segments=[ref], program="pagerank")
store.lookup(loop, [17])
"""

from vertexsdk.state.contract import Backend, Head, SegmentKey
from vertexsdk.state.errors import (
    CorruptError,
    FencedError,
    FormatError,
    FullError,
    MissingError,
    OwnerError,
    StateError,
    StateInputError,
)
from vertexsdk.state.manifests import EncodedSegment, Manifest, SegmentRef
from vertexsdk.state.store import Store, open_store

__all__ = [
    "Backend",
    "CorruptError",
    "EncodedSegment",
    "FencedError",
    "FormatError",
    "FullError",
    "Head",
    "Manifest",
    "MissingError",
    "OwnerError",
    "SegmentKey",
    "SegmentRef",
    "StateError",
    "StateInputError",
    "Store",
    "address",
    "contract",
    "difference",
    "errors",
    "garbage",
    "id_fields",
    "manifests",
    "open_store",
    "pins",
    "reading",
    "sql_view",
    "store",
    "stored_columns",
    "stored_pickles",
    "version_history",
    "version_reader",
    "version_writer",
    "write_behind",
]
