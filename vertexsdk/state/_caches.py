"""The values used last, by key: immutable things need no invalidation, only a limit."""

from __future__ import annotations

from collections import OrderedDict
from typing import Generic, TypeVar

__all__ = ["Cache"]

K = TypeVar("K")
V = TypeVar("V")


class Cache(Generic[K, V]):
    """The values used last: at most `limit` of them, of at most `room` together."""

    def __init__(self, limit: int, room: int = 1 << 62) -> None:
        self._limit = limit
        self._room = room
        self._used = 0
        self._values: OrderedDict[K, tuple[V, int]] = OrderedDict()

    def get(self, key: K) -> V | None:
        """The value, or None."""
        found = self._values.get(key)
        if found is None:
            return None
        self._values.move_to_end(key)
        return found[0]

    def put(self, key: K, value: V, size: int = 0) -> None:
        """Keep a value that takes `size` of the room; the newest is kept however large it is."""
        self._drop(key)
        self._values[key] = (value, size)
        self._used += size
        while len(self._values) > 1 and (
            len(self._values) > self._limit or self._used > self._room
        ):
            self._drop(next(iter(self._values)))

    def clear(self) -> None:
        """Forget everything."""
        self._values.clear()
        self._used = 0

    def _drop(self, key: K) -> None:
        found = self._values.pop(key, None)
        if found is not None:
            self._used -= found[1]
