"""One partition of a keyed program: its tables, and blocks of calls that run on them.

A block is divided by table. A kernel finds the rows of all calls, Python runs the method of each in
the order of (call, item) on a local value, and the values are written when the block is over. So a
call that raises changes nothing: its value is not taken.

The items of one call may be on several partitions, and have to be taken back on all of them, with
whatever later calls have built on them. So before values are written the partitions tell each other
the first call of which an item raised. All of them then run the calls before it again, leave that
one out, and go on after it, with fewer calls at a time while such calls are many.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Sequence
from functools import cache
from itertools import repeat
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.engine.keyed._rows import CurrentRow, current_row
from vertexsdk.engine.keyed._table import KeyedTable
from vertexsdk.engine.keyed.answers import Failure, failure
from vertexsdk.engine.keyed.calls import (
    Calls,
    Values,
    join_values,
    owners_of_keys,
    python_values,
    stored_values,
    take_values,
)
from vertexsdk.program.keyed import ABSENT, Function, KeyedProgram, answered
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import PEERS, Blocks

Steps: TypeAlias = Generator[tuple[int, Any], tuple[Blocks, list[Any]], Any]
_LEAST = 64  # calls that are run together after one that raised


class _Rows(Sequence[tuple[Any, ...]]):
    """The arguments of calls of one method, as lists by parameter: no tuple for each call.

    Args:
        columns: of each parameter the values, of equal length.
    """

    def __init__(self, columns: Sequence[list[Any]]) -> None:
        self.columns = columns

    def __len__(self) -> int:
        return len(self.columns[0])

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return zip(*self.columns, strict=True)

    def __getitem__(self, rows: Any) -> Any:
        parts = [column[rows] for column in self.columns]
        return _Rows(parts) if isinstance(rows, slice) else tuple(parts)


@cache
def _calling(parameters: int) -> Function:
    """Return the loop that calls a method with so many parameters for each row.

    It is generated, as a call with arguments by name of a variable takes half as long as one with
    a tuple of them. Its lines are in this file, so that none of them is shown to a user.
    """
    names = ", ".join(f"a{k}" for k in range(parameters))
    source = f"""
def calling(body, target, current, values, places, columns, append, failed):
    for place, {names} in zip(places, *columns):
        current.value = values[place]
        try:
            append(body(target, {names}))
        except Exception as error:
            failed(error)
        else:
            values[place] = current.value
"""
    defined: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), defined)
    made: Function = defined["calling"]
    return made


class _Entries(NamedTuple):
    """What a block does to the rows of one table, in order.

    Attributes:
        methods: uint8[n].
        numbers, positions: int64[n]: the call of each, and the item of its loop.
        keys: of the rows.
        arguments: of the methods' bodies.
    """

    methods: NDArray[np.uint8]
    numbers: NDArray[np.int64]
    positions: NDArray[np.int64]
    keys: Values
    arguments: Sequence[tuple[Any, ...]]

    @classmethod
    def join(cls, parts: Sequence[_Entries]) -> _Entries:
        """Return the entries of all parts, in order of (call, item)."""
        if len(parts) == 1:
            return parts[0]
        methods, numbers, positions = (
            np.concatenate([part[k] for part in parts]) for k in range(3)
        )
        order = np.lexsort((positions, numbers))
        arguments = [values for part in parts for values in part.arguments]
        keys = take_values(join_values([part.keys for part in parts]), order)
        return cls(
            methods[order], numbers[order], positions[order], keys,
            [arguments[k] for k in order.tolist()],
        )  # fmt: skip

    def part(self, low: int, high: int) -> _Entries:
        """Return the entries of the calls low, low + 1, ... high - 1."""
        first, last = np.searchsorted(self.numbers, [low, high]).tolist()
        if (first, last) == (0, len(self.numbers)):
            return self
        keys = self.keys
        keys = (keys[0][first : last + 1], keys[1]) if isinstance(keys, tuple) else keys[first:last]
        return _Entries(
            self.methods[first:last], self.numbers[first:last], self.positions[first:last], keys,
            self.arguments[first:last],
        )  # fmt: skip


class _Outcome(NamedTuple):
    """What entries have led to.

    Attributes:
        rows, values: the different rows, and the value of each.
        numbers, answers: of the calls that have answers.
        failures: of those that raised.
    """

    rows: NDArray[np.int64]
    values: list[Any]
    numbers: NDArray[np.int64]
    answers: list[Any]
    failures: list[Failure]


class KeyedPartition:
    """The rows of one partition.

    Args:
        program: what runs.
        partition, partitions: which one of how many.

    Attributes:
        tables: the rows of each state element.
        layers: of its snapshots; none before the first.
    """

    def __init__(self, program: KeyedProgram, partition: int, partitions: int) -> None:
        self.program, self.partition, self.partitions = program, partition, partitions
        self.tables = {name: KeyedTable(spec) for name, spec in program.tables.items()}
        self._current: dict[str, CurrentRow] = {
            name: current_row(spec) for name, spec in program.tables.items()
        }
        self._object: Any = object.__new__(program.cls)
        self._object.__dict__.update(self._current)
        self._methods = list(program.methods.values())
        self.layers: dict[str, DeltaLayers] = {}

    def run(self, calls: Calls, owners: NDArray[np.int32] | None) -> Steps:
        """Run the calls of a block that are this partition's, and return their answers.

        Args:
            calls: of all partitions.
            owners: int32[n], the partition that begins each call; None where there is only one.

        Returns:
            The numbers of the calls, None for all of them, their answers, and failures.
        """
        numbers: list[NDArray[np.int64]] = []
        answers: list[Any] = []
        failures: list[Failure] = []
        entries: dict[str, list[_Entries]] = {name: [] for name in self.tables}
        sent: dict[int, list[bytes]] = {}
        for m in _different(calls.methods):
            method = self._methods[m]
            at = np.flatnonzero(calls.methods == m)
            own = slice(None) if owners is None else np.flatnonzero(owners[at] == self.partition)
            at = at[own]
            columns = [calls.arguments[m, p] for p in range(len(method.parameters))]
            if owners is not None:
                columns = [take_values(column, own) for column in columns]  # type: ignore[arg-type]
            if method.items is not None:
                one = self._expanded(m, at, columns, failures)
                if self.partitions > 1:
                    self._send(m, one, sent)
                else:
                    entries[method.table or ""].append(one)
                numbers.append(at)
                answers += [None] * len(at)
                continue
            if method.table is None:
                self._run_free(m, at, _tuples(columns, len(at)), answers, failures)
                numbers.append(at)
                continue
            arguments = _Rows([python_values(column) for column in columns])
            keys = columns[method.key_place]
            methods = np.full(len(at), m, np.uint8)
            one = _Entries(methods, at, np.zeros(len(at), np.int64), keys, arguments)
            entries[method.table].append(one)
        loops = any(self._methods[m].items for m in _different(calls.methods))
        exchanges = self.partitions > 1 and loops
        if exchanges:
            for q, blocks in sent.items():
                for block in blocks:
                    yield q, block
            received, _ = yield PEERS, len(failures)
            for _, block in received:
                self._receive(block, entries)
        joined = {name: _Entries.join(parts) for name, parts in entries.items() if parts}
        low, size = 0, len(calls)
        while low < len(calls):
            high = min(low + size, len(calls))
            outcomes = self._compute(joined, low, high)
            if exchanges:
                _, firsts = yield PEERS, self._first_failed_loop(calls, outcomes, high)
                if (first := min(firsts)) < high:
                    failed = [f for o in outcomes.values() for f in o.failures if f.number == first]
                    outcomes = self._compute(joined, low, first)
                    failures += failed
                    high, size = first + 1, max(_LEAST, 2 * (first - low))
                else:
                    size *= 2
            for name, outcome in outcomes.items():
                self.tables[name].write(outcome.rows, outcome.values)
                numbers.append(outcome.numbers)
                answers += outcome.answers
                failures += outcome.failures
            low = high
        alone = len(numbers) == 1 and len(numbers[0]) == len(calls)
        return None if alone else np.concatenate([_NONE, *numbers]), answers, failures

    def _first_failed_loop(self, calls: Calls, outcomes: dict[str, _Outcome], high: int) -> int:
        loops = (
            f.number for outcome in outcomes.values() for f in outcome.failures
            if self._methods[calls.methods[f.number]].items is not None
        )  # fmt: skip
        return min(loops, default=high)

    def _run_free(
        self, m: int, at: NDArray[np.int64], arguments: Iterable[tuple[Any, ...]],
        answers: list[Any], failures: list[Failure],
    ) -> None:  # fmt: skip
        """Run calls of a method that accesses no state."""
        method = self._methods[m]
        for number, values in zip(at.tolist(), arguments, strict=False):
            answer = None
            try:
                answer = answered(method.body(self._object, *values))
            except Exception as error:
                failures.append(failure(self.program, method, number, 0, error))
            answers.append(answer)

    def _expanded(
        self, m: int, at: NDArray[np.int64], columns: list[Values], failures: list[Failure]
    ) -> _Entries:
        """Return an entry for each item that calls of a loop run over."""
        method = self._methods[m]
        assert method.items is not None
        assert method.table is not None
        convert = self.program.tables[method.table].convert_key
        live = [p.name in method.live for p in method.parameters]
        numbers, positions = list[int](), list[int]()
        keys, arguments = list[Any](), list[tuple[Any, ...]]()
        for number, values in zip(at.tolist(), _tuples(columns, len(at)), strict=False):
            try:
                items = [convert(item) for item in method.items(self._object, *values)]
            except Exception as error:
                failures.append(failure(self.program, method, number, 0, error))
                continue
            seen = tuple(v if reads else None for v, reads in zip(values, live, strict=True))
            numbers += repeat(number, len(items))
            positions += range(len(items))
            keys += items
            arguments += [(*seen, item) for item in items]
        return _Entries(
            np.full(len(keys), m, np.uint8), np.array(numbers, np.int64),
            np.array(positions, np.int64),
            stored_values(self.program.tables[method.table].key, keys), arguments,
        )  # fmt: skip

    def _send(self, m: int, entries: _Entries, sent: dict[int, list[bytes]]) -> None:
        """Encode the entries of a loop for the owners of their keys."""
        method = self._methods[m]
        owners = owners_of_keys(entries.keys, self.partitions)
        for q in np.unique(owners).tolist():
            rows = np.flatnonzero(owners == q)
            block = Calls(entries.methods[rows], {(m, 0): take_values(entries.keys, rows)})
            columns = block.columns()
            columns["number"], columns["position"] = entries.numbers[rows], entries.positions[rows]
            chosen = rows.tolist()
            for p, parameter in enumerate(method.parameters):
                if parameter.name in method.live:
                    values = [entries.arguments[row][p] for row in chosen]
                    one = Calls(_NO_METHODS, {(m, p + 1): stored_values(parameter.kind, values)})
                    columns |= {n: c for n, c in one.columns().items() if n != "method"}
            sent.setdefault(q, []).append(encode_bytes(columns))

    def _receive(self, block: bytes, entries: dict[str, list[_Entries]]) -> None:
        columns, _ = decode(block)
        calls = Calls.from_columns(
            {n: c for n, c in columns.items() if n not in ("number", "position")}
        )
        m = int(calls.methods[0])
        method, keys = self._methods[m], calls.arguments[m, 0]
        values: list[Iterable[Any]] = [
            python_values(calls.arguments[m, p + 1])
            if (m, p + 1) in calls.arguments
            else repeat(None, len(calls))
            for p in range(len(method.parameters))
        ]
        arguments = list(zip(*values, python_values(keys), strict=True))
        one = _Entries(calls.methods, columns["number"], columns["position"], keys, arguments)
        entries[method.table or ""].append(one)

    def _compute(self, joined: dict[str, _Entries], low: int, high: int) -> dict[str, _Outcome]:
        """Run the calls from low to high, without writing to the tables."""
        return {
            name: self._compute_table(name, entries.part(low, high))
            for name, entries in joined.items()
        }

    def _compute_table(self, name: str, entries: _Entries) -> _Outcome:
        table = self.tables[name]
        present = _different(entries.methods)
        add = np.array([method.writes for method in self._methods], np.bool_)[entries.methods]
        rows, places = table.find(entries.keys, add)
        values = [*table.read(rows), ABSENT]
        bodies: Iterable[Any]
        if len(present) == 1:
            bodies = repeat(self._methods[present[0]].body)
        else:
            bodies = [self._methods[m].body for m in entries.methods.tolist()]
        failures: list[Failure] = []
        if any(self._methods[m].items is not None for m in present):
            numbers, answers = self._run_items(name, entries, values, places, failures)
        else:
            numbers = entries.numbers
            answers = self._run_rows(name, entries, bodies, values, places, failures)
        if not add.any():  # nothing can have changed
            rows, values = rows[:0], [ABSENT]
        del values[-1]
        return _Outcome(rows, values, numbers, answers, failures)

    def _run_rows(
        self, name: str, entries: _Entries, bodies: Iterable[Any], values: list[Any],
        places: NDArray[np.int64], failures: list[Failure],
    ) -> list[Any]:  # fmt: skip
        """Run methods that are not loops; return an answer for each entry."""
        current, target = self._current[name], self._object
        answers: list[Any] = []
        append = answers.append

        def failed(error: Exception) -> None:
            k = len(answers)
            method = self._methods[entries.methods[k]]
            failures.append(failure(self.program, method, int(entries.numbers[k]), 0, error))
            append(None)

        arguments = entries.arguments
        if isinstance(arguments, _Rows) and current.spec.single and len(arguments):
            body = self._methods[entries.methods[0]].body
            calling = _calling(len(arguments.columns))
            calling(
                body, target, current, values, places.tolist(), arguments.columns, append, failed
            )
            return answers
        for place, body, given in zip(places.tolist(), bodies, arguments, strict=False):
            if not current.spec.single:
                current = self._renewed(name)
            current.value = values[place]
            try:
                append(answered(body(target, *given)))
            except Exception as error:
                failed(error)
            else:
                values[place] = current.value
        return answers

    def _renewed(self, name: str) -> CurrentRow:
        """Have the next call see a row of its own: what an answer has in a list is of its call."""
        current = self._current[name] = self._object.__dict__[name] = CurrentRow(
            self.program.tables[name]
        )
        return current

    def _run_items(
        self, name: str, entries: _Entries, values: list[Any], places: NDArray[np.int64],
        failures: list[Failure],
    ) -> tuple[NDArray[np.int64], list[Any]]:  # fmt: skip
        """Run loops, perhaps among other methods; return the numbers and answers of the others."""
        current, target = self._current[name], self._object
        numbers, answers = list[int](), list[Any]()
        undo: list[tuple[int, Any]] = []
        running = failed = -1
        columns = (entries.methods, entries.numbers, entries.positions, places)
        for m, number, position, place, arguments in zip(
            *(column.tolist() for column in columns), entries.arguments, strict=True
        ):
            if number != running:
                running = number
                undo.clear()
            if number == failed:
                continue
            method = self._methods[m]
            if not current.spec.single:
                current = self._renewed(name)
            current.value = before = values[place]
            try:
                answer = answered(method.body(target, *arguments))
            except Exception as error:
                failures.append(failure(self.program, method, number, position, error))
                failed, answer = number, None
                for at, value in reversed(undo):
                    values[at] = value
            else:
                undo.append((place, before))
                values[place] = current.value
            if method.items is None:
                numbers.append(number)
                answers.append(answer)
        return np.array(numbers, np.int64), answers

    def lookup(self, name: str, keys: Values) -> tuple[NDArray[np.int64], list[Any]]:
        """Return which of some keys have a row here, and the value of each."""
        mine = np.flatnonzero(owners_of_keys(keys, self.partitions) == self.partition)
        table, wanted = self.tables[name], take_values(keys, mine)
        rows, places = table.find(wanted, np.zeros(len(mine), np.bool_))
        values = [*table.read(rows), ABSENT]
        there = [(k, values[p]) for k, p in zip(mine.tolist(), places.tolist(), strict=True)]
        there = [(k, value) for k, value in there if value is not ABSENT]
        return np.array([k for k, _ in there], np.int64), [value for _, value in there]

    def restore(self, name: str, columns: dict[str, Column]) -> None:
        """Add the rows of a stored table that are this partition's."""
        spec = self.program.tables[name]
        keys: Values = columns["id"]
        if spec.key == "str":
            keys = columns["name.offsets"], columns["name.bytes"]
        mine = owners_of_keys(keys, self.partitions) == self.partition
        self.tables[name].restore(columns, mine)


_NONE, _NO_METHODS = np.empty(0, np.int64), np.empty(0, np.uint8)


def _different(methods: NDArray[np.uint8]) -> list[int]:
    """Return the methods that calls have."""
    found: list[int] = np.flatnonzero(np.bincount(methods)).tolist()
    return found


def _tuples(columns: Sequence[Values], count: int) -> Sequence[tuple[Any, ...]]:
    """Return the arguments of each call."""
    if not columns:
        return [()] * count
    return list(zip(*map(python_values, columns), strict=True))
