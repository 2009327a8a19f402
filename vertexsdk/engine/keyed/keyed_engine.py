"""A keyed program on its processors, as the driver sees it: blocks of calls in, answers out."""

from __future__ import annotations

import contextlib
import pickle
import uuid
from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.keyed._task import KeyedCommand, KeyedTask
from vertexsdk.engine.keyed.answers import Failure, decode_answers
from vertexsdk.engine.keyed.calls import Calls, stored_values
from vertexsdk.errors import RunError
from vertexsdk.program.keyed import KeyedProgram
from vertexsdk.program.keyed_state import Journal, state_in_memory
from vertexsdk.state import SegmentRef
from vertexsdk.state.address import Address
from vertexsdk.state.manifests import layers_by_partition
from vertexsdk.transport.transport import Transport


class KeyedEngine:
    """The partitions of a keyed program, until `close`.

    Args:
        program: what runs.
        transport: starts the processors.
        partitions: how many.
        address: of the store of snapshots; None for none.
        loop: to which snapshots belong.
        segments: of the snapshot to begin with; none for an empty state.

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
    ) -> None:
        self.program, self.partitions = program, partitions
        self.groups = segment_groups(program.tables)
        self._workers = transport.workers(partitions)
        self._workers.title = f"stateful class {program.name}"
        task = KeyedTask(program, partitions, uuid.uuid4().hex, address, loop, self.groups)
        try:
            self._exchange = self._workers.exchange(task)
            names = {group: name for name, group in self.groups.items()}
            layers = [
                (names[group], refs)
                for (_, group), refs in layers_by_partition(segments)
                if group in names
            ]
            self._exchange.hop(KeyedCommand("restore", segments=layers))
        except BaseException:
            self._workers.close()
            raise

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
        answers: list[Any] = [None] * len(calls)
        failures: dict[int, Failure] = {}
        for report in reports:
            numbers, own, failed = decode_answers(report)
            if numbers is None:
                answers = own
            else:
                for number, answer in zip(numbers.tolist(), own, strict=True):
                    answers[number] = answer
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

    def snapshot(self, iteration: int, *, whole: bool) -> list[SegmentRef]:
        """Have each partition write its rows to the store.

        Args:
            iteration: of the version they will belong to.
            whole: all rows; else those changed since the last snapshot, where they are few.

        Raises:
            StateError: they could not be written.
        """
        reports = self._exchange.hop(KeyedCommand("snapshot", iteration=iteration, whole=whole))
        return [ref for report in reports for ref in pickle.loads(report)]

    def close(self) -> None:
        """Free the processors; may be called twice."""
        with contextlib.suppress(RunError):
            self._exchange.hop(KeyedCommand("end"))
        self._exchange.close()
        self._workers.close()


def segment_groups(tables: Collection[str]) -> dict[str, str]:
    """Return the group of each table's segments: "" where there is only one table."""
    return {name: name if len(tables) > 1 else "" for name in tables}
