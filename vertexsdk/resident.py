"""Arrays kept on a worker's host, shared by all its processes.

A key is a path whose first part is the run's Spark application; its arrays are one file which
every process of the host maps. The file lies in shared memory where there is room, else in the
temporary directory; or in the directory that the environment variable VERTEXSDK_RESIDENT_DIR
names, relative to the process's own (on an executor, Spark's work directory). Each run's directory
says which processes it was made for; when all of these have gone, the next one to start removes it.

A key's arrays never change: what is saved again under a key is equal to what was there.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from numpy.typing import NDArray

from vertexsdk.columns import map_file, write_file
from vertexsdk.errors import RunError

__all__ = ["claim", "directory", "drop", "open", "release", "release_at_exit", "save"]

Columns = dict[str, NDArray[Any]]

_PREFIX = "vertexsdk-"
_HEADROOM = 64 << 20  # bytes to leave free in shared memory for others
_OPEN_FILES = 256

_opened: OrderedDict[str, tuple[int, Columns, dict[str, Any]]] = OrderedDict()
_claimed: set[str] = set()
_released: set[str] = set()


def save(key: str, columns: Mapping[str, NDArray[Any]], meta: Mapping[str, Any] | None) -> int:
    """Keep `columns` and `meta` under `key`, and return the bytes used.

    Raises:
        RunError: there is no room in shared memory nor in the temporary directory.
    """
    size = sum(a.nbytes for a in columns.values())
    roots = _roots()
    fitting = [r for r in roots if _free(r) > size + _HEADROOM] or roots[-1:]
    for root in fitting:
        path = _path(root, key)
        try:
            claim(key.split("/")[0], root)
            path.parent.mkdir(parents=True, exist_ok=True)
            return write_file(path, columns, meta)
        except OSError as error:
            if root == fitting[-1]:
                raise RunError(
                    f"cannot keep {size >> 20} MB of graph in {root}: {error.strerror}; "
                    "free some room there, or set VERTEXSDK_RESIDENT_DIR to a larger disk"
                ) from None
    raise AssertionError("unreachable")


def open(key: str) -> tuple[Columns, dict[str, Any]] | None:
    """Return the read-only arrays and the meta under `key`, or None if this host has none."""
    for root in _roots():
        path = _path(root, key)
        try:
            status = path.stat()
        except OSError:
            continue
        if status.st_uid != os.getuid():
            continue  # another user's file of this name is not ours to trust
        inode = status.st_ino
        held = _opened.get(key)
        if held is None or held[0] != inode:
            held = (inode, *map_file(path, trusted=True))
            _opened[key] = held
            while len(_opened) > _OPEN_FILES:
                _opened.popitem(last=False)
        _opened.move_to_end(key)
        return held[1], held[2]
    _opened.pop(key, None)
    return None


def directory(key: str, size: int = 0) -> Path:
    """Return the directory of `key`, for files that are written in place; see `live.arena`.

    It is where it is found, else made where `size` bytes fit. `drop` removes it.

    Raises:
        RunError: it cannot be made.
    """
    roots = _roots()
    paths = [_path(root, key).with_suffix("") for root in roots]
    for path in paths:
        if path.is_dir() and path.stat().st_uid == os.getuid():
            return path
    fitting = [k for k, root in enumerate(roots) if _free(root) > size + _HEADROOM]
    k = fitting[0] if fitting else len(roots) - 1
    try:
        claim(key.split("/")[0], roots[k])
        paths[k].mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(
            f"cannot keep {size >> 20} MB of graph in {roots[k]}: {error.strerror}; "
            "free some room there, or set VERTEXSDK_RESIDENT_DIR to a larger disk"
        ) from None
    return paths[k]


def drop(prefix: str) -> None:
    """Forget every key that is `prefix` or lies below it, on this host."""
    for key in [k for k in _opened if k == prefix or k.startswith(prefix + "/")]:
        del _opened[key]
    for root in _roots():
        path = _path(root, prefix)
        shutil.rmtree(path.parent / path.stem, ignore_errors=True)
        path.unlink(missing_ok=True)


def claim(application: str, root: Path | None = None) -> None:
    """Say that this process's run uses `application`'s directory, and sweep those of the dead.

    The claim is for the process which started this one's workers, for workers come and go:
    the Spark executor on an executor, else the driver itself.
    """
    for base in [root] if root else _roots():
        directory = base / (_PREFIX + application)
        if str(directory) in _claimed:
            continue
        directory.mkdir(parents=True, exist_ok=True)
        pid = _owner()
        (directory / f"owner-{pid}-{_started(pid)}").touch()
        _claimed.add(str(directory))
        _sweep(base)


def release(application: str) -> None:
    """Remove everything of `application` on this host."""
    for root in _roots():
        shutil.rmtree(root / (_PREFIX + application), ignore_errors=True)
        _claimed.discard(str(root / (_PREFIX + application)))
    for key in [k for k in _opened if k.startswith(application + "/")]:
        del _opened[key]


def release_at_exit(application: str) -> None:
    """Call `release` when this process, the driver, ends."""
    pid = os.getpid()  # a fork must not clean up for its parent
    if application not in _released:
        _released.add(application)
        atexit.register(lambda: release(application) if os.getpid() == pid else None)


def _roots() -> list[Path]:
    chosen = os.environ.get("VERTEXSDK_RESIDENT_DIR")
    if chosen:
        root = Path(chosen).absolute()
        try:
            root.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RunError(
                f"VERTEXSDK_RESIDENT_DIR is {root}, which cannot be made: {error.strerror}; "
                "name a directory on every host"
            ) from None
        return [root]
    shared = Path("/dev/shm")
    temporary = Path(os.environ.get("SPARK_LOCAL_DIRS", "").split(",")[0] or tempfile.gettempdir())
    if temporary.parent != temporary and not temporary.is_dir():
        temporary = Path(tempfile.gettempdir())
    return [r for r in (shared, temporary) if os.access(r, os.W_OK)] or [temporary]


def _path(root: Path, key: str) -> Path:
    application, _, rest = key.partition("/")
    return root / (_PREFIX + application) / f"{rest}.columns"


def _free(root: Path) -> int:
    status = os.statvfs(root)
    return status.f_bavail * status.f_frsize


def _started(pid: int) -> int:
    """When a process started, in clock ticks since boot; -1 if it does not run, 0 unknown."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19])
    except FileNotFoundError:
        return -1 if Path("/proc/self/stat").exists() else 0
    except OSError:
        return 0


def _owner() -> int:
    """The Spark executor above a worker's daemon, or this process if it is no worker."""
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
    for directory in root.glob(_PREFIX + "*"):
        owners = list(_owners(directory))
        if owners and all(_started(pid) != started for pid, started in owners):
            shutil.rmtree(directory, ignore_errors=True)


def _owners(directory: Path) -> Iterator[tuple[int, int]]:
    for marker in directory.glob("owner-*"):
        _, pid, started = marker.name.split("-", 2)
        yield int(pid), int(started)
