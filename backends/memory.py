"""`memory://name`: for tests, and for runs whose versions need not outlive the driver.

The store belongs to the process that first opens the name, and is deleted when that process ends.
As tasks run in other processes, it is an LMDB store without fsync in the host's memory (/dev/shm,
or the directory for temporary files if that is small). `location` contains the directory, so a task
opens the same store by its location or by the pickled `Store`; the bare name would open a store
that belongs to the task.

The next store to be created removes directories whose owner has died, by whatever signal.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import os
import shutil
import tempfile
from urllib.parse import parse_qs, quote, unquote, urlsplit

from vertexsdk.arrays.private_files import NotPrivateError, open_directory, open_file
from vertexsdk.backends.lmdb import LmdbBackend
from vertexsdk.state.errors import StateInputError

__all__ = ["MemoryBackend"]

_SHARED_MEMORY = "/dev/shm"
_MIN_FREE = 1 << 30  # bytes that must be free there: a container's default is 64 MiB
_PREFIX = "vertexsdk-memory-"
_OWNER = ".FORMAT-owner"
_owned: dict[str, tuple[str, int]] = {}
_owner = 0


class MemoryBackend(LmdbBackend):
    """A store of this process, and of processes that know its location."""

    durable = False
    durability = "it is gone when the process that made it ends"

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(directory)
        self.location = f"memory://{quote(name, safe='')}?directory={quote(directory)}"

    @classmethod
    def from_url(cls, url: str, *, create: bool = True, upgrade: bool = False) -> MemoryBackend:
        """The store named by `memory://name`, created if it does not exist; never an earlier one.

        Raises:
            StateInputError: no such store, and not `create`; or its owner has ended.
        """
        parts = urlsplit(url)
        name = unquote(parts.netloc + parts.path)
        options = parse_qs(parts.query)
        if "directory" in options:
            directory = options["directory"][0]
            try:
                os.close(open_directory(directory))
            except OSError:
                raise StateInputError(
                    f"memory://{name} is gone: it ends with the process that made it; use "
                    "lmdb:///path to keep results"
                ) from None
            return cls(name, directory)
        directory = _directory(name, create)
        return cls(name, directory)


def _directory(name: str, create: bool) -> str:
    global _owner
    if _owner != os.getpid():
        _owned.clear()
        _owner = os.getpid()
    if name not in _owned:
        if not create:
            raise StateInputError(
                f"memory://{name} is not in this process: it ends with the process that made it; "
                "use lmdb:///path to keep results"
            )
        root = _root()
        sweep(root)
        directory = tempfile.mkdtemp(prefix=_PREFIX, dir=root)
        _owned[name] = (directory, _lock_owner_file(directory))
        atexit.register(_remove, directory, _owner)
    return _owned[name][0]


def _root() -> str:
    with contextlib.suppress(OSError):
        room = os.statvfs(_SHARED_MEMORY)
        if room.f_bavail * room.f_frsize >= _MIN_FREE and os.access(_SHARED_MEMORY, os.W_OK):
            return _SHARED_MEMORY
    return tempfile.gettempdir()


def _lock_owner_file(directory: str) -> int:
    """Lock the owner's file; the kernel unlocks it when the owner dies."""
    temporary = os.path.join(directory, ".FORMAT.owner")
    descriptor = os.open(temporary, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    os.rename(temporary, os.path.join(directory, _OWNER))
    return descriptor


def sweep(root: str) -> None:
    """Remove the directories of this user in `root` whose owner has died."""
    for name in os.listdir(root):
        if not name.startswith(_PREFIX):
            continue
        directory = os.path.join(root, name)
        with contextlib.suppress(OSError, NotPrivateError):
            os.close(open_directory(directory))
            descriptor = open_file(os.path.join(directory, _OWNER), os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(directory, ignore_errors=True)
            finally:
                os.close(descriptor)


def _remove(directory: str, owner: int) -> None:
    if os.getpid() == owner:
        shutil.rmtree(directory, ignore_errors=True)
