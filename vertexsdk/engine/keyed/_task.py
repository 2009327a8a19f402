"""The task which carries out commands on a partition of a keyed program, where that is."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.keyed._capture import PartitionSnapshot, TableCapture
from vertexsdk.engine.keyed._partition import KeyedPartition
from vertexsdk.engine.keyed._trigger_partition import TriggerPartition
from vertexsdk.engine.keyed.answers import encode_answers
from vertexsdk.engine.keyed.calls import Calls
from vertexsdk.errors import LostError
from vertexsdk.program.keyed import DTYPES, KINDS, NUMBERS, KeyedProgram, TableSpec
from vertexsdk.program.trigger_program import TriggerProgram
from vertexsdk.state import SegmentRef, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.reading import TOMBSTONE, overlay
from vertexsdk.state.stored_columns import Described, described_text
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import DRIVER, Blocks

_partitions: dict[tuple[str, int], KeyedPartition] = {}


@dataclass(frozen=True)
class KeyedCommand:
    """What every partition is to do.

    Attributes:
        kind: run calls, begin a snapshot, tell what became of it, look up keys, return all rows,
            count what triggers did, read a snapshot, be a copy of other partitions, or end.
        block: of "run" the calls, of "lookup" the keys, encoded.
        table: of "lookup" and "rows".
        iteration: of the version that a snapshot belongs to.
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
        key: of the partitions in each process.
        address: of the store; None where there are no snapshots.
        loop: to which snapshots belong.
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
