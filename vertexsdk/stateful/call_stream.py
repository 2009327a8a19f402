"""The calls of one method from files or a streaming DataFrame, each made once.

The source's offset is committed in the version that has the calls in its log, so a stream that is
started again, by any process, continues after the last call. Answers are dropped. Lines that cannot
be read and calls that raise are counted and logged, and the rest continues.
"""

from __future__ import annotations

import codecs
import csv
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from vertexsdk.engine.keyed.calls import Calls, number_of_values, python_values, stored_values
from vertexsdk.errors import CallError, InputError, excerpt, first_line
from vertexsdk.graph.load.followed_files import FollowedFile, FollowedFiles
from vertexsdk.loops.streams.file_stream import FileStream, paths_of, refuse_others
from vertexsdk.loops.streams.intake import Intake, Stream, StreamProgress
from vertexsdk.program.keyed import ABSENT, Parameter, with_article
from vertexsdk.stateful.call_columns import BLOCK, Signature, blocks_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ESCAPED = "surrogateescape"  # what is not UTF-8 is said by the line
_READ = 1 << 20  # bytes of lines that are read at a time
_TABS = (".tsv", ".tab")
_BOOLS = {"true": True, "false": False, "1": True, "0": False}


def _number(kind: type, text: str) -> Any:
    if "_" in text:  # which Python would leave out
        raise ValueError(text)
    return kind(text)


_READERS: Mapping[str, Any] = {
    "int": partial(_number, int), "float": partial(_number, float),
    "bool": lambda text: _BOOLS[text.lower()], "str": str,
}  # fmt: skip


def argument_of(parameter: Parameter, text: str) -> Any:
    """Return the argument that a text stands for.

    Raises:
        InputError: it does not stand for one of the parameter's type.

    >>> argument_of(Parameter("key", "int"), "7")
    7
    """
    try:
        _refuse_bytes(parameter)
        return parameter.convert(_READERS[parameter.kind](text))
    except (ValueError, KeyError):
        kind = with_article(parameter.kind)
        raise InputError(f"{parameter.name} is {excerpt(text)}; it has to be {kind}") from None


def _refuse_bytes(parameter: Parameter, what: str = "") -> None:
    if parameter.kind == "bytes":
        raise InputError(
            f"{what}{parameter.name} is bytes, which a text does not have: give a Parquet file "
            "with a binary column, or call from Python"
        )


@dataclass(frozen=True)
class CallBatch:
    """Calls in order, and the positions of their source before and after them.

    Attributes:
        calls: perhaps none.
        source: its name in the loop's offsets.
        begin, offset: the positions; None where whatever comes next is after what came before.
        bad: the number of lines or rows that are not calls.
        texts: what is wrong with the first few of these.
    """

    calls: Calls
    source: str
    begin: int | None
    offset: int
    bad: int = 0
    texts: Sequence[str] = ()

    def __len__(self) -> int:
        return len(self.calls)


@dataclass(frozen=True, slots=True)
class CallProgress(StreamProgress):
    """The progress of a stream of calls.

    Attributes:
        failed: calls that raised, and changed nothing.
    """

    failed: int = 0

    def __str__(self) -> str:
        failed = f" · {self.failed:,} failed" if self.failed else ""
        return f"{StreamProgress.__str__(self).replace(' changes', ' calls', 1)}{failed}"


class CallIntake(Intake[CallBatch]):
    """Has a loop make the calls of batches.

    Args:
        make: makes the calls of a batch that are not in the log yet, and returns errors by number.
        offsets: returns what the loop has committed.

    Attributes:
        failed: calls that raised.
    """

    unit = "calls"

    def __init__(
        self,
        make: Callable[[CallBatch], Mapping[int, CallError]],
        offsets: Callable[[], Mapping[str, Any]],
    ) -> None:
        super().__init__()
        self._make, self._offsets, self.failed = make, offsets, 0

    @property
    def offsets(self) -> Mapping[str, Any]:
        """The offset of each source that the loop has committed last."""
        return self._offsets()

    def take(self, batch: CallBatch) -> None:
        """Have the loop make the calls of a batch that it has not made yet."""
        errors = self._make(batch)
        self._log(batch.texts, self.bad, "skipped")
        self.bad += batch.bad
        if errors:
            more = f" (and {len(errors) - 1:,} more of {len(batch):,} calls)"
            text = first_line(errors[min(errors)]) + (more if len(errors) > 1 else "")
            self._log([text], 0, "the call changed nothing")
            self.failed += len(errors)
        self._count(len(batch))

    def progress(self, received: int, behind_bytes: int, running: bool) -> CallProgress:
        """Return how far the stream is."""
        progress = super().progress(received, behind_bytes, running)
        return CallProgress(**asdict(progress), failed=self.failed)


class _Reader:
    """Makes calls of a method from lines, cells and tables.

    Args:
        name: the names of class and method, for messages.
        number: the method's place in the class.
    """

    def __init__(self, name: str, number: int, method: Signature) -> None:
        self.name, self.number, self.method = name, number, method
        self.takes_lines = [p.kind for p in method.parameters] == ["str"]

    def require(self, what: str, names: Sequence[str]) -> None:
        """Refuse columns that are not those of the parameters.

        Raises:
            InputError: a column is missing, or there twice.
        """
        for p in self.method.parameters:
            if names.count(p.name) > 1:
                raise InputError(
                    f"{what}: there are several columns {p.name!r}, which {self.name} takes: "
                    "rename all but one"
                )
            if p.default is ABSENT and p.name not in names:
                raise InputError(
                    f"{what}: there is not a column {p.name!r}, which {self.name} takes; the "
                    f"columns are {excerpt(', '.join(names))}"
                )

    def of_table(self, table: pa.Table) -> tuple[Calls, int]:
        """Return the calls of a table, and how many of its rows have nulls."""
        rows = table.num_rows
        names = [p.name for p in self.method.parameters if p.name in table.column_names]
        for name in names:
            if table[name].null_count:
                table = table.filter(pc.is_valid(table[name]))
        blocks = [
            Calls(
                np.full(number_of_values(values[0]), self.number, np.uint8),
                {(self.number, p): column for p, column in enumerate(values)},
            )
            for values in blocks_of(self.name, self.method, [table])
        ]
        calls = Calls.join(blocks) if blocks else self.of_rows([])
        return calls, rows - table.num_rows

    def of_rows(self, rows: Sequence[Sequence[Any]]) -> Calls:
        """Return the calls whose arguments are rows."""
        columns = zip(*rows, strict=True) if rows else [[] for _ in self.method.parameters]
        arguments = {
            (self.number, p): stored_values(parameter.kind, column)
            for p, (parameter, column) in enumerate(
                zip(self.method.parameters, columns, strict=True)
            )
        }
        return Calls(np.full(len(rows), self.number, np.uint8), arguments)


class _CallFiles(FollowedFiles[CallBatch]):
    """The calls of files: of their lines, of the cells of CSV files, of the rows of Parquet files.

    Args:
        reader: makes calls.
        options: the options of `FollowedFiles`.
    """

    def __init__(self, paths: Sequence[str], reader: _Reader, **options: Any) -> None:
        self._reader = reader
        self._headers: dict[str, list[tuple[Parameter, int | None]]] = {}
        super().__init__(paths, **options)

    def open(self, path: str, offset: int, moved: bool) -> FollowedFile:
        """Return a file that is read for the first time."""
        cls = _ParquetFile if path.endswith(".parquet") else FollowedFile
        return cls(path, offset, moved, self.kind)

    def read(self, file: FollowedFile, ending: bool) -> Iterator[CallBatch]:
        """Yield the calls of a file from its offset on."""
        source = _source(self._reader.method.name, file.source)
        if isinstance(file, _ParquetFile):
            for begin, table in file.tables():
                self._reader.require(file.path, table.column_names)
                calls, nulls = self._reader.of_table(table)
                texts = [f"{file.path}: {nulls:,} rows with nulls"] if nulls else []
                yield CallBatch(calls, source, begin, file.offset, nulls, texts)
            return
        while True:
            data, size = file.lines(ending, _READ)
            if not size:
                return
            begin, first, bad = file.offset, file.line, dict[int, str]()
            text = data.removeprefix(codecs.BOM_UTF8 if begin == 0 else b"")
            rows: list[tuple[int, list[Any]]] = []
            if size > len(data):
                bad[0] = f"it is longer than {file.longest:,} bytes; shorten or remove it"
            elif self._reader.takes_lines and not file.path.endswith((".csv", *_TABS)):
                lines = text.decode(errors=_ESCAPED).removesuffix("\n").split("\n")
                rows = [(n, [line.removesuffix("\r")]) for n, line in enumerate(lines)]
            else:
                rows = list(self._cells(file, text.decode(errors=_ESCAPED), bad))
            if not _is_text(text):
                for number, _ in [row for row in rows if not _is_text(*row[1])]:
                    bad[number] = "it is not UTF-8 text; convert the file to UTF-8"
            file.advance(size, max(data.count(b"\n"), 1))
            texts = [f"{file.path}, line {first + n:,}: {bad[n]}" for n in sorted(bad)[:3]]
            calls = self._reader.of_rows([row for n, row in rows if n not in bad])
            yield CallBatch(calls, source, begin, file.offset, len(bad), texts)

    def _cells(
        self, file: FollowedFile, text: str, bad: dict[int, str]
    ) -> Iterator[tuple[int, list[Any]]]:
        """Yield the number and the arguments of each row of a CSV file."""
        header = self._headers.get(file.path)
        separator = "\t" if file.path.endswith(_TABS) else ","
        if header is None:
            header = self._headers[file.path] = self._header(file, separator)
        for number, line in enumerate(text.split("\n")):
            given = [line.removesuffix("\r")]  # a cell has no line end: the offset is of a line
            try:
                row = next(csv.reader(given, delimiter=separator, strict=True))
                if row and (file.offset or number):  # else it is the header
                    yield (
                        number,
                        [p.default if at is None else argument_of(p, row[at]) for p, at in header],
                    )
            except csv.Error as error:
                said = "a quote is not closed" if "unexpected end" in str(error) else str(error)
                bad[number] = f"it is not CSV ({said}); a row is one line"
            except InputError as error:
                bad[number] = str(error)
            except IndexError:
                bad[number] = f"it has {len(row)} cells, fewer than the first line"

    def _header(self, file: FollowedFile, separator: str) -> list[tuple[Parameter, int | None]]:
        """Return the place of each parameter in the rows of a CSV file; None for its default."""
        head = file.head().removeprefix(codecs.BOM_UTF8).decode(errors="replace")
        names = next(csv.reader([head.partition("\n")[0].rstrip("\r")], delimiter=separator), [])
        parameters = self._reader.method.parameters
        for p in parameters:
            if p.name in names or p.default is ABSENT:
                _refuse_bytes(p, f"{file.path}: ")
        self._reader.require(f"{file.path}, line 1", names)
        return [(p, names.index(p.name) if p.name in names else None) for p in parameters]


class _ParquetFile(FollowedFile):
    """A Parquet file, whose offset is a number of rows; it must be complete."""

    _rows: int | None = None

    def left(self) -> int:
        """Return how many bytes were not read yet; all or nothing."""
        return 0 if self._rows == self.offset else super().left()

    def tables(self) -> Iterator[tuple[int, pa.Table]]:
        """Yield the row at which each part of the file begins, and the part; advance the file.

        Raises:
            InputError: it cannot be read.
        """
        if self._rows == self.offset:
            return
        import pyarrow.parquet as pq

        try:
            with pq.ParquetFile(self.path) as file:
                self._rows, begin = file.metadata.num_rows, 0
                if self._rows < self.offset:
                    raise InputError(
                        f"{self.path}: has {self._rows:,} rows, of which {self.offset:,} were "
                        "taken in; give what is new as another file"
                    )
                for batch in file.iter_batches(BLOCK):
                    at, begin = begin, begin + batch.num_rows
                    if begin > self.offset:
                        first = max(at, self.offset)
                        self.offset = begin
                        yield first, pa.Table.from_batches([batch[first - at :]])
        except (OSError, pa.ArrowException) as error:
            raise InputError(
                f"{self.path}: cannot be read as Parquet ({first_line(error)}); move files into "
                "the directory when they are complete"
            ) from None


def _is_text(*values: Any) -> bool:
    """Return whether texts and bytes are UTF-8."""
    try:
        for value in values:
            if isinstance(value, str):
                value.encode()
            elif isinstance(value, bytes):
                value.decode()
    except UnicodeError:
        return False
    return True


def _source(method: str, path: str) -> str:
    """Return the name of a file in a loop's offsets: each method has its own."""
    return f"{method} {path}"


def arguments_of_files(
    paths: Sequence[str], name: str, method: Signature
) -> Iterator[tuple[list[list[Any]], Sequence[str]]]:
    """Yield the arguments of the calls that files have, a column for each parameter, and what is
    wrong with the first few lines that are not calls.

    Args:
        paths: files, directories and globs.
        name: the names of class and method, for messages.
        method: its name and parameters.

    Raises:
        InputError: no such file, or it has not the columns.
    """
    for batch in _CallFiles(paths, _Reader(name, 0, method)):
        columns = [batch.calls.arguments[0, p] for p in range(len(method.parameters))]
        yield list(map(python_values, columns)), batch.texts


class FedMethod(Signature, Protocol):
    """A method that takes the calls of a stream."""

    @property
    def writes(self) -> bool:
        """True if it may change state."""


def start_calls(
    intake: CallIntake, name: str, number: int, method: FedMethod, stream: Any,
    options: Mapping[str, Any],
) -> Stream:  # fmt: skip
    """Start a stream of calls; the arguments are those of `MethodCalls.start`.

    Args:
        intake: has the loop make them.
        name: the names of class and method.
        number: the method's place in the class.
        stream: files, or a streaming DataFrame.
        options: None is the default of each.

    Raises:
        InputError: the stream is of another kind, an option is not for its kind, or the method
            cannot be fed.
    """
    if not method.parameters or not method.writes:
        why = "changes no state" if method.parameters else "has no parameters"
        raise InputError(
            f"{name}.start: the answers of a stream are dropped, and {method.name} {why}: call it, "
            "or use map()"
        )
    reader = _Reader(name, number, method)
    options = {option: value for option, value in options.items() if value is not None}
    if isinstance(stream, (str, os.PathLike, Sequence)):
        refuse_others(options, {"follow", "idle"}, "streaming DataFrames")
        prefix = _source(method.name, "")
        after = {s[len(prefix) :]: at for s, at in intake.offsets.items() if s.startswith(prefix)}
        files = _CallFiles(paths_of(stream), reader, after=after, **options)
        return FileStream(intake, files)
    from vertexsdk.loops.streams.dataframe_stream import DataFrameStream, require_stream, table_of

    if not hasattr(stream, "columns"):
        paths_of([stream])
    refuse_others(options, {"checkpointLocation", "trigger"}, "files")
    require_stream(stream)
    reader.require("the DataFrame", stream.columns)

    def read(frame: DataFrame, source: str, batch: int) -> CallBatch:
        calls, nulls = reader.of_table(table_of(frame, batch))
        texts = [f"batch {batch}: {nulls:,} rows with nulls"] if nulls else []
        return CallBatch(calls, source, None, batch, nulls, texts)

    return DataFrameStream(intake, stream, read, **options)
