"""Change files as a source: batches of changes, each with the byte of its file where it ends.

Files are read in the order of `paths`, those of a directory by name. With `follow`, files that grow
and files moved into a directory are read as they arrive, until `stop` or until nothing has arrived
for `idle` seconds. A consumer stores the `source` and `offset` of each batch it has applied; passed
as `after`, they make the next reader continue there, with nothing lost or read twice.
"""

from __future__ import annotations

import codecs
import glob
import os
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import InputError
from vertexsdk.graph.changes._block import (
    ParsedBlock,
    change_layout,
    parse_block,
    parse_csv_block,
)
from vertexsdk.graph.changes.batch import ChangeBatch
from vertexsdk.graph.changes.line import LineFormat
from vertexsdk.graph.load import _files as files
from vertexsdk.graph.load._csv import PACKED, CsvLayout, check_encoding, is_csv
from vertexsdk.graph.load._lines import lines_before
from vertexsdk.graph.load._text import LINE_BYTES

_BLOCK = 4 << 20  # bytes read at a time


class ChangeFiles:
    """The changes of files, directories and globs, to be iterated over once.

    Args:
        paths: of this machine.
        form: how lines are to be read.
        at_once: most changes in a batch.
        follow: wait for more at the end, and for files that are not there yet.
        idle: with `follow`, end when nothing has come for so many seconds; None never ends.
        after: for each source that was read before, the offset to go on from.

    Raises:
        InputError: no such file; or, while iterating, one that became shorter or went away.

    Example:
        >>> source = ChangeFiles(["changes/"], LineFormat(integers=True))  # doctest: +SKIP
        >>> for batch in source:  # doctest: +SKIP
        ...     main.ingest(batch.changes, source=batch.source, offset=batch.offset)
    """

    poll = 0.1  # seconds between looks

    def __init__(
        self,
        paths: Sequence[str],
        form: LineFormat,
        *,
        at_once: int = 1 << 18,
        follow: bool = False,
        idle: float | None = None,
        after: Mapping[str, int] | None = None,
    ) -> None:
        local = [files.local_path(p) for p in paths]
        if any(p is None for p in local):
            raise InputError(f"{', '.join(paths)}: change files must be on this machine")
        self.paths = [p for p in local if p is not None]
        self.form, self.at_once, self.follow, self.idle = form, at_once, follow, idle
        self._after = dict(after or {})
        self._files: dict[str, _File] = {}
        self._clock = -np.inf
        self._stopped = threading.Event()
        self._current_files()

    def _current_files(self) -> list[_File]:
        """Return the files that exist now, in order."""
        if not self.follow:
            return [self._file(path, False) for path in files.expand(self.paths)]
        current = []
        for path in self.paths:
            inside = os.path.isdir(path)
            if inside:
                there = files.files_in(path)
            elif glob.has_magic(path):
                there = sorted(glob.glob(path))
            else:  # a missing one is refused here, one that went away when it is read
                there = [path] if path in self._files else files.expand([path])
            current += [self._file(name, inside) for name in there]
        return current

    def _file(self, path: str, moved: bool) -> _File:
        one = self._files.get(path)
        if one is None:
            one = _File(path, self._after.get(os.path.abspath(path), 0), moved)
            self._files[path] = one
        return one

    @property
    def behind_bytes(self) -> int:
        """How many bytes of the files were not read yet."""
        return sum(one.left() for one in list(self._files.values()))

    def stop(self) -> None:
        """End the iteration after the batch that comes next; from any thread."""
        self._stopped.set()

    def __iter__(self) -> Iterator[ChangeBatch]:
        came = time.monotonic()
        while not self._stopped.is_set():
            began, got = time.monotonic(), False
            for batch in self._pass(not self.follow):
                yield batch
                got = True
                if self._stopped.is_set():
                    return
            now = time.monotonic()
            if not self.follow:
                return
            if got:
                came = now
            elif self.idle is not None and now - came >= self.idle:
                yield from self._pass(True)
                return
            self._stopped.wait(max(self.poll, 10 * (now - began) * (not got)))

    def _pass(self, ending: bool) -> Iterator[ChangeBatch]:
        """What there is now; when it is the end, also lines which no line end follows."""
        for one in self._current_files():
            while (read := one.read(self.form, ending)) is not None:
                yield from self._batches(one, *read)

    def _batches(
        self, one: _File, block: ParsedBlock, begin: int, size: int
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


class _File:
    """One file and how far it was read.

    Args:
        moved: it came as a whole, so its last line needs no end; it must not grow.
    """

    def __init__(self, path: str, offset: int, moved: bool) -> None:
        if path.endswith(PACKED):
            raise InputError(f"{path}: change files are plain text; unpack it")
        self.path, self.source = path, os.path.abspath(path)
        self.offset, self.moved = offset, moved
        self.line = 0  # lines before the offset; 0 is: to be counted
        self._searched = 0  # the byte up to which the line at the offset has no end
        self._layout: CsvLayout | None = None

    def left(self) -> int:
        """How many bytes were not read yet."""
        try:
            return max(os.path.getsize(self.path) - self.offset, 0)
        except OSError:
            return 0

    def read(self, form: LineFormat, ending: bool) -> tuple[ParsedBlock, int, int] | None:
        """The next block, the byte where it begins and its size; None if there is none yet."""
        try:
            data, size = self._lines(ending or self.moved)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read at byte {self.offset:,} ({error.strerror}); "
                "put it back and start the stream again, which goes on from there"
            ) from None
        if not size:
            return None
        if not self.line:
            self.line = 1 + lines_before(self.path, self.offset)
        begin = self.offset
        if is_csv(self.path):
            if self._layout is None:
                self._layout = change_layout(files.head_of(self.path), self.path, form)
            mark = min(max(self._layout.begin - begin, 0), len(data))
            self.line += len(data[:mark].splitlines())
            block = parse_csv_block(data[mark:], self.path, self.line, form, self._layout)
        else:
            mark = 3 if begin == 0 and data.startswith(codecs.BOM_UTF8) else 0
            if begin == 0:
                check_encoding(data[:64], self.path)
            block = parse_block(data[mark:], self.path, self.line, form)
        self.offset += size
        self.line += block.lines
        return block, begin + mark, len(data)

    def _lines(self, ending: bool) -> tuple[bytes, int]:
        """Whole lines from the offset on; with `ending` also one which has no end yet.

        Returns:
            The lines, and how many bytes of the file they are: of a line that is too long, only
            the beginning is returned.
        """
        size = os.path.getsize(self.path)
        if size == self.offset:
            return b"", 0
        if size < self.offset:
            raise InputError(
                f"{self.path}: has {size:,} bytes, of which {self.offset:,} were taken in; "
                "a change file may only grow: give the new changes as another file"
            )
        want = _BLOCK
        with open(self.path, "rb") as file:
            if self.offset:
                file.seek(self.offset - 1)
                if file.read(1) not in b"\r\n":
                    raise InputError(
                        f"{self.path}: grew within its last line, which was taken in; "
                        "move files into the directory when they are complete"
                    )
            while True:
                file.seek(self.offset)
                data = file.read(want)
                whole = len(data) < want
                end = len(data) if whole and ending else data.rfind(b"\n") + 1
                if not end and not whole:
                    end = data.rfind(b"\r", 0, -1) + 1
                if end or whole:
                    return data[:end], end
                if want > LINE_BYTES:
                    return data[: LINE_BYTES + 1], self._long_line(file, ending)
                want *= 4

    def _long_line(self, file: BinaryIO, ending: bool) -> int:
        """The length of the line at the offset; 0 if it has no end yet."""
        at = file.seek(max(self._searched, self.offset))
        while data := file.read(_BLOCK):
            end = data.find(b"\n")
            if end >= 0:
                return at + end + 1 - self.offset
            at += len(data)
        self._searched = at
        return at - self.offset if ending else 0
