"""Edge and vertex files on this machine, read in byte ranges by threads.

A *split* is a range of a text file or some row groups of a Parquet file; splits in order are
the input in order. The lines of a text split are those that begin in its range.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from vertexsdk.arrays.threads import map_threaded
from vertexsdk.errors import InputError
from vertexsdk.graph.load import _text as text
from vertexsdk.graph.load._adjacency_rows import Chunk
from vertexsdk.graph.load._lines import Codes, LineError, Split, lines_of, parse_chunk

PACKED = (".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")
CHUNK = 4 << 20  # bytes of text that a thread parses at a time
_DENSEST = 1000  # rows, or unpacked bytes, that a byte of a Parquet file may stand for
_LOOKED_AT = 1 << 16  # bytes of text from which the length of a line is known
_SMALL = 1 << 24  # rows or bytes that any file may have


def local_path(path: str) -> str | None:
    """Return `path` without its `file:` scheme, or None if it has another scheme."""
    if path.startswith("file:"):
        rest = path[len("file:") :]
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    head, separator, _ = path.partition("://")
    return None if separator and head.isalnum() else path


def expand(paths: Sequence[str]) -> list[str]:
    """Return the files that `paths` (files, directories, globs) name, as Spark reads them.

    Raises:
        InputError: a path or a glob names no file, or a file cannot be read.
    """
    files: list[str] = []
    for path in paths:
        matches = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not matches:
            raise InputError(f"{path}: no such file; name an edge file, a directory or a glob")
        for name in matches:
            inside = files_in(name) if os.path.isdir(name) else [name]
            if not inside:
                raise InputError(f"{name}: the directory has no files; name one with edge files")
            files += inside
    for name in files:
        if not os.access(name, os.R_OK):
            raise InputError(f"{name}: cannot be read; check its permissions")
    return files


def files_in(directory: str) -> list[str]:
    """Return the files in a directory by name, without those that Spark would not read."""
    paths = Path(directory).iterdir()
    return sorted(str(p) for p in paths if p.is_file() and not p.name.startswith(("_", ".")))


def file_format(path: str) -> str:
    """Return "parquet", "csv" (has a header), "packed" (compressed text) or "text"."""
    if path.endswith(PACKED):
        return "packed"
    if is_parquet(path):
        return "parquet"
    if path.endswith(".parquet"):
        raise InputError(f"{path}: not a Parquet file; rename it if it is text")
    names = _header(path)
    if not names and path.endswith(".csv"):
        _refuse_foreign_header(path)
    return "csv" if names else "text"


def _first_lines(path: str, count: int) -> list[list[str]]:
    """The fields of the first `count` lines that are not comments."""
    lines: list[list[str]] = []
    with open(path, "rb") as file:
        for line in _lines(file, path):
            fields = line.decode("utf-8", "replace").strip().lstrip("\ufeff")
            if fields and not fields.startswith("#"):
                lines.append([n.strip("\"'") for n in fields.replace(",", " ").split()])
                if len(lines) == count:
                    break
    return lines


def _lines(file: BinaryIO, path: str) -> Iterator[bytes]:
    """The lines of a file.

    Raises:
        InputError: a line has more than `LINE_BYTES`; it is not read as a whole.
    """
    lines = iter(lambda: file.readline(text.LINE_BYTES + 2), b"")
    for number, line in enumerate(lines, 1):
        if len(line.rstrip(b"\n")) > text.LINE_BYTES:
            raise InputError(f"{path}, line {number}: {text.MESSAGES[text.LONG_LINE]}")
        yield line


def _header(path: str) -> list[str]:
    """Return the lower-case column names in a file's header, or [] if it has none."""
    names = [n.lower() for line in _first_lines(path, 1) for n in line]
    return names if names_ends(names) else []


def names_ends(names: Iterable[str]) -> bool:
    """Whether lower-case column names have those of the source and the target of an edge."""
    columns = {*names}
    return {"source", "target"} <= columns or {"src", "dst"} <= columns


_FOREIGN = re.compile(
    r"(from|start|source|src)\w* (to|end|target|dst|dest)\w*( .*)?", re.IGNORECASE
)


def _refuse_foreign_header(path: str) -> None:
    """Raise InputError for a header with other names, which would be read as an edge of strings."""
    first, *rest = _first_lines(path, 2) or [[]]
    ends = [n.lstrip("+-").isdigit() for n in first[:2]]
    numbers = rest and all(n.lstrip("+-").isdigit() for n in rest[0][:2])
    if (numbers and not any(ends)) or _FOREIGN.fullmatch(" ".join(first)):
        raise InputError(
            f"{path}: the columns are {', '.join(first)}; name them source,target[,value] "
            "(or src,dst[,weight])"
        )


def plain_header(path: str) -> bool:
    """Whether a file with a header has its columns in the order of an edge line."""
    names = _header(path)
    return names[:2] in (["source", "target"], ["src", "dst"]) and (
        len(names) == 2 or (len(names) == 3 and names[2] in ("value", "weight"))
    )


def _after_header(path: str) -> int:
    """The position of the first edge line, after a byte-order mark and a header."""
    with open(path, "rb") as file:
        begin = 3 if file.read(3) == b"\xef\xbb\xbf" else 0
        if not _header(path):
            return begin
        file.seek(0)
        for line in _lines(file, path):
            if line.strip() and not line.lstrip(b"\xef\xbb\xbf ").startswith(b"#"):
                return file.tell()
    return begin


def plan(files: Sequence[str], pieces: int) -> list[Split]:
    """Divide `files` (all text, or all Parquet) into about `pieces` splits, in order.

    Raises:
        InputError: all files are empty, or one cannot be read.
    """
    for name in files:
        if not os.access(name, os.R_OK):
            raise unreadable(name)
    parquet = [is_parquet(f) for f in files]
    if not any(os.path.getsize(f) for f in files):
        raise InputError(f"{files[0]}: the file is empty; an edge line is `source target [value]`")
    size = max(sum(os.path.getsize(f) for f in files) // max(pieces, 1) + 1, CHUNK)
    splits: list[Split] = []
    for path, columnar in zip(files, parquet, strict=True):
        bytes_ = os.path.getsize(path)
        here = min(pieces, -(-bytes_ // size))
        begin, end = (0, _row_groups(path)) if columnar else (_after_header(path), bytes_)
        cuts = np.linspace(begin, end, max(1, min(here, end - begin)) + 1).astype(np.int64)
        splits += [Split(path, a, z, columnar) for a, z in pairwise(cuts.tolist()) if a < z]
    return splits


def sample(split: Split, count: int) -> tuple[Split, float]:
    """Return a piece from the middle of a file with about so many edges, and its share of it.

    Args:
        split: the whole file.
        count: of a Parquet file whole row groups are returned.
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
        return Split(split.path, first, last, True), share
    with open(split.path, "rb") as file:
        file.seek(split.begin)
        lines = file.read(_LOOKED_AT)
    each = len(lines) / max(lines.count(b"\n"), 1)
    size = split.end - split.begin
    length = min(int(count * each), size)
    begin = split.begin + (size - length) // 2
    return Split(split.path, begin, begin + length), length / max(size, 1)


def unreadable(path: str) -> InputError:
    """Return the error for a file that the driver can read, and a task cannot."""
    host = os.uname().nodename
    return InputError(f"{path}: cannot be read on host {host}; put it where every worker can")


def is_parquet(path: str) -> bool:
    """Whether a file begins as Parquet does."""
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _metadata(path: str) -> Any:
    import pyarrow.parquet as pq

    from vertexsdk.graph.load.arrow import unreadable_parquet

    try:
        with pq.ParquetFile(path) as file:
            return file.metadata
    except Exception as error:
        raise unreadable_parquet(path, error) from None


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
    split: Split, value: str | None, threads: int, strings: Codes = None
) -> Iterator[Chunk]:
    """Yield the edges of a split in order.

    Args:
        split: the split to read.
        value: "float64" or "int64"; None only checks values.
        threads: number of threads; the chunks do not depend on it.
        strings: for string ids, a function from an Arrow string array to int64 codes.

    Raises:
        NotIntegers: the first id that is not an integer, unless `strings` is given.
        InputError: bad input; the message names the file, and the line of a text file.
    """
    if split.parquet:
        from vertexsdk.graph.load.arrow import parquet_chunks

        yield from parquet_chunks(split, value, threads, strings)
        return
    step = CHUNK if strings is None else 16 * CHUNK  # a lookup table of names per chunk
    cuts = [*range(split.begin, split.end, step), split.end]
    ranges = list(pairwise(cuts))
    if not os.access(split.path, os.R_OK):
        raise unreadable(split.path)
    descriptor = os.open(split.path, os.O_RDONLY)
    try:

        def read(bounds: tuple[int, int]) -> Chunk:
            buffer, begin, end = lines_of(descriptor, *bounds)
            try:
                return parse_chunk(buffer, begin, end, value, strings)
            except LineError as error:
                raise error.located(split.path, buffer, max(bounds[0] - 1, 0)) from None

        yield from map_threaded(read, ranges, threads)
    finally:
        os.close(descriptor)
