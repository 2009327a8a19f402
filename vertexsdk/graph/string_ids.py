"""String ids: the set of all names, whose ranks in sorted order are the codes of the ids.

Names sort by their UTF-8 bytes, which is by code point. A graph has string ids when one of its
ids is not an integer; those that are integers are then names like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.allocate import allocate
from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._lines import LineError, check_lengths, hard_floats
from vertexsdk.graph.load._radix_sort import Chunk

__all__ = ["Names", "merged", "parse_named", "tokens"]


@dataclass(frozen=True)
class Names:
    """All string ids of a graph, sorted; `integers` of them are integers."""

    sorted: pa.LargeStringArray
    integers: int

    @classmethod
    def of(cls, *parts: pa.Array | None) -> Names:
        """Collect names.

        Raises:
            InputError: a name of digits alone which is beyond int64.
        """
        names = merged([p for p in parts if p is not None])
        numeric = names.filter(pc.match_substring_regex(names, r"^-?[0-9]+$"))
        long = numeric.filter(pc.greater_equal(pc.utf8_length(numeric), 19))
        for name in long.to_pylist():
            digits = name.removeprefix("-").lstrip("0")
            if len(digits) > 19 or not -(2**63) <= int(name) < 2**63:
                raise InputError(f"id {excerpt(name)}: {text.MESSAGES[text.ID_RANGE]}")
        return cls(names, len(numeric))

    def __len__(self) -> int:
        return len(self.sorted)

    @property
    def mixed(self) -> bool:
        """Whether some ids are integers (and others, of course, are not)."""
        return 0 < self.integers < len(self)

    def codes(self, names: pa.Array) -> NDArray[np.int64]:
        """Return the code of each name, all of which are in the graph."""
        found = pc.index_in(pc.cast(names, pa.large_string()), value_set=self.sorted)
        return np.asarray(pc.cast(found, pa.int64()), np.int64)

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the code (int64) of each name, -1 where the graph has none."""
        try:
            wanted = pa.array(names, pa.large_string())
        except UnicodeEncodeError:  # a lone surrogate, which is in no name
            known = [n if n.encode(errors="replace").decode() == n else None for n in names]
            wanted = pa.array(known, pa.large_string())
        found = pc.index_in(wanted, value_set=self.sorted)
        return np.asarray(pc.cast(pc.fill_null(found, -1), pa.int64()))

    def packed(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the names of some codes as (offsets int64[n + 1], UTF-8 bytes)."""
        taken = pc.take(self.sorted, pa.array(codes))
        taken = pa.concat_arrays([taken])
        _, offsets, data = taken.buffers()
        at = np.frombuffer(offsets, np.int64)[taken.offset : taken.offset + len(taken) + 1]
        flat = np.frombuffer(data, np.uint8) if data is not None else np.empty(0, np.uint8)
        return at - at[0], flat[at[0] : at[-1]]


def merged(parts: Iterable[Any]) -> pa.LargeStringArray:
    """Return the distinct strings of all parts, sorted."""
    chunks = [pc.cast(p, pa.large_string()) for p in parts]
    names = pc.unique(pa.chunked_array(chunks, pa.large_string()))
    return pc.take(names, pc.sort_indices(names))


def tokens(
    buffer: NDArray[np.uint8], at: NDArray[np.int32], size: NDArray[np.int32]
) -> pa.LargeStringArray:
    """Return the tokens at positions `at` of length `size` as an Arrow array.

    Raises:
        LineError: a token is not UTF-8.
    """
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(size, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    text.gather_tokens(buffer, at, size, offsets, out)
    strings = pa.Array.from_buffers(
        pa.large_string(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    )
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        for k in range(len(at)):
            try:
                bytes(out[offsets[k] : offsets[k + 1]]).decode()
            except UnicodeDecodeError:
                raise LineError(text.NOT_UTF8, int(at[k])) from None
    return strings


def parse_named(
    buffer: NDArray[np.uint8], begin: int, end: int, value: str | None, codes: Any
) -> Chunk:
    """Parse whole lines whose ids are strings; `codes` turns an Arrow array into int64.

    Raises:
        LineError: at the first bad line.
    """
    check_lengths(buffer, begin, end)
    lines = text.count_lines(buffer, begin, end) + 1
    at, size = np.empty((lines, 3), np.int32), np.empty((lines, 3), np.int32)
    rows = text.tokenize(buffer, begin, end, at, size)
    at, size = at[:rows], size[:rows]
    if (at[:, 1] < 0).any():
        raise LineError(text.ONE_FIELD, int(at[np.argmax(at[:, 1] < 0), 0]))
    floats = np.empty(rows if value == "float64" else 0)
    whole = np.empty(rows if value == "int64" else 0, np.int64)
    hard_row, hard_at = (np.empty(len(floats), np.int32) for _ in range(2))
    report = np.zeros(7, np.int64)
    column = np.ascontiguousarray(at[:, 2])
    text.parse_values(buffer, end, column, floats, whole, hard_row, hard_at, report)
    if report[0] != text.OK:
        raise LineError(int(report[0]), int(report[1]))
    hards = int(report[4])
    if hards:
        floats[hard_row[:hards]] = hard_floats(buffer, hard_at[:hards])
    ends = [np.asarray(codes(tokens(buffer, at[:, k].copy(), size[:, k].copy()))) for k in range(2)]
    kept = []
    for array in [*ends, floats if value == "float64" else whole]:
        kept.append(allocate(len(array), array.dtype))
        kept[-1][:] = array
    values = kept[2] if value is not None else None
    return Chunk(kept[0], kept[1], values, int(report[text.HAS_VALUE]))
