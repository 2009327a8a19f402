"""A keyed program on its processors, as the driver sees it: blocks of calls in, answers out."""

from __future__ import annotations

import contextlib
import copy
import pickle
import threading
import uuid
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.keyed.answers import AnswerColumn, Failure, decode_answers, encode_answers
from vertexsdk.engine.keyed.calls import Calls, stored_values
from vertexsdk.engine.keyed.capture import PartitionSnapshot
from vertexsdk.engine.keyed.partition import KeyedPartition
from vertexsdk.engine.keyed.table import TableCapture
from vertexsdk.engine.keyed.trigger_partition import TriggerPartition
from vertexsdk.engine.snapshots import SnapshotPart
from vertexsdk.errors import LostError, RunError
from vertexsdk.program.keyed import DTYPES, KINDS, NUMBERS, KeyedProgram, TableSpec
from vertexsdk.program.keyed_state import Journal, RowsState, state_in_memory
from vertexsdk.program.trigger_program import TriggerProgram
from vertexsdk.state import SegmentRef, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.manifests import layers_by_partition
from vertexsdk.state.reading import TOMBSTONE, overlay
from vertexsdk.state.stored_columns import Described, described_text
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import DRIVER, Blocks, Transport, Workers


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
        address: address of the store of snapshots; None for none.
        loop: the loop to which snapshots belong.
        segments: segments of the snapshot to begin with; none for an empty state.
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
        answers = _answers(len(calls), [(numbers, values) for numbers, values, _ in parts])
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
            iteration: iteration of the version they will belong to.
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
    for numbers, values in parts:
        if numbers is None:
            return list(values)
        if isinstance(values, AnswerColumn):
            column.put(numbers, values)
    answers = column.values()
    for numbers, values in parts:
        if numbers is not None and not isinstance(values, AnswerColumn):
            for number, answer in zip(numbers.tolist(), values, strict=True):
                answers[number] = answer
    return answers


def segment_groups(tables: Collection[str]) -> dict[str, str]:
    """Return the group of each table's segments: "" where there is only one table."""
    return {name: name if len(tables) > 1 else "" for name in tables}


_partitions: dict[tuple[str, int], KeyedPartition] = {}


@dataclass(frozen=True)
class KeyedCommand:
    """The work for every partition.

    Attributes:
        kind: run calls, begin a snapshot, tell what became of it, look up keys, return all rows,
            count what triggers did, read a snapshot, be a copy of other partitions, or end.
        block: the calls of "run" or the keys of "lookup", encoded.
        table: the table of "lookup" and "rows".
        iteration: iteration of the version that a snapshot belongs to.
        whole: write all rows, not those alone that have changed.
        waits: a snapshot is in the store when it is reported.
        segments: to be read, the layers of each table and partition; of "restore".
        partitions: that wrote them.
        source: the key of the partitions to copy; of "fork".
    """

    kind: Literal["run", "snapshot", "poll", "lookup", "rows", "counts", "restore", "fork", "end"]
    block: bytes = b""
    table: str = ""
    iteration: int = 0
    whole: bool = False
    waits: bool = False
    segments: Sequence[tuple[str, Sequence[SegmentRef]]] = ()
    partitions: int = 1
    source: str = ""


class KeyedTask:
    """The callable which an `Exchange` runs.

    Args:
        program: what runs.
        partitions: how many there are.
        key: key of the partitions in each process.
        address: address of the store; None where there are no snapshots.
        loop: the loop to which snapshots belong.
        groups: the group of each table's segments.
    """

    def __init__(
        self, program: KeyedProgram, partitions: int, key: str, address: Address | None, loop: str,
        groups: Mapping[str, str],
    ) -> None:  # fmt: skip
        self.program, self.partitions, self.key = program, partitions, key
        self.address, self.loop, self.groups = address, loop, groups

    def __call__(
        self, partition: int, command: KeyedCommand, blocks: Blocks
    ) -> Iterator[tuple[int, Any]]:
        place = self.key, partition
        if command.kind == "end":
            _partitions.pop(place, None)
            return
        if command.kind == "restore":
            _partitions[place] = self._empty(partition)
            self._restore(_partitions[place], command)
            return
        if command.kind == "fork" and (command.source, partition) in _partitions:
            _partitions[place] = _partitions[command.source, partition].fork()
            return
        if place not in _partitions:
            raise LostError("a processor was lost, and the rows that it held")
        part = _partitions[place]
        if command.kind == "run":
            columns, _ = decode(command.block)
            owners = columns.pop("owner", None)
            numbers, answers, failures = yield from part.run(Calls.from_columns(columns), owners)
            yield DRIVER, encode_answers(numbers, answers, failures)
        elif command.kind == "rows":
            yield DRIVER, pickle.dumps(part.all_rows(command.table))
        elif command.kind == "counts":
            assert isinstance(part, TriggerPartition)
            yield DRIVER, pickle.dumps((part.events.counts, part.runs))
        elif command.kind == "lookup":
            columns, _ = decode(command.block)
            keys = Calls.from_columns(columns).arguments[0, 0]
            rows, values = part.lookup(command.table, keys)
            yield (
                DRIVER,
                encode_bytes({"row": rows, "value": np.frombuffer(pickle.dumps(values), np.uint8)}),
            )
        else:
            if command.kind == "snapshot":
                self._begin_snapshot(part, command)
            assert part.snapshot is not None
            yield DRIVER, pickle.dumps(part.snapshot.part(waits=command.waits))

    def _empty(self, partition: int) -> KeyedPartition:
        """Return a partition without rows."""
        if isinstance(self.program, TriggerProgram):
            return TriggerPartition(self.program, partition, self.partitions)
        return KeyedPartition(self.program, partition, self.partitions)

    def _begin_snapshot(self, part: KeyedPartition, command: KeyedCommand) -> None:
        """Begin to write what a snapshot has of a partition."""
        if part.snapshot is not None:  # one that the driver has dropped
            part.snapshot.part(waits=True)
        tables = {}
        for name, table in part.tables.items():
            if table.spec.where == "everywhere" and part.partition:
                continue
            table.sync()
            layers = None if command.whole else part.layers.get(name)
            layers = layers and layers.add(table.changed, len(table))
            part.layers[name] = layers or DeltaLayers()
            tables[name] = table, layers is None

        def write(captures: Mapping[str, TableCapture]) -> list[SegmentRef]:
            assert self.address is not None
            refs = []
            with open_store(self.address, create=False) as store:
                for name, capture in captures.items():
                    columns = capture.result()
                    kind: Literal["base", "delta"] = "base" if capture.whole else "delta"
                    if capture.whole or len(columns["id"]):
                        refs.append(
                            store.put_segment(
                                self.loop, part.partition, command.iteration, kind, columns,
                                group=self.groups[name],
                            )
                        )  # fmt: skip
            return refs

        part.snapshot = PartitionSnapshot(tables, write, waits=command.waits)

    def _restore(self, part: KeyedPartition, command: KeyedCommand) -> None:
        """Read a partition's rows of a snapshot that any number of partitions have written."""
        if not command.segments:
            return
        assert self.address is not None
        with open_store(self.address, create=False) as store:
            for name, refs in command.segments:
                source = refs[0].key.partition
                if part.has_rows_of(name, source, command.partitions):
                    described = described_table(self.program.tables[name])
                    layers = [store.segment(ref, described=described) for ref in refs]
                    part.restore(name, overlay(layers))


def described_table(spec: TableSpec) -> dict[str, Described]:
    """Return the columns that a stored table has."""
    columns = {"id": Described(np.int64), TOMBSTONE: Described(np.bool_, required=False)}
    if spec.key == "str":
        columns |= described_text("name")
    objects = {kind: of for kind, of in KINDS.items() if kind not in NUMBERS}
    return columns | {
        n: Described(DTYPES[kind], objects=objects.get(kind)) for n, kind in spec.fields.items()
    }
