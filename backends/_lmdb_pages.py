"""The pages of LMDB's data file, read without LMDB: which are in use, and which are free.

LMDB maps its file, so a page that was cut off ends the process by SIGBUS when it is touched. The
layout is that of LMDB 0.9 (`MDB_meta`, `MDB_db`, `MDB_page`, `MDB_node` in mdb.c), on 64 bits.
A valid file may end before its last page, if the pages beyond its end are free; then the trees are
walked to tell.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from vertexsdk.state.errors import CorruptError

__all__ = ["check_data_file", "free_pages", "has_tables"]

_MAGIC, _VERSION = 0xBEEFC0DE, 1
_HEADER = 16  # bytes of a page before its content
_META = struct.Struct("=IIQQ" + 2 * "IHHQQQQQ" + "QQ")
_NONE = (1 << 64) - 1
_BRANCH = 1  # flag of a page
_OVERFLOW, _TABLE = 1, 2  # flags of a node
_TRIES = 5  # while others write


class _CutOff(Exception):
    """A page is beyond the end of the file, or is not a valid page."""


@dataclass(frozen=True, slots=True)
class _Meta:
    page_size: int
    free: int  # page of the root of the tree of free pages
    root: int
    entries: int
    last: int
    transaction: int


class _DataFile:
    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.meta = self._newest()
        self.size = os.fstat(descriptor).st_size  # after the meta page: it only grows

    def _newest(self) -> _Meta | None:
        """The meta page of the last transaction; None of an empty file, or another LMDB's."""
        if not os.fstat(self._descriptor).st_size:
            return None
        first = self._meta(0)
        if first is None:
            return None
        second = self._meta(first.page_size)
        return second if second and second.transaction > first.transaction else first

    def _meta(self, offset: int) -> _Meta | None:
        raw = os.pread(self._descriptor, _META.size, offset + _HEADER)
        if len(raw) < _META.size:
            raise _CutOff
        magic, version, _, _, page_size, *_, free, _, _, _, _, _, _, entries, root, last, number = (
            _META.unpack(raw)
        )
        if magic != _MAGIC or version != _VERSION:
            return None
        return _Meta(page_size, free, root, entries, last, number)

    def whole(self) -> bool:
        meta = self.meta
        if meta is None or self.size >= (meta.last + 1) * meta.page_size:
            return True
        try:
            for root in (meta.free, meta.root):
                for _ in self.values(root):
                    pass
        except (_CutOff, struct.error):
            return False
        return True

    def values(self, root: int) -> Iterator[bytes]:
        """The first bytes of the values in a tree, and in the tables that it names."""
        assert self.meta is not None
        waiting, seen = [root], 0
        while waiting:
            number = waiting.pop()
            if number == _NONE:
                continue
            page = self._page(number)
            seen += 1
            flags, lower = struct.unpack_from("=HH", page, 10)
            if seen > self.meta.last + 1 or not _HEADER <= lower <= len(page):
                raise _CutOff
            for at in struct.unpack_from(f"={(lower - _HEADER) // 2}H", page, _HEADER):
                low, high, node, key = struct.unpack_from("=HHHH", page, at)
                if flags & _BRANCH:
                    waiting.append(low | high << 16 | node << 32)
                    continue
                size, start = low | high << 16, at + 8 + key
                value = page[start : start + size]
                if node & _OVERFLOW:
                    pages = -(-(_HEADER + size) // self.meta.page_size)
                    value = self._page(struct.unpack_from("=Q", page, start)[0], pages)[_HEADER:]
                if node & _TABLE:
                    waiting.append(struct.unpack_from("=Q", value, 40)[0])
                yield value

    def _page(self, number: int, count: int = 1) -> bytes:
        assert self.meta is not None
        size = self.meta.page_size
        if (number + count) * size > self.size:
            raise _CutOff
        return os.pread(self._descriptor, size, number * size)


@contextmanager
def _opened(path: str) -> Iterator[int | None]:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield None
        return
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def check_data_file(path: str) -> None:
    """Refuse a file at which LMDB would fault.

    Raises:
        CorruptError: pages in use are missing from the file.
    """
    with _opened(path) as descriptor:
        before: _Meta | None = None
        for _ in range(_TRIES if descriptor is not None else 0):
            assert descriptor is not None
            try:
                file = _DataFile(descriptor)
            except _CutOff:
                break
            if file.whole():
                return
            if file.meta == before:  # nobody wrote meanwhile
                break
            before = file.meta
        else:
            return
        raise CorruptError(
            f"{path} was cut short: restore the store's directory from a backup, or choose "
            "another --backend"
        )


def has_tables(path: str) -> bool:
    """Whether the file exists and has tables."""
    with _opened(path) as descriptor:
        if descriptor is None or not os.fstat(descriptor).st_size:
            return False
        try:
            meta = _DataFile(descriptor).meta
        except _CutOff:
            return True  # for `check_data_file` to refuse
        return meta is None or meta.entries > 0


def free_pages(path: str) -> int:
    """The number of free pages in the file."""
    with _opened(path) as descriptor:
        try:
            file = None if descriptor is None else _DataFile(descriptor)
            if file is None or file.meta is None:
                return 0
            return sum(struct.unpack_from("=Q", value)[0] for value in file.values(file.meta.free))
        except (_CutOff, struct.error):  # changed while it was read
            return 0
