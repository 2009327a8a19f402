"""Change files as a source: batches of changes, each with the byte of its file where it ends.

They are followed as `FollowedFiles` says.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.batch import ChangeBatch
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
from vertexsdk.graph.load import text
from vertexsdk.graph.load.csv import (
    CsvLayout,
    CsvOptions,
    check_encoding,
    filled,
    is_csv,
    is_foreign_header,
    layout_of,
    read_cells,
)
from vertexsdk.graph.load.followed_files import FollowedFile, FollowedFiles
from vertexsdk.graph.load.lines import hard_floats, raw_tokens
from vertexsdk.graph.load.text import (
    LINE_BYTES,
    OK,
    Bytes,
    Long,
    Longs,
    ends_field,
    padded,
    parse_integer,
    parse_value,
    place_of,
    skip_separators,
)
from vertexsdk.graph.topology.edge_attributes import NO_FLOAT, NO_INT, attribute_types, no_values

_BLOCK = 4 << 20  # bytes read at a time


class ChangeFiles(FollowedFiles[ChangeBatch]):
    """The changes of files, directories and globs, to be iterated over once.

    Args:
        paths: local files.
        form: how lines are to be read.
        at_once: most changes in a batch.
        options: passed to `FollowedFiles`.

    Raises:
        InputError: no such file; or, while iterating, one that became shorter or went away.

    Example:
        >>> source = ChangeFiles(["changes/"], LineFormat(integers=True))  # doctest: +SKIP
        >>> for batch in source:  # doctest: +SKIP
        ...     main.ingest(batch.changes, source=batch.source, offset=batch.offset)
    """

    kind = "change file"

    def __init__(
        self, paths: Sequence[str], form: LineFormat, *, at_once: int = 1 << 18, **options: Any
    ) -> None:
        super().__init__(paths, **options)
        self.form, self.at_once = form, at_once
        self._layouts: dict[str, CsvLayout] = {}
        self._clock = -np.inf

    def read(self, file: FollowedFile, ending: bool) -> Iterator[ChangeBatch]:
        """Yield the changes of a file from its offset on, at most `at_once` a batch."""
        while True:
            data, size = file.lines(ending, _BLOCK)
            if not size:
                return
            begin = file.offset
            if is_csv(file.path):
                layout = self._layouts.get(file.path)
                if layout is None:
                    layout = change_layout(file.head(), file.path, self.form)
                    self._layouts[file.path] = layout
                mark = min(max(layout.begin - begin, 0), len(data))
                file.advance(0, len(data[:mark].splitlines()))
                block = parse_csv_block(data[mark:], file.path, file.line, self.form, layout)
            else:
                mark = 3 if begin == 0 and data.startswith(codecs.BOM_UTF8) else 0
                if begin == 0:
                    check_encoding(data[:64], file.path)
                block = parse_block(data[mark:], file.path, file.line, self.form)
            file.advance(size, block.lines)
            yield from self._batches(file, block, begin + mark, len(data))

    def _batches(
        self, one: FollowedFile, block: ParsedBlock, begin: int, size: int
    ) -> Iterator[ChangeBatch]:
        rest = ChangeBatch(
            block.changes, one.source, one.offset, begin + block.stop, block.bad,
            self._late(block.time), 4 * size + 64,
        )  # fmt: skip
        while len(rest) > self.at_once:
            first, rest = rest.cut(self.at_once)
            yield first
        yield rest

    def _late(self, time: NDArray[np.float64]) -> NDArray[np.int64]:
        if not len(time):
            return np.empty(0, np.int64)
        newest = np.maximum.accumulate(np.concatenate([[self._clock], time]))
        self._clock = newest[-1]
        return np.flatnonzero(time < newest[:-1])


@dataclass(frozen=True)
class ParsedBlock:
    """The changes of a block of a file.

    Attributes:
        changes: in order.
        stop: int64[k], the byte of the block after each change's line.
        time: float64[k], or empty without times.
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
        raw.value, raw.int_value, raw.value_at, raw.time, raw.line, raw.start, raw.stop,
    )  # fmt: skip
    raw.keep(slice(rows))
    if attribute_types(form.value):
        raw.kind[:] = ODD
        raw.value = no_values(rows, form.value)
    elif not len(raw.int_value):
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
    value = raw.int_value if form.value == "int64" else raw.value
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
        self.int_value = column(np.int64, form.value == "int64")
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
        for column, value in ((self.value, line.value), (self.int_value, line.value)):
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


# Change lines in a byte buffer, parsed natively: `+ source target [value]` and so on.
#
# The kernel parses the common form of a line: ASCII, a sign, two ids, a plain number. It also
# recognises lines that are certainly bad, so that a file full of them is read fast. Any other
# line is marked `ODD` and left to the caller, so that `vertexsdk.graph.changes.line` alone
# defines what a change is. Every line that may be a change has a row.

BAD, ODD = 254, 255  # the kind of a row whose line is not a change; is left to the caller

_ADD, _REMOVE, _CHANGE = 0, 1, 2

Ints = NDArray[np.int32]


@njit
def _ended(buffer: Bytes, p: int, end: int) -> bool:
    """Return whether a field that reaches `p` ends there."""
    return p == end or ends_field(buffer[p])


@njit
def _word(buffer: Bytes, p: int, end: int) -> int:
    """Return where a field of visible ASCII ends; the position itself if it is none."""
    begin = p
    while p < end and 32 < buffer[p] < 127 and buffer[p] != 44:
        p += 1
    return p if _ended(buffer, p, end) else begin


@njit
def _no_integer(buffer: Bytes, p: int, q: int, plus: bool) -> bool:
    """Return whether a word is not an integer of any size; `plus` allows the sign `+`."""
    if p < q and (buffer[p] == 45 or (plus and buffer[p] == 43)):
        p += 1
    other = p == q
    for k in range(p, q):
        other = other or buffer[k] < 48 or buffer[k] > 57
    return other


@njit
def _integer(buffer: Bytes, p: int, end: int, plus: bool) -> tuple[Any, Any, Long, int]:
    """Parse an int64: (is it one, is it surely no integer, value, position after it)."""
    status, x, q = parse_integer(buffer, p, end)
    if status == OK:
        return True, False, x, q
    word = _word(buffer, p, end)
    return False, word > p and _no_integer(buffer, p, word, plus), x, q


@njit
def parse_changes(
    buffer: Bytes,
    begin: int,
    end: int,
    named: bool,
    timed: int,
    kind: Bytes,
    source: Longs,
    target: Longs,
    value: NDArray[np.float64],
    int_value: Longs,
    value_at: Longs,
    time: NDArray[np.float64],
    line: Ints,
    start: Ints,
    stop: Ints,
) -> int:
    """Parse the lines of `buffer[begin:end]` into the rows of the arrays; return their number.

    Args:
        named: ids are strings: `source` and `target` get their places (`SIZE_BITS`).
        timed: the number of the field which holds a time, from 1; 0 for none.
        kind: 0, 1 or 2, or `BAD` or `ODD`, for which of the others only the last three hold.
        value, int_value: one is empty; values go into the other, none as `NO_INT` or `NO_FLOAT`.
        value_at: the place of a float that the caller is to read, as it is `hard`; else -1.
        time: empty unless `timed`.
        line: the line's number, from 0; start, stop: its bounds.
    """
    row = 0
    number = 0
    p = begin
    while p < end:
        line[row] = number
        start[row] = p
        number += 1
        p = skip_separators(buffer, p, end)
        good = True
        bad = False  # surely; if neither, then odd
        fields = 0  # of the change; a time is none
        met = 0  # of the line
        what = ODD
        value_at[row] = -1
        while good and p < end and buffer[p] != 10 and (met > 0 or buffer[p] != 35):
            met += 1
            x: Long = np.int64(0)
            q = p
            if met == timed:
                good, _, x, q = _integer(buffer, p, end, False)
                good = good and buffer[p] != 45 and q - p <= 15
                time[row] = np.float64(x)
            elif fields == 0:
                q = p + 1
                c = buffer[p]
                what = _ADD if c == 43 else _REMOVE if c == 45 else _CHANGE
                good = (c == 43 or c == 45 or c == 126) and _ended(buffer, q, end)
                if not good:
                    bad = 32 < c < 127 and _word(buffer, p, end) > p
                fields = 1
            elif fields < 3:
                if named:
                    q = _word(buffer, p, end)
                    good = 0 < q - p <= LINE_BYTES
                    x = place_of(p, q)
                else:
                    good, bad, x, q = _integer(buffer, p, end, False)
                    good = good and not padded(buffer, p, q)
                if fields == 1:
                    source[row] = x
                else:
                    target[row] = x
                fields += 1
            elif fields == 3:
                if what == _REMOVE:  # the value is not read
                    q = _word(buffer, p, end)
                    good = q > p
                elif len(int_value) > 0:
                    good, bad, x, q = _integer(buffer, p, end, True)
                    good = good and x != NO_INT
                    int_value[row] = x
                else:
                    q = _word(buffer, p, end)
                    good = q > p
                    if good:
                        status, value[row], _, hard, _ = parse_value(buffer, p, q, False)
                        if hard:
                            value_at[row] = place_of(p, q)
                        bad = status != OK
                        good = not bad
                fields += 1
            else:
                good = False
                bad = _word(buffer, p, end) > p
            p = skip_separators(buffer, q, end)
        if fields == 3 or what == _REMOVE:
            if len(int_value) > 0:
                int_value[row] = NO_INT
            else:
                value[row] = NO_FLOAT
        if good:
            good = (fields == 4 or (fields == 3 and what != _CHANGE)) and met >= timed
            bad = not good
        kind[row] = what if good else BAD if bad else ODD
        while p < end and buffer[p] != 10:
            p += 1
        p = min(p + 1, end)
        stop[row] = p
        long = p - start[row] > LINE_BYTES
        if long:
            kind[row] = ODD
        row += met > 0 or long  # a blank line or a comment is not a row
    return row
