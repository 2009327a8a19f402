"""The newest version of a loop, shown as rows where the backend can be read by SQL.

Where only deltas were committed since what is shown, only their rows are sent.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vertexsdk.arrays.column_table import Column
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.state.contract import CanQuery
from vertexsdk.state.errors import MissingError
from vertexsdk.state.manifests import Manifest, SegmentRef
from vertexsdk.state.reading import TOMBSTONE, overlay

if TYPE_CHECKING:
    from vertexsdk.state._snapshots import Snapshots

__all__ = ["show"]


def show(store: Snapshots, loop: str) -> bool:
    """Make the rows of the loop those of its newest version; False if the backend has no rows."""
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
        loop, name, iteration, _parts(store, deltas), over=shown
    ):
        backend.show_rows(loop, name, iteration, _parts(store, _layers(store, manifest)))
    return True


def _layers(store: Snapshots, manifest: Manifest) -> list[SegmentRef]:
    return [ref for ref in store.segments(manifest) if ref.kind in ("base", "delta")]


def _since(store: Snapshots, older: str, manifest: Manifest) -> list[SegmentRef] | None:
    """The deltas by which the version differs from an older one, or None if not by deltas only."""
    try:
        before = _layers(store, store.manifest(older))
    except MissingError:
        return None
    now = _layers(store, manifest)
    added = now[len(before) :]
    same = now[: len(before)] == before and all(ref.kind == "delta" for ref in added)
    gone = any(TOMBSTONE in store.table(ref) for ref in added)
    return added if same and not gone else None


def _parts(store: Snapshots, layers: list[SegmentRef]) -> Iterator[dict[str, Column]]:
    parts: dict[tuple[int, str], list[SegmentRef]] = {}
    for ref in layers:
        parts.setdefault((ref.key.partition, ref.group), []).append(ref)
    for (_, group), refs in sorted(parts.items(), key=lambda item: item[0]):
        columns = overlay([_safe_columns(store, ref) for ref in refs])
        if "name.offsets" in columns:
            names = unpack_strings(columns.pop("name.offsets"), columns.pop("name.bytes"))
            columns["name"] = np.array(names, object)
        if group:
            columns["class"] = np.full(len(columns["id"]), group, object)
        yield columns


def _safe_columns(store: Snapshots, ref: SegmentRef) -> dict[str, Column]:
    """The columns that can be read without trusting anybody: all but pickled objects."""
    table = store.table(ref)
    with store.naming_segment(ref):
        return {n: table.column(n, verify=True) for n in table.names if not table.is_pickled(n)}
