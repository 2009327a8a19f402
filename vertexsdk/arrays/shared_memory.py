"""Arrays in files that all processes of a host map, and so share.

A key is a path whose first part is the run's Spark application; its arrays are one file. The file
is in shared memory where there is room, else in the temporary directory; or in the directory that
the environment variable VERTEXSDK_RESIDENT_DIR names, relative to the process's own (on an
executor, Spark's work directory). Only this user can read it (`private_files`).

An application's directory stays while a process that owns it lives: the driver, or the executor
on a host without a driver. An owner locks a file `lock-*`; the kernel releases the lock however the
process ends, and processes in other containers see it too. Once no owner's lock is held, the next
process to start removes the directory; on Linux a small process, one for each that owns
directories, waits for its end and does so at once.

The arrays under a key never change: saving the key again must save equal arrays.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import inspect
import logging
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from numpy.typing import NDArray

from vertexsdk.arrays import _sweeper
from vertexsdk.arrays._sweeper import gate, is_owned, is_same, owners, sweep
from vertexsdk.arrays.private_files import NotPrivateError, open_directory, open_file
from vertexsdk.arrays.raw_columns import map_file, write_file
from vertexsdk.errors import RunError

Columns = dict[str, NDArray[Any]]
_T = TypeVar("_T")

_log = logging.getLogger("vertexsdk")

_PREFIX = "vertexsdk-"
_HEADROOM = 64 << 20  # bytes to leave free in shared memory for others
_OPEN_FILES = 256

_opened: OrderedDict[str, tuple[int, Columns, dict[str, Any]]] = OrderedDict()
_opening = threading.RLock()  # unreferenced graphs are freed by another thread
_applications: dict[str, str] = {}
_locks: dict[str, int] = {}  # of directories this process has claimed; -1: another process holds it
_claiming = threading.RLock()
_told: socket.socket | None = None  # the link to the sweeper of this process
_released: set[str] = set()


def application(spark_id: str) -> str:
    """The first part of an application's keys: Spark's id and a random suffix.

    The suffix keeps other users of the host from creating the directory first.
    """
    return _applications.setdefault(spark_id, f"{spark_id}-{secrets.token_hex(8)}")


def save(key: str, columns: Mapping[str, NDArray[Any]], meta: Mapping[str, Any] | None) -> int:
    """Write `columns` and `meta` to a file under `key`.

    Args:
        key: path whose first part is an application's name.
        columns: arrays by name.
        meta: any JSON.

    Returns:
        The size of the file in bytes.

    Raises:
        RunError: shared memory and the temporary directory are full.
        NotPrivateError: another user made the application's directory.
    """
    size = sum(a.nbytes for a in columns.values())
    return _create(key, size, lambda path: write_file(path, columns, meta))


def load(key: str) -> tuple[Columns, dict[str, Any]] | None:
    """The read-only arrays and the meta under `key`, or None if this host has none.

    Raises:
        NotPrivateError: the file under that name is another user's, or others can write it.
    """
    run, _, rest = key.partition("/")
    for root in _roots():
        folder = _open_run(root, run)
        if folder is None:
            continue
        try:
            file = open_file(f"{rest}.columns", os.O_RDONLY, parent=folder)
        except (FileNotFoundError, NotADirectoryError):
            continue
        finally:
            os.close(folder)
        inode = os.fstat(file).st_ino
        with _opening:
            entry = _opened.get(key)
            if entry is None or entry[0] != inode:
                entry = (inode, *_map(_path(root, key), file))
                _opened[key] = entry
                while len(_opened) > _OPEN_FILES:
                    _opened.popitem(last=False)
            else:
                os.close(file)
            _opened.move_to_end(key)
        return entry[1], entry[2]
    with _opening:
        _opened.pop(key, None)
    return None


def _forget(which: Callable[[str], bool]) -> None:
    with _opening:
        for key in [k for k in _opened if which(k)]:
            del _opened[key]


def _map(path: Path, file: int) -> tuple[Columns, dict[str, Any]]:
    """Map an open file and close its descriptor."""
    return map_file(path, trusted=True, opener=lambda *_: file)


def directory(key: str, size: int = 0) -> Path:
    """The directory of `key`, for files that are changed in place; `drop` removes it.

    Args:
        size: bytes that must be free where a new directory is created.

    Raises:
        RunError: it cannot be created.
    """
    run = key.split("/")[0]
    for root in _roots():
        folder = _open_run(root, run)
        if folder is not None:
            os.close(folder)
            with contextlib.suppress(FileNotFoundError):
                path = _path(root, key).with_suffix("")
                os.close(open_directory(path))
                return path

    def make(path: Path) -> Path:
        path = path.with_suffix("")
        os.close(open_directory(path, make=True))
        return path

    return _create(key, size, make)


def _create(key: str, size: int, make: Callable[[Path], _T]) -> _T:
    """Call `make` with the path of a key, in the first root with room that this user may use."""
    roots = _roots()
    run = key.split("/")[0]
    refused: Exception | None = None
    for root in [r for r in roots if _free(r) > size + _HEADROOM] or roots[-1:]:
        path = _path(root, key)
        try:
            claim(run, root)
            for above in reversed(path.relative_to(root / (_PREFIX + run)).parents[:-1]):
                (root / (_PREFIX + run) / above).mkdir(0o700, exist_ok=True)
            return make(path)
        except NotPrivateError as error:
            refused = error
        except OSError as error:
            refused = RunError(
                f"cannot write {size >> 20} MB of graph to {root}: {error.strerror}; "
                "free some room there, or set VERTEXSDK_RESIDENT_DIR to a larger disk"
            )
    assert refused is not None
    raise refused from None


def drop(prefix: str) -> None:
    """Delete the key `prefix` and every key below it on this host."""
    _forget(lambda key: key == prefix or key.startswith(prefix + "/"))
    for root in _roots():
        path = _path(root, prefix)
        shutil.rmtree(path.parent / path.stem, ignore_errors=True)
        path.unlink(missing_ok=True)


def claim(run: str, root: Path | None = None) -> None:
    """Become an owner of the run's directory, and remove directories without a living owner.

    Args:
        run: the application's name, which is the first part of keys.
        root: where the directory is; None for every place that this user can write.

    Raises:
        NotPrivateError: another user made a directory of that name in every place.
        OSError: the directory cannot be created.
    """
    refused: list[NotPrivateError] = []
    held: dict[Path, int] = {}
    roots = [root] if root else _roots()
    with _claiming:
        for base in roots:
            place = base / (_PREFIX + run)
            if str(place) in _locks:
                continue
            try:
                _locks[str(place)] = lock = _lock(place)
                held |= {place: lock} if lock >= 0 else {}
            except NotPrivateError as error:
                refused.append(error)
                _log.warning("%s", error)
                continue
            _sweep(base)
        if held:
            _watch_owner(held)
    if len(refused) == len(roots):
        raise refused[0]


def release(run: str) -> None:
    """Delete every key of a run on this host."""
    for root in _roots():
        place = root / (_PREFIX + run)
        shutil.rmtree(place, ignore_errors=True)
        lock = _locks.pop(str(place), -1)
        if lock >= 0:
            os.close(lock)
    _forget(lambda key: key.startswith(run + "/"))


def release_at_exit(run: str) -> None:
    """Call `release` when this process, the driver, ends."""
    pid = os.getpid()  # a fork must not clean up for its parent
    if run not in _released:
        _released.add(run)
        atexit.register(lambda: release(run) if os.getpid() == pid else None)


def _roots() -> list[Path]:
    chosen = os.environ.get("VERTEXSDK_RESIDENT_DIR")
    if chosen:
        root = Path(chosen).absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"VERTEXSDK_RESIDENT_DIR is {root}, which cannot be created: {error.strerror}; "
                "name a directory that exists on every host"
            ) from None
        return [root]
    shared = Path("/dev/shm")
    temporary = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    if temporary.parent != temporary and not temporary.is_dir():
        temporary = Path(tempfile.gettempdir())
    return [r for r in (shared, temporary) if os.access(r, os.W_OK)] or [temporary]


def _path(root: Path, key: str) -> Path:
    run, _, rest = key.partition("/")
    return root / (_PREFIX + run) / f"{rest}.columns"


def _open_run(root: Path, run: str) -> int | None:
    """A descriptor of a run's directory; None if it is absent or not private to this user."""
    try:
        return open_directory(root / (_PREFIX + run))
    except (FileNotFoundError, NotPrivateError):
        return None


def _free(root: Path) -> int:
    status = os.statvfs(root)
    return status.f_bavail * status.f_frsize


def _lock(place: Path) -> int:
    """Create a run's directory, and lock an owner's file in it until the owner ends.

    Workers are short-lived, so the owner is the driver or, on a host without it, the executor.

    Returns:
        The descriptor of the lock, or -1 where this process need not hold it.
    """
    while True:
        with _directory_handle(place, make=True) as folder, gate(folder):
            if not is_same(str(place), folder):
                continue  # it was swept, and has been renamed
            owner, role = _owner(), "driver"
            if owner != os.getpid():
                role = f"executor{start_time(owner)}"
                if is_owned(folder, "driver"):
                    return -1
            name = f"lock-{owner}-{role}-{_namespace()}"
            lock = open_file(name, os.O_RDWR | os.O_CREAT, parent=folder)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:  # by another process for the same executor
                os.close(lock)
                return -1
            return lock


def _watch_owner(locks: Mapping[Path, int]) -> None:
    """Have the sweeper of this process sweep these directories when their owner has ended.

    It holds the locks of an executor, as workers are short-lived.
    """
    owner = _owner()
    held = owner != os.getpid()
    for place, lock in locks.items():
        if not _tell(owner, place, [lock] if held else []):
            return
        if held:
            os.close(lock)
            _locks[str(place)] = -1


def _tell(owner: int, place: Path, locks: list[int]) -> bool:
    """Tell the sweeper of a directory; whether there can be one."""
    global _told
    if _told is not None:
        with contextlib.suppress(OSError):
            socket.send_fds(_told, [os.fsencode(place)], locks)
            return True
        _told.close()  # it was killed
    _told = _started(owner)
    if _told is None:
        return False
    for other in _locks:
        _told.send(os.fsencode(other))
    socket.send_fds(_told, [os.fsencode(place)], locks)
    return True


def _started(owner: int) -> socket.socket | None:
    """Start the small process that sweeps when `owner` has ended; return the link to it.

    It has the source of its module, as an executor's copy of the package may be gone by then.
    """
    try:
        alive = os.pidfd_open(owner)
    except (AttributeError, OSError):  # no Linux, or an old one: a lock is held by this process
        return None
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        given = [alive, there.fileno()]
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", inspect.getsource(_sweeper), *map(str, given)],
            pass_fds=given,
            start_new_session=True,
            cwd="/",
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        ).returncode = 0  # never waited for: it outlives this process
    finally:
        there.close()
        os.close(alive)
    return here


def _own_nothing() -> None:
    """Own nothing in a fork, which would otherwise keep its parent's directories alive."""
    global _claiming, _told
    _claiming = threading.RLock()
    for lock in _locks.values():
        if lock >= 0:
            os.close(lock)
    _locks.clear()
    if _told is not None:
        _told.close()
    _told = None


os.register_at_fork(after_in_child=_own_nothing)


def _namespace() -> int:
    """The PID namespace: equal process ids in two containers are two processes."""
    try:
        return os.stat("/proc/self/ns/pid").st_ino
    except OSError:
        return 0


def start_time(pid: int) -> int:
    """Start of a process in clock ticks since boot; -1 if it does not run, 0 if unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except FileNotFoundError:
        return -1 if Path("/proc/self/stat").exists() else 0
    except OSError:
        return 0


def _owner() -> int:
    """The Spark executor that is the parent of a worker's daemon; else this process."""
    try:
        command = Path("/proc/self/cmdline").read_bytes()
        if b"pyspark.daemon" not in command and b"pyspark.worker" not in command:
            return os.getpid()
        parent = os.getppid()
        above = Path(f"/proc/{parent}/stat").read_text().rpartition(")")[2].split()[1]
        is_daemon = b"pyspark.daemon" in Path(f"/proc/{parent}/cmdline").read_bytes()
        return int(above) if is_daemon else parent
    except OSError:
        return os.getpid()


def _sweep(root: Path) -> None:
    """Remove this user's directories whose owners have all ended."""
    for place in root.glob(_PREFIX + "*"):
        with contextlib.suppress(OSError, NotPrivateError), _directory_handle(place) as folder:
            if owners(folder):
                sweep(str(place), folder)


@contextlib.contextmanager
def _directory_handle(path: Path, *, make: bool = False) -> Iterator[int]:
    descriptor = open_directory(path, make=make)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
