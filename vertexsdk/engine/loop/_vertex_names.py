"""The names of a partition's vertices, where ids are strings, by their codes; in an arena."""

from __future__ import annotations

from bisect import bisect_left
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import take_strings, unpack_strings
from vertexsdk.engine.loop._arena import Arena

Array = NDArray[Any]


class VertexNames:
    """Packed names in the order in which they came, and their codes in order."""

    def __init__(self, arena: Arena) -> None:
        self.arena = arena

    def create(self, codes: Array, offsets: Array, data: Array) -> None:
        """Begin with the names of some codes (int64[n], ascending)."""
        self.arena.put("name.code", codes)
        self.arena.put("name.place", np.arange(len(codes), dtype=np.int32))
        self.arena.put("name.offsets", offsets)
        self.arena.put("name.bytes", data)

    @property
    def codes(self) -> Array:
        """The codes of all names, ascending."""
        return self.arena["name.code"]

    def add(self, codes: Array, offsets: Array, data: Array) -> None:
        """Add names, each with a code that none has yet; in any order."""
        if not len(codes):
            return
        arena = self.arena
        count, start = arena.length("name.code"), arena.length("name.bytes")
        order = np.argsort(codes)
        at = np.searchsorted(arena["name.code"], codes[order])
        arena.put("name.code", np.insert(arena["name.code"], at, codes[order]))
        places = (count + order).astype(np.int32)
        arena.put("name.place", np.insert(arena["name.place"], at, places))
        arena.resize("name.offsets", count + len(codes) + 1)[count + 1 :] = offsets[1:] + start
        arena.resize("name.bytes", start + len(data))[start:] = data

    def packed(self, codes: Array) -> tuple[Array, Array]:
        """The names of some codes, packed."""
        arena = self.arena
        places = arena["name.place"][np.searchsorted(arena["name.code"], codes)]
        return take_strings(arena["name.offsets"], arena["name.bytes"], places.astype(np.int64))

    def name(self, code: int) -> str:
        """The name of a code."""
        return unpack_strings(*self.packed(np.array([code])))[0]

    def code(self, name: str) -> int:
        """The code of a name, -1 where it has none; codes order as names do by code point."""
        codes = self.codes
        at = bisect_left(range(len(codes)), name, key=lambda k: self.name(int(codes[k])))
        known = at < len(codes) and self.name(int(codes[at])) == name
        return int(codes[at]) if known else -1
