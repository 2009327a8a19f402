"""Files as a source: what they have, in order, each batch with the position where it ends.

Files are read in the order of `paths`, those of a directory by name. With `follow`, files that grow
and files moved into a directory are read as they arrive, until `stop` or until nothing has arrived
for `idle` seconds. A consumer stores the `source` and `offset` of each batch it has applied; passed
as `after`, they make the next reader continue there, with nothing lost or read twice.
"""

from __future__ import annotations

import glob
import os
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO, Generic, TypeVar

from vertexsdk.errors import InputError
from vertexsdk.graph.load import files
from vertexsdk.graph.load.csv import PACKED
from vertexsdk.graph.load.lines import lines_before
from vertexsdk.graph.load.text import LINE_BYTES

B = TypeVar("B")
_SEARCH = 4 << 20  # bytes of a long line that are read at a time


class FollowedFile:
    """One file and how far it was read.

    Args:
        path: the file's path.
        offset: bytes that were read before.
        moved: it came as a whole, so its last line needs no end; it must not grow.
        kind: what it is called in messages.

    Attributes:
        source: its absolute path.
        line: the number of the line at the offset, from 1; 0 until lines are read.
        longest: bytes that a line may have.
    """

    longest = LINE_BYTES

    def __init__(self, path: str, offset: int, moved: bool, kind: str) -> None:
        if path.endswith(PACKED):
            raise InputError(f"{path}: {kind}s are plain text; unpack it")
        self.path, self.source = path, os.path.abspath(path)
        self.offset, self.moved, self._kind = offset, moved, kind
        self.line = 0
        self._searched = 0  # the byte up to which the line at the offset has no end

    def left(self) -> int:
        """Return how many bytes were not read yet."""
        try:
            return max(os.path.getsize(self.path) - self.offset, 0)
        except OSError:
            return 0

    def head(self) -> bytes:
        """Return its first bytes."""
        return files.head_of(self.path)

    def lines(self, ending: bool, want: int) -> tuple[bytes, int]:
        """Return whole lines from the offset on, some `want` bytes of them.

        Args:
            ending: also one which has no end yet.

        Returns:
            The lines, and how many bytes of the file they are; none where there is nothing yet. Of
            a line that is too long, only the beginning is returned.

        Raises:
            InputError: it became shorter, went away, or grew within its last line.
        """
        try:
            data, size = self._lines(ending or self.moved, want)
        except OSError as error:
            raise InputError(
                f"{self.path}: cannot be read at byte {self.offset:,} ({error.strerror}); "
                "put it back and start the stream again, which continues from there"
            ) from None
        if size and not self.line:
            self.line = 1 + lines_before(self.path, self.offset)
        return data, size

    def advance(self, size: int, lines: int) -> None:
        """Continue after so many bytes, which are so many lines."""
        self.offset += size
        self.line += lines

    def _lines(self, ending: bool, want: int) -> tuple[bytes, int]:
        size = os.path.getsize(self.path)
        if size == self.offset:
            return b"", 0
        if size < self.offset:
            raise InputError(
                f"{self.path}: has {size:,} bytes, of which {self.offset:,} were taken in; "
                f"a {self._kind} may only grow: give what is new as another file"
            )
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
                complete = len(data) < want
                end = len(data) if complete and ending else data.rfind(b"\n") + 1
                if not end and not complete:
                    end = data.rfind(b"\r", 0, -1) + 1
                if end or complete:
                    return data[:end], end
                if want > LINE_BYTES:
                    return data[: LINE_BYTES + 1], self._long_line(file, ending)
                want *= 4

    def _long_line(self, file: BinaryIO, ending: bool) -> int:
        """The length of the line at the offset; 0 if it has no end yet."""
        at = file.seek(max(self._searched, self.offset))
        while data := file.read(_SEARCH):
            end = data.find(b"\n")
            if end >= 0:
                return at + end + 1 - self.offset
            at += len(data)
        self._searched = at
        return at - self.offset if ending else 0


class FollowedFiles(ABC, Generic[B]):
    """Files, directories and globs, to be iterated over once.

    Args:
        paths: local files.
        follow: wait for more at the end, and for files that are not there yet.
        idle: with `follow`, end when nothing has come for so many seconds; None never ends.
        after: for each source that was read before, the offset to continue from.

    Attributes:
        kind: what a file is called in messages.
        looks: how often all files were read to their ends.

    Raises:
        InputError: no such file; or, while iterating, one that became shorter or went away.
    """

    kind = "input file"
    poll = 0.1  # seconds between looks

    def __init__(
        self,
        paths: Sequence[str],
        *,
        follow: bool = False,
        idle: float | None = None,
        after: Mapping[str, int] | None = None,
    ) -> None:
        local = [files.local_path(p) for p in paths]
        if any(p is None for p in local):
            raise InputError(f"{', '.join(paths)}: {self.kind}s must be on this machine")
        self.paths = [p for p in local if p is not None]
        if idle is not None and not follow:
            raise InputError("idle is only for files that are followed: give follow=True, or leave "
                             "it out")  # fmt: skip
        self.follow, self.idle = follow, idle
        self._after = dict(after or {})
        self._files: dict[str, FollowedFile] = {}
        self._stopped = threading.Event()
        self.looks = 0
        self._current_files()

    @abstractmethod
    def read(self, file: FollowedFile, ending: bool) -> Iterator[B]:
        """Yield what a file has from its offset on, and advance it.

        Args:
            ending: also a line which has no end yet.
        """

    def open(self, path: str, offset: int, moved: bool) -> FollowedFile:
        """Return a file that is read for the first time."""
        return FollowedFile(path, offset, moved, self.kind)

    def _current_files(self) -> list[FollowedFile]:
        """Return the files that exist now, in order."""
        if not self.follow:
            return [self._file(path, False) for path in files.expand(self.paths, self.kind)]
        current = []
        for path in self.paths:
            inside = os.path.isdir(path)
            if inside:
                there = files.files_in(path)
            elif glob.has_magic(path):
                there = sorted(glob.glob(path))
            else:  # a missing one is refused here, one that went away when it is read
                known = os.path.abspath(path) in self._files
                there = [path] if known else files.expand([path], self.kind)
            current += [self._file(name, inside) for name in there]
        return current

    def _file(self, path: str, moved: bool) -> FollowedFile:
        source = os.path.abspath(path)
        one = self._files.get(source)  # also where it is given twice
        if one is None:
            one = self._files[source] = self.open(path, self._after.get(source, 0), moved)
        return one

    @property
    def behind_bytes(self) -> int:
        """The number of bytes of the files that were not read yet."""
        return sum(one.left() for one in list(self._files.values()))

    def stop(self) -> None:
        """End the iteration after the batch that comes next; from any thread."""
        self._stopped.set()

    def __iter__(self) -> Iterator[B]:
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

    def _pass(self, ending: bool) -> Iterator[B]:
        """Yield what there is now; at the end, also lines without a line end."""
        for one in self._current_files():
            yield from self.read(one, ending)
        self.looks += 1
