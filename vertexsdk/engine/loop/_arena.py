"""Growing arrays of a partition, in memory that forks share copy-on-write.

Each array is mapped from memory of its own. A fork maps the same memory; from then on both have
private mappings, in which the kernel copies a page when it is first written to. So a fork costs a
few calls for each array, and what either side changes costs the pages that it changes. Where most
pages will change, the array is copied at once instead, as that is some ten times faster.
"""

from __future__ import annotations

import copy
import weakref
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.engine.loop._shared_pages import PAGE, Memory, written_pages

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
            memory = reference()  # None where nobody has an array of it
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
            names: of the arrays that it has; None for all.
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
        before, self._private = self.array[: self.length], False
        memory = Memory(room * self.dtype.itemsize, used=before.nbytes)
        self.memory.columns.discard(self)
        self._use(memory, room)
        self.array[: self.length] = before
