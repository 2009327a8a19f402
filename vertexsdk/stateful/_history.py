"""The versions of a stateful class in a store: snapshots of its tables, and the calls since then.

A block of calls is one version: it is durable before it runs, and so before it is answered. Small
blocks are segments of group "tail"; many of them are written again as one of group "", which
replaces them. A snapshot has a topology segment, which cuts the log: its columns are empty, and its
meta names the tables.

A commit that fails may have taken effect. `recover` finds out before anything else is done.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from vertexsdk.engine.keyed.calls import Calls
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import KeyedProgram
from vertexsdk.state import EncodedSegment, Manifest, SegmentRef, StateError, Store
from vertexsdk.state.stored_columns import accepted_values

KEYED = "keyed"  # the entry of a version's statistics by which it is of a stateful class
_BATCHES = 64  # small blocks that are joined
_ROWS = 1 << 14  # calls from which a block, or the small ones together, are not small
_PRUNE = 64  # versions between deletions of old ones


class CallHistory:
    """The newest version of a loop, and the calls in its log.

    Args:
        store: which has claimed the loop, or will by the first commit.
        loop: its name.
        program: what runs.
        manifest: of the newest version; None for a new loop.

    Attributes:
        calls: those in the log and in the snapshot, since the loop began.
        snapshot: those in the snapshot.
        in_doubt: a commit failed, and may have taken effect.
    """

    def __init__(
        self, store: Store, loop: str, program: KeyedProgram, manifest: Manifest | None
    ) -> None:
        self.store, self.loop, self.program = store, loop, program
        self.in_doubt = False
        self._commits = 0
        self._tail: list[Calls] = []
        self.calls = self.snapshot = 0
        self.manifest: Manifest
        if manifest is None:
            self._commit([], [], iteration=0, parent=None)
        else:
            self._use(manifest)

    def _use(self, manifest: Manifest) -> None:
        """Continue from a version in the store."""
        counts = counts_of(manifest)
        assert counts is not None
        self.manifest, self.calls, self.snapshot = manifest, counts["calls"], counts["snapshot"]
        self._tail = [self._read(ref) for ref in self._refs() if ref.group == "tail"]

    def recover(self) -> None:
        """Find out whether a commit that failed took effect.

        Raises:
            FencedError: another driver has the loop.
            StateError: the store cannot be read.
        """
        if not self.in_doubt:
            return
        self.store.renew_claim(self.loop)
        newest = self.store.head(self.loop)
        if newest is None:
            self._commit([], [], iteration=0, parent=None)
        else:
            self._use(newest)
        self.in_doubt = False

    def append(self, calls: Calls) -> None:
        """Make calls durable.

        Raises:
            StateError: the store failed; they may be in the log or not.
        """
        waiting = [*self._tail, calls]
        small = len(waiting) < _BATCHES and sum(map(len, waiting)) < _ROWS
        block = calls if small else Calls.join(waiting)
        unwritten: list[EncodedSegment] = []
        ref = self.store.put_segment(
            self.loop, 0, self.manifest.iteration + 1, "changes", block.columns(),
            {"methods": self._methods(), "calls": len(block)},
            group="tail" if small else "", defer=unwritten.append,
        )  # fmt: skip
        before = self.calls
        self.calls += len(calls)
        try:
            self._commit([ref], unwritten, self.manifest.iteration + 1, self.manifest)
        except BaseException:
            self.calls = before
            raise
        self._tail = waiting if small else []

    def cut(self, segments: Sequence[SegmentRef], partitions: int) -> None:
        """Commit a snapshot that has all calls so far.

        Args:
            segments: of the tables.
            partitions: in how many parts they are.
        """
        unwritten: list[EncodedSegment] = []
        log_start = self.store.put_segment(
            self.loop, 0, self.manifest.iteration + 1, "topology", {"id": np.empty(0, np.int64)},
            {KEYED: self.program.name}, defer=unwritten.append,
        )  # fmt: skip
        before, self.snapshot = self.snapshot, self.calls
        try:
            self._commit(
                [log_start, *segments], unwritten, self.manifest.iteration + 1, self.manifest,
                partitions,
            )  # fmt: skip
        except BaseException:
            self.snapshot = before
            raise
        self._tail = []

    def _commit(
        self,
        segments: Sequence[SegmentRef],
        unwritten: Sequence[EncodedSegment],
        iteration: int,
        parent: Manifest | None,
        partitions: int | None = None,
    ) -> None:
        self.in_doubt = True
        program = self.program
        schema = program.schema()
        named = {spec.key for spec in program.tables.values()} == {"str"}
        self.manifest = self.store.commit(
            self.loop,
            iteration=iteration,
            segments=segments,
            parent=parent,
            put=unwritten,
            schema=schema,
            program=program.name,
            ids="str" if named else "int",
            partitions=partitions or (None if parent else 1),
            statistics={
                "result": next(iter(schema)),
                KEYED: {"calls": self.calls, "snapshot": self.snapshot},
            },
        )
        self.in_doubt = False
        self._commits += 1
        if self._commits % _PRUNE == 0:
            with suppress(StateError):  # the next time, then
                self.store.prune(self.loop)

    def state(self) -> list[SegmentRef]:
        """Return the segments of the snapshot."""
        refs = self.store.segments(self.manifest)
        return [ref for ref in refs if ref.kind in ("base", "delta")]

    def log(self, until: int | None = None) -> Iterator[Calls]:
        """Yield the calls since the snapshot, in order.

        Args:
            until: leave out those after so many since the loop began; None for all.
        """
        left = (self.calls if until is None else until) - self.snapshot
        for ref in self._refs():
            block = self._read(ref)
            if left < len(block):
                block = block.first(left)
            left -= len(block)
            if len(block):
                yield block

    def _refs(self) -> list[SegmentRef]:
        return [ref for ref in self.store.segments(self.manifest) if ref.kind == "changes"]

    def _methods(self) -> list[str]:
        """Return the methods with their parameters, by whose places the log names them."""
        return [
            f"{name}({', '.join(f'{p.name}: {p.kind}' for p in method.parameters)})"
            for name, method in self.program.methods.items()
        ]

    def _read(self, ref: SegmentRef) -> Calls:
        table = self.store.table(ref)
        with self.store.naming_segment(ref):
            methods = accepted_values(table.meta, {"methods": list}).get("methods", [])
            if methods != self._methods():
                raise InputError(
                    f"loop {self.loop!r} has calls that were logged when {self.program.name} had "
                    f"the methods {', '.join(map(str, methods))}: resume it with that class, close "
                    "it, and change the class then"
                )
            columns = self.store.segment(ref, described=Calls.described(self.program))
            calls = Calls.from_columns(columns)
            calls.check(self.program)
        return calls


def counts_of(manifest: Manifest) -> dict[str, int] | None:
    """Return how many calls a version has, and how many are in its snapshot; None for a graph's."""
    counts: Mapping[str, Any] = manifest.statistics.get(KEYED, {})
    if not isinstance(counts, dict) or {type(n) for n in counts.values()} != {int}:
        return None
    return {"calls": counts.get("calls", 0), "snapshot": counts.get("snapshot", 0)}
