"""What may be a loop's name, and what may be a segment's rows, on every backend."""

from __future__ import annotations

from collections.abc import Mapping

from vertexsdk.encoded import Column
from vertexsdk.errors import StateError
from vertexsdk.state.contract import LONGEST_NAME
from vertexsdk.state.errors import StateInputError

__all__ = ["check_name", "check_rows"]


def check_name(loop: str) -> None:
    """Refuse what cannot be a loop's name on every backend.

    Raises:
        StateInputError: it is empty, longer than 200 bytes of UTF-8, or has control characters.
    """
    try:
        size = len(loop.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST_NAME or any(ord(c) < 32 or ord(c) == 127 for c in loop):
        raise StateInputError(
            f"{loop[:40]!r} cannot name a loop: use 1 to {LONGEST_NAME} bytes of UTF-8 without "
            "control characters"
        )


def check_rows(columns: Mapping[str, Column]) -> None:
    """Refuse columns that are no base or delta.

    Raises:
        StateError: no "id" of int64, strictly ascending; or a column of another length.
    """
    if "id" not in columns or columns["id"].dtype.str != "<i8" or columns["id"].ndim != 1:
        raise StateError('a base or delta segment needs a column "id" of int64')
    ids = columns["id"]
    if not (ids[1:] > ids[:-1]).all():
        raise StateError('the column "id" of a segment must be strictly ascending')
    for name, array in columns.items():
        if not name.startswith("name.") and len(array) != len(ids):
            raise StateError(f"column {name!r} has {len(array)} rows for {len(ids)} ids")
