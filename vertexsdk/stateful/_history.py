"""The versions of a stateful class in a store: snapshots of its tables, and the calls since then.

A block of calls is one version: it is durable before it is answered. A snapshot has a topology
segment, which cuts the log: its columns are empty, and its meta names the tables.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from vertexsdk.engine.keyed.calls import Calls
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import KeyedProgram
from vertexsdk.state import EncodedSegment, Manifest, SegmentRef, Store
from vertexsdk.state.stored_columns import accepted_values
from vertexsdk.state.version_history import KEYED, VersionHistory, next_block


class CallRecord(NamedTuple):
    """The record of a version: the numbers of its calls, and small blocks."""

    calls: int = 0  # in the log and in the snapshot, since the loop began
    snapshot: int = 0  # of these, in the snapshot
    tail: tuple[Calls, ...] = ()  # the small blocks of the log that are not joined yet


class CallHistory(VersionHistory[CallRecord]):
    """The newest version of a loop, and the calls in its log.

    Args:
        store: which has claimed the loop, or will by the first commit.
        loop: its name.
        program: the program that runs.
        manifest: the newest version's manifest; None for a new loop.
    """

    def __init__(
        self, store: Store, loop: str, program: KeyedProgram, manifest: Manifest | None
    ) -> None:
        super().__init__(store, loop, None, retain=1)
        self.program = program
        if manifest is None:
            schema = program.schema()
            named = {spec.key for spec in program.tables.values()} == {"str"}
            self._commit(
                CallRecord(), [], [], schema=schema, program=program.name, partitions=1,
                ids="str" if named else "int",
            )  # fmt: skip
        else:
            self.newest = manifest, self.read_record(manifest)

    @property
    def record(self) -> CallRecord:
        """Of the newest version."""
        return self.newest[1]

    def read_record(self, manifest: Manifest) -> CallRecord:
        """Return how many calls a version in the store has, and the tail of its log."""
        counts = counts_of(manifest)
        assert counts is not None
        tail = tuple(self._read(ref) for ref in self._refs(manifest) if ref.group == "tail")
        return CallRecord(**counts, tail=tail)

    def append(self, calls: Calls, offsets: Mapping[str, Any] | None = None) -> None:
        """Begin to make calls durable, perhaps none, and the offsets of their source.

        They are when `settle` returns; if it raises, they may be in the log or not.

        Raises:
            StateError: the store failed; they may be in the log or not.
        """
        record = self.record
        if not len(calls):
            self._commit(record, [], [], offsets=offsets, behind=True)
            return
        block, group, tail = next_block(record.tail, calls, Calls.join)
        record = record._replace(calls=record.calls + len(calls), tail=tail)
        self._append(block, group, record, offsets=offsets, behind=True)

    def _append(self, block: Calls, group: str, record: CallRecord, **fields: Any) -> None:
        unwritten: list[EncodedSegment] = []
        ref = self.store.put_segment(
            self.loop, 0, self.manifest.iteration + 1, "changes", block.columns(),
            {"methods": self._methods(), "calls": len(block)},
            group=group, defer=unwritten.append,
        )  # fmt: skip
        self._commit(record, [ref], unwritten, **fields)

    def end_tail(self) -> None:
        """Join the small blocks of the log, so that later ones are not joined with them.

        Raises:
            StateError: the store failed.
        """
        if self.record.tail:
            self._append(Calls.join(self.record.tail), "", self.record._replace(tail=()))

    def cut(
        self, segments: Sequence[SegmentRef], partitions: int, calls: int, iteration: int
    ) -> None:
        """Commit a snapshot; the calls that were logged after it stay in the log.

        Args:
            segments: the segments of the tables.
            partitions: the number of parts of the tables.
            calls: the number of calls that it has.
            iteration: the newest version's iteration when it was taken, after `end_tail`.
        """
        unwritten: list[EncodedSegment] = []
        log_start = self.store.put_segment(
            self.loop, 0, self.manifest.iteration + 1, "topology", {"id": np.empty(0, np.int64)},
            {KEYED: self.program.name}, defer=unwritten.append,
        )  # fmt: skip
        later = [ref for ref in self._refs(self.manifest) if ref.key.iteration > iteration]
        record = CallRecord(self.record.calls, calls, self.record.tail if later else ())
        self._commit(record, [log_start, *segments, *later], unwritten, partitions=partitions)

    def _commit(
        self,
        record: CallRecord,
        segments: Sequence[SegmentRef],
        unwritten: Sequence[EncodedSegment],
        **fields: Any,
    ) -> None:
        counts = {"calls": record.calls, "snapshot": record.snapshot}
        statistics = {"result": next(iter(self.program.schema())), KEYED: counts}
        self.commit(record, segments, put=unwritten, statistics=statistics, **fields)

    def state(self) -> list[SegmentRef]:
        """Return the segments of the snapshot."""
        refs = self.store.segments(self.manifest)
        return [ref for ref in refs if ref.kind in ("base", "delta")]

    def log(self, until: int | None = None) -> Iterator[Calls]:
        """Yield the calls since the snapshot, in order.

        Args:
            until: leave out those after so many since the loop began; None for all.
        """
        left = (self.record.calls if until is None else until) - self.record.snapshot
        for ref in self._refs(self.manifest):
            block = self._read(ref)
            if left < len(block):
                block = block.first(left)
            left -= len(block)
            if len(block):
                yield block

    def _refs(self, manifest: Manifest) -> list[SegmentRef]:
        return [ref for ref in self.store.segments(manifest) if ref.kind == "changes"]

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
