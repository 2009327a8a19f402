"""A stand-in for a main loop: takes in changes once per offset, keeps the edges they lead to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vertexsdk.graph.changes.changes import ADD, REMOVE, Changes


class RecordingLoop:
    """Takes batches as `MainLoop.ingest` does.

    Args:
        integers: whether ids are.
        before: called with the number of the batch, from 0, before it is taken in; what it raises
            stands for a loop that fails there.

    Attributes:
        edges: value by (source, target).
        taken, bad: how many changes were taken in, and how many lines were none.
    """

    value = "float64"
    windowed = False

    def __init__(
        self,
        *,
        integers: bool = True,
        strict: bool = False,
        before: Callable[[int], None] = lambda number: None,
    ) -> None:
        self.integers, self.strict, self.before = integers, strict, before
        self.edges: dict[tuple[Any, Any], float] = {}
        self.offsets: dict[str, int] = {}
        self.taken = self.batches = self.bad = 0

    def ingest(
        self, changes: Any, *, source: str | None = None, offset: int | None = None, bad: int = 0
    ) -> dict[str, int]:
        """Take in a batch, unless its offset was taken in before."""
        self.before(self.batches)
        self.batches += 1
        if source is not None and offset is not None:
            if offset <= self.offsets.get(source, -1):
                return {}
            self.offsets[source] = offset
        batch = changes if isinstance(changes, Changes) else Changes.of(changes)
        columns = batch.kind.tolist(), batch.source.to_pylist(), batch.target.to_pylist()
        for kind, a, b, value in zip(*columns, batch.value.tolist(), strict=True):
            if kind == ADD or (kind != REMOVE and (a, b) in self.edges):
                self.edges[a, b] = value if value == value else self.edges.get((a, b), 1.0)
            elif kind == REMOVE:
                self.edges.pop((a, b), None)
        self.taken += len(batch)
        self.bad += bad
        return {}
