"""Snapshots that are stored when they are taken, so that it is known which one is the newest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

from vertexsdk.engine.snapshot_writer import SnapshotWriter

__all__ = ["stored_at_once"]


@contextlib.contextmanager
def stored_at_once() -> Iterator[None]:
    """Have partitions wait until their snapshots are stored."""
    write = SnapshotWriter.write

    def at_once(self: Any, part: Any, content: Any, began: float, *, waits: bool) -> None:
        write(self, part, content, began, waits=True)

    with mock.patch.object(SnapshotWriter, "write", at_once):
        yield
