"""A graph in the store: its edges as segments of kind "topology", to be loaded again from there.

Each partition's segment (group "") has columns `ids`, `count` (of edges out of each) and `target`
as places in `ids`, and `value` where the program reads edge values: no pair twice, and where edges
have both directions each once. Those of an upgraded store may have columns `source` and `target`.
String ids are codes, and the names are in a segment of group "names", in order; it has a column
`codes`, without which, in older stores, the codes are the names' ranks. Vertices named apart from
the edges are in one of group "vertices", and those of an events program, with all they hold, in
group "nodes" (see `_node_segments`).

The codes of names are an engine's own: a state that another engine stored has other ones, so
segments of kind "snapshot" and group "names" say which names they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import pack_arrow, unpack_arrow
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.load._adjacency_rows import Chunk
from vertexsdk.graph.load._lines import Codes
from vertexsdk.graph.load._load_task import DivisibleEdges
from vertexsdk.graph.load.arrow import text_ids
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.graph.vertex_file import VertexInput
from vertexsdk.state import Manifest, SegmentRef, Store, open_store
from vertexsdk.state.address import Address

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_NAMES = "names"  # the group of segments with names of which snapshots have the state
_AT_ONCE = 1 << 22  # edges in a block


def put_adjacency(
    store: Store,
    loop: str,
    partition: int,
    iteration: int,
    rows: tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int32], NDArray[Any] | None],
) -> SegmentRef:
    """Write one partition's edges: ids, edges out of each, places of targets in ids, values."""
    ids, count, target, value = rows
    columns: dict[str, NDArray[Any]] = {"ids": ids, "count": count, "target": target}
    if value is not None:
        columns["value"] = value
    return store.put_segment(loop, partition, iteration, "topology", columns)


def put_names(
    store: Store,
    loop: str,
    iteration: int,
    names: pa.LargeStringArray,
    codes: NDArray[np.int64],
) -> SegmentRef:
    """Write the names of string ids, sorted, and their codes."""
    offsets, data = pack_arrow(names)
    columns: dict[str, NDArray[Any]] = {"names.offsets": offsets, "names.bytes": data}
    columns["codes"] = codes
    return store.put_segment(loop, 0, iteration, "topology", columns, group="names")


def put_state_names(
    store: Store, loop: str, codes: NDArray[np.int64], names: tuple[NDArray[Any], NDArray[Any]]
) -> SegmentRef:
    """Write the codes of packed names, in any order, of which snapshots have the state."""
    columns = {"codes": codes, "names.offsets": names[0], "names.bytes": names[1]}
    return store.put_segment(loop, 0, 0, "snapshot", columns, group=STATE_NAMES)


def state_names(
    store: Store, refs: Sequence[SegmentRef]
) -> tuple[NDArray[np.int64], pa.LargeStringArray]:
    """The codes and names of several such segments."""
    parts = [store.segment(ref) for ref in refs]
    names = [unpack_arrow(part["names.offsets"], part["names.bytes"]) for part in parts]
    codes = [np.zeros(0, np.int64), *(part["codes"] for part in parts)]
    return np.concatenate(codes), pa.concat_arrays([pa.array([], pa.large_string()), *names])


def put_vertices(store: Store, loop: str, vertices: VertexInput) -> SegmentRef:
    """Write the vertices named apart from the edges, their classes and attributes."""
    offsets, data = pack_arrow(vertices.strings())
    columns: dict[str, NDArray[Any]] = {"names.offsets": offsets, "names.bytes": data}
    if vertices.kinds is not None:
        kinds = vertices.kinds.cast(pa.large_string())
        columns["classed"] = np.asarray(kinds.is_valid())
        columns["kind.offsets"], columns["kind.bytes"] = pack_arrow(kinds.fill_null(""))
    if vertices.attributes is not None:
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, vertices.attributes.schema) as writer:
            writer.write_table(vertices.attributes)
        columns["attributes"] = np.frombuffer(sink.getvalue(), np.uint8)  # Arrow IPC
    return store.put_segment(loop, 0, 0, "topology", columns, group="vertices")


def stored_graph(
    spark: SparkSession | None,
    store: Store,
    manifest: Manifest,
    *,
    undirected: bool,
    partitions: int,
) -> Graph:
    """The graph of a version's checkpoint, to which its logged changes are still to be made."""
    groups: dict[str, list[SegmentRef]] = {"": [], "names": [], "vertices": []}
    for ref in store.segments(manifest):
        if ref.kind == "topology" and ref.group in groups:
            groups[ref.group].append(ref)
    vertices = None
    names = groups["names"][0] if groups["names"] else None
    if groups["vertices"]:
        vertices = _vertices(store.segment(groups["vertices"][0]), strings=names is not None)
    edges = StoredEdges(store.backend.address, tuple(groups[""]), names)
    graph = Graph(spark, edges, vertices, undirected=undirected, partitions=partitions)
    if names is not None:
        columns = store.segment(names)
        graph.use_string_ids(
            StringIds.of(unpack_arrow(columns["names.offsets"], columns["names.bytes"]))
        )
    return graph


def stored_edges(
    store: Store, manifest: Manifest
) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.float64]]:
    """The edges of a version's checkpoint: sources, targets (int64, or objects), and values."""
    refs = [ref for ref in store.segments(manifest) if ref.kind == "topology"]
    names = next((ref for ref in refs if ref.group == "names"), None)
    chunks = [c for ref in refs if not ref.group for c in _chunks(store, ref, names, None, True)]
    none = np.empty(0, np.int64)
    ends = [np.concatenate([none, *(getattr(c, n) for c in chunks)]) for n in ("source", "target")]
    value = [np.ones(len(c.source)) if c.value is None else c.value for c in chunks]
    if names is not None:
        columns = store.segment(names)
        strings = unpack_arrow(columns["names.offsets"], columns["names.bytes"])
        ends = [np.array(strings.take(pa.array(e)).to_pylist(), object) for e in ends]
    return ends[0], ends[1], np.concatenate([np.empty(0), *value])


def _recoded(
    ids: NDArray[np.int64], names: dict[str, NDArray[Any]], codes: Codes
) -> NDArray[np.int64]:
    ranks = np.searchsorted(names["codes"], ids) if "codes" in names else ids
    if codes is None:
        return ranks
    strings = unpack_arrow(names["names.offsets"], names["names.bytes"])
    return codes(strings.take(pa.array(ranks)))


def _vertices(columns: dict[str, NDArray[Any]], *, strings: bool) -> VertexInput:
    """The vertices named apart; where edges have no names, ids that print back are integers."""
    kinds = None
    if "classed" in columns:
        names = unpack_arrow(columns["kind.offsets"], columns["kind.bytes"]).to_pylist()
        classed = columns["classed"].tolist()
        kinds = pa.array(
            [k if c else None for k, c in zip(names, classed, strict=True)], pa.large_string()
        )
    attributes = None
    if "attributes" in columns:
        attributes = pa.ipc.open_stream(pa.py_buffer(columns["attributes"])).read_all()
    place, ids = "the vertices", unpack_arrow(columns["names.offsets"], columns["names.bytes"])
    return VertexInput(ids if strings else text_ids(ids, place), kinds, place, attributes)


@dataclass(frozen=True)
class StoredEdges(DivisibleEdges):
    """The edges of segments, read by the tasks."""

    address: Address
    refs: tuple[SegmentRef, ...]
    names: SegmentRef | None = None

    def parts(self, tasks: int) -> list[StoredEdges]:
        """See `DivisibleEdges`."""
        return [StoredEdges(self.address, (ref,), self.names) for ref in self.refs]

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """See `DivisibleEdges`."""
        with open_store(self.address, create=False) as store:
            for ref in self.refs:
                yield from _chunks(store, ref, self.names, codes, value is not None)


def _chunks(
    store: Store, ref: SegmentRef, names: SegmentRef | None, codes: Codes, valued: bool
) -> Iterator[Chunk]:
    """The edges of a segment; by `codes` of their ids, without it string ids by ranks of names."""
    columns = dict(store.segment(ref))
    for name in ("ids",) if "ids" in columns else ("source", "target"):
        if names is not None:
            columns[name] = _recoded(columns[name], store.segment(names), codes)
        elif codes is not None:  # the graph got string ids from elsewhere
            columns[name] = codes(pa.array(columns[name]).cast(pa.large_string()))
    target = columns["target"]
    value = columns.get("value") if valued else None
    ids = columns.get("ids")
    ends = None if ids is None else np.cumsum(columns["count"])
    for k in range(0, len(target), _AT_ONCE):
        part = slice(k, k + _AT_ONCE)
        some = None if value is None else value[part]
        if ids is None or ends is None:
            yield Chunk(columns["source"][part], target[part], some)
        else:
            rows = np.searchsorted(ends, np.arange(k, min(k + _AT_ONCE, len(target))), "right")
            yield Chunk(ids[rows], ids[target[part]], some)
