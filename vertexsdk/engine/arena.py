"""Growing arrays of a partition, in memory that forks share copy-on-write.

Each array is mapped from memory of its own. A fork maps the same memory; from then on both have
private mappings, in which the kernel copies a page when it is first written to. So a fork costs a
few calls for each array, and what either side changes costs the pages that it changes. Where most
pages will change, the array is copied at once instead, as that is some ten times faster.
"""

from __future__ import annotations

import contextlib
import copy
import errno
import functools
import mmap
import os
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, Literal, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.file_mapping import FileMapping
from vertexsdk.errors import RunError

Array = NDArray[Any]
_FEW_PAGES = 16  # for which a copy is not worth its calls
_DEAR = 8  # how many times as long as to copy a page at once the kernel takes for it


class Arena:
    """Named growing arrays.

    Attributes:
        meta: what else belongs to the partition's state, by name; a fork copies it.
    """

    def __init__(self) -> None:
        self.meta: dict[str, Any] = {}
        self._columns: dict[str, _Column] = {}

    def __contains__(self, name: str) -> bool:
        return name in self._columns

    def __getitem__(self, name: str) -> Array:
        column = self._columns[name]
        return column.array[: column.length]

    def length(self, name: str) -> int:
        """The number of entries of an array."""
        return self._columns[name].length

    def read(self, name: str) -> Array:
        """The array, not to be written: of the type which kernels take."""
        array = self[name]
        array.flags.writeable = False
        return array

    def resize(self, name: str, length: int, dtype: DTypeLike | None = None) -> Array:
        """Make an array longer or shorter, or make it; what was never written to is zero.

        It has room for more entries then, which takes no memory before it is written to.
        """
        column = self._columns.get(name)
        room = length + length // 2 + 1024
        if column is None:
            assert dtype is not None
            column = self._columns[name] = _Column(np.dtype(dtype), room)
        elif length > len(column.array):
            column.reserve(room)
        column.length = length
        return self[name]

    def put(self, name: str, values: Array) -> None:
        """Make the array hold these values; where it is new it takes their type."""
        self.resize(name, len(values), values.dtype)[...] = values

    def replace(self, name: str, length: int) -> Array:
        """Begin the array anew, with zeros."""
        return self.resize(name, length, self._columns.pop(name).dtype)

    def expect_writes(self, entries: int) -> bool:
        """Prepare for writes to so many entries of each array, in no order.

        Returns:
            Whether arrays that were taken from this arena before must be taken again.
        """
        return sum(column.expect_writes(entries) for column in self._columns.values()) > 0

    def close(self) -> None:
        """Free the memory that no fork has, of which no descriptor stays open.

        Arrays that were taken from it, as an exception may refer to, stay readable.
        """
        columns, self._columns = self._columns, {}
        memories = [column.leave() for column in columns.values()]
        columns.clear()
        for reference in memories:
            memory = reference()  # None if no array of it is in use
            if memory is not None and not memory.columns:
                memory.close()

    @property
    def names(self) -> list[str]:
        """The names of all arrays."""
        return list(self._columns)

    def fork(self, names: Iterable[str] | None = None) -> Arena:
        """Return an arena with the same contents; changes of either are not seen by the other.

        Arrays that were taken from this arena before must be taken again.

        Args:
            names: names of the arrays that it has; None for all.
        """
        other = Arena()
        other.meta = copy.deepcopy(self.meta)
        names = self._columns if names is None else names
        other._columns = {name: self._columns[name].fork() for name in names}
        return other


class _Column:
    """One array: a mapping of memory.

    Attributes:
        array: with all the room that there is.
        length: number of entries in use.
    """

    def __init__(self, dtype: np.dtype[Any], room: int) -> None:
        self.dtype, self.length, self._private = dtype, 0, False
        self._use(Memory(room * dtype.itemsize), room)

    def _use(self, memory: Memory, room: int) -> None:
        """Map memory, of which no array that it has now is seen any more."""
        self.memory = memory
        memory.columns.add(self)
        size = room * self.dtype.itemsize
        self.array: Array = np.frombuffer(memory.map(size, private=self._private), self.dtype, room)

    def leave(self) -> weakref.ref[Memory]:
        """Be no column of its memory any more; return a reference to that."""
        self.memory.columns.discard(self)
        return weakref.ref(self.memory)

    def reserve(self, room: int) -> None:
        """Have room for so many entries, more than there is now."""
        if self._private:
            self._copy(room)
        else:
            self.memory.grow(room * self.dtype.itemsize)
            self._use(self.memory, room)

    def fork(self) -> _Column:
        """Return another column with the same contents, in the same memory."""
        if self._private:
            self._write_back()
        self._private = True
        self._use(self.memory, len(self.array))
        other = copy.copy(self)
        other._use(self.memory, len(self.array))
        return other

    def expect_writes(self, entries: int) -> bool:
        """Copy what a fork shares at once if writes to so many entries will copy most of it.

        Returns:
            Whether the array is another one now.
        """
        pages = self.length * self.dtype.itemsize // PAGE
        copies = self._private and pages >= _FEW_PAGES and entries * _DEAR >= pages
        if copies:
            self._copy(len(self.array))
        return copies

    def _write_back(self) -> None:
        """Have the memory contain what a private mapping shows."""
        pages = written_pages(self.array)
        if pages is None or (len(pages) and len(self.memory.columns) > 1):
            self._copy(len(self.array))
            return
        content = self.array.data.cast("B")
        ends = np.flatnonzero(np.diff(pages) != 1) + 1
        for run in np.split(pages, ends) if len(pages) else []:
            start, stop = int(run[0]) * PAGE, (int(run[-1]) + 1) * PAGE
            self.memory.write(content[start:stop], start)

    def _copy(self, room: int) -> None:
        """Have memory of its own with the same contents."""
        contents, self._private = self.array[: self.length], False
        memory = Memory(room * self.dtype.itemsize, used=contents.nbytes)
        self.memory.columns.discard(self)
        self._use(memory, room)
        self.array[: self.length] = contents


# Memory that several arrays map, each as its own or copy-on-write.
#
# To get a page from the kernel takes some ten times as long as to copy one. So memory that no
# array maps any more is kept for the next ones, up to `_SPARE` bytes in a process. Each has a
# descriptor, so little memory is not kept, and no more than `_SPARE_FILES`.

_T = TypeVar("_T")
PAGE = mmap.PAGESIZE
_SPARE = 256 << 20  # bytes
_SPARE_FILES = 64
_SMALL = 16 * PAGE  # bytes, for which a file is made as fast as one is found
_LARGER = 2  # times as large as needed a spare file may be
# In /proc/self/pagemap: a page is in memory, is in swap, belongs to a file that is mapped.
_PRESENT, _SWAPPED, _OF_FILE = (np.uint64(1) << np.uint64(bit) for bit in (63, 62, 61))


class Memory:
    """Memory of `size` bytes, which are zero from byte `used` on, and anything before that."""

    def __init__(self, size: int, used: int = 0) -> None:
        self._file = _spare.take(size, used)
        self.columns: weakref.WeakSet[Any] = weakref.WeakSet()

    def __del__(self) -> None:
        with contextlib.suppress(AttributeError, TypeError):  # no file, or the process ends
            _spare.give(self._file)

    def close(self) -> None:
        """Have no descriptor any more; what is mapped stays until it is gone."""
        self._file.close()

    def grow(self, size: int) -> None:
        """Have room for so many bytes."""
        self._file.grow(size)

    def write(self, values: memoryview, at: int) -> None:
        """Write bytes at an offset."""
        while len(values):
            written = os.pwrite(self._file.descriptor, values, at)
            values, at = values[written:], at + written

    def map(self, size: int, *, private: bool) -> Any:
        """Return the first bytes as a buffer, copy-on-write or as they are.

        The memory is not used again before the buffer is gone.
        """
        mapping = self._file.mapping
        if private:
            mapping = _mapped(self._file.descriptor, size, "private")
        return mapping.buffer(size, self)


class _File:
    """A file without a name, mapped as a whole."""

    descriptor = -1  # also if a signal cuts `__init__` short

    def __init__(self, size: int) -> None:
        self._close = os.close
        self.descriptor = _with_descriptors(_new_file)
        self.grow(size)

    def grow(self, size: int) -> None:
        """Have room for so many bytes."""
        os.ftruncate(self.descriptor, size)
        self.size, self.mapping = size, _mapped(self.descriptor, size, "shared")

    def clear(self, start: int) -> None:
        """Make all bytes from `start` on zero, and free their pages."""
        os.ftruncate(self.descriptor, start)
        os.ftruncate(self.descriptor, self.size)

    def close(self) -> None:
        """Close the descriptor; may be called twice."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            self._close(descriptor)

    def __del__(self) -> None:
        self.close()


class _SpareFiles:
    """Unused files, kept while others are in use."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # memory may be freed by whatever a thread does
        self._files: list[_File] = []
        self._used = 0

    def take(self, size: int, used: int) -> _File:
        """Return a file of at least `size` bytes, which are zero from byte `used` on."""
        file: _File | None = None
        if used:
            with self._lock, contextlib.suppress(ValueError):  # it was freed meanwhile
                fitting = [f for f in self._files if size <= f.size <= _LARGER * size]
                file = min(fitting, key=lambda f: f.size, default=None)
                if file is not None:
                    self._files.remove(file)
        if file is None:
            file = _File(size)
        else:
            file.clear(used)
        with self._lock:
            self._used += 1
        return file

    def give(self, file: _File) -> None:
        """Keep a file that is no longer used, if others are."""
        with self._lock:
            self._used -= 1
            if file.descriptor >= 0 and file.size > _SMALL:
                self._files.append(file)
            size = sum(f.size for f in self._files)
            while self._files and (
                not self._used or size > _SPARE or len(self._files) > _SPARE_FILES
            ):
                size -= self._files.pop(0).size


_spare = _SpareFiles()


def _mapped(descriptor: int, size: int, access: Literal["shared", "private"]) -> FileMapping:
    try:
        return FileMapping(descriptor, size, access)
    except OSError as error:
        raise RunError(error.strerror) from None


def _new_file() -> int:
    """Return the descriptor of a file without a name: in memory on Linux, else on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("vertexsdk")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _with_descriptors(call: Callable[[], _T]) -> _T:
    """Call what takes a descriptor; where this process has too many, have it allowed more.

    Raises:
        RunError: it has as many as it may have.
    """
    try:
        return call()
    except OSError as error:
        if error.errno != errno.EMFILE:
            raise
        import resource  # of Unix, as this error is

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if soft == hard:
            raise RunError(
                f"this process has {soft:,} open files, which is its limit: close main loops and "
                "branches, or raise the limit (ulimit -n)"
            ) from None
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        return call()


def written_pages(array: NDArray[Any]) -> NDArray[np.int64] | None:
    """Return the pages of a private mapping that were written to, ascending; None if unknown."""
    return _pages_of_own(array) if _kernel_tells() else None


@functools.cache
def _kernel_tells() -> bool:
    """Return whether the kernel reports the written pages of a private mapping, by trying it."""
    array = np.frombuffer(Memory(4 * PAGE).map(4 * PAGE, private=True), np.uint8)
    array[2 * PAGE] = array[0] + 1
    pages = _pages_of_own(array)
    return pages is not None and pages.tolist() == [2]


def _pages_of_own(array: NDArray[Any]) -> NDArray[np.int64] | None:
    """The pages that belong to this process alone; None where the kernel has no such list."""
    first = array.ctypes.data // PAGE
    count = -(-array.nbytes // PAGE)
    try:
        with open("/proc/self/pagemap", "rb", buffering=0) as file:
            file.seek(first * 8)
            entries = np.frombuffer(file.read(count * 8), np.uint64)
    except OSError:
        return None
    if len(entries) < count:
        return None
    used = (entries & (_PRESENT | _SWAPPED)) != 0
    return np.flatnonzero(used & ((entries & _OF_FILE) == 0))
