"""Growing arrays of a partition, in memory that forks share copy-on-write.

Each array is mapped from memory of its own. A fork maps the same memory; from then on both have
private mappings, in which the kernel copies a page when it is first written to. So a fork costs a
few calls for each array, and what either side changes costs the pages that it changes.
"""

from __future__ import annotations

import copy
import ctypes
import errno
import functools
import mmap
import os
import tempfile
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.errors import RunError

Array = NDArray[Any]
_T = TypeVar("_T")
_PAGE = mmap.PAGESIZE
_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
# In /proc/self/pagemap: a page is in memory, is in swap, belongs to a file that is mapped.
_PRESENT, _SWAPPED, _OF_FILE = (np.uint64(1) << np.uint64(bit) for bit in (63, 62, 61))


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
            column = self._columns[name] = _Column(_Memory(), np.dtype(dtype), room)
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

    def fork(self) -> Arena:
        """Return an arena with the same contents; changes of either are not seen by the other.

        Arrays that were taken from this arena before must be taken again.
        """
        other = Arena()
        other.meta = copy.deepcopy(self.meta)
        other._columns = {name: column.fork() for name, column in self._columns.items()}
        return other


class _Memory:
    """Memory that arrays map, each as its own or all copy-on-write."""

    def __init__(self) -> None:
        self.descriptor = -1
        self.descriptor = _with_descriptors(_new_file)
        self.columns: weakref.WeakSet[_Column] = weakref.WeakSet()

    def __del__(self) -> None:
        if self.descriptor >= 0:
            os.close(self.descriptor)

    def reserve(self, size: int) -> None:
        """Have room for so many bytes."""
        os.ftruncate(self.descriptor, size)

    def write(self, values: memoryview, at: int) -> None:
        """Write bytes at an offset."""
        while len(values):
            written = os.pwrite(self.descriptor, values, at)
            values, at = values[written:], at + written


class _Column:
    """One array: a mapping of memory.

    Attributes:
        array: with all the room that there is.
        length: number of entries in use.
    """

    def __init__(self, memory: _Memory, dtype: np.dtype[Any], room: int) -> None:
        self.dtype, self.length, self._private = dtype, 0, False
        memory.reserve(room * dtype.itemsize)
        self._use(memory, room)

    def _use(self, memory: _Memory, room: int) -> None:
        """Map memory, of which no array that it has now is seen any more."""
        self.memory = memory
        memory.columns.add(self)
        mapping = _map(memory.descriptor, room * self.dtype.itemsize, private=self._private)
        self.array: Array = np.frombuffer(mapping, self.dtype, room)

    def reserve(self, room: int) -> None:
        """Have room for so many entries, more than there is now."""
        if self._private:
            self._copy(room)
        else:
            self.memory.reserve(room * self.dtype.itemsize)
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

    def _write_back(self) -> None:
        """Have the memory contain what a private mapping shows."""
        pages = _private_pages(self.array)
        if pages is None or (len(pages) and len(self.memory.columns) > 1):
            self._copy(len(self.array))
            return
        content = self.array.data.cast("B")
        ends = np.flatnonzero(np.diff(pages) != 1) + 1
        for run in np.split(pages, ends) if len(pages) else []:
            start, stop = int(run[0]) * _PAGE, (int(run[-1]) + 1) * _PAGE
            self.memory.write(content[start:stop], start)

    def _copy(self, room: int) -> None:
        """Have memory of its own with the same contents."""
        before, self._private = self.array[: self.length], False
        memory = _Memory()
        memory.reserve(room * self.dtype.itemsize)
        if len(before):
            memory.write(before.data.cast("B"), 0)
        self.memory.columns.discard(self)
        self._use(memory, room)


def _new_file() -> int:
    """Return the descriptor of a file without a name: in memory on Linux, else on disk."""
    if hasattr(os, "memfd_create"):
        return os.memfd_create("vertexsdk")
    with tempfile.TemporaryFile() as file:
        return os.dup(file.fileno())


def _map(descriptor: int, size: int, *, private: bool) -> Any:
    """Map a file's bytes, copy-on-write or as they are; without a descriptor of its own.

    A mapping of the module `mmap` has one, before Python 3.13, and a partition has many arrays.
    """
    flags = mmap.MAP_PRIVATE if private else mmap.MAP_SHARED
    address = _libc.mmap(None, size, mmap.PROT_READ | mmap.PROT_WRITE, flags, descriptor, 0)
    if address == ctypes.c_void_p(-1).value:
        raise RunError(f"cannot map {size:,} bytes: {os.strerror(ctypes.get_errno())}")
    buffer = (ctypes.c_char * size).from_address(address)
    weakref.finalize(buffer, _libc.munmap, address, size).atexit = False
    return buffer


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


def _private_pages(array: Array) -> NDArray[np.int64] | None:
    """The pages of a private mapping that were written to, ascending; None: nobody can tell."""
    return _written_pages(array) if _kernel_tells() else None


@functools.cache
def _kernel_tells() -> bool:
    """Whether the kernel tells which pages of a private mapping were written to, by trying it."""
    memory = _Memory()
    memory.reserve(4 * _PAGE)
    array = np.frombuffer(_map(memory.descriptor, 4 * _PAGE, private=True), np.uint8)
    array[2 * _PAGE] = array[0] + 1
    pages = _written_pages(array)
    return pages is not None and pages.tolist() == [2]


def _written_pages(array: Array) -> NDArray[np.int64] | None:
    """The pages that belong to this process alone; None where the kernel has no such list."""
    first = array.ctypes.data // _PAGE
    count = -(-array.nbytes // _PAGE)
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
