"""Whole lines out of a byte range of a file, parsed into edges, and how a bad line is said."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.allocate import allocate
from vertexsdk.errors import InputError, excerpt
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._radix_sort import Chunk

__all__ = ["LineError", "NotIntegers", "check_lengths", "hard_floats", "lines_of", "parse_chunk"]

_SLACK = 1 << 16  # bytes read past the end of a range for its last line


class NotIntegers(InputError):
    """An id which is no integer: the whole graph has string ids. Caught by the loader."""


def lines_of(descriptor: int, begin: int, end: int) -> tuple[NDArray[np.uint8], int, int]:
    """Read the lines that begin in bytes begin..end-1; return a buffer and their bounds in it.

    The buffer starts one byte before `begin` (unless that is 0). A last line of more than
    `text.LINE_BYTES` is cut off, still longer than that.
    """
    origin = max(begin - 1, 0)
    slack = _SLACK
    while True:
        wanted = end - origin + slack
        buffer = np.empty(wanted, np.uint8)
        got = os.preadv(descriptor, [buffer.data], origin)
        buffer = buffer[:got]
        first = 0
        if begin > 0:
            first = _next_line(buffer, 0)
        if first >= end - origin:
            return buffer, 0, 0
        last = _next_line(buffer, end - origin - 1)
        if got < wanted or buffer[last - 1] == 10 or slack >= text.LINE_BYTES:
            return buffer, first, last
        slack *= 16


def _next_line(buffer: NDArray[np.uint8], position: int) -> int:
    """Return where the line after the one at `position` begins, or the end of the buffer."""
    while position < len(buffer):
        window = buffer[position : position + _SLACK]
        found = int(np.argmax(window == 10))
        if window[found] == 10:
            return position + found + 1
        position += len(window)
    return len(buffer)


class LineError(Exception):
    """A bad line: what is wrong with the field at a position of a buffer."""

    def __init__(self, status: int, position: int) -> None:
        super().__init__(status, position)
        self.status = status
        self.position = position

    def located(self, path: str, buffer: NDArray[np.uint8], origin: int) -> InputError:
        """Say it with the file, the line's number and the field."""
        line = 1
        with open(path, "rb") as file:
            left = origin + self.position
            while left > 0 and (block := file.read(min(left, 1 << 24))):
                line += block.count(b"\n")
                left -= len(block)
        return self.said(f"{path}, line {line}", buffer)

    def said(self, place: str, buffer: NDArray[np.uint8]) -> InputError:
        """Say it with `place` and the field."""
        field = bytes(buffer[self.position : self.position + 400]).decode("utf-8", "replace")
        field = excerpt(next(iter(field.replace(",", " ").split()), ""))
        if self.status == text.NOT_INTEGER:
            return NotIntegers(f"{place}: {field}: not an integer id")
        return InputError(f"{place}: {field}: {text.MESSAGES[self.status]}")


def check_lengths(buffer: NDArray[np.uint8], begin: int, end: int) -> None:
    """Raise LineError at the first line which is longer than `text.LINE_BYTES`."""
    position = int(text.long_line(buffer, begin, end))
    if position >= 0:
        raise LineError(text.LONG_LINE, position)


def parse_chunk(buffer: NDArray[np.uint8], begin: int, end: int, value: str | None) -> Chunk:
    """Parse whole lines; ids come as int32 where they fit.

    Raises:
        LineError: at the first bad line.
    """
    check_lengths(buffer, begin, end)
    lines = text.count_lines(buffer, begin, end) + 1
    source, target = np.empty(lines, np.int64), np.empty(lines, np.int64)
    floats = np.empty(lines if value == "float64" else 0)
    whole = np.empty(lines if value == "int64" else 0, np.int64)
    hard_row, hard_at = (np.empty(lines if len(floats) else 0, np.int32) for _ in range(2))
    report = np.zeros(7, np.int64)
    rows = text.parse_edges(
        buffer, begin, end, source, target, floats, whole, hard_row, hard_at, report
    )
    if report[0] != text.OK:
        raise LineError(int(report[0]), int(report[1]))
    hards = int(report[4])
    if hards:
        floats[hard_row[:hards]] = hard_floats(buffer, hard_at[:hards])
    narrow = report[2] >= -(2**31) and report[3] < 2**31
    values = None if value is None else (floats if len(floats) else whole)
    chunk = Chunk(
        _kept(source, rows, np.int32 if narrow else np.int64),
        _kept(target, rows, np.int32 if narrow else np.int64),
        None if values is None else _kept(values, rows, values.dtype),
    )
    chunk.valued = int(report[text.HAS_VALUE])
    return chunk


def hard_floats(buffer: NDArray[np.uint8], at: NDArray[np.int32]) -> NDArray[np.float64]:
    """Read the floats at positions `at` with correct rounding."""
    import pyarrow as pa
    import pyarrow.compute as pc

    size = text.token_sizes(buffer, at)
    offsets = np.zeros(len(at) + 1, np.int64)
    np.cumsum(size, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    text.gather_tokens(buffer, at, size, offsets, out)
    tokens = pa.Array.from_buffers(
        pa.large_string(), len(at), [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    )
    plain = pc.utf8_ltrim(tokens, "+")
    return np.asarray(pc.cast(plain, pa.float64()).to_numpy(zero_copy_only=False), np.float64)


def _kept(array: NDArray[Any], rows: int, dtype: Any) -> NDArray[Any]:
    kept = allocate(rows, dtype)
    kept[:] = array[:rows]
    return kept
