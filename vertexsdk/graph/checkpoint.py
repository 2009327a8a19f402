"""A graph in the store: its edges as segments of kind "topology", to be loaded again from there.

Each partition's segment (group "") has columns `ids`, `count` (of edges out of each) and `target`
as places in `ids`, and `value` where the program reads edge values: no pair twice, and where edges
have both directions each once. Those of an events program have columns `source` and `target`.
String ids are codes, and the names and their codes are in a segment of group "names", in order.
Vertices named apart from the edges are in one of group "vertices", and those of an events program,
with all they hold, in group "nodes" (`engine._events_loop_partition`).

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

from vertexsdk.arrays.arrow_messages import read_table
from vertexsdk.arrays.packed_strings import pack_arrow, unpack_arrow
from vertexsdk.errors import InputError
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.arrow import text_ids
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.lines import Codes
from vertexsdk.graph.load.load_task import DivisibleEdges
from vertexsdk.graph.topology.edge_attributes import require_values
from vertexsdk.graph.topology.string_ids import StringIds
from vertexsdk.graph.vertex_file import VertexInput
from vertexsdk.state import CorruptError, Manifest, SegmentRef, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.stored_columns import Described, described_text

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

STATE_NAMES = "names"  # the group of segments with names of which snapshots have the state
_AT_ONCE = 1 << 22  # edges in a block
_VERTICES = {
    **described_text("names"),
    **described_text("kind", required=False),
    "classed": Described(np.bool_, required=False),
    "attributes": Described(np.uint8, rows="", required=False),
}
_ENDS = {n: Described(np.int64, rows="edges") for n in ("source", "target")}
_ROWS = {
    "ids": Described(np.int64),
    "count": Described(np.int64, least=0),
    "target": Described(np.int32, rows="edges", least=0),
}


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
    described = {"codes": Described(np.int64), **described_text("names")}
    parts = [store.segment(ref, described=described) for ref in refs]
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
        plain = pa.schema([f.with_type(_plain(f.type)) for f in vertices.attributes.schema])
        sink = pa.BufferOutputStream()
        with pa.ipc.new_stream(sink, plain) as writer:
            writer.write_table(vertices.attributes.cast(plain))
        columns["attributes"] = np.frombuffer(sink.getvalue(), np.uint8)  # Arrow IPC
    return store.put_segment(loop, 0, 0, "topology", columns, group="vertices")


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if isinstance(kind, pa.DictionaryType) else kind


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
        ref = groups["vertices"][0]
        with store.naming_segment(ref):
            columns = store.segment(ref, described=_VERTICES)
            vertices = _vertices(columns, strings=names is not None)
    edges = StoredEdges(store.backend.address, tuple(groups[""]), names)
    graph = Graph(spark, edges, vertices, undirected=undirected, partitions=partitions)
    if names is not None:
        graph.use_string_ids(StringIds.of(_names(store, names)[0]))
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
        strings, _ = _names(store, names)
        ends = [np.array(strings.take(pa.array(e)).to_pylist(), object) for e in ends]
    return ends[0], ends[1], np.concatenate([np.empty(0), *value])


def _names(store: Store, ref: SegmentRef) -> tuple[pa.LargeStringArray, NDArray[np.int64]]:
    """The names of string ids, and their codes."""
    codes = Described(np.int64, ascends=True)
    columns = store.segment(ref, described={"codes": codes, **described_text("names")})
    return unpack_arrow(columns["names.offsets"], columns["names.bytes"]), columns["codes"]


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
        attributes = read_table(pa.py_buffer(columns["attributes"]), "column 'attributes'")
    place, ids = "the vertices", unpack_arrow(columns["names.offsets"], columns["names.bytes"])
    _require(attributes is None or len(attributes) == len(ids), "attributes of other vertices")
    return VertexInput(ids if strings else text_ids(ids, place), kinds, place, attributes)


@dataclass(frozen=True)
class StoredEdges(DivisibleEdges):
    """The edges of segments, read by the tasks."""

    address: Address
    refs: tuple[SegmentRef, ...]
    names: SegmentRef | None = None

    def parts(self, tasks: int) -> list[StoredEdges]:
        """Return a part for each segment."""
        return [StoredEdges(self.address, (ref,), self.names) for ref in self.refs]

    def where(self, condition: Condition) -> StoredEdges:
        """Raise InputError: a main loop's graph is not filtered."""
        raise InputError("a stored graph has no where(); take that of an answer, answer.graph()")

    def read(self, value: str | None, codes: Codes, threads: int) -> Iterator[Chunk]:
        """Yield the edges of the segments."""
        with open_store(self.address, create=False) as store:
            for ref in self.refs:
                for chunk in _chunks(store, ref, self.names, codes, value is not None):
                    if chunk.value is not None:
                        require_values(chunk.value, value)
                    yield chunk


def _chunks(
    store: Store, ref: SegmentRef, names: SegmentRef | None, codes: Codes, valued: bool
) -> Iterator[Chunk]:
    """The edges of a segment; by `codes` of their ids, without it string ids by ranks of names."""
    columns = _edge_columns(store, ref, names)
    if codes is not None:
        strings = None if names is None else _names(store, names)[0]
        for name in ("ids",) if "ids" in columns else ("source", "target"):
            ids = pa.array(columns[name])
            text = ids.cast(pa.large_string()) if strings is None else strings.take(ids)
            columns[name] = codes(text)
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


def _edge_columns(
    store: Store, ref: SegmentRef, names: SegmentRef | None
) -> dict[str, NDArray[Any]]:
    """The columns of a partition's edges; of string ids with the names' ranks as ids."""
    table = store.table(ref)
    described = _ROWS if "ids" in table else _ENDS
    if "value" in table:
        with store.naming_segment(ref):
            value = table.rows("value", 0, 0)
            _require(value.dtype.kind in "biuf", "values of another type")
        described = {**described, "value": Described(value.dtype, value.shape[1:], "edges")}
    columns = store.segment(ref, described=described)
    with store.naming_segment(ref):
        if "ids" in columns:
            ends, places = len(columns["ids"]), columns["target"]
            _require(not len(places) or int(places.max()) < ends, "a target that has no id")
            _require(int(columns["count"].sum()) == len(places), "counts of other edges")
        if names is not None:  # edges are of ranks from here on
            codes = _names(store, names)[1]
            for name in ("ids",) if "ids" in columns else ("source", "target"):
                ranks = np.searchsorted(codes, columns[name])
                known = np.append(codes, -1)[ranks] == columns[name]
                _require(bool(known.all()), "an id that has no name")
                columns[name] = ranks
    return columns


def _require(holds: bool, otherwise: str) -> None:
    if not holds:
        raise CorruptError(f"it has {otherwise}")
