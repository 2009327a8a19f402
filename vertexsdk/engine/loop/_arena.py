"""Arrays which one task after the other changes in place, in memory shared by a host's workers.

A worker process may die, or the next task may be given to another one; so the arrays are files
that every process of the host maps, and a small file says how long each array is and at which
version they stand. While a task changes them a mark lies beside it: where that is found by the
next task, the one before did not finish, and what the arrays hold is of no use. All of it is for
this user alone, see `private_files`.
"""

from __future__ import annotations

import json
import mmap
import os
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.private_files import open_file
from vertexsdk.errors import LostError

Array = NDArray[Any]
_MARK, _META = "changing", "meta.json"
_PAGE = mmap.PAGESIZE


class Arena:
    """Named growing arrays in a directory.

    Args:
        path: the directory.
        fresh: there is nothing in it yet.

    Attributes:
        meta: what else is to be remembered, anything JSON; written by `commit`.

    Raises:
        LostError: there is nothing there, or a change of it was not finished.
        NotPrivateError: a file is another user's, or others can write it.
    """

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self.path = path
        self.meta: dict[str, Any] = {}
        self._files: dict[str, list[Any]] = {}  # path, dtype, length
        self._maps: dict[str, tuple[str, Array]] = {}
        self._sizes: dict[str, int] = {}  # of files, in bytes
        self._replaced = True  # there may be files which no array is in any more
        self.version = 0
        if not fresh:
            self.refresh()

    def refresh(self) -> bool:
        """Take notice of what other processes did; return whether there was anything."""
        if (self.path / _MARK).exists():
            raise LostError("a task ended in the middle of a change of the graph")
        try:
            with open(self.path / _META, "rb", opener=open_file) as file:
                record = json.loads(file.read())
        except OSError:
            raise LostError("the graph is not on this host any more") from None
        if record["version"] == self.version:
            return False
        self.version, self.meta, self._files = record["version"], record["meta"], record["files"]
        self._sizes, self._replaced = {}, True
        return True

    def begin(self) -> None:
        """Say that the arrays are about to change."""
        (self.path / _MARK).touch(0o600)

    def commit(self, version: int) -> None:
        """Say that they are whole again, and at which version."""
        self.version = version
        self.publish()

    def publish(self) -> None:
        """Have other processes, and other arenas here, see the arrays as they are."""
        record = {"version": self.version, "meta": self.meta, "files": self._files}
        scratch = self.path / f"{_META}.{os.getpid()}"
        with open(scratch, "wb", opener=open_file) as file:
            file.write(json.dumps(record).encode())
        os.replace(scratch, self.path / _META)
        (self.path / _MARK).unlink(missing_ok=True)

    def __contains__(self, name: str) -> bool:
        return name in self._files

    def __getitem__(self, name: str) -> Array:
        path, dtype, length = self._files[name]
        known = self._maps.get(name)
        if known is None or known[0] != path or len(known[1]) < length:
            self._maps[name] = known = (path, self._map(path, np.dtype(dtype)))
        return known[1][:length]

    def names(self) -> list[str]:
        """The names of all arrays."""
        return list(self._files)

    def length(self, name: str) -> int:
        """The number of entries of an array."""
        return int(self._files[name][2])

    def read(self, name: str) -> Array:
        """The array, not to be written: of the type which kernels take."""
        array = self[name]
        array.flags.writeable = False
        return array

    def _map(self, path: str, dtype: np.dtype[Any]) -> Array:
        try:
            with open(path, "r+b", opener=open_file) as file:
                size = os.fstat(file.fileno()).st_size
                mapped = mmap.mmap(file.fileno(), size)
        except OSError:
            raise LostError("the graph is not on this host any more") from None
        return np.frombuffer(mapped, dtype, size // dtype.itemsize)

    def resize(self, name: str, length: int, dtype: DTypeLike | None = None) -> Array:
        """Make an array longer or shorter, or make it; what was never written to is zero.

        Its file is made longer than that, which costs nothing before it is written to.
        """
        if name not in self._files:
            assert dtype is not None
            number = self.meta.setdefault("files", 0)
            self.meta["files"] = number + 1
            path = str(self.path / f"{name}-{number}")
            self._files[name] = [path, np.dtype(dtype).str, 0]
            Path(path).touch(0o600)
        entry = self._files[name]
        size = np.dtype(entry[1]).itemsize
        self._make_room(entry[0], max(length, 1) * size, (length + length // 2 + 1024) * size, name)
        entry[2] = length
        return self[name]

    def _make_room(self, path: str, needed: int, room: int, name: str) -> None:
        """Have a file of so many bytes, or longer; where it is too short, of `room`."""
        try:
            if path not in self._sizes:
                self._sizes[path] = os.path.getsize(path)
            if self._sizes[path] < needed:
                room = -(-room // _PAGE) * _PAGE
                os.truncate(path, room)
                self._sizes[path] = room
                self._maps.pop(name, None)
        except FileNotFoundError:
            raise LostError("the graph is not on this host any more") from None

    def put(self, name: str, values: Array) -> None:
        """Make the array hold these values; where it is new it takes their type."""
        self.resize(name, len(values), values.dtype)[...] = values

    def replace(self, name: str, length: int) -> Array:
        """Begin the array anew in another file; those who share the old one keep it."""
        dtype = self._files.pop(name)[1]
        self._maps.pop(name, None)
        self._replaced = True
        return self.resize(name, length, dtype)

    def share(self, other: Arena, name: str) -> None:
        """Have an array of another arena here too, to be read only."""
        self._files[name] = list(other._files[name])

    def owns(self, name: str) -> bool:
        """Whether the array's file is in this arena's directory."""
        return self.file(name).parent == self.path

    def file(self, name: str) -> Path:
        """The array's file, perhaps in the directory of another arena."""
        return Path(self._files[name][0])

    def own(self, name: str) -> None:
        """Have a copy of a shared array, to be changed."""
        if not self.owns(name):
            values = self[name]
            self.replace(name, len(values))[...] = values

    def unused(self) -> list[Path]:
        """Files of this directory which no array is in any more; each is told once."""
        if not self._replaced:
            return []
        self._replaced = False
        used = {entry[0] for entry in self._files.values()}
        return [
            p for p in self.path.iterdir()
            if "-" in p.name and str(p) not in used and not p.name.startswith(_META)
        ]  # fmt: skip

    def close(self) -> None:
        """Let go of the mappings."""
        self._maps = {}
