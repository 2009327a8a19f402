"""Edge and vertex files on this machine, read in byte ranges by threads.

A *split* is a range of a text file or some row groups of a Parquet file; splits in order are
the input in order. The lines of a text split are those that begin in its range.
"""

from __future__ import annotations

import glob
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.load import text
from vertexsdk.load.memory import allocate, each
from vertexsdk.load.order import Chunk

__all__ = ["LineError", "NotIntegers", "Split", "expand", "file_format", "hard_floats"]
__all__ += ["local_path", "plain_header", "plan", "read_chunks", "read_named"]

CHUNK = 4 << 20  # bytes of text that a thread parses at a time
_SLACK = 1 << 16  # bytes read past the end of a range for its last line
_HEADERS = {"source", "target", "src", "dst"}


class NotIntegers(InputError):
    """An id which is no integer: the whole graph has string ids. Caught by the loader."""


@dataclass(frozen=True, slots=True)
class Split:
    """Bytes begin..end-1 of a text file, or row groups begin..end-1 of a Parquet file."""

    path: str
    begin: int
    end: int
    parquet: bool = False


def local_path(path: str) -> str | None:
    """Return `path` without its `file:` scheme, or None if it has another scheme."""
    if path.startswith("file:"):
        rest = path[len("file:") :]
        return "/" + rest.lstrip("/") if rest.startswith("/") else rest
    head, separator, _ = path.partition("://")
    return None if separator and head.isalnum() else path


def expand(paths: Sequence[str]) -> list[str]:
    """Return the files that `paths` (files, directories, globs) stand for, as Spark reads them.

    Raises:
        InputError: nothing is there, or no file in a directory.
    """
    files: list[str] = []
    for path in paths:
        found = [path] if os.path.exists(path) else sorted(glob.glob(path))
        if not found:
            raise InputError(f"{path}: no such file; give an edge file, a directory or a glob")
        for name in found:
            files += _files_below(name) if os.path.isdir(name) else [name]
    for name in files:
        if not os.access(name, os.R_OK):
            raise InputError(f"{name}: cannot be read; check its permissions")
    return files


def _files_below(directory: str) -> list[str]:
    names = sorted(
        str(p)
        for p in Path(directory).iterdir()
        if p.is_file() and not p.name.startswith(("_", "."))
    )
    if not names:
        raise InputError(f"{directory}: the directory has no files in it; write an edge file there")
    return names


def file_format(path: str) -> str:
    """Return "parquet", "csv" (has a header), "packed" (compressed text) or "text"."""
    if path.endswith((".gz", ".bz2", ".zst", ".lz4", ".snappy", ".deflate")):
        return "packed"
    with open(path, "rb") as file:
        head = file.read(4)
    if head == b"PAR1":
        return "parquet"
    if path.endswith(".parquet"):
        raise InputError(f"{path}: not a Parquet file; rename it if it is text")
    names = _header(path)
    return "csv" if names else "text"


def _header(path: str) -> list[str]:
    """Return the column names of a file whose first line that is no comment names them."""
    with open(path, "rb") as file:
        for line in file:
            fields = line.decode("utf-8", "replace").strip().lstrip("\ufeff")
            if fields and not fields.startswith("#"):
                names = [n.strip("\"'").lower() for n in fields.replace(",", " ").split()]
                known = {"source", "target"} <= set(names) or {"src", "dst"} <= set(names)
                return names if known else []
    return []


def plain_header(path: str) -> bool:
    """Whether a file with a header has its columns in the order of an edge line."""
    names = _header(path)
    return names[:2] in (["source", "target"], ["src", "dst"]) and (
        len(names) == 2 or names[2] in ("value", "weight")
    )


def _after_header(path: str) -> int:
    """Where the lines begin: after a byte-order mark and a header."""
    with open(path, "rb") as file:
        begin = 3 if file.read(3) == b"\xef\xbb\xbf" else 0
        if not _header(path):
            return begin
        file.seek(0)
        for line in iter(file.readline, b""):
            if line.strip() and not line.lstrip(b"\xef\xbb\xbf ").startswith(b"#"):
                return file.tell()
    return begin


def plan(files: Sequence[str], pieces: int) -> list[Split]:
    """Divide `files` (all text, or all Parquet) into about `pieces` splits, in order.

    Raises:
        InputError: there is nothing in any of them.
    """
    for name in files:
        if not os.access(name, os.R_OK):
            raise unreadable(name)
    parquet = [_is_parquet(f) for f in files]
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


def unreadable(path: str) -> InputError:
    """Say that a file which the driver found is not there for a task."""
    host = os.uname().nodename
    return InputError(f"{path}: cannot be read on host {host}; put it where every worker can")


def _is_parquet(path: str) -> bool:
    with open(path, "rb") as file:
        return file.read(4) == b"PAR1"


def _row_groups(path: str) -> int:
    import pyarrow.parquet as pq

    try:
        return int(pq.ParquetFile(path).metadata.num_row_groups)
    except Exception as error:
        line = str(error).splitlines()[0]
        raise InputError(f"{path}: not a readable Parquet file ({line}); write it again") from None


def read_chunks(
    split: Split, value: str | None, threads: int, strings: Any = None
) -> Iterator[Chunk]:
    """Yield the edges of a split in order.

    Args:
        split: what to read.
        value: "float64" or "int64", or None where values are only checked.
        threads: the chunks are the same for any number.
        strings: for string ids, a function from an Arrow string array to int64 codes.

    Raises:
        NotIntegers: the first id that is not an integer, unless `strings` is given.
        InputError: names the file, and the line if it has lines.
    """
    if split.parquet:
        from vertexsdk.load.arrow import parquet_chunks

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
                if strings is not None:
                    from vertexsdk.load.names import parse_named

                    return parse_named(buffer, begin, end, value, strings)
                return parse_chunk(buffer, begin, end, value)
            except LineError as error:
                raise error.located(split.path, buffer, max(bounds[0] - 1, 0)) from None

        yield from each(read, ranges, threads)
    finally:
        os.close(descriptor)


def read_named(split: Split, codes: Any) -> Iterator[Chunk]:
    """Yield the edges of a split whose ids are strings, as `codes` turns them into int64."""
    return read_chunks(split, None, 1, codes)


def lines_of(descriptor: int, begin: int, end: int) -> tuple[NDArray[np.uint8], int, int]:
    """Read the lines that begin in bytes begin..end-1; return a buffer and their bounds in it.

    The buffer starts one byte before `begin` (unless that is 0).
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
        if last <= got and (got < wanted or buffer[last - 1] == 10):
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
        field = bytes(buffer[self.position : self.position + 60]).decode("utf-8", "replace")
        field = field.replace(",", " ").split()[0] if field.split() else ""
        if self.status == text.NOT_INTEGER:
            return NotIntegers(f"{place}: {field!r}: not an integer id")
        return InputError(f"{place}: {field!r}: {text.MESSAGES[self.status]}")


def parse_chunk(buffer: NDArray[np.uint8], begin: int, end: int, value: str | None) -> Chunk:
    """Parse whole lines; ids come as int32 where they fit.

    Raises:
        LineError: at the first bad line.
    """
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
