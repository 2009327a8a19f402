"""The newest version of a loop, shown as rows where the backend can be read by SQL."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from vertexsdk.encoded import Column
from vertexsdk.state.contract import CanQuery
from vertexsdk.state.manifests import Manifest, SegmentRef
from vertexsdk.state.reading import overlay
from vertexsdk.strings import unpack_strings

if TYPE_CHECKING:
    from vertexsdk.state.snapshots import Snapshots

__all__ = ["show"]


def show(store: Snapshots, loop: str) -> bool:
    """Make the rows of the loop those of its newest version; False if the backend has no rows."""
    backend = store.backend
    if not isinstance(backend, CanQuery):
        return False
    manifest = store.version(loop)
    if backend.shown(loop) != manifest.name:
        parts = _parts(store, manifest)
        backend.show_rows(loop, manifest.name, manifest.iteration, parts)
    return True


def _parts(store: Snapshots, manifest: Manifest) -> Iterator[dict[str, Column]]:
    layers: dict[tuple[int, str], list[SegmentRef]] = {}
    for ref in store.segments(manifest):
        if ref.kind in ("base", "delta"):
            layers.setdefault((ref.key.partition, ref.group), []).append(ref)
    for (_, group), refs in sorted(layers.items(), key=lambda item: item[0]):
        columns = overlay([_plain(store, ref) for ref in refs])
        if "name.offsets" in columns:
            names = unpack_strings(columns.pop("name.offsets"), columns.pop("name.bytes"))
            columns["name"] = np.array(names, object)
        if group:
            columns["class"] = np.full(len(columns["id"]), group, object)
        yield columns


def _plain(store: Snapshots, ref: SegmentRef) -> dict[str, Column]:
    """The columns that can be read without trusting anybody: all but pickled objects."""
    table = store.table(ref)
    with store.naming(ref):
        return {n: table.column(n, verify=True) for n in table.names if not table.is_pickled(n)}
