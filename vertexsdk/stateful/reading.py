"""The rows of a stateful class as its newest snapshot has them, from any process."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.engine.keyed.keyed_engine import segment_groups
from vertexsdk.errors import InputError, excerpt
from vertexsdk.state import Manifest, Store
from vertexsdk.state.manifests import layers_by_partition
from vertexsdk.state.reading import overlay
from vertexsdk.stateful._history import counts_of
from vertexsdk.stateful.elements import choose_element


def is_stateful(manifest: Manifest) -> bool:
    """Return whether a version is of a stateful class."""
    return counts_of(manifest) is not None


class StoredState:
    """One version of a stateful class in a store.

    Args:
        store: the store.
        manifest: of the version.
        element: the state element; None where the class has only one.

    Attributes:
        missing: calls in the log that the snapshot does not have.

    Raises:
        InputError: no such state element, or none is named and there are several.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
        >>> from vertexsdk.state import open_store
        >>> class KeyValue(Stateful):
        ...     values = Partitioned(Map(int, float), key="key")
        ...     def put(self, key: int, value: float) -> None:
        ...         self.values[key] = value
        >>> with StatefulLoop(KeyValue, backend="memory://stored-state") as flow:
        ...     flow.put(7, 0.5)
        >>> with open_store("memory://stored-state") as store:
        ...     dict(StoredState(store, store.version("KeyValue")).rows([7]))
        {7: {'value': 0.5}}
    """

    def __init__(self, store: Store, manifest: Manifest, element: str | None = None) -> None:
        self._store, self._manifest = store, manifest
        counts = counts_of(manifest) or {"calls": 0, "snapshot": 0}
        self.missing = counts["calls"] - counts["snapshot"]
        fields = manifest.state_fields
        keys = {str(one.get("element")): str(one.get("key")) for one in fields.values()}
        shown = {str(one.get("element")) for one in fields.values() if not one.get("internal")}
        partial = {one.get("element") for one in fields.values() if one.get("where") == "partition"}
        self._element = choose_element(
            manifest.loop, [name for name in keys if name in shown], element
        )
        self._internal = {
            name.rpartition(".")[2] for name, one in fields.items()
            if one.get("internal") and one.get("element") == self._element
        }  # fmt: skip
        self._key, self._partial = keys[self._element], self._element in partial
        self._group = segment_groups(keys)[self._element]

    def rows(self, keys: Sequence[Any] = ()) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield keys with their fields; of `PerPartition` state those of each partition.

        Args:
            keys: those without a row are left out; none of them for all rows.

        Raises:
            StateError: the version cannot be read.
        """
        if keys and not self._partial:
            known = self._store.lookup(
                self._manifest.loop, keys, self._manifest, group=self._group, ids_of_group=self._key
            )
            for key, fields in known.items():
                yield key, {n: value for n, value in fields.items() if n not in self._internal}
            return
        for (_, group), refs in layers_by_partition(self._store.segments(self._manifest)):
            if group != self._group:
                continue
            columns = overlay([self._store.segment(ref) for ref in refs])
            ids: list[Any] = columns.pop("id").tolist()
            if self._key == "str":
                ids = unpack_strings(columns.pop("name.offsets"), columns.pop("name.bytes"))
            columns = {n: column for n, column in columns.items() if n not in self._internal}
            values = zip(*(column.tolist() for column in columns.values()), strict=True)
            for key, row in zip(ids, values, strict=True):
                if not keys or key in keys:
                    yield key, dict(zip(columns, row, strict=True))

    def key_of(self, text: str) -> Any:
        """Return the key that a text names.

        Raises:
            InputError: it is not an integer, and the keys of the element are.
        """
        if self._key == "str":
            return text
        try:
            return int(text)
        except ValueError:
            raise InputError(
                f"{excerpt(text)} is not a key: the keys of {self._element} are integers"
            ) from None
