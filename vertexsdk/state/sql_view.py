"""The newest version of a loop as rows of a backend that can be queried by SQL.

If only deltas were committed since the version shown, only their rows are sent.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.state.contract import CanQuery
from vertexsdk.state.errors import MissingError
from vertexsdk.state.id_fields import IdFields
from vertexsdk.state.manifests import Manifest, SegmentRef, layers_by_partition
from vertexsdk.state.reading import TOMBSTONE, overlay
from vertexsdk.state.version_reader import VersionReader


def show(store: VersionReader, loop: str) -> bool:
    """Replace the loop's rows by those of its newest version; False if the backend has no rows."""
    backend = store.backend
    if not isinstance(backend, CanQuery):
        return False
    manifest = store.version(loop)
    shown = backend.shown(loop)
    if shown == manifest.name:
        return True
    name, iteration = manifest.name, manifest.iteration
    deltas = _since(store, shown, manifest) if shown else None
    if deltas is None or not backend.show_rows(
        loop, name, iteration, segment_parts(store, manifest, deltas), over=shown
    ):
        backend.show_rows(
            loop, name, iteration, segment_parts(store, manifest, segment_layers(store, manifest))
        )
    return True


def segment_layers(store: VersionReader, manifest: Manifest) -> list[SegmentRef]:
    return [ref for ref in store.segments(manifest) if ref.kind in ("base", "delta")]


def _since(store: VersionReader, older: str, manifest: Manifest) -> list[SegmentRef] | None:
    """The deltas by which the version differs from an older one, or None if not by deltas only."""
    try:
        old_layers = segment_layers(store, store.manifest(older))
    except MissingError:
        return None
    new_layers = segment_layers(store, manifest)
    added = new_layers[len(old_layers) :]
    same = new_layers[: len(old_layers)] == old_layers and all(ref.kind == "delta" for ref in added)
    removed = any(TOMBSTONE in store.table(ref) for ref in added)
    return added if same and not removed else None


def segment_parts(
    store: VersionReader, manifest: Manifest, layers: list[SegmentRef]
) -> Iterator[dict[str, Column]]:
    ids = IdFields(store, manifest)
    fields = manifest.state_fields.values()
    binary = {  # by group and name: where a column has no rows, it does not say so itself
        (name.rpartition(".")[0], name.rpartition(".")[2])
        for name, field in manifest.state_fields.items() if field.get("type") == "bytes"
    }  # fmt: skip
    partial = {field["element"] for field in fields if field.get("where") == "partition"}
    internal = {
        (name.rpartition(".")[0], name.rpartition(".")[2])
        for name, field in manifest.state_fields.items() if field.get("internal")
    }  # fmt: skip
    hidden = {field["element"] for field in fields if "internal" in field} - {
        field["element"] for field in fields if "internal" not in field and "element" in field
    }
    for (partition, group), refs in layers_by_partition(layers):
        if group in hidden:
            continue
        columns = overlay([_unpickled(store, ref) for ref in refs])
        columns = {n: column for n, column in columns.items() if (group, n) not in internal}
        if "name.offsets" in columns:
            names = unpack_strings(columns.pop("name.offsets"), columns.pop("name.bytes"))
            columns["name"] = np.array(names, object)
        for field in ids.names & columns.keys():
            columns[field] = ids.decode(columns[field])
        if not len(columns["id"]):
            columns |= {n: np.empty(0, "S") for n in columns if (group, n) in binary}
        if group in partial or (partial and not group):  # other partitions have rows of these keys
            group = f"{group}[{partition}]"
        if group:
            columns["class"] = np.full(len(columns["id"]), group, object)
        yield columns


def _unpickled(store: VersionReader, ref: SegmentRef) -> dict[str, Column]:
    """All columns but those of pickled objects, which need trust."""
    table = store.table(ref)
    return store.segment(ref, fields=[n for n in table.names if not table.is_pickled(n)])
