"""CSV files, read by Arrow: how one is laid out, and its lines as tables of strings.

A file whose name ends in `.csv` or `.tsv`, packed or not, is CSV. Cells may be quoted; blanks and
`#` belong to a cell, blanks around it do not; no cell becomes a number by its looks. Lines before
the first row that begin with `# ` are comments.
"""

from __future__ import annotations

import codecs
import csv as python_csv
import itertools
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyarrow import csv

from vertexsdk.errors import InputError, excerpt, first_line
from vertexsdk.graph.load.text import LINE_BYTES, LONG_LINE, MESSAGES

UNPACKED = (".gz", ".bz2", ".zst", ".lz4")  # what Arrow unpacks
PACKED = (*UNPACKED, ".snappy", ".deflate")
HEAD = LINE_BYTES + 1024  # bytes from which the layout of a file is known
_SUFFIXES = {".csv": ",", ".tsv": "\t"}
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\r|\n|$)")
_NAME = re.compile(
    r"(from|to|start|end|source|target|src|dst|dest|follow|user|friend|person|node|vertex|parent"
    r"|child|sender|receiver|citing|cited|id|name|head|tail|left|right|author|page)"
    r"[a-z_. :-]*",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class CsvOptions:
    """The options of CSV files, as a user gives them.

    Attributes:
        separator: between cells; None is a comma, and a tab in `.tsv`.
        source, target, value: the columns of edges, where they have other names.
    """

    separator: str | None = None
    source: str | None = None
    target: str | None = None
    value: str | None = None

    def check(self) -> None:
        """Raise InputError for options that do not fit each other."""
        if self.separator is not None and (len(self.separator) != 1 or self.separator in '"\r\n'):
            raise InputError(f"separator {self.separator!r} is not a single character, as ';' is")
        if (self.source is None) != (self.target is None):
            raise InputError("give both source= and target=, the columns of both ends, or neither")


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """The layout of the lines of a CSV file.

    Attributes:
        columns: the name of each column, all different.
        separator: between cells.
        header: whether the first row has the names.
        begin: the byte of the unpacked file where the lines of cells begin.
    """

    columns: tuple[str, ...]
    separator: str
    header: bool
    begin: int = 0

    @property
    def schema(self) -> pa.Schema:
        """The schema of the cells that `read_cells` returns."""
        return pa.schema([(name, pa.large_string()) for name in self.columns])


@dataclass(frozen=True, slots=True)
class BadRow:
    """A line with too few or too many cells; its number is counted from 0."""

    line: int
    text: str
    expected: int
    actual: int

    def __str__(self) -> str:
        return f"expected {self.expected} columns, got {self.actual}: {excerpt(self.text)}"


def is_csv(path: str) -> bool:
    """Return whether a file is CSV, by its name.

    >>> is_csv("a.csv"), is_csv("a.TSV.gz"), is_csv("csv"), is_csv("a.txt.gz")
    (True, True, False, False)
    """
    return _suffix(path) in _SUFFIXES


def _suffix(path: str) -> str:
    name = path.lower()
    packing = next((p for p in PACKED if name.endswith(p)), "")
    return name[len(name) - len(packing) - 4 : len(name) - len(packing)]


def check_encoding(head: bytes, path: str) -> None:
    """Raise InputError for text that is not in UTF-8, by its first bytes."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in head[:64]:
        raise InputError(
            f"{path}: UTF-16, or no text; convert it to UTF-8, as by iconv -f UTF-16 -t UTF-8"
        )


def layout_of(
    head: bytes,
    path: str,
    options: CsvOptions,
    names: Callable[[Sequence[str], Sequence[str]], Sequence[str] | None],
    others: str = ";|\t, ",
) -> CsvLayout:
    """Find out how a CSV file is laid out.

    Args:
        head: its first `HEAD` bytes.
        path: its name.
        options: what the user says.
        names: from the cells of the first two rows to the names of the columns where there is no
            header, or None where the first row is one.
        others: separators that are looked for where a row has one cell.

    Raises:
        InputError: it is not UTF-8, or its cells have another separator.
    """
    check_encoding(head, path)
    begin = 3 if head.startswith(codecs.BOM_UTF8) else 0
    separator = options.separator or _SUFFIXES.get(_suffix(path), ",")
    rows: list[list[str]] = []
    after = begin
    for match in _LINE.finditer(head, begin):
        line = match.group()
        if not rows and (not line.strip() or line.startswith(b"# ")):
            begin = match.end()
        elif line.strip():
            rows.append(_cells(line, separator, path))
            after = after if len(rows) > 1 else match.end()
        if len(rows) == 2 or not line:
            break
    first, second = [*rows, [], []][:2]
    other = _other_separator(first, second, others.replace(separator, ""))
    if other and b'"' not in head[begin:after]:
        raise InputError(
            f"{path}: the cells are not separated by {separator!r} but by {other!r}: give "
            f"separator={other!r}"
        )
    columns = names(first, second)
    if columns is not None:
        return CsvLayout(tuple(columns), separator, False, begin)
    return CsvLayout(tuple(_different(first)), separator, True, after)


def _cells(line: bytes, separator: str, path: str) -> list[str]:
    try:
        text = line.decode()
    except UnicodeDecodeError:
        raise InputError(f"{path}: the first lines are not UTF-8 text; convert it") from None
    return [cell.strip() for cell in next(python_csv.reader([text], delimiter=separator), [])]


def _other_separator(first: list[str], second: list[str], others: str) -> str | None:
    """The character that separates the cells of two rows which have only one each."""
    if len(first) != 1 or len(second) > 1 or not first[0]:
        return None
    for other in others:
        count = first[0].count(other)
        if count and (not second or second[0].count(other) == count):
            return other
    return None


def _different(names: Sequence[str]) -> Iterator[str]:
    """The names; of equal ones the others get a number, as pandas gives it."""
    given: set[str] = set()
    for name in names:
        numbered = (f"{name}.{k}" for k in itertools.count(1))
        new = next(n for n in itertools.chain([name], numbered) if n not in given)
        given.add(new)
        yield new


def is_foreign_header(first: Sequence[str], second: Sequence[str]) -> bool:
    """Return whether the first row has names of columns, though none that are known."""
    if first and not first[0] and any(first):  # the row numbers of pandas and R have no name
        return True
    ends = [_is_number(cell) for cell in first[:2]]
    numbers = len(second) > 1 and all(map(_is_number, second[:2]))
    named = len(first) > 1 and all(_NAME.fullmatch(cell) for cell in first[:2])
    return (numbers and len(first) > 1 and not any(ends)) or named


def _is_number(cell: str) -> bool:
    return bool(re.fullmatch(r"[-+.:/0-9eE]*[0-9][-+.:/0-9eE]*", cell))


def read_cells(
    data: Any, layout: CsvLayout, path: str, first: Callable[[], int], *, across: bool = False
) -> tuple[pa.Table, NDArray[np.int64], list[BadRow]]:
    """Read whole lines as strings; an empty cell is null, and an empty row is left out.

    Args:
        data: bytes, without a header.
        layout: that of the file.
        path: the file's path, for messages.
        first: returns the number of the first line in the file.
        across: whether a quoted cell may have line ends.

    Returns:
        A column for each of the layout's; int64, the line of each row, counted from 0; and the
        lines with too few or too many cells.

    Raises:
        InputError: a line that is too long or not UTF-8, or a quote that is not closed.
    """
    view = memoryview(data)
    text = view.tobytes() if isinstance(data, np.ndarray) else data
    bad: list[BadRow] = []
    left_out: list[int] = []

    def invalid(row: Any) -> str:
        left_out.append(row.number - 1)
        if row.text.strip():
            bad.append(BadRow(row.number - 1, row.text, row.expected_columns, row.actual_columns))
        return "skip"

    try:
        table = _read(text, layout, invalid)
    except pa.ArrowInvalid as error:
        raise _of_line(text, path, first, error) from None
    rows = np.delete(np.arange(len(table) + len(left_out)), left_out)
    if not across and len(rows) + len(left_out) != _lines(text):
        raise InputError(f"{path}: a quoted cell has a line end, or a quote is not closed")
    for name in layout.columns:
        cells = pc.utf8_trim_whitespace(table[name])
        table = table.set_column(table.column_names.index(name), name, cells)
    there = np.any([filled(table[name]) for name in layout.columns], axis=0)
    if not there.all():
        table, rows = table.filter(pa.array(there)), rows[there]
    return table, rows.astype(np.int64), bad


def _read(text: bytes, layout: CsvLayout, invalid: Callable[[Any], str]) -> pa.Table:
    names = [*layout.columns]
    if not text:
        return pa.table({n: pa.array([], pa.large_string()) for n in names})
    return csv.read_csv(
        pa.BufferReader(text),
        csv.ReadOptions(
            column_names=names, use_threads=False, block_size=min(len(text) + 1, (1 << 31) - 1)
        ),
        csv.ParseOptions(
            delimiter=layout.separator, newlines_in_values=True, ignore_empty_lines=False,
            invalid_row_handler=invalid,
        ),
        csv.ConvertOptions(
            column_types=dict.fromkeys(names, pa.large_string()), null_values=[""],
            strings_can_be_null=True, quoted_strings_can_be_null=False,
        ),
    )  # fmt: skip


def _lines(text: bytes) -> int:
    ends = text.count(b"\n") + text.count(b"\r") - text.count(b"\r\n")
    return ends + (not text.endswith((b"\n", b"\r")) and len(text) > 0)


def _of_line(text: bytes, path: str, first: Callable[[], int], error: Exception) -> InputError:
    """The error of a text that Arrow cannot read, at its line."""
    for number, line in enumerate(text.splitlines()):
        what = MESSAGES[LONG_LINE] if len(line) > LINE_BYTES else ""
        try:
            line.decode()
        except UnicodeDecodeError:
            what = "the cells are not UTF-8 text; convert the file to UTF-8"
        if what:
            return InputError(f"{path}, line {first() + number}: {what}")
    return InputError(f"{path}: not a readable CSV file ({first_line(error)})")


def filled(cells: Any) -> NDArray[np.bool_]:
    """Return which cells have text (bool[n])."""
    lengths = pc.fill_null(pc.utf8_length(cells), 0)
    return np.asarray(lengths.to_numpy() > 0)
