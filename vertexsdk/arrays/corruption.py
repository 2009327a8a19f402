"""Stored bytes that are not what was written."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.errors import StateError, shorten, typed_line


class CorruptError(StateError):
    """Bytes that are not what was written: a checksum, a length or the format is wrong."""


@contextmanager
def damaged(what: str, advice: str = ": restore it, or use another store") -> Iterator[None]:
    """Turn an exception that Python raises on damaged bytes into a `CorruptError`.

    Args:
        what: the thing that is read, and where.
        advice: the end of the message; none where the error is caught and told with more.
    """
    try:
        yield
    except (LookupError, TypeError, ValueError, OverflowError, RecursionError, struct.error) as e:
        reason = (str(e).splitlines() or [""])[0][:100]
        raise CorruptError(f"{what} is damaged ({type(e).__name__}: {reason}){advice}") from e


@contextmanager
def unpickling() -> Iterator[None]:
    """Turn whatever is raised while a stored pickle is read into an error of one line.

    Raises:
        StateError: a class cannot be imported.
        CorruptError: the bytes are not a pickle of what is there to import.
    """
    try:
        yield
    except (ImportError, AttributeError) as error:
        raise StateError(
            f"a stored object cannot be read ({typed_line(error)}): have its class where it was "
            "imported from when it was stored"
        ) from error
    except Exception as error:
        raise CorruptError(f"a pickle cannot be read ({shorten(typed_line(error))})") from error


def check_offsets(offsets: NDArray[Any], size: int, name: str) -> None:
    """Refuse offsets that are not those of packed strings: int64, from 0 to `size`, never less.

    Raises:
        CorruptError: names the column. A checksum does not tell who wrote it.
    """
    if offsets.dtype != np.int64 or offsets.ndim != 1:
        raise CorruptError(f"column {name!r} is {offsets.dtype}, and offsets are int64")
    if not offsets.size or offsets[0] != 0 or offsets[-1] != size or (np.diff(offsets) < 0).any():
        raise CorruptError(f"column {name!r} does not rise from 0 to the {size} bytes it divides")
