"""Edge and vertex files on this machine, read in byte ranges by threads.

A *split* is a range of a text file or some row groups of a Parquet file; splits in order are
the input in order. The lines of a text split are those that begin in its range.
"""

from __future__ import annotations

import codecs
import contextlib
import glob
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from vertexsdk.arrays.threads import map_threaded
from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.load import text
from vertexsdk.graph.load.adjacency_rows import Chunk
from vertexsdk.graph.load.arrow import EdgeColumns, batch_chunk, edge_columns
from vertexsdk.graph.load.condition import Condition
from vertexsdk.graph.load.csv import (
    HEAD,
    PACKED,
    CsvLayout,
    CsvOptions,
    check_encoding,
    filled,
    is_csv,
    is_foreign_header,
    layout_of,
    read_cells,
)
from vertexsdk.graph.load.lines import (
    Codes,
    LineError,
    NotIntegers,
    Split,
    lines_before,
    lines_in,
    lines_of,
    parse_chunk,
)

CHUNK = 4 << 20  # bytes of text that a thread parses at a time
_DENSEST = 1000  # rows, or unpacked bytes, that a byte of a Parquet file may stand for
_LOOKED_AT = 1 << 16  # bytes of text from which the length of a line is known
_ORDERS = ("source", "target", "value"), ("src", "dst", "weight")  # of columns
_FEW = 50  # lines of which something is said
_TIME = re.compile(r"1[0-9]{9}|1[0-9]{12}")  # seconds or milliseconds, since 2001
_SMALL = 1 << 24  # rows or bytes that any file may have


def local_path(path: str) -> str | None:
    """Return `path` without its `file:` scheme, or None if it has another scheme."""
    if path.startswith("file:"):
        rest = path[len("file:") :]
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    head, separator, _ = path.partition("://")
    return None if separator and head.isalnum() else path


def expand(paths: Sequence[str], kind: str = "edge file") -> list[str]:
    """Return the files that `paths` (files, directories, globs) name, as Spark reads them.

    Args:
        kind: what a file is called in messages.

    Raises:
        InputError: a path or a glob names no file, or a file cannot be read.
    """
    files: list[str] = []
    for path in paths:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not matches:
            one = f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
            raise InputError(f"{path}: no such file; name {one}, a directory or a glob")
        for name in matches:
            inside = files_in(name) if os.path.isdir(name) else [name]
            if not inside:
                raise InputError(f"{name}: the directory has no files; name one with {kind}s")
            files += inside
    for name in files:
        if not os.access(name, os.R_OK):
            raise InputError(f"{name}: cannot be read; check its permissions")
    return files


def files_in(directory: str) -> list[str]:
    """Return the files in a directory by name, without those that Spark would not read."""
    paths = Path(directory).iterdir()
    return sorted(str(p) for p in paths if p.is_file() and not p.name.startswith(("_", ".")))


def head_of(path: str) -> bytes:
    """Return the first bytes of a file, unpacked."""
    if not path.endswith(PACKED):
        with open(path, "rb") as file:
            return file.read(HEAD)
    with unpacking(path, path) as stream:
        return bytes(stream.read(HEAD))


@contextlib.contextmanager
def unpacking(source: Any, path: str) -> Iterator[Any]:
    """Open a packed file, by its path or its content; `path` is its name.

    Raises:
        InputError: it cannot be unpacked.
    """
    try:
        with pa.CompressedInputStream(source, pa.Codec.detect(path).name) as stream:
            yield stream
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: cannot be unpacked ({first_line(error)})") from None


def layouts(paths: Sequence[str], form: Form) -> list[CsvLayout | None]:
    """Return how each file is laid out, if it is CSV; files without a header agree with others.

    Raises:
        InputError: a file is not what its name says, or its columns are not those of edges.
    """
    result: list[CsvLayout | None] = []
    for path in paths:
        if not os.path.getsize(path):
            result.append(None)
            continue
        if is_parquet(path):
            if form.format not in (None, "parquet"):
                raise InputError(
                    f"{path}: looks like parquet, not {form.format}; leave out the format"
                )
            result.append(None)
            continue
        if path.endswith(".parquet") or form.format == "parquet":
            raise InputError(f"{path}: not a Parquet file; rename it if it is text")
        head = head_of(path)
        if form.is_csv(path):
            result.append(edges_layout(head, path, form.options) if head.strip() else None)
            continue
        check_encoding(head, path)
        if b"\r" in head and b"\n" not in head:
            raise InputError(f"{path}: lines end by CR alone; convert them, as by tr '\\r' '\\n'")
        _refuse_header(head, path)
        result.append(None)
    check_headers(dict(zip(paths, result, strict=True)))
    if form.options != CsvOptions() and not any(result):
        raise InputError(f"{paths[0]}: separator= and columns are of CSV files; name it .csv")
    return result


@dataclass(frozen=True, slots=True)
class Form:
    """The form of the files of edges, as a user gives it.

    Attributes:
        format: "text", "csv" or "parquet"; None: by name and content.
        options: for CSV files.
    """

    format: str | None = None
    options: CsvOptions = field(default_factory=CsvOptions)

    def is_csv(self, path: str) -> bool:
        """Return whether a file that is not Parquet is CSV."""
        return self.format == "csv" or (self.format is None and is_csv(path))


def edges_layout(head: bytes, path: str, options: CsvOptions) -> CsvLayout:
    """Return the layout of a CSV file of edges by its first bytes.

    Raises:
        InputError: its columns are not those of edges.
    """

    def names(first: Sequence[str], second: Sequence[str]) -> Sequence[str] | None:
        if options.source is not None or names_ends(n.lower() for n in first):
            return None
        if is_foreign_header(first, second):
            raise InputError(
                f"{path}: the columns are {', '.join(n or '(none)' for n in first)}; name them "
                "source,target[,value] (or src,dst[,weight]), or say which they are: "
                "source=, target="
            )
        if len(first) > 3:
            raise InputError(
                f"{path}: {len(first)} columns without a header: write one that names source, "
                "target and perhaps value"
            )
        if len(first) < 2:
            raise InputError(f"{path}: one column; an edge has a source and a target")
        return ("source", "target", "value")[: len(first)]

    layout = layout_of(head, path, options, names)
    csv_columns(layout, path, options)
    return layout


def csv_columns(layout: CsvLayout, path: str, options: CsvOptions) -> EdgeColumns:
    """Return the columns of a CSV file of edges.

    Raises:
        InputError: one is not there.
    """
    given = {"source": options.source, "target": options.target, "value": options.value}
    for role, name in given.items():
        if name is not None and name not in layout.columns:
            raise InputError(
                f"{path}: no column {name!r} for {role}=; columns are {', '.join(layout.columns)}"
            )
    if options.source is not None and options.target is not None:
        return EdgeColumns(options.source, options.target, options.value, True)
    columns = edge_columns(layout.columns, path, text=True)
    return columns._replace(value=options.value or columns.value)


def check_headers(layout_by_path: Mapping[str, CsvLayout | None]) -> None:
    """Raise InputError for a file without a header among files whose columns have another order."""
    headed = {p: x for p, x in layout_by_path.items() if x is not None and x.header}
    for path, layout in layout_by_path.items():
        if layout is None or layout.header:
            continue
        for other, of in headed.items():
            names = [n.lower() for n in of.columns]
            if tuple(names) not in {order[: len(names)] for order in _ORDERS}:
                raise InputError(f"{path}: has no header, and {other} has; write one")


def names_ends(names: Iterable[str]) -> bool:
    """Return whether lower-case column names have those of the ends of an edge."""
    columns = {*names}
    return {"source", "target"} <= columns or {"src", "dst"} <= columns


def _refuse_header(head: bytes, path: str) -> None:
    """Raise InputError for a line with names of columns, which would be read as an edge."""
    lines = head.removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace").splitlines()
    first = next((s for s in map(str.strip, lines) if s and not s.startswith("#")), "")
    names = [n.strip("\"'") for n in re.split(r"[\s,;|]+", first[:1000])]
    if names_ends(n.lower() for n in names[:4]):
        raise InputError(
            f"{path}: the first line has names of columns: name the file .csv (with tabs, .tsv), "
            "say that it is CSV, format='csv', or remove the line"
        )


def remarks(path: str, form: Form, valued: bool) -> Sequence[str]:
    """Return what is to be said of the fields of a text file, by its first lines.

    Args:
        valued: whether the program reads edge values.
    """
    if is_parquet(path):
        return ()
    lines = head_of(path)[:_LOOKED_AT].decode("utf-8", "replace").splitlines()[:_FEW]
    lines = [s for s in lines[:-1] or lines if s.strip() and s[0] != "#"]
    if form.is_csv(path):  # without a header; others name their columns
        rows = [s.split(",") for s in lines]
    else:
        rows = [s.replace(",", " ").split() for s in lines]
    said = []
    if not form.is_csv(path) and any(len(row) > 3 for row in rows):
        said.append(f"{path}: fields after the third, `source target value`, are ignored")
    third = [row[2].strip() for row in rows if len(row) > 2]
    if valued and third and all(_TIME.fullmatch(x) for x in third):
        said.append(
            f"{path}: the third fields, as {third[0]}, look like times; they are taken as the "
            "values of edges"
        )
    return said


def plan(files: Sequence[str], pieces: int, form: Form | None = None) -> list[Split]:
    """Divide files into about `pieces` splits, in order.

    Raises:
        InputError: all files are empty, or one cannot be read.
    """
    for name in files:
        if not os.access(name, os.R_OK):
            raise unreadable(name)
    if not any(os.path.getsize(f) for f in files):
        raise InputError(f"{files[0]}: the file is empty; an edge line is `source target [value]`")
    size = max(sum(os.path.getsize(f) for f in files) // max(pieces, 1) + 1, CHUNK)
    splits: list[Split] = []
    for path, csv in zip(files, layouts(files, form or Form()), strict=True):
        bytes_, columnar = os.path.getsize(path), is_parquet(path)
        undivided = path.endswith(PACKED) or (csv is not None and _ends_by_return(path))
        begin, end = (0, _row_groups(path)) if columnar else (0, bytes_)
        if csv is not None and csv.begin > len(codecs.BOM_UTF8):
            begin = csv.begin
        if undivided:
            splits += [Split(path, 0, max(bytes_, 1), csv=csv, whole=True)]
            continue
        here = min(pieces, -(-bytes_ // size))
        cuts = np.linspace(begin, end, max(1, min(here, end - begin)) + 1).astype(np.int64)
        splits += [Split(path, a, z, columnar, csv) for a, z in pairwise(cuts.tolist()) if a < z]
    return splits


def _ends_by_return(path: str) -> bool:
    """Return whether the lines of a file end by carriage returns alone."""
    head = head_of(path)
    return b"\r" in head and b"\n" not in head


def sample(split: Split, count: int) -> tuple[Split, float]:
    """Return a piece from the middle of a file with about so many edges, and its share of it.

    Args:
        split: the whole file.
        count: how many edges; of a Parquet file, whole row groups are returned.
    """
    if split.parquet:
        import pyarrow.parquet as pq

        with pq.ParquetFile(split.path) as file:
            metadata = file.metadata
        first = (split.begin + split.end) // 2
        rows, last = 0, first
        while last < split.end and rows < count:
            rows += metadata.row_group(last).num_rows
            last += 1
        share = min(rows, count) / max(metadata.num_rows, 1)
        return replace(split, begin=first, end=last), share
    if split.whole:
        return split, 1.0
    with open(split.path, "rb") as file:
        file.seek(split.begin)
        lines = file.read(_LOOKED_AT)
    each = len(lines) / max(lines.count(b"\n"), 1)
    size = split.end - split.begin
    length = min(int(count * each), size)
    begin = split.begin + (size - length) // 2
    return replace(split, begin=begin, end=begin + length), length / max(size, 1)


def unreadable(path: str) -> InputError:
    """Return the error for a file that the driver can read, and a task cannot."""
    host = os.uname().nodename
    return InputError(f"{path}: cannot be read on host {host}; put it where every worker can")


def is_parquet(path: str) -> bool:
    """Return whether a file begins as Parquet does.

    Raises:
        InputError: it cannot be read, or went away.
    """
    try:
        with open(path, "rb") as file:
            return file.read(4) == b"PAR1"
    except OSError:
        raise unreadable(path) from None


def _metadata(path: str) -> Any:
    import pyarrow.parquet as pq

    from vertexsdk.graph.load.arrow import unreadable_parquet

    try:
        with pq.ParquetFile(path) as file:
            return file.metadata
    except Exception as error:
        raise unreadable_parquet(path, error) from None


def check_condition(condition: Condition, paths: Sequence[str], form: Form) -> None:
    """Raise InputError for a condition that reads a column which a file has not."""
    for path, layout in zip(paths, layouts(paths, form), strict=True):
        if layout is not None:
            csv_columns(layout, path, form.options)._replace(condition=condition).condition_columns(
                layout.schema, path
            )
        elif is_parquet(path):
            schema = parquet_schema(path)
            edge_columns(schema.names, path)._replace(condition=condition).condition_columns(
                schema, path
            )
        else:
            condition.columns({"value": pa.float64()}, path)


def parquet_schema(path: str) -> Any:
    """Return the Arrow schema of a Parquet file."""
    return _metadata(path).schema.to_arrow_schema()


def _row_groups(path: str) -> int:
    metadata = _metadata(path)
    groups = [metadata.row_group(g) for g in range(metadata.num_row_groups)]
    bytes_ = sum(g.column(c).total_uncompressed_size for g in groups for c in range(g.num_columns))
    size = os.path.getsize(path)
    if max(metadata.num_rows, bytes_) > max(_DENSEST * size, _SMALL):
        raise InputError(
            f"{path}: {size:,} bytes unpack to {metadata.num_rows:,} rows and {bytes_:,} bytes, "
            f"over {_DENSEST:,} times as many; write it again without compression or dictionaries"
        )
    return len(groups)


def read_chunks(
    split: Split,
    value: str | None,
    threads: int,
    strings: Codes = None,
    options: CsvOptions | None = None,
    condition: Condition | None = None,
) -> Iterator[Chunk]:
    """Yield the edges of a split in order.

    Args:
        split: the split to read.
        value: "float64" or "int64"; None only checks values.
        threads: number of threads; the chunks do not depend on it.
        strings: for string ids, a function from an Arrow string array to int64 codes.
        options: what the user says of CSV files.
        condition: which rows are edges.

    Raises:
        NotIntegers: the first id that is not an integer, unless `strings` is given.
        InputError: bad input; the message names the file, and the line of a text file.
    """
    if split.parquet:
        from vertexsdk.graph.load.arrow import parquet_chunks

        yield from parquet_chunks(split, value, threads, strings, condition)
        return
    if not os.access(split.path, os.R_OK):
        raise unreadable(split.path)
    step = CHUNK if strings is None else 16 * CHUNK  # a lookup table of names per chunk
    with _opened(split) as (lines, begin, end):
        cuts = [*range(begin, end, step), end]

        def read(bounds: tuple[int, int]) -> Chunk:
            buffer, first, last = lines(*bounds)
            origin = 0 if split.whole else max(bounds[0] - 1, 0)
            if bounds[0] == 0 and buffer[:3].tobytes() == codecs.BOM_UTF8:
                first = max(first, 3)

            def line(position: int) -> int:
                if split.whole:
                    return 1 + int(text.count_lines(buffer, 0, position))
                return 1 + lines_before(split.path, origin + position)

            if split.csv is not None:
                names = csv_columns(split.csv, split.path, options or CsvOptions())
                names = names._replace(condition=condition)
                cells = buffer[first:last]
                return csv_chunk(
                    cells, split.csv, names, value, strings, split.path, partial(line, first)
                )
            try:
                return parse_chunk(buffer, first, last, value, strings, condition)
            except LineError as error:
                place = f"{split.path}, line {line(error.position)}"
                raise error.at_line(place, buffer) from None

        yield from map_threaded(read, list(pairwise(cuts)), threads)


@contextlib.contextmanager
def _opened(split: Split) -> Iterator[tuple[Any, int, int]]:
    """Open the file of a split.

    Yields:
        What `lines_of` does for its bytes begin..end-1, and the bounds of the bytes to be read.
    """
    if split.whole:
        data = Path(split.path).read_bytes()
        if split.path.endswith(PACKED):
            with unpacking(split.path, split.path) as stream:
                data = bytes(stream.read())
        begin = 3 if data.startswith(codecs.BOM_UTF8) else 0
        if split.csv is not None:
            begin = split.csv.begin
            if b"\n" not in data:
                data = data.replace(b"\r", b"\n")
        buffer = np.frombuffer(data + b"\n", np.uint8)
        yield partial(lines_in, buffer, begin), begin, len(buffer)
        return
    descriptor = os.open(split.path, os.O_RDONLY)
    try:
        yield partial(lines_of, descriptor), split.begin, split.end
    finally:
        os.close(descriptor)


def csv_chunk(
    cells: Any,
    layout: CsvLayout,
    names: EdgeColumns,
    value: str | None,
    codes: Codes,
    path: str,
    first: Callable[[], int],
) -> Chunk:
    """Read lines of CSV as edges.

    Args:
        cells: bytes of whole lines.
        layout, path: the file's.
        names: the columns of edges.
        value, codes: as those of `parse_chunk`.
        first: returns the number of the first line.

    Raises:
        NotIntegers: an id is not an integer, and `codes` was not given.
        InputError: a bad line.
    """
    table, lines, bad = read_cells(cells, layout, path, first)
    if bad:
        raise InputError(f"{path}, line {first() + bad[0].line}: {bad[0]}")
    for role, name in (("source", names.source), ("target", names.target)):
        there = filled(table[name])
        if not there.all():
            line = first() + lines[int(np.argmin(there))]
            raise InputError(f"{path}, line {line}: the {role} is empty; write an id")
    batch = table.combine_chunks().to_batches()[0] if len(table) else _no_rows(table.schema)
    try:
        return batch_chunk(batch, names, value, path, codes)
    except NotIntegers:
        raise
    except InputError:
        low, high = 0, len(batch)  # rows before `low` are right, those before `high` are not
        while high - low > 1:
            middle = (low + high) // 2
            try:
                batch_chunk(batch.slice(low, middle - low), names, value, path, codes)
                low = middle
            except NotIntegers:
                low = middle
            except InputError:
                high = middle
        place = f"{path}, line {first() + lines[low]}" if len(batch) else path
        with contextlib.suppress(NotIntegers):
            batch_chunk(batch.slice(low, 1), names, value, place, codes)
        raise


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def check_paths(edges: Sequence[str], vertices: str | None = None) -> None:
    """Raise InputError if a file of this machine is not there, or cannot be read.

    Args:
        edges: files, directories and globs; those of other file systems are not looked at.
        vertices: a vertex file.
    """
    expand([p for p in map(local_path, edges) if p is not None])
    if vertices is not None and (path := local_path(vertices)) is not None:
        try:
            expand([path])
        except InputError as error:
            raise InputError(str(error).replace("an edge file", "a vertex file")) from None
