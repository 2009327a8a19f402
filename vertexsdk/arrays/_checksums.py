"""Checksums of columns: one uint32 per block of 64 KiB, fast enough to be always on.

A block is read as a matrix of 16 x 512 words of 64 bits. The sums of its rows and of its columns
(modulo 2**64) are folded by CRC-32. A changed word changes its row's and its column's sum, and
an exchange of words changes at least one of them, so what goes unseen needs four or more
words that change together, or a collision of the CRC. The rest after the last whole block is
protected by CRC-32 itself. Blocks let a point read check only what it touches.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
_ROWS, _WORDS = 16, 512
_AT_ONCE = 4  # blocks folded together: 256 KiB stay in the second-level cache


def number_of_blocks(size: int) -> int:
    """How many checksums `size` bytes have: one per started block."""
    return -(-size // BLOCK)


def block_sums(data: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """The checksum of every block of `data`.

    Args:
        data: uint8[n], contiguous.

    Returns:
        uint32[number_of_blocks(n)].

    Example:
        >>> block_sums(np.zeros(100_000, np.uint8)).shape
        (2,)
    """
    whole = data.size // BLOCK
    sums = np.empty(number_of_blocks(data.size), np.uint32)
    words: NDArray[Any] = data[: whole * BLOCK].view("<u8").reshape(whole, _ROWS, _WORDS)
    fold = np.empty((_AT_ONCE, _ROWS + _WORDS), "<u8")
    for first in range(0, whole, _AT_ONCE):
        part = words[first : first + _AT_ONCE]
        count = len(part)
        np.add.reduce(part, axis=2, out=fold[:count, :_ROWS])
        np.add.reduce(part, axis=1, out=fold[:count, _ROWS:])
        for block in range(count):
            sums[first + block] = zlib.crc32(fold[block].data)
    if whole < sums.size:
        sums[whole] = zlib.crc32(data[whole * BLOCK :].data)
    return sums
