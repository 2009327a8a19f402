"""Blocks of whole change lines, parsed into columns: natively, and line by line where that is odd.

`parse_lines` reads line by line, and is what `parse_block` must equal.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, overload

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.graph.changes._line_kernel import BAD, ODD, SIZE_BITS, parse_changes
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.line import MOST_REASONS, BadLine, BadLines, Form, Line, parse_line
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._lines import hard_floats

__all__ = ["Block", "Places", "parse_block", "parse_lines"]


class Places(Sequence[str]):
    """Where changes were read, said only when it is asked: "FILE, line N"."""

    def __init__(self, path: str, lines: NDArray[np.int64]) -> None:
        self.path, self.lines = path, lines

    def __len__(self) -> int:
        return len(self.lines)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Places: ...
    def __getitem__(self, number: int | slice) -> str | Places:
        if isinstance(number, slice):
            return Places(self.path, self.lines[number])
        return f"{self.path}, line {self.lines[number]}"


@dataclass(frozen=True)
class Block:
    """The changes of a block of a file.

    Attributes:
        changes: in order.
        stop: int64[k], the byte of the block after each change's line.
        time: float64[k], or of length 0 where there are no times.
        bad: lines that are none.
        lines: how many lines the block has.
    """

    changes: Changes
    stop: NDArray[np.int64]
    time: NDArray[np.float64]
    bad: BadLines
    lines: int


def parse_block(data: bytes, path: str, first: int, form: Form) -> Block:
    """Parse whole lines, of which the first has number `first` in its file."""
    if data.count(b"\r") != data.count(b"\r\n"):  # it ends lines by itself
        return parse_lines(data, path, first, form)
    buffer = np.frombuffer(data, np.uint8)
    if text.long_line(buffer, 0, len(buffer)) >= 0:
        return parse_lines(data, path, first, form)
    ends = text.count_lines(buffer, 0, len(buffer))
    raw = _Raw(ends + 1, form)
    rows = parse_changes(
        buffer, 0, len(buffer), not form.integers, form.timed, raw.kind, raw.source, raw.target,
        raw.value, raw.whole, raw.value_at, raw.time, raw.line, raw.start, raw.stop,
    )  # fmt: skip
    raw.keep(slice(rows))
    if not len(raw.whole):
        _read_floats(buffer, raw)
    found: dict[int, Line] = {}
    for row in np.flatnonzero(raw.kind == ODD).tolist():
        read = _read(data[raw.start[row] : raw.stop[row]], form)
        if isinstance(read, Line):
            found[row] = read
            raw.put(row, read, form.integers)
        elif read is not None:
            raw.kind[row] = BAD
    kept = raw.kind < BAD
    bad_rows = np.flatnonzero(raw.kind == BAD)
    reasons = [
        BadLine(
            f"{path}, line {first + int(raw.line[row])}",
            str(_read(data[raw.start[row] : raw.stop[row]], form)),
        )
        for row in bad_rows[:MOST_REASONS].tolist()
    ]
    bad = BadLines(np.cumsum(kept, dtype=np.int64)[bad_rows], reasons)
    if form.integers:
        raw.keep(kept)
        ids = [pa.array(raw.source), pa.array(raw.target)]
    else:
        sources = {row: line.source for row, line in found.items()}
        targets = {row: line.target for row, line in found.items()}
        ids = [
            _strings(buffer, raw.source, kept, sources),
            _strings(buffer, raw.target, kept, targets),
        ]
        raw.keep(kept)
    places = Places(path, first + raw.line.astype(np.int64))
    value = raw.whole if form.value == "int64" else raw.value
    changes = Changes(raw.kind, ids[0], ids[1], value, places)
    lines = ends + (not data.endswith(b"\n") and len(data) > 0)
    return Block(changes, raw.stop.astype(np.int64), raw.time, bad, lines)


class _Raw:
    """The columns that `parse_changes` fills; see there."""

    def __init__(self, size: int, form: Form) -> None:
        def column(dtype: Any, wanted: bool = True) -> NDArray[Any]:
            return np.empty(size if wanted else 0, dtype)

        self.kind = column(np.uint8)
        self.source, self.target = column(np.int64), column(np.int64)
        self.value = column(np.float64, form.value != "int64")
        self.whole = column(np.int64, form.value == "int64")
        self.time = column(np.float64, form.timed > 0)
        self.value_at, self.line = column(np.int32), column(np.int32)
        self.start, self.stop = column(np.int32), column(np.int32)

    def keep(self, rows: Any) -> None:
        """Forget the other rows."""
        if not isinstance(rows, slice) and rows.all():
            return
        for name, column in vars(self).items():
            if len(column):
                setattr(self, name, column[rows])

    def put(self, row: int, line: Line, integers: bool) -> None:
        """Fill a row with what was read line by line."""
        self.kind[row] = line.kind
        if integers:
            self.source[row], self.target[row] = line.source, line.target
        for column, value in ((self.value, line.value), (self.whole, line.value)):
            if len(column):
                column[row] = value
        if len(self.time):
            self.time[row] = line.time


def _read(data: bytes, form: Form) -> Line | ValueError | None:
    """Read a line; an error is what is wrong with it."""
    try:
        if len(data.rstrip(b"\r\n")) > text.LINE_BYTES:
            raise ValueError(text.MESSAGES[text.LONG_LINE])
        return parse_line(data.decode("utf-8", "surrogateescape"), form)
    except ValueError as error:
        return error.with_traceback(None)


def _read_floats(buffer: NDArray[np.uint8], raw: _Raw) -> None:
    """Read the floats whose places are known."""
    rows = np.flatnonzero((raw.value_at >= 0) & (raw.kind < BAD))
    try:
        raw.value[rows] = hard_floats(buffer, raw.value_at[rows])
    except pa.ArrowInvalid:  # beyond what a float holds
        raw.kind[rows] = ODD


def _strings(
    buffer: NDArray[np.uint8],
    at: NDArray[np.int64],
    kept: NDArray[np.bool_],
    by_row: dict[int, str],
) -> Any:
    """The ids at `at`, see `SIZE_BITS`, or of `by_row`, as an Arrow array of strings."""
    rows = kept.copy()
    rows[list(by_row)] = False
    size = (at[rows] & ((1 << SIZE_BITS) - 1)).astype(np.int32)
    offsets = np.zeros(len(size) + 1, np.int64)
    np.cumsum(size, out=offsets[1:])
    out = np.empty(offsets[-1], np.uint8)
    text.gather_tokens(buffer, (at[rows] >> SIZE_BITS).astype(np.int32), size, offsets, out)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(out)]
    found = pa.Array.from_buffers(pa.large_string(), len(size), buffers)
    if not by_row:
        return found
    both = pa.concat_arrays([found, pa.array(by_row.values(), pa.large_string())])
    place = np.empty(len(at), np.int64)
    place[rows] = np.arange(len(size))
    place[list(by_row)] = len(size) + np.arange(len(by_row))
    return both.take(pa.array(place[kept]))


def parse_lines(data: bytes, path: str, first: int, form: Form) -> Block:
    """Do as `parse_block`, line by line."""
    lines: list[Line] = []
    before: list[int] = []
    reasons: list[BadLine] = []
    at: list[int] = []
    stop: list[int] = []
    number = first - 1
    for number, (line, end) in enumerate(_lines(data), first):
        read = _read(line, form)
        if isinstance(read, Line):
            lines.append(read)
            at.append(number)
            stop.append(end)
        elif read is not None:
            before.append(len(lines))
            if len(reasons) < MOST_REASONS:
                reasons.append(BadLine(f"{path}, line {number}", str(read)))
    kind, source, target, value, time = _columns(lines)
    ids = pa.int64() if form.integers else pa.large_string()
    changes = Changes(
        np.array(kind, np.uint8), pa.array(source, ids), pa.array(target, ids),
        np.array(value, np.dtype(form.value or "float64")), Places(path, np.array(at, np.int64)),
    )  # fmt: skip
    times = np.array(time if form.timed else [], np.float64)
    bad = BadLines(np.array(before, np.int64), reasons)
    return Block(changes, np.array(stop, np.int64), times, bad, number - first + 1)


def _lines(data: bytes) -> Iterator[tuple[bytes, int]]:
    """The lines, ended as those of any text file may be, and the byte after each."""
    end = 0
    for line in data.splitlines(keepends=True):
        end += len(line)
        yield line, end


def _columns(lines: Iterable[Line]) -> list[Sequence[Any]]:
    return list(zip(*lines, strict=True)) or [(), (), (), (), ()]
