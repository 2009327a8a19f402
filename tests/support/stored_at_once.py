"""Snapshots that are stored when they are taken, so that it is known which one is the newest."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest import mock

from vertexsdk.engine.snapshot_writer import SnapshotWriter
from vertexsdk.engine.snapshots import SnapshotRequest

__all__ = ["stored_at_once"]


@contextlib.contextmanager
def stored_at_once() -> Iterator[None]:
    """Have partitions wait until their snapshots are stored."""
    take = SnapshotWriter.take

    def at_once(self: Any, request: SnapshotRequest, capture: Any) -> None:
        take(self, replace(request, waits=True), capture)

    with mock.patch.object(SnapshotWriter, "take", at_once):
        yield
