"""One LMDB environment: opened once per process, safe after fork, growing, read without a copy.

- LMDB must not be opened twice by one process, so open environments are kept in a table.
- A forked child may neither use nor close what its parent opened: closing would free the parent's
  reader slots. The child drops its references instead, by which py-lmdb forgets the environment.
  Arrays read before the fork stay valid in the child, but keep it from opening the same shard.
- An array read at no copy keeps its read transaction alive, and with it the pages: `_Snapshot`.
  Arrays of one process share a snapshot as long as it is new enough.
- Where the file system can reserve, a file is kept `_SPARE` pages longer than it needs to be, for
  deletions: when the disk is full, only what frees room may use them. For LMDB writes a page anew
  in another place, also to delete from it.
- LMDB maps its file, so a page that was cut off would end the process by SIGBUS. A file that ends
  before its last page may be valid, if the pages beyond its end are free: a process of its own
  reads all of it to tell.
- The map is as large as the address space lets it be, as it costs nothing until it is used. Where
  the address space is limited it starts small and grows when full; arrays are then copied on
  reading, as a map must not move under them.
"""

from __future__ import annotations

import errno
import os
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import lmdb
import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import damaged
from vertexsdk.backends._files import NO_ROOM, sync_directory
from vertexsdk.state.errors import CorruptError, FullError, StateError

T = TypeVar("T")
RESERVED = 1 << 38  # bytes of address space for one environment
SMALLEST = 1 << 22
_READERS = 512
_SPARE = 64  # pages
_READER = 64  # bytes of a reader's slot in the lock file
_READ_ALL = """
import sys
sys.path.append(sys.argv[2])
import lmdb
lmdb.open(sys.argv[1], readonly=True).copyfd(1, compact=True)
"""
_CLOSING = 1.0  # seconds, at most, that another thread takes to close an environment
_SHORT = errno.EIO  # what LMDB makes of a write that was cut short, as by a full disk

_lock = threading.RLock()
_open: weakref.WeakValueDictionary[tuple[int, int], Environment] = weakref.WeakValueDictionary()


class _Snapshot:
    """A read transaction that ends when the last array read in it is gone."""

    def __init__(self, environment: Environment) -> None:
        self.environment = environment
        self.transaction = environment.handle.begin(buffers=True)
        environment.snapshots.add(self)

    def __del__(self, getpid: Callable[[], int] = os.getpid) -> None:
        if not hasattr(self, "transaction"):
            return
        if self.environment.process == getpid():
            self.transaction.abort()
        else:
            self.environment.tables = {}
            self.environment.handle = None


class _Pinned:
    """Owner of bytes of a snapshot, by numpy's array interface."""

    def __init__(self, snapshot: _Snapshot, address: int, size: int) -> None:
        self.snapshot = snapshot
        self.__array_interface__ = {
            "version": 3,
            "shape": (size,),
            "typestr": "|u1",
            "data": (address, True),
        }


class Environment:
    """An open environment with its named tables.

    Attributes:
        process: the id of the process that opened it.
        tables: the named tables, or one unnamed one under "".
    """

    def __init__(self, path: str, tables: tuple[str, ...], size: int | None, sync: bool) -> None:
        self.path = path
        self.process = os.getpid()
        self.snapshots: weakref.WeakSet[_Snapshot] = weakref.WeakSet()
        self._lock = threading.RLock()
        self._snapshot: Callable[[], _Snapshot | None] = lambda: None
        self.handle: Any = None
        self.size = size or RESERVED
        while self.handle is None:
            try:
                self.handle = lmdb.open(
                    path,
                    map_size=self.size,
                    max_dbs=len(tables),
                    max_readers=_READERS,
                    sync=sync,
                    metasync=sync,
                    readahead=False,
                    meminit=False,
                )
            except (MemoryError, lmdb.MemoryError):
                if self.size <= SMALLEST:
                    raise
                self.size = SMALLEST
        self._file = os.path.join(path, "data.mdb")
        self.check_file()
        self.pins = self.size >= RESERVED
        self.handle.reader_check()
        self.tables = {name: self._open_table(name) for name in tables}
        self.tables[""] = None

    def check_file(self) -> None:
        """Refuse a file at which LMDB would fault.

        Raises:
            CorruptError: pages in use are missing from the file.
        """
        if os.stat(self._file).st_size < self._used_bytes() and not _can_be_read(self.path):
            raise _damaged_file(self._file)

    def _used_bytes(self) -> int:
        """The bytes up to the last page that was ever used."""
        size: int = (self.handle.info()["last_pgno"] + 1) * self.handle.stat()["psize"]
        return size

    def free_pages(self) -> int:
        """The number of free pages, and of those which list them, which are few."""
        with self.handle.begin() as transaction:
            trees = [transaction.stat(t) for t in self.tables.values() if t is not None]
        kinds = ("branch_pages", "leaf_pages", "overflow_pages")
        used = sum(tree[kind] for tree in [self.handle.stat(), *trees] for kind in kinds)
        last: int = self.handle.info()["last_pgno"]
        return last - 1 - int(used)

    def _open_table(self, name: str) -> Any:
        while True:
            try:
                return self.handle.open_db(name.encode())
            except lmdb.MapResizedError:  # another process has made the file larger since
                self.handle.set_mapsize(0)

    def read(self, work: Callable[[Any], T]) -> T:
        """Run `work` in a new read transaction."""
        try:
            with self._readable(), self.handle.begin() as transaction:
                return work(transaction)
        except lmdb.MapResizedError:
            self._remap(0)
            return self.read(work)

    def write(self, work: Callable[[Any], T], *, frees: bool = False) -> T:
        """Run `work` in a write transaction; it is durable on return, and runs again on growth.

        Args:
            frees: it only deletes, and may use the spare pages.

        Raises:
            FullError: no room on the disk, or the map cannot grow now; nothing was written.
            StateError: the file cannot be written, or not opened once more.
        """
        advanced = False
        while True:
            try:
                if not frees:
                    self._keep_spare()
                with self.handle.begin(write=True) as transaction:
                    return work(transaction)
            except lmdb.MapResizedError:
                self._remap(0)
            except lmdb.MapFullError:
                self._remap(self.handle.info()["map_size"] * 2)
            except lmdb.Error as error:
                code = getattr(error, "code", 0)
                if code in NO_ROOM or code == _SHORT or isinstance(error, lmdb.DiskError):
                    if not advanced and self._advance():
                        advanced = True
                        continue
                    cause = "or its disk fails: " if code == _SHORT else ""
                    raise self._full(cause) from error
                raise StateError(f"the store in {self.path} cannot be written: {error}") from error
            except OSError as error:
                raise StateError(
                    f"the store in {self.path} cannot be written: {error.strerror}"
                ) from error

    def _full(self, cause: str = "") -> FullError:
        return FullError(
            f"no room left for the store in {self.path}: {cause}free some space, drop versions "
            "(`vertexsdk state gc --loop NAME --keep N`), or choose another store; what was "
            "committed before is still readable"
        )

    def _advance(self) -> bool:
        """Commit no change, so that the next commit may use pages that the last one freed."""
        try:
            with self.handle.begin(write=True, db=next(iter(self.tables.values()))) as transaction:
                transaction.put(b"\0", b"")
                transaction.delete(b"\0")
        except lmdb.Error:
            return False
        return True

    def _keep_spare(self) -> None:
        if not hasattr(os, "posix_fallocate"):
            return
        used, page = self._used_bytes(), self.handle.stat()["psize"]
        try:
            descriptor = os.open(self._file, os.O_RDWR | os.O_CLOEXEC)
        except FileNotFoundError:  # the whole directory was removed
            return
        try:
            size = os.fstat(descriptor).st_size
            if size >= used + _SPARE * page:
                return
            os.posix_fallocate(descriptor, used, 2 * _SPARE * page)
        except OSError as error:
            room = (size - used) // page + self.free_pages()
            if error.errno in NO_ROOM and room < _SPARE:
                raise self._full() from error
        finally:
            os.close(descriptor)

    def arrays(self, read: Callable[[Any], list[memoryview]]) -> list[NDArray[np.uint8]]:
        """Return the values that `read` returns in a transaction, as arrays; they stay valid."""
        if not self.pins:
            return self.read(lambda txn: [np.frombuffer(bytes(v), np.uint8) for v in read(txn)])
        with self._lock:
            snapshot = self._snapshot()
            with self._readable():
                values = read(snapshot.transaction) if snapshot else []
                if snapshot is None or not values:
                    snapshot = _Snapshot(self)
                    values = read(snapshot.transaction)
                    self._snapshot = weakref.ref(snapshot)
            return [_pin(snapshot, value) for value in values]

    def forget_snapshot(self) -> None:
        """Let later reads see what was deleted since; arrays that are in use stay valid."""
        self._snapshot = lambda: None

    @contextmanager
    def _readable(self) -> Iterator[None]:
        with damaged(f"the store in {self.path}"):
            try:
                yield
            except (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.PanicError) as error:
                raise ValueError(str(error)) from error

    def _remap(self, size: int) -> None:
        with self._lock:
            if self.pins and len(self.snapshots):
                raise FullError(
                    f"the store in {self.path} reached its map of {self.size} bytes while arrays "
                    "read from it are in use: delete them, or restart the process"
                )
            try:
                self.handle.set_mapsize(size)
            except (MemoryError, lmdb.Error) as error:
                raise FullError(
                    f"the store in {self.path} cannot grow to {size} bytes ({error}): raise the "
                    "limit on address space (ulimit -v), or choose another store"
                ) from error


def _pin(snapshot: _Snapshot, value: memoryview) -> NDArray[np.uint8]:
    view = np.frombuffer(value, np.uint8)
    return np.asarray(_Pinned(snapshot, view.ctypes.data, view.size))


def open_environment(
    path: str, *, tables: tuple[str, ...] = (), size: int | None = None, sync: bool = True
) -> Environment:
    """Open the environment in directory `path`, which is created if it does not exist.

    Args:
        tables: names of its tables; none for one unnamed table.
        size: initial bytes of the map; by default as many as the address space allows.
        sync: make every commit durable.

    Raises:
        CorruptError: its file was cut short.
        StateError: it cannot be opened.
    """
    with _lock:
        try:
            if not os.path.isdir(path):
                os.makedirs(path, exist_ok=True)
                sync_directory(os.path.dirname(path))
            status = os.stat(path)
            place = (status.st_dev, status.st_ino)
            environment = _open.get(place)
            if environment is None:
                _reserve_lock_file(os.path.join(path, "lock.mdb"))
                environment = _open[place] = _opened(path, tables, size, sync)
            return environment
        except OSError as error:
            if error.errno in NO_ROOM:
                raise FullError(f"no room left to create {path}: free some space") from error
            raise StateError(f"{path} cannot be opened: {error.strerror}") from error
        except lmdb.InvalidError as error:
            raise _damaged_file(os.path.join(path, "data.mdb")) from error
        except lmdb.Error as error:
            if "already open" in str(error):
                raise StateError(
                    f"{path} is in use by arrays that were read before this process was forked: "
                    "delete them, or start processes by multiprocessing's 'spawn'"
                ) from error
            if not isinstance(error, lmdb.DiskError):
                raise StateError(f"the store in {path} cannot be opened: {error}") from error
            raise FullError(f"no room left to create {path}: free some space") from error
        except MemoryError as error:
            raise StateError(f"no memory left to open {path}: {error}") from error


def _opened(path: str, tables: tuple[str, ...], size: int | None, sync: bool) -> Environment:
    """Open it; where another thread of this process is about to close it, wait for that."""
    end = time.monotonic() + _CLOSING
    while True:
        try:
            return Environment(path, tables, size, sync)
        except lmdb.Error as error:
            if "already open" not in str(error) or time.monotonic() > end:
                raise
            time.sleep(0.005)


def _can_be_read(path: str) -> bool:
    """Return whether another process, which may fault, can read the whole environment."""
    packages = os.path.dirname(os.path.dirname(lmdb.__file__))
    command = [sys.executable, "-I", "-S", "-c", _READ_ALL, path, packages]
    nothing = subprocess.DEVNULL
    done = subprocess.run(command, stdin=nothing, stdout=nothing, stderr=nothing, check=False)
    return done.returncode == 0


def _damaged_file(file: str) -> CorruptError:
    return CorruptError(
        f"{file} is damaged, or was cut short: restore the store's directory from a backup, or "
        "choose another store"
    )


def _reserve_lock_file(path: str) -> None:
    """Reserve space for a new lock file: LMDB maps it, so a full disk would kill the process."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o664)
    try:
        if not os.fstat(descriptor).st_size and hasattr(os, "posix_fallocate"):
            os.posix_fallocate(descriptor, 0, _READERS * _READER)
    finally:
        os.close(descriptor)


def _start_afresh_in_child() -> None:
    global _lock
    for environment in list(_open.values()):
        if not len(environment.snapshots):  # else its map is in use
            environment.tables = {}
            environment.handle = None
    _open.clear()
    _lock = threading.RLock()


os.register_at_fork(after_in_child=_start_afresh_in_child)
