"""Edges as text, fast: ``source target value`` lines from int64 columns."""

from __future__ import annotations

import numba as nb
import numpy as np
import numpy.typing as npt

IntArray = npt.NDArray[np.int64]

_WIDEST_LINE = 63  # three int64 of at most 20 characters, two blanks, a line end


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _print_number(number, buffer, at):  # type: ignore[no-untyped-def]
    if number < 0:
        buffer[at] = 45
        at += 1
        number = -number
    width, rest = 1, number // 10
    while rest:
        width += 1
        rest //= 10
    for k in range(at + width - 1, at - 1, -1):
        buffer[k] = 48 + number % 10
        number //= 10
    return at + width


@nb.njit(cache=True)  # type: ignore[misc, unused-ignore]
def _print_lines(source, target, value, buffer):  # type: ignore[no-untyped-def]
    at = 0
    for k in range(source.size):
        at = _print_number(source[k], buffer, at)
        buffer[at] = 32
        at = _print_number(target[k], buffer, at + 1)
        buffer[at] = 32
        at = _print_number(value[k], buffer, at + 1)
        buffer[at] = 10
        at += 1
    return at


def lines(source: IntArray, target: IntArray, value: IntArray) -> memoryview:
    """The block as ASCII lines, one edge each.

    >>> bytes(lines(np.array([1]), np.array([20]), np.array([7])))
    b'1 20 7\\n'
    """
    buffer = np.empty(max(1, source.size) * _WIDEST_LINE, np.uint8)
    return buffer.data[: _print_lines(source, target, value, buffer)]
