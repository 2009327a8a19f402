"""`memory://name`: for tests, and for runs whose versions need not outlive the driver.

The store belongs to the process that first opens the name, and is deleted when that process ends.
As tasks run in other processes, it is an LMDB store without fsync, in a directory of
`shared_memory`: in the host's memory, or with the temporary files if that is small. `location`
contains the directory, so a task opens the same store by its location or by the pickled `Store`;
the bare name would open a store that belongs to the task.

The next store to be created removes directories whose owner has died, by whatever signal.
"""

from __future__ import annotations

import itertools
import os
import shutil
import threading
from urllib.parse import parse_qs, quote, unquote, urlsplit

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.private_files import open_directory
from vertexsdk.backends.lmdb import LmdbBackend
from vertexsdk.state.contract import CanBeDiscarded
from vertexsdk.state.errors import StateInputError

_MIN_FREE = 1 << 30  # bytes that must be free in memory: a container's default is 64 MiB
_owned: dict[tuple[int, str], str] = {}  # directories by process and name
_numbers = itertools.count()
_lock = threading.RLock()  # the garbage collector may discard one anywhere


class MemoryBackend(LmdbBackend, CanBeDiscarded):
    """A store of this process, and of processes that know its location."""

    durable = False
    durability = "it is gone when the process that made it ends"

    def __init__(self, name: str, directory: str) -> None:
        super().__init__(directory)
        self.location = f"memory://{quote(name, safe='')}?directory={quote(directory)}"
        self._name = name

    def discard(self) -> None:
        """Delete the directory, if it is one of this process."""
        with _lock:
            directory = _owned.pop((os.getpid(), self._name), None)
        if directory is not None:
            self.close()
            shutil.rmtree(directory, ignore_errors=True)

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> MemoryBackend:
        """The store named by `memory://name`, created if it does not exist.

        Raises:
            StateInputError: no such store, and not `create`; or its owner has ended.
        """
        parts = urlsplit(url)
        name = unquote(parts.netloc + parts.path)
        options = parse_qs(parts.query)
        if "directory" not in options:
            return cls(name, _directory(name, create))
        directory = options["directory"][0]
        try:
            os.close(open_directory(directory))
        except OSError:
            raise StateInputError(
                f"memory://{name} is gone: it ends with the process that made it; use "
                "lmdb:///path to keep results"
            ) from None
        return cls(name, directory)


def _directory(name: str, create: bool) -> str:
    owner = os.getpid()  # a fork has stores of its own
    with _lock:
        if (owner, name) not in _owned:
            if not create:
                raise StateInputError(
                    f"memory://{name} is not in this process: it ends with the process that made "
                    "it; use lmdb:///path to keep results"
                )
            run = shared_memory.application(f"memory-{owner}")  # one, as each has files open
            key = f"{run}/store-{next(_numbers)}"
            _owned[owner, name] = str(shared_memory.directory(key, _MIN_FREE))
            shared_memory.release_at_exit(run)
        return _owned[owner, name]
