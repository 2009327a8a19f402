"""A cache of the values used last, limited in number and in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class LruCache(Generic[K, V]):
    """At most `limit` values of `max_bytes` together; the least recently used is evicted."""

    def __init__(self, limit: int, max_bytes: int = 1 << 62) -> None:
        self._limit = limit
        self._max_bytes = max_bytes
        self._bytes = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        if key not in self._values:
            return None
        self._values.move_to_end(key)
        return self._values[key][0]

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Add a value of `size` bytes; the newest value stays, however large it is."""
        self._drop(key)
        self._values[key] = (value, size)
        self._bytes += size
        while len(self._values) > 1 and (
            len(self._values) > self._limit or self._bytes > self._max_bytes
        ):
            self._drop(next(iter(self._values)))

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._bytes = 0

    def _drop(self, key: K) -> None:
        _, size = self._values.pop(key, (None, 0))
        self._bytes -= size
