"""String ids: the set of all names, whose ranks in sorted order are the codes of the ids.

StringIds sort by their UTF-8 bytes, which is by code point. A graph has string ids when one of its
ids is a string: one of a typed column of strings, or one in a text that does not print back as an
integer. Those that are integers are then names like the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import pack_arrow
from vertexsdk.errors import InputError, excerpt

INTEGER = r"^(?:0|-?[1-9][0-9]*)$"  # prints back as it is written
BEYOND_INT64 = "the id is beyond int64 (-9223372036854775808 to 9223372036854775807)"
_NUMBER = r"^[+-]?[0-9]*\.?[0-9]+\.?(?:[eE][+-]?[0-9]+)?$"


@dataclass(frozen=True)
class StringIds:
    """All string ids of a graph, sorted; `integers` of them are integers."""

    sorted: pa.LargeStringArray
    integers: int

    @classmethod
    def of(cls, *parts: pa.Array | None) -> StringIds:
        """Collect names."""
        names = merged([p for p in parts if p is not None])
        integers = pc.sum(pc.match_substring_regex(names, INTEGER)).as_py() or 0
        return cls(names, integers)

    def __len__(self) -> int:
        return len(self.sorted)

    @property
    def mixed(self) -> bool:
        """True if some ids are integers and others are not."""
        return 0 < self.integers < len(self)

    def including(self, names: pa.Array) -> StringIds:
        """Return these, and names that may be new; then others have other codes."""
        known = pc.is_in(pc.cast(names, pa.large_string()), value_set=self.sorted)
        return self if pc.all(known).as_py() else StringIds.of(self.sorted, names)

    @property
    def taken_as_strings(self) -> str | None:
        """The remark on ids of a text that look like numbers; None where none does.

        >>> StringIds.of(pa.array(["7", "007"])).taken_as_strings
        "'007' is not an integer as it would be printed: all 2 ids are taken as strings"
        """
        others = self.sorted.filter(pc.invert(pc.match_substring_regex(self.sorted, INTEGER)))
        numbers = others.filter(pc.match_substring_regex(others, _NUMBER))
        if len(numbers):
            first = excerpt(numbers[0].as_py())
            return (
                f"{first} is not an integer as it would be printed: all {len(self)} ids are taken "
                "as strings"
            )
        if not self.mixed:
            return None
        return (
            f"{self.integers} of {len(self)} ids are integers and the others are not: all are "
            "taken as strings"
        )

    def codes(self, names: pa.Array) -> NDArray[np.int64]:
        """Return the code of each name.

        Raises:
            ValueError: one is not in the graph.
        """
        codes = pc.index_in(pc.cast(names, pa.large_string()), value_set=self.sorted)
        if codes.null_count:
            raise ValueError(f"{codes.null_count} names are not among the string ids")
        return np.asarray(pc.cast(codes, pa.int64()), np.int64)

    def find(self, names: Sequence[str]) -> NDArray[np.int64]:
        """Return the code (int64) of each name, -1 where the graph has none."""
        try:
            wanted = pa.array(names, pa.large_string())
        except UnicodeEncodeError:  # a lone surrogate, which is in no name
            known = [n if n.encode(errors="replace").decode() == n else None for n in names]
            wanted = pa.array(known, pa.large_string())
        codes = pc.index_in(wanted, value_set=self.sorted)
        return np.asarray(pc.cast(pc.fill_null(codes, -1), pa.int64()))

    def name(self, code: int) -> str:
        """Return the name of a code."""
        return str(self.sorted[code].as_py())

    def code(self, name: str) -> int:
        """Return the code of a name, -1 where the graph has none."""
        return int(self.find([name])[0])

    def packed(self, codes: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.uint8]]:
        """Return the ids of some codes (int64[n]) as (offsets int64[n + 1], UTF-8 bytes)."""
        return pack_arrow(pc.take(self.sorted, pa.array(codes)))


def check_range(ids: pa.LargeStringArray, place: str) -> None:
    """Raise InputError for an id of a text that is an integer beyond int64."""
    at = beyond_int64(ids)
    if at is not None:
        raise InputError(f"{place}: {excerpt(ids[at].as_py())}: {BEYOND_INT64}")


def beyond_int64(ids: pa.LargeStringArray) -> int | None:
    """Return the position of the first id that is an integer beyond int64, or None."""
    long = np.flatnonzero(pc.greater_equal(pc.binary_length(ids), 19))
    some = ids.take(pa.array(long))
    for at in np.flatnonzero(pc.match_substring_regex(some, INTEGER)).tolist():
        digits = some[at].as_py()
        if len(digits) > 20 or not -(2**63) <= int(digits) < 2**63:
            return int(long[at])
    return None


def merged(parts: Iterable[Any]) -> pa.LargeStringArray:
    """Return the distinct strings of all parts, sorted."""
    chunks = [pc.cast(p, pa.large_string()) for p in parts]
    names = pc.unique(pa.chunked_array(chunks, pa.large_string()))
    return pc.take(names, pc.sort_indices(names))
