"""Fields with vertex ids, of versions whose vertices have names: stored as codes, shown as names.

Codes are a version's own: equal ones of two versions may stand for different names.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.state.manifests import Manifest, layers_by_partition
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE, find_ids
from vertexsdk.state.version_reader import VersionReader


class IdFields:
    """The fields with codes of a version, and the names that these stand for.

    Args:
        store: which has the version.
        manifest: the version's manifest.

    Attributes:
        names: those of the fields; none where the vertices are integers.
    """

    def __init__(self, store: VersionReader, manifest: Manifest) -> None:
        self._store, self._manifest = store, manifest
        fields = (manifest.schema or {}).items() if manifest.ids == "str" else ()
        self.names = frozenset(name for name, entry in fields if entry.get("type") == "VertexId")

    def decode(self, codes: Column) -> NDArray[Any]:
        """Return the name of each code, None where no vertex has it; of the same shape."""
        distinct, places = np.unique(codes, return_inverse=True)
        names = np.full(distinct.size, None, object)
        missing = np.arange(distinct.size)
        for _, refs in layers_by_partition(self._store.segments(self._manifest)):
            for ref in reversed(refs):
                table = self._store.table(ref)
                with self._store.naming_segment(ref):
                    rows = find_ids(table, distinct[missing])
                    here, rows = missing[rows >= 0], rows[rows >= 0]
                    missing = np.setdiff1d(missing, here, assume_unique=True)
                    if TOMBSTONE in table:
                        alive = ~table.take(TOMBSTONE, rows)
                        here, rows = here[alive], rows[alive]
                    if NAME_COLUMNS[0] in table:
                        names[here] = unpack_strings(*table.take_texts("name", rows))
                    else:
                        names[here] = [str(code) for code in distinct[here].tolist()]
        return names[places].reshape(codes.shape)


def names_of(columns: dict[str, Column]) -> list[str]:
    """The names of vertices that have some, and the digits of others."""
    if NAME_COLUMNS[0] not in columns:
        return [str(vertex) for vertex in columns["id"].tolist()]
    offsets, data = (columns[name] for name in NAME_COLUMNS)
    return list(unpack_strings(offsets, data))
