"""Blocks of whole change lines, parsed into columns.

A kernel parses the common form of a line; `parse_line` parses every other one.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.changes._line_kernel import BAD, ODD, parse_changes
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.changes.line import (
    MOST_REASONS,
    BadLine,
    BadLines,
    Line,
    LineFormat,
    Places,
    parse_line,
)
from vertexsdk.graph.changes.table import read_rows
from vertexsdk.graph.edge_attributes import attribute_types, no_values
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._csv import (
    CsvLayout,
    CsvOptions,
    filled,
    is_foreign_header,
    layout_of,
    read_cells,
)
from vertexsdk.graph.load._lines import hard_floats, raw_tokens


@dataclass(frozen=True)
class ParsedBlock:
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


def parse_block(data: bytes, path: str, first: int, form: LineFormat) -> ParsedBlock:
    """Parse whole lines, of which the first has number `first` in its file."""
    if data.count(b"\r") != data.count(b"\r\n"):  # a carriage return alone ends a line too
        data = re.sub(rb"\r(?!\n)", b"\n", data)
    buffer = np.frombuffer(data, np.uint8)
    ends = text.count_lines(buffer, 0, len(buffer))
    raw = _Raw(ends + 1, form)
    rows = parse_changes(
        buffer, 0, len(buffer), not form.integers, form.timed, raw.kind, raw.source, raw.target,
        raw.value, raw.whole, raw.value_at, raw.time, raw.line, raw.start, raw.stop,
    )  # fmt: skip
    raw.keep(slice(rows))
    if attribute_types(form.value):
        raw.kind[:] = ODD
        raw.value = no_values(rows, form.value)
    elif not len(raw.whole):
        _read_floats(buffer, raw)
    parsed: dict[int, Line] = {}
    for row in np.flatnonzero(raw.kind == ODD).tolist():
        read = _read(data[raw.start[row] : raw.stop[row]], form)
        if isinstance(read, Line):
            parsed[row] = read
            raw.put(row, read, form.integers)
        elif read is not None:
            raw.kind[row] = BAD
    good = raw.kind < BAD
    bad_rows = np.flatnonzero(raw.kind == BAD)
    reasons = [
        BadLine(
            f"{path}, line {first + int(raw.line[row])}",
            str(_read(data[raw.start[row] : raw.stop[row]], form)),
        )
        for row in bad_rows[:MOST_REASONS].tolist()
    ]
    bad = BadLines(np.cumsum(good, dtype=np.int64)[bad_rows], reasons)
    if form.integers:
        raw.keep(good)
        ids = [pa.array(raw.source), pa.array(raw.target)]
    else:
        sources = {row: line.source for row, line in parsed.items()}
        targets = {row: line.target for row, line in parsed.items()}
        ids = [
            _strings(buffer, raw.source, good, sources),
            _strings(buffer, raw.target, good, targets),
        ]
        raw.keep(good)
    places = Places(f"{path}, line ", first + raw.line.astype(np.int64))
    value = raw.whole if form.value == "int64" else raw.value
    changes = Changes(raw.kind, ids[0], ids[1], value, places, raw.time)
    lines = ends + (not data.endswith(b"\n") and len(data) > 0)
    return ParsedBlock(changes, raw.stop.astype(np.int64), raw.time, bad, lines)


def change_layout(head: bytes, path: str, form: LineFormat) -> CsvLayout:
    """Return the layout of a CSV file of changes, by its first bytes.

    Raises:
        InputError: its columns are not those of changes.
    """
    wanted = ["kind", "source", "target", "value"]
    if form.timed:
        wanted.insert(form.timed - 1, "time")

    def names(first: Sequence[str], second: Sequence[str]) -> Sequence[str] | None:
        if {"kind", "source", "target"} <= {n.lower() for n in first}:
            return None
        several = attribute_types(form.value)
        if several or len(first) > len(wanted) or is_foreign_header(first, second):
            more = ",".join(several) if several else "[value]"
            raise InputError(
                f"{path}: columns are {', '.join(first)}; write a header kind,source,target,{more}"
            )
        return wanted

    return layout_of(head, path, CsvOptions(), names)


def parse_csv_block(
    data: bytes, path: str, first: int, form: LineFormat, layout: CsvLayout
) -> ParsedBlock:
    """Parse whole lines of CSV, of which the first has number `first` in its file."""
    if data.count(b"\r") != data.count(b"\r\n"):  # a carriage return alone ends a line too
        data = re.sub(rb"\r(?!\n)", b"\n", data)
    table, rows, bad = read_cells(data, layout, path, lambda: first)
    tables, lines = [table], [rows]
    short = [b for b in bad if b.actual == b.expected - 1 and not layout.header]
    if short:  # without a value
        names = tuple(n for n in layout.columns if n != "value")
        cells = "\n".join(b.text for b in short).encode() + b"\n"
        less, at, _ = read_cells(cells, replace(layout, columns=names), path, lambda: first)
        tables.append(less)
        lines.append(np.array([b.line for b in short])[at])
    wrong = {b.line: str(b) for b in bad if b not in short}
    tables.append(table.slice(0, 0))
    lines.append(np.array([*wrong], np.int64))
    both = pa.concat_tables(tables, promote_options="default")
    nothing = pa.table({n: pa.nulls(len(wrong), pa.large_string()) for n in both.column_names})
    both = pa.concat_tables([both, nothing])
    line = np.concatenate(lines).astype(np.int64)
    order = np.argsort(line)
    line, both = line[order], both.take(pa.array(order))
    both = both.rename_columns(
        [n.lower() if n.lower() in ("kind", "source", "target") else n for n in both.column_names]
    )
    for k, name in enumerate(both.column_names):
        empty = pa.array(~filled(both[name]))
        both = both.set_column(k, name, pc.if_else(empty, None, both[name]))
    time = layout.columns[form.timed - 1] if 0 < form.timed <= len(layout.columns) else None
    numbers = {k: wrong[n] for k, n in enumerate(line.tolist()) if n in wrong}
    columns, reasons, times = read_rows(both, form, path, time, lines=first + line, wrong=numbers)
    ends = np.flatnonzero(np.frombuffer(data, np.uint8) == 10) + 1
    count = len(ends) + (not data.endswith(b"\n") and len(data) > 0)
    stop = np.append(ends, len(data))[columns[4].numbers - first]
    return ParsedBlock(Changes(*columns, times), stop.astype(np.int64), times, reasons, count)


class _Raw:
    """The columns that `parse_changes` fills; see there."""

    def __init__(self, size: int, form: LineFormat) -> None:
        def column(dtype: Any, wanted: bool = True) -> NDArray[Any]:
            return np.empty(size if wanted else 0, dtype)

        self.kind = column(np.uint8)
        self.source, self.target = column(np.int64), column(np.int64)
        self.value = column(np.float64, form.value != "int64")
        self.whole = column(np.int64, form.value == "int64")
        self.time = column(np.float64, form.timed > 0)
        self.value_at, self.line = column(np.int64), column(np.int32)
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


def _read(data: bytes, form: LineFormat) -> Line | ValueError | None:
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
    good: NDArray[np.bool_],
    by_row: dict[int, str],
) -> Any:
    """The ids at places `at`, or of `by_row`, as an Arrow array of strings."""
    rows = good.copy()
    rows[list(by_row)] = False
    strings = raw_tokens(buffer, at[rows])
    if not by_row:
        return strings
    both = pa.concat_arrays([strings, pa.array(by_row.values(), pa.large_string())])
    place = np.empty(len(at), np.int64)
    place[rows] = np.arange(len(strings))
    place[list(by_row)] = len(strings) + np.arange(len(by_row))
    return both.take(pa.array(place[good]))
