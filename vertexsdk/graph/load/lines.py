"""The lines of a byte range of a file, parsed into edges; errors name the line and the field."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import allocate
from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.load import text
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.csv import CsvLayout
from vertexsdk.graph.topology.edge_attributes import attribute_types
from vertexsdk.graph.topology.string_ids import beyond_int64, merged

Codes = Callable[[pa.Array], NDArray[np.int64]] | None
"""From string ids to their codes; None where ids are integers."""

_PARTS = 64  # sets of ids that are merged
_SLACK = 1 << 16  # bytes read past the end of a range for its last line


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes begin..end-1 of a text file, or row groups begin..end-1 of a Parquet file.

    Attributes:
        csv: how the lines are laid out, where they are CSV.
        whole: it is the whole file, which cannot be divided: one that is packed.
    """

    path: str
    begin: int
    end: int
    parquet: bool = False
    csv: CsvLayout | None = None
    whole: bool = False

    def divided(self, pieces: int) -> list[Split]:
        """Return about so many splits that are this one, in order."""
        count = 1 if self.whole else max(1, min(pieces, self.end - self.begin))
        cuts = np.linspace(self.begin, self.end, count + 1).astype(np.int64).tolist()
        return [replace(self, begin=a, end=z) for a, z in pairwise(cuts) if a < z]


class NotIntegers(InputError):
    """An id that is not an integer, so all ids are strings. The loader catches it."""


class DistinctIds:
    """Collects distinct ids, in place of the function from string ids to codes."""

    def __init__(self) -> None:
        self._parts: list[pa.Array] = []

    def __call__(self, ids: pa.Array) -> NDArray[np.int64]:
        """Add ids; return arbitrary codes."""
        self._parts.append(pc.unique(ids))
        if len(self._parts) > _PARTS:
            self._parts = [merged(self._parts)]
        return np.zeros(len(ids), np.int64)

    def sorted(self) -> pa.LargeStringArray:
        """Return the distinct ids, ascending."""
        return merged(self._parts)


def lines_of(descriptor: int, begin: int, end: int) -> tuple[NDArray[np.uint8], int, int]:
    """Read the lines that begin in bytes begin..end-1 of a file.

    Returns:
        A buffer that starts one byte before `begin` (unless that is 0), and the bounds of the lines
        in it. A last line of more than `text.LINE_BYTES` is truncated, but not below that.
    """
    origin = max(begin - 1, 0)
    slack = _SLACK
    while True:
        buffer = np.empty(end - origin + slack, np.uint8)
        size = len(buffer)
        buffer = buffer[: os.preadv(descriptor, [buffer.data], origin)]
        first = _next_line(buffer, 0) if begin > 0 else 0
        if first >= end - origin:
            return buffer, 0, 0
        last = _next_line(buffer, end - origin - 1)
        if len(buffer) < size or buffer[last - 1] == 10 or slack >= text.LINE_BYTES:
            return buffer, first, last
        slack *= 16


def lines_in(
    buffer: NDArray[np.uint8], start: int, begin: int, end: int
) -> tuple[NDArray[np.uint8], int, int]:
    """Return what `lines_of` does, of a text in memory whose lines begin at `start`."""
    first = _next_line(buffer, begin - 1) if begin > start else begin
    return buffer, first, max(first, _next_line(buffer, end - 1))


def _next_line(buffer: NDArray[np.uint8], position: int) -> int:
    """Return the position of the next line after `position`, or the end of the buffer."""
    while position < len(buffer):
        window = buffer[position : position + _SLACK]
        offset = int(np.argmax(window == 10))
        if window[offset] == 10:
            return position + offset + 1
        position += len(window)
    return len(buffer)


def lines_before(path: str, position: int) -> int:
    """Return how many lines end before a byte of a file."""
    count = 0
    with open(path, "rb") as file:
        while position > 0 and (block := file.read(min(position, 1 << 24))):
            count += block.count(b"\n")
            position -= len(block)
    return count


class LineError(Exception):
    """A bad line.

    Args:
        status: a key of `text.MESSAGES`, or `text.NOT_INTEGER`.
        position: that of the bad field in the buffer.
    """

    def __init__(self, status: int, position: int) -> None:
        super().__init__(status, position)
        self.status = status
        self.position = position

    def located(self, path: str, buffer: NDArray[np.uint8], origin: int) -> InputError:
        """Return the error to raise, which names the file, the line and the field."""
        line = 1 + lines_before(path, origin + self.position)
        return self.at_line(f"{path}, line {line}", buffer)

    def at_line(self, place: str, buffer: NDArray[np.uint8]) -> InputError:
        """Return the error to raise, which names `place` and the field."""
        field = bytes(buffer[self.position : self.position + 400]).decode("utf-8", "replace")
        field = excerpt(next(iter(field.replace(",", " ").split()), ""))
        if self.status == text.NOT_INTEGER:
            return NotIntegers(f"{place}: {field}: not an integer id")
        hint = "; a comment is a line of its own" if field[1:2] == "#" else ""
        return InputError(f"{place}: {field}: {text.MESSAGES[self.status]}{hint}")


def check_lengths(buffer: NDArray[np.uint8], begin: int, end: int) -> None:
    """Raise LineError at the first line of more than `text.LINE_BYTES`."""
    position = int(text.long_line(buffer, begin, end))
    if position >= 0:
        raise LineError(text.LONG_LINE, position)


def parse_chunk(
    buffer: NDArray[np.uint8],
    begin: int,
    end: int,
    value: str | None,
    codes: Codes = None,
    condition: Condition | None = None,
) -> Chunk:
    """Parse whole lines into edges.

    Args:
        buffer: text, uint8.
        begin: position of the first line.
        end: position after the last line.
        value: "float64" or "int64"; None only checks values.
        codes: for string ids, a function from an Arrow array of strings to int64 codes.
        condition: which lines are edges, by their value.

    Returns:
        The edges; integer ids are int32 if they fit.

    Raises:
        LineError: at the first bad line.
        InputError: the program reads several attributes of edges, which a line has not.
    """
    if attribute_types(value):
        raise InputError(
            f"the program reads the edge attributes {', '.join(attribute_types(value))}, which "
            "lines of text do not name; give Parquet, CSV with a header, or a DataFrame"
        )
    check_lengths(buffer, begin, end)
    lines = text.count_lines(buffer, begin, end) + 1
    read = "float64" if value is None and condition is not None else value
    floats = np.empty(lines if read == "float64" else 0)
    integers = np.empty(lines if value == "int64" else 0, np.int64)
    hard_row, hard_at = np.empty(len(floats), np.int32), np.empty(len(floats), np.int64)
    report = np.zeros(6, np.int64)
    source, target = np.empty(lines, np.int64), np.empty(lines, np.int64)
    rows = text.parse_edges(
        buffer, begin, end, codes is not None, source, target, floats, integers, hard_row, hard_at,
        report,
    )  # fmt: skip
    if report[0] != text.OK:
        raise LineError(int(report[0]), int(report[1]))
    hards = int(report[4])
    if hards:
        floats[hard_row[:hards]] = hard_floats(buffer, hard_at[:hards])
    numbers = None if read is None else (floats if len(floats) else integers)
    left_out = 0
    if condition is not None and numbers is not None:
        batch = pa.RecordBatch.from_pydict({"value": numbers[:rows]})
        kept = np.asarray(condition.kept(batch, {}, "the edges"))
        source, target, numbers = source[kept], target[kept], numbers[kept]
        rows, left_out = len(kept), rows - len(kept)
    dtype: type = np.int64
    if codes is not None:
        source, target = (np.asarray(codes(tokens(buffer, x[:rows]))) for x in (source, target))
    elif report[2] >= -(2**31) and report[3] < 2**31:
        dtype = np.int32
    return Chunk(
        _copy(source, rows, dtype),
        _copy(target, rows, dtype),
        None if numbers is None or value is None else _copy(numbers, rows, numbers.dtype),
        min(int(report[text.HAS_VALUE]), rows),
        left_out,
    )


def tokens(buffer: NDArray[np.uint8], places: NDArray[np.int64]) -> pa.LargeStringArray:
    """Return the tokens at some places (`text.SIZE_BITS`) as an Arrow array.

    Raises:
        LineError: a token is not UTF-8, or an integer beyond int64.
    """
    strings = raw_tokens(buffer, places)
    try:
        strings.validate(full=True)
    except pa.ArrowInvalid:
        for k, token in enumerate(strings.cast(pa.large_binary()).to_pylist()):
            try:
                token.decode()
            except UnicodeDecodeError:
                raise LineError(text.NOT_UTF8, int(places[k]) >> text.SIZE_BITS) from None
    wrong = beyond_int64(strings)
    if wrong is not None:
        raise LineError(text.ID_RANGE, int(places[wrong]) >> text.SIZE_BITS)
    return strings


def raw_tokens(buffer: NDArray[np.uint8], places: NDArray[np.int64]) -> pa.LargeStringArray:
    """Return tokens as `tokens` does, without checking that they are UTF-8."""
    offsets = np.zeros(len(places) + 1, np.int64)
    np.cumsum(places & ((1 << text.SIZE_BITS) - 1), out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    text.gather_tokens(buffer, places, offsets, out)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    return pa.Array.from_buffers(pa.large_string(), len(places), buffers)


def hard_floats(buffer: NDArray[np.uint8], places: NDArray[np.int64]) -> NDArray[np.float64]:
    """Parse the floats at some places with correct rounding."""
    strings = pc.utf8_ltrim(raw_tokens(buffer, places), "+")
    return np.asarray(pc.cast(strings, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _copy(array: NDArray[Any], rows: int, dtype: Any) -> NDArray[Any]:
    copy = allocate(rows, dtype)
    copy[:] = array[:rows]
    return copy
