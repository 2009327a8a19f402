"""Mappings of files that keep no descriptor open.

One of the module `mmap` has a descriptor of its own before Python 3.13, and a process that has many
arrays would have as many files open.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from typing import Any, Literal

import numpy as np

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = (
    ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_int64,
)  # fmt: skip
_libc.munmap.argtypes = (ctypes.c_void_p, ctypes.c_size_t)


class FileMapping:
    """The first bytes of a file, mapped until this and all its buffers are gone.

    Args:
        descriptor: the file's descriptor, which may be closed afterwards.
        size: bytes.
        access: "read"; "shared": what is written goes to the file; "private": pages are copied
            when they are first written to.

    Raises:
        OSError: it cannot be mapped.
    """

    address = 0  # also if a signal cuts `__init__` short

    def __init__(
        self, descriptor: int, size: int, access: Literal["read", "shared", "private"]
    ) -> None:
        self._size, self._unmap = max(size, 1), _libc.munmap
        flags = mmap.MAP_PRIVATE if access == "private" else mmap.MAP_SHARED
        protection = mmap.PROT_READ | (0 if access == "read" else mmap.PROT_WRITE)
        address = _libc.mmap(None, self._size, protection, flags, descriptor, 0)
        if address == ctypes.c_void_p(-1).value:
            error = ctypes.get_errno()
            raise OSError(error, f"cannot map {size:,} bytes: {os.strerror(error)}")
        self.address = address

    def buffer(self, size: int, *owners: object) -> Any:
        """Return the first bytes as a buffer, which keeps this and `owners` alive."""
        buffer: Any = (ctypes.c_char * size).from_address(self.address)
        buffer.owners = self, *owners
        return buffer

    def __del__(self) -> None:
        if self.address:
            self._unmap(self.address, self._size)


def map_whole(descriptor: int) -> memoryview:
    """Return all bytes of a file, mapped read-only.

    Raises:
        OSError: it cannot be mapped.
        ValueError: it is empty.
    """
    size = os.fstat(descriptor).st_size
    if not size:
        raise ValueError("cannot map an empty file")
    buffer = memoryview(FileMapping(descriptor, size, "read").buffer(size)).toreadonly()
    return np.frombuffer(buffer, np.uint8).data
