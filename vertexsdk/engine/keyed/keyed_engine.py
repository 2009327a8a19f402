"""A keyed program on its processors, as the driver sees it: blocks of calls in, answers out."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.keyed._task import KeyedCommand, KeyedTask
from vertexsdk.engine.keyed.answers import AnswerColumn, Failure, decode_answers
from vertexsdk.engine.keyed.calls import Calls, stored_values
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import RunError
from vertexsdk.program.keyed import KeyedProgram
from vertexsdk.program.keyed_state import Journal, RowsState, state_in_memory
from vertexsdk.state import SegmentRef
from vertexsdk.state.address import Address
from vertexsdk.state.manifests import layers_by_partition
from vertexsdk.transport.transport import Transport, Workers


class _Processors:
    """The workers of an engine and of its forks, until the last of these is closed.

    Args:
        workers: that run their tasks.
    """

    def __init__(self, workers: Workers) -> None:
        self.workers = workers
        self._engines, self._lock = 0, threading.Lock()

    def enter(self) -> None:
        """Count one more engine."""
        with self._lock:
            self._engines += 1

    def leave(self) -> None:
        """Count one engine less."""
        with self._lock:
            self._engines -= 1
            if not self._engines:
                self.workers.close()


class KeyedEngine:
    """The partitions of a keyed program, until `close`.

    Args:
        program: what runs.
        transport: starts the processors.
        partitions: how many.
        address: of the store of snapshots; None for none.
        loop: to which snapshots belong.
        segments: of the snapshot to begin with; none for an empty state.
        sources: how many partitions have written that.

    Attributes:
        groups: the group of each table's segments.

    Raises:
        RunError: the processors did not start.
        StateError: the snapshot could not be read.
    """

    def __init__(
        self,
        program: KeyedProgram,
        transport: Transport,
        partitions: int,
        address: Address | None,
        loop: str,
        segments: Sequence[SegmentRef] = (),
        sources: int = 1,
    ) -> None:
        self.program, self.partitions = program, partitions
        self.groups = segment_groups(program.tables)
        names = {group: name for name, group in self.groups.items()}
        layers = [
            (names[group], refs)
            for (_, group), refs in layers_by_partition(segments)
            if group in names
        ]
        workers = transport.workers(partitions)
        workers.title = f"stateful class {program.name}"
        restore = KeyedCommand("restore", segments=layers, partitions=sources)
        self._start(_Processors(workers), address, loop, restore)

    def _start(
        self, processors: _Processors, address: Address | None, loop: str, command: KeyedCommand
    ) -> None:
        self._processors, self._address = processors, address
        self._task = KeyedTask(
            self.program, self.partitions, uuid.uuid4().hex, address, loop, self.groups
        )
        self._closed = False
        processors.enter()
        try:
            self._exchange = processors.workers.exchange(self._task)
            self._exchange.hop(command)
        except BaseException:
            processors.leave()
            raise

    def fork(self, loop: str) -> KeyedEngine:
        """Return an engine with the same state, to be changed apart from this one.

        Args:
            loop: to which its snapshots belong.

        Raises:
            LostError: a processor was lost.
        """
        other = copy.copy(self)
        other._start(
            self._processors, self._address, loop, KeyedCommand("fork", source=self._task.key)
        )
        return other

    def run(self, calls: Calls) -> tuple[list[Any], dict[int, Failure]]:
        """Run a block of calls.

        Returns:
            The answer of each call, in order, and the calls that raised, by their number.

        Raises:
            RunError: a processor was lost; what state there is has to be restored.
        """
        columns = calls.columns()
        if self.partitions > 1:
            columns["owner"] = calls.owners(self.program, self.partitions)
        reports = self._exchange.hop(KeyedCommand("run", encode_bytes(columns)))
        parts = list(map(decode_answers, reports))
        answers = _answers(len(calls), [(numbers, own) for numbers, own, _ in parts])
        failures: dict[int, Failure] = {}
        for _, _, failed in parts:
            for one in failed:
                first = failures.setdefault(one.number, one)
                if one.position < first.position:
                    failures[one.number] = one
        return answers, failures

    def lookup(self, table: str, keys: Sequence[Any]) -> list[dict[str, Any] | None]:
        """Return the fields of each key's row, None where it has none."""
        spec = self.program.tables[table]
        block = Calls(np.zeros(len(keys), np.uint8), {(0, 0): stored_values(spec.key, keys)})
        command = KeyedCommand("lookup", encode_bytes(block.columns()), table)
        state = state_in_memory(spec, Journal())  # of several partitions they are combined
        for report in self._exchange.hop(command):
            columns, _ = decode(report)
            values = pickle.loads(columns["value"].tobytes())
            for k, value in zip(columns["row"].tolist(), values, strict=True):
                state.restore(k, value)
        rows: list[dict[str, Any] | None] = [None] * len(keys)
        for k in state.rows:
            rows[k] = state.describe(k)
        return rows

    def rows(self, table: str) -> RowsState:
        """Return all rows of a table, as the state element of a plain object."""
        state = state_in_memory(self.program.tables[table], Journal())
        for report in self._exchange.hop(KeyedCommand("rows", table=table)):
            for key, value in zip(*pickle.loads(report), strict=True):
                state.restore(key, value)
        return state

    def trigger_counts(self) -> list[tuple[int, int]]:
        """Return how many events each trigger had, and how often it ran."""
        parts = [pickle.loads(report) for report in self._exchange.hop(KeyedCommand("counts"))]
        events = [sum(numbers) for numbers in zip(*(e for e, _ in parts), strict=True)]
        runs = [sum(numbers) for numbers in zip(*(r for _, r in parts), strict=True)]
        return list(zip(events, runs, strict=True))

    def snapshot(self, iteration: int, *, whole: bool, waits: bool) -> list[SnapshotPart] | None:
        """Have each partition begin to write its rows to the store, as they are now.

        Args:
            iteration: of the version they will belong to.
            whole: all rows; else those changed since the last snapshot, where they are few.
            waits: return when they are written.

        Returns:
            What each partition has written, None as long as one is not done.

        Raises:
            LostError: a processor was lost.
        """
        command = KeyedCommand("snapshot", iteration=iteration, whole=whole, waits=waits)
        return self._parts(command)

    def poll_snapshot(self, *, waits: bool = False) -> list[SnapshotPart] | None:
        """Return what the last snapshot came to, as `snapshot` does.

        Args:
            waits: wait until it is written.
        """
        return self._parts(KeyedCommand("poll", waits=waits))

    def _parts(self, command: KeyedCommand) -> list[SnapshotPart] | None:
        parts = [pickle.loads(report) for report in self._exchange.hop(command)]
        return None if None in parts else parts

    def close(self) -> None:
        """Free the processors, unless a fork has them; may be called twice."""
        if self._closed:
            return
        self._closed = True
        with contextlib.suppress(RunError):
            self._exchange.hop(KeyedCommand("end"))
        self._exchange.close()
        self._processors.leave()


def _answers(
    count: int, parts: Sequence[tuple[NDArray[np.int64] | None, Sequence[Any]]]
) -> list[Any]:
    """Return the answers of so many calls, of which each part has those of some numbers, or all."""
    column = AnswerColumn.empty(count)
    for numbers, own in parts:
        if numbers is None:
            return list(own)
        if isinstance(own, AnswerColumn):
            column.put(numbers, own)
    answers = column.values()
    for numbers, own in parts:
        if numbers is not None and not isinstance(own, AnswerColumn):
            for number, answer in zip(numbers.tolist(), own, strict=True):
                answers[number] = answer
    return answers


def segment_groups(tables: Collection[str]) -> dict[str, str]:
    """Return the group of each table's segments: "" where there is only one table."""
    return {name: name if len(tables) > 1 else "" for name in tables}
