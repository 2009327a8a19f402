"""Large segments of an LMDB store: a file each, written once and mapped when read.

    ROOT/LOOP/PARTITION-ITERATION-ATTEMPT          LOOP is the name in hex, cut into directories
    ROOT/LOOP/PARTITION-ITERATION-ATTEMPT.N.part   being written, or left by a writer that died

A file is renamed once all of it is on the disk, so a segment is whole or absent. What a dead writer
left is listed as an unreferenced segment, which garbage collection deletes. A map stays valid when
its file is deleted. Compared with LMDB this saves a copy of every byte on writing; and on reading,
as py-lmdb touches every page of a value.

Of the files that a process writes for a partition, the page cache keeps the last `CACHED`; earlier
ones are released, or a loop that commits each iteration would fill the page cache with versions
that are hardly ever read.
"""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.file_mapping import map_whole
from vertexsdk.state.contract import SegmentKey
from vertexsdk.state.errors import FullError, StateError

LARGE = 1 << 20  # bytes from which a segment is a file of its own
CACHED = 2
NO_ROOM = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_AT_ONCE = 8 << 20  # bytes that are written, and synced: a commit beside it waits for no more
_CUT = 240  # hex digits in the name of a directory


class Files:
    """The files below a directory, which is created with the first of them.

    Args:
        sync: fsync files and directories.
    """

    def __init__(self, root: str, sync: bool) -> None:
        self._root, self._sync = root, sync
        self._newest: dict[tuple[str, int], list[str]] = {}

    def put(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        """Write a segment, durably.

        Raises:
            FullError: the disk is full; nothing was stored.
            StateError: the directory cannot be written.
        """
        folder = self._folder(key.loop)
        path = os.path.join(folder, _name(key))
        part = f"{path}.{os.urandom(4).hex()}.part"
        try:
            descriptor = self._create(folder, part)
            try:
                for piece in pieces:
                    view = memoryview(piece).cast("B")
                    while view:
                        view = view[os.write(descriptor, view[:_AT_ONCE]) :]
                        if view and self._sync:
                            os.fdatasync(descriptor)
                if self._sync:
                    os.fsync(descriptor)
            finally:
                os.close(descriptor)
            os.replace(part, path)
            self._sync_directory(folder)
            self._written(key, path)
        except OSError as error:
            with contextlib.suppress(OSError):
                os.unlink(part)
            if error.errno in {*NO_ROOM, errno.EIO}:
                raise FullError(
                    f"no room left for the store in {self._root}: free some space, or choose "
                    "another store; what was committed before is still readable"
                ) from error
            raise StateError(
                f"the store in {self._root} cannot be written: {error.strerror}"
            ) from error

    def get(self, key: SegmentKey) -> NDArray[np.uint8] | None:
        """The segment, mapped read-only, or None."""
        try:
            with open(os.path.join(self._folder(key.loop), _name(key)), "rb", 0) as file:
                try:
                    mapped = map_whole(file.fileno())
                except (OSError, ValueError):  # no address space left, or an empty file
                    return np.frombuffer(file.read(), np.uint8)
                return np.frombuffer(mapped, np.uint8)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StateError(
                f"the store in {self._root} cannot be read: {error.strerror}"
            ) from error

    def has(self, key: SegmentKey) -> bool:
        """Return whether the segment exists."""
        return os.path.exists(os.path.join(self._folder(key.loop), _name(key)))

    def discard(self, key: SegmentKey) -> None:
        """Delete the segment if it exists; maps of it stay valid."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self._folder(key.loop), _name(key)))

    def delete(self, keys: Iterable[SegmentKey]) -> None:
        """Delete segments, and unfinished files of them; maps of them stay valid."""
        loops: dict[str, set[str]] = {}
        for key in keys:
            loops.setdefault(self._folder(key.loop), set()).add(_name(key))
        for folder, names in loops.items():
            with contextlib.suppress(FileNotFoundError):
                for name in os.listdir(folder):
                    if name.split(".")[0] in names:
                        with contextlib.suppress(FileNotFoundError):
                            os.unlink(os.path.join(folder, name))

    def keys(self, loop: str | None = None) -> Iterator[SegmentKey]:
        """The keys of one loop's files, or of all, unfinished ones included, in any order."""
        if loop is None:
            yield from _walk(self._root, "")
        else:
            raw = loop.encode().hex()
            yield from (key for key in _walk(self._folder(loop), raw) if key.loop == loop)

    def _folder(self, loop: str) -> str:
        raw = loop.encode().hex()
        return os.path.join(self._root, *(raw[k : k + _CUT] for k in range(0, len(raw), _CUT)))

    def _create(self, folder: str, part: str) -> int:
        flags = os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC
        with contextlib.suppress(FileNotFoundError):
            return os.open(part, flags, 0o666)
        os.makedirs(folder, exist_ok=True)
        above = folder
        while above != os.path.dirname(self._root):  # a name is durable once its directory is
            above = os.path.dirname(above)
            self._sync_directory(above)
        return os.open(part, flags, 0o666)

    def _written(self, key: SegmentKey, path: str) -> None:
        newest = self._newest.setdefault((key.loop, key.partition), [])
        newest.append(path)
        oldest = newest.pop(0) if len(newest) > CACHED else None
        if oldest is None or not self._sync or not hasattr(os, "posix_fadvise"):
            return
        with contextlib.suppress(FileNotFoundError):  # deleted since
            descriptor = os.open(oldest, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)

    def _sync_directory(self, path: str) -> None:
        if self._sync:
            sync_directory(path)


def sync_directory(path: str) -> None:
    """Make the names in a directory durable."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _name(key: SegmentKey) -> str:
    return f"{key.partition}-{key.iteration}-{key.attempt}"


def _walk(folder: str, raw: str) -> Iterator[SegmentKey]:
    with contextlib.suppress(FileNotFoundError):
        for entry in list(os.scandir(folder)):
            if entry.is_dir():
                yield from _walk(entry.path, raw + entry.name)
            else:
                with contextlib.suppress(ValueError):  # another program's file
                    partition, iteration, attempt = entry.name.split(".")[0].split("-")
                    loop = bytes.fromhex(raw).decode()
                    key = SegmentKey(loop, int(partition), int(iteration), attempt)
                    if len(bytes.fromhex(attempt)) == 16:
                        yield key
