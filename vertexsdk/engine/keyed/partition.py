"""One partition of a keyed program: its state elements, and blocks of calls that run on them.

A call is a row that goes from one task element to the next: to the owner of the next key, with the
variables that are still needed. The task elements of one level run for all calls of a block, in the
order of (call, item), before those of the next one. On a map that is divided by key, a kernel finds
the rows of all calls. Where the task elements compile, another one runs them on the columns of the
table (`element_kernels`); else Python runs each on a local value, and the values are written
when the level is over.

A call that raises changes nothing. Where it has changed nothing before, its value is not taken.
Else others may have built on what it did, on all partitions: these tell each other the first such
call, take back what the block did, run the calls before it again, leave that one out, and continue
after it, with fewer calls at a time while such calls are many.
"""

from __future__ import annotations

import pickle
from collections.abc import Generator, Iterator, Sequence
from contextlib import suppress
from functools import cache
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.arrays.arrow_table import Column
from vertexsdk.arrays.packed_strings import PackedBytes
from vertexsdk.arrays.split_words import split_words
from vertexsdk.compile.element_kernels import BlockColumns, ElementKernel
from vertexsdk.engine.keyed._entries import Arguments, Entries, Growing
from vertexsdk.engine.keyed.answers import AnswerColumn, Failure, different, failure, is_interrupt
from vertexsdk.engine.keyed.calls import (
    Calls,
    Values,
    number_of_values,
    owners_of_keys,
    python_values,
    stored_values,
    take_values,
)
from vertexsdk.engine.keyed.capture import PartitionSnapshot
from vertexsdk.engine.keyed.table import KeyedTable, StoredTable, stored_keys
from vertexsdk.errors import InputError, ProgramError
from vertexsdk.program.keyed import (
    ABSENT,
    DEFAULTS,
    DTYPES,
    KINDS,
    Each,
    Function,
    Items,
    KeyedMethod,
    KeyedProgram,
    MapAccess,
    Onward,
    TableSpec,
    TaskElement,
    answered,
    to_int,
)
from vertexsdk.program.keyed_state import Journal, as_seen, settled
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import PEERS, Blocks

Steps: TypeAlias = Generator[tuple[int, Any], tuple[Blocks, list[Any]], Any]
_LEAST = 64  # calls that are run together after one that raised
_SMALL = 256  # calls for which Python is as fast as a kernel
_MANY = 20_000  # calls after which task elements are compiled
_STOPS = 16  # calls of a block that Python runs, and one of 64, before it runs the rest
_ANSWER, _NOWHERE = -1, -2  # where a row's result goes, if not to a partition
_COPY = -3  # in its place: another partition continues with the same row


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
        except BaseException as error:
            failed(error)
        else:
            values[place] = current.value
"""
    defined: dict[str, Any] = {}
    exec(compile(source, __file__, "exec"), defined)
    made: Function = defined["calling"]
    return made


class _Attempt:
    """The results so far of running some calls of a block.

    Attributes:
        pending: by level and state element, the rows that task elements will run for.
        growing: by task element, the rows that continue after this level.
        waiting: by call, the task element that takes its items' results, its arguments, and how
            many results there will be.
        results: by call, (item, result) pairs.
        remote_results: by partition, (call, item, task element, result), for others that gather.
        words: as `growing`, of rows whose keys are packed.
        out: by partition, rows that go there.
        numbers, answers: those of the calls that have answers, in parts.
        failures: the calls that raised.
        undo: keys of tables, and what their rows were (`KeyedTable.saved`).
        first: the first call that raised after it had changed something.
    """

    def __init__(self, high: int) -> None:
        self.pending: dict[int, dict[str | None, list[Entries]]] = {}
        self.growing: dict[int, Growing] = {}
        self.words: list[Entries] = []
        self.waiting: dict[int, tuple[int, tuple[Any, ...], int]] = {}
        self.results: dict[int, list[tuple[int, Any]]] = {}
        self.remote_results: dict[int, list[tuple[int, int, int, Any]]] = {}
        self.out: dict[int, list[Entries]] = {}
        self.numbers: list[NDArray[np.int64]] = []
        self.answers: list[Sequence[Any]] = []
        self.failures: list[Failure] = []
        self.undo: list[tuple[KeyedTable, Values, Any]] = []
        self.first = high


class KeyedPartition:
    """The rows of one partition.

    Args:
        program: what runs.
        partition, partitions: which one of how many.

    Attributes:
        tables: the rows of each state element.
        layers: layers of its snapshots; none before the first.
        snapshot: the newest that was begun.
    """

    def __init__(self, program: KeyedProgram, partition: int, partitions: int) -> None:
        self.program, self.partition, self.partitions = program, partition, partitions
        self._object: Any = object.__new__(program.cls)
        self._journal = Journal()
        self._journal.running = True
        self._object.__dict__["_journal"] = self._journal
        self.tables: dict[str, KeyedTable] = {}
        self._current: dict[str, CurrentRow] = {}
        for name, spec in program.tables.items():
            empty = KeyedTable(spec) if spec.indexed else StoredTable(spec, self._journal)
            self._add_table(name, empty)
        self._methods = list(program.methods.values())
        self._elements: list[TaskElement] = []
        self._of: list[KeyedMethod] = []  # the method of each task element
        self._base: list[int] = []  # the first task element of that
        self._begin: list[int] = []  # the first task element of each method
        for method in self._methods:
            self._begin.append(len(self._elements))
            self._elements += method.elements
            self._of += [method] * len(method.elements)
            self._base += [self._begin[-1]] * len(method.elements)
        self._writes = np.array([e.writes for e in self._elements], np.bool_)
        self._kernels = self._make_kernels()
        self.layers: dict[str, DeltaLayers] = {}
        self.snapshot: PartitionSnapshot | None = None

    def _make_kernels(self) -> dict[int, ElementKernel]:
        """Return the kernel of each task element that can have one: one for a level and table."""
        together: dict[tuple[int, str], list[int]] = {}
        for e, element in enumerate(self._elements if self.program.compiled else ()):
            if element.text is not None and element.table is not None:
                together.setdefault((element.level, element.table), []).append(e)
        kernels: dict[int, ElementKernel] = {}
        for (_, table), elements in together.items():
            parts = {e: self._elements[e] for e in elements}
            kernel = ElementKernel(self.program.tables[table], parts, self.program.cls)
            kernels |= dict.fromkeys(elements, kernel)
        return kernels

    def _add_table(self, name: str, table: KeyedTable) -> None:
        """Have a table, which methods see as the state element of that name."""
        self.tables[name] = table
        if isinstance(table, StoredTable):
            self._object.__dict__[name] = as_seen(table.spec, table.state)
        else:
            self._current[name] = current_row(table.spec)
            self._object.__dict__[name] = as_seen(table.spec, self._current[name])

    def run(self, calls: Calls, owners: NDArray[np.int32] | None) -> Steps:
        """Run the calls of a block that are this partition's, and return their answers.

        Args:
            calls: the calls of all partitions.
            owners: int32[n], the partition that begins each call; None where there is only one.

        Returns:
            The numbers of the calls, None for all of them, their answers, and failures.
        """
        begin = [self._begun(m, calls, owners) for m in different(calls.methods)]
        serial = np.array([bool(method.serial) for method in self._methods], np.bool_)
        ends = np.flatnonzero(serial[calls.methods])  # calls that run by themselves
        numbers, answers = list[NDArray[np.int64]](), list[Sequence[Any]]()
        failures = list[Failure]()
        low, size = 0, len(calls)
        while low < len(calls):
            high = min(low + size, len(calls))
            if len(ends):
                following = ends[np.searchsorted(ends, low) :][:1].tolist()
                if following:
                    high = min(high, following[0] if following[0] > low else low + 1)
            attempt = yield from self._attempt(calls, begin, low, high)
            if attempt.first < high:
                first = attempt.first
                failures += [f for f in attempt.failures if f.number == first]
                high, size = first + 1, max(_LEAST, 2 * (first - low))
                attempt = yield from self._attempt(calls, begin, low, first)
            else:
                size *= 2
            numbers += attempt.numbers
            answers += attempt.answers
            failures += attempt.failures
            low = high
        if len(numbers) == 1:
            alone = len(numbers[0]) == len(calls)
            return None if alone else numbers[0], answers[0], failures
        flat = [answer for part in answers for answer in part]
        return np.concatenate([_NONE, *numbers]), flat, failures

    def _begun(self, m: int, calls: Calls, owners: NDArray[np.int32] | None) -> Entries:
        """Return the first rows of this partition's calls of a method."""
        method, at = self._methods[m], np.flatnonzero(calls.methods == m)
        columns = [calls.arguments[m, p] for p in range(len(method.parameters))]
        if owners is not None:
            mine = np.flatnonzero(owners[at] == self.partition)
            at = at[mine]
            columns = [take_values(column, mine) for column in columns]
        keys = columns[method.key_place] if method.key_place >= 0 else None
        return Entries.of_element(
            self._begin[m], at, np.zeros(len(at), np.int64), np.full(len(at), _ANSWER), keys,
            Arguments(columns),
        )  # fmt: skip

    def _attempt(self, calls: Calls, begin: Sequence[Entries], low: int, high: int) -> Steps:
        """Run the calls low, low + 1, ... high - 1; take back all of it if one has to be left out.

        Returns:
            What it led to, an `_Attempt`.
        """
        attempt = _Attempt(high)
        methods = [self._methods[m] for m in different(calls.methods[low:high])]
        present = [e for method in methods for e in method.elements]
        spoils = any(not e.alone for e in present)
        for entries in begin:
            part = entries.calls(low, high)
            if len(part.numbers):
                self._add(attempt, int(part.elements[0]), part)
        for level in sorted({e.level for e in present}):
            self._gather(attempt, level)
            for table, parts in attempt.pending.pop(level, {}).items():
                self._run_level(attempt, table, Entries.join(parts), undo=spoils)
            self._send(attempt)
            goes_on = any(e.level == level and (e.item or not e.last) for e in present)
            if self.partitions > 1 and goes_on:
                for q, block in self._blocks(attempt):
                    yield q, block
                received, _ = yield PEERS, 0
                for _, block in received:
                    self._receive(attempt, block)
        if spoils:
            if self.partitions > 1:
                _, firsts = yield PEERS, attempt.first
                attempt.first = min(firsts)
            if attempt.first < high:
                self._journal.undo(0)
                for table, keys, saved in reversed(attempt.undo):
                    table.put_back(keys, saved)
        self._journal.clear()
        return attempt

    def _add(self, attempt: _Attempt, e: int, entries: Entries) -> None:
        """Have the rows wait for the level of their task element."""
        element = self._elements[e]
        tables = attempt.pending.setdefault(element.level, {})
        tables.setdefault(element.table, []).append(entries)

    def _gather(self, attempt: _Attempt, level: int) -> None:
        """Continue the calls whose items all have results."""
        ready: dict[int, Growing] = {}
        for number, (e, values, count) in list(attempt.waiting.items()):
            if self._elements[e].level != level:
                continue
            del attempt.waiting[number]
            results = attempt.results.pop(number, [])
            if len(results) == count:  # else an item raised
                results.sort(key=lambda pair: pair[0])
                values = (*values, [value for _, value in results if value is not ABSENT])
                ready.setdefault(e, Growing()).add(number, 0, _ANSWER, None, values)
        for e, growing in ready.items():
            entries = growing.entries(e, None)
            order = np.argsort(entries.numbers, kind="stable")
            self._add(attempt, e, entries.take(order))

    # Running

    def _run_level(
        self, attempt: _Attempt, table: str | None, entries: Entries, *, undo: bool
    ) -> None:
        """Run the task elements of one level that access one state element."""
        spec = self.program.tables.get(table or "")
        if table is None and self._run_words(attempt, entries):
            return
        if table is None or spec is None or not spec.indexed:
            results = self._run_batch(entries)
            if results is None:
                results = self._run_rows(attempt, entries)
            self._finish(attempt, entries, results)
            return
        sees_all = np.array([e.whole for e in self._elements], np.bool_)[entries.elements]
        first = 0
        for at in [*np.flatnonzero(sees_all).tolist(), len(entries.numbers)]:
            if first < at:
                part = entries.rows(first, at)
                self._finish(attempt, part, self._run_indexed(attempt, table, part, undo=undo))
            if at < len(entries.numbers):  # sees all rows as they are then
                part = entries.rows(at, at + 1)
                seen = self._object.__dict__[table]
                self._object.__dict__[table] = as_seen(spec, self.tables[table].all_rows())
                self._finish(attempt, part, self._run_rows(attempt, part))
                self._object.__dict__[table] = seen
            first = at + 1

    def _failed(self, attempt: _Attempt, entries: Entries, k: int, error: BaseException) -> None:
        if is_interrupt(error):
            raise error
        e, number = int(entries.elements[k]), int(entries.numbers[k])
        self._fail(attempt, e, number, int(entries.positions[k]), error)

    def _fail(
        self, attempt: _Attempt, e: int, number: int, position: int, error: BaseException
    ) -> None:
        one = failure(self.program, self._of[e], number, position, error)
        attempt.failures.append(one)
        if not self._elements[e].alone:
            attempt.first = min(attempt.first, number)

    def _run_batch(self, entries: Entries) -> Sequence[Any] | None:
        """Run the calls of one method of a state element together; None where they cannot be."""
        element = self._elements[int(entries.elements[0])]
        if element.batch is None or element.table is None or len(entries.arguments) > 1:
            return None
        name, (key, *places), answers = element.batch
        (arguments,) = entries.alone().arguments.values()
        table, mark = self.tables[element.table], self._journal.mark()
        assert isinstance(table, StoredTable)
        keys = arguments.values(key)
        columns = [_batch_column(arguments.columns[p]) for p in places]
        try:
            results = getattr(table.state, name)(keys, *columns)
        except Exception:  # by themselves the calls say which of them does not work
            self._journal.undo(mark)
            return None
        return results if answers and results is not None else AnswerColumn.empty(len(keys))

    def _run_rows(self, attempt: _Attempt, entries: Entries) -> list[Any]:
        """Run task elements whose state is in memory as objects, or that have none."""
        results: list[Any] = []
        target, journal, elements = self._object, self._journal, self._elements
        for e, arguments in zip(entries.elements.tolist(), entries.tuples(), strict=True):
            mark = journal.mark()
            element = elements[e]
            try:
                result = element.body(target, *arguments)
                results.append(settled(result) if element.whole else answered(result))
            except BaseException as error:
                journal.undo(mark)
                self._failed(attempt, entries, len(results), error)
                results.append(_FAILED)
        return results

    def _run_indexed(
        self, attempt: _Attempt, name: str, entries: Entries, *, undo: bool
    ) -> Sequence[Any]:
        """Run task elements on the rows of a table."""
        table, add = self.tables[name], self._writes[entries.elements]
        rows = table.locate(entries.keys, add)
        if undo and add.any():
            changing = table.different(rows if add.all() else rows[add])[0]
            attempt.undo.append((table, table.keys(changing), table.saved(changing)))
        kernel = self._kernel_of(entries)
        if kernel is not None:
            return self._run_compiled(attempt, name, entries, rows, kernel)
        return self._run_interpreted(attempt, name, entries, rows)

    def _kernel_of(self, entries: Entries) -> ElementKernel | None:
        """Return the kernel that runs task elements; None where Python does."""
        kernel = self._kernels.get(int(entries.elements[0]))
        if kernel is None or not kernel.elements.issuperset(different(entries.elements)):
            return None
        require = self.program.compiled == "require"
        kernel.calls += len(entries.numbers)
        few = not kernel.compiled and kernel.calls < _MANY
        if not require and (few or len(entries.numbers) < _SMALL):
            return None
        if kernel.ready(waits=require):
            return kernel
        if require:
            raise ProgramError(f"{self.program.name} was not compiled: {kernel.failure}")
        return None

    def _run_compiled(
        self, attempt: _Attempt, name: str, entries: Entries, rows: NDArray[np.int64],
        kernel: ElementKernel,
    ) -> Sequence[Any]:  # fmt: skip
        """Run task elements by their kernel, and calls at which that stops by Python."""
        table, n = self.tables[name], len(rows)
        constants = kernel.constants()
        arguments: dict[tuple[int, int], NDArray[Any]] = {}
        for e, p, kind in kernel.arguments:
            column: NDArray[Any] | None = np.empty(0, DTYPES[kind])
            if e in entries.arguments:
                column = entries.arguments[e].array(p, kind)
            if column is not None:
                arguments[e, p] = column
        if constants is None or len(arguments) < len(kernel.arguments):
            return self._run_interpreted(attempt, name, entries, rows)
        answers = AnswerColumn.empty(n)
        by_python: list[tuple[int, Any]] = []
        low, left = 0, _STOPS + n // 64
        while low < n and left:
            with table.changing(rows[low:]) as (flags, fields):
                block = BlockColumns(
                    entries.elements,
                    entries.places,
                    rows,
                    flags,
                    fields,
                    arguments,
                    *answers.arrays(),
                )
                stop = kernel.run(block, low, n, constants)
            if stop < n:
                one = entries.rows(stop, stop + 1)
                (result,) = self._run_interpreted(attempt, name, one, rows[stop : stop + 1])
                by_python.append((stop, result))
                left -= 1
            low = stop + 1
        if low < n or by_python:
            results = answers.values()
            for place, result in by_python:
                results[place] = result
            if low < n:  # most of them stop
                rest = entries.rows(low, n)
                results[low:] = self._run_interpreted(attempt, name, rest, rows[low:])
            return results
        return answers

    def _run_interpreted(
        self, attempt: _Attempt, name: str, entries: Entries, located: NDArray[np.int64]
    ) -> list[Any]:
        """Run task elements by Python on the values of rows, which are written at the end."""
        table, current, target = self.tables[name], self._current[name], self._object
        rows, places = table.different(located)
        values = [*table.read(rows), ABSENT]
        results: list[Any] = []
        append = results.append

        def failed(error: BaseException) -> None:
            self._failed(attempt, entries, len(results), error)
            append(_FAILED)

        if len(entries.arguments) == 1 and current.spec.single:
            columns = entries.columns(e := int(entries.elements[0]))
            calling = _calling(len(columns))
            body = self._elements[e].body
            calling(body, target, current, values, places.tolist(), columns, append, failed)
        else:
            bodies = [e.body for e in self._elements]
            for place, e, given in zip(
                places.tolist(), entries.elements.tolist(), entries.tuples(), strict=True
            ):
                if not current.spec.single:
                    current = self._renewed(name)
                current.value = values[place]
                try:
                    append(answered(bodies[e](target, *given)))
                except BaseException as error:
                    failed(error)
                else:
                    values[place] = current.value
        if self._writes[entries.elements].any():
            del values[-1]
            table.write(rows, values)
        return results

    def _renewed(self, name: str) -> CurrentRow:
        """Have the next call see a row of its own: what an answer has in a list is of its call."""
        current = self._current[name] = self._object.__dict__[name] = CurrentRow(
            self.program.tables[name]
        )
        return current

    # Where results go

    def _finish(self, attempt: _Attempt, entries: Entries, results: Sequence[Any]) -> None:
        """Keep answers, and pass rows on."""
        present = [self._elements[e] for e in different(entries.elements)]
        if all(e.last for e in present) and (entries.homes <= _NOWHERE).all():
            return
        if all(e.last and not e.item and e.send != "all" for e in present):
            attempt.numbers.append(entries.numbers)
            if attempt.failures:
                results = [None if result is _FAILED else result for result in results]
            attempt.answers.append(results)
            return
        numbers, answers = list[int](), list[Any]()
        columns = (entries.elements, entries.numbers, entries.positions, entries.homes)
        for e, number, position, home, result in zip(
            *(column.tolist() for column in columns), results, strict=True
        ):
            kind = type(result)
            if home == _COPY:
                continue
            if kind is Onward:
                self._onward(attempt, e, number, position, home, result)
            elif kind is Each or kind is Items:
                self._to_items(attempt, e, number, result, numbers, answers)
            elif home == _ANSWER:
                numbers.append(number)
                answers.append(None if result is _FAILED else result)
            elif home != _NOWHERE and result is not _FAILED:
                self._result(attempt, e, number, position, home, result)
        attempt.numbers.append(np.array(numbers, np.int64))
        attempt.answers.append(answers)

    def _result(
        self, attempt: _Attempt, e: int, number: int, position: int, home: int, value: Any
    ) -> None:
        """Have a result of an item, or of one partition, go to where they are gathered."""
        if home == self.partition:
            attempt.results.setdefault(number, []).append((position, value))
        else:
            attempt.remote_results.setdefault(home, []).append((number, position, e, value))

    def _onward(
        self, attempt: _Attempt, e: int, number: int, position: int, home: int, to: Onward
    ) -> None:
        place = self._base[e] + to.element
        growing = attempt.growing.setdefault(place, Growing())
        growing.add(number, position, home, to.key, to.values)

    def _to_items(
        self, attempt: _Attempt, e: int, number: int, each: Each | Items, numbers: list[int],
        answers: list[Any],
    ) -> None:  # fmt: skip
        """Pass a row on for each item."""
        base, home, to_all = self._base[e], self.partition, False
        if each.then is None:
            home = _NOWHERE
            numbers.append(number)
            answers.append(None)
        if isinstance(each, Items):
            count = len(each.keys)
            columns = [[value] * count for value in each.values]
            if each.same >= 0:
                columns.insert(each.same, each.keys)
            self._grow(attempt, base + each.element, (number, 0, home, count), each.keys, columns)
        else:
            count = len(each.rows)
            to_all = self._each(attempt, e, number, home, each.rows)
        if each.then is not None:
            count = self.partitions if to_all else count
            attempt.waiting[number] = base + each.then[0], each.then[1], count

    def _each(self, attempt: _Attempt, e: int, number: int, home: int, rows: Sequence[Any]) -> bool:
        """Pass rows on to task elements of their own; return whether to all partitions."""
        if not rows:
            return False
        base = self._base[e]
        places, keys, values = zip(*rows, strict=True)
        if places[0] >= 0 and places.count(places[0]) == len(rows):
            run, columns = (number, 0, home, len(rows)), list(zip(*values, strict=True))
            self._grow(attempt, base + places[0], run, keys, columns)
            return bool(self._elements[base + places[0]].whole)
        for position, (place, key, given) in enumerate(rows):
            if place >= 0:
                run, columns = (number, position, home, 1), [(value,) for value in given]
                self._grow(attempt, base + place, run, [key], columns)
            elif home != _NOWHERE:
                self._result(attempt, e, number, position, home, given)
        return False

    def _grow(
        self, attempt: _Attempt, e: int, run: tuple[int, int, int, int], keys: Sequence[Any],
        columns: Sequence[Any],
    ) -> None:  # fmt: skip
        if keys:
            attempt.growing.setdefault(e, Growing()).extend(run, keys, columns)

    def _run_words(self, attempt: _Attempt, entries: Entries) -> bool:
        """Send the words of texts on, where a task element does no more; return whether it does."""
        e = int(entries.elements[0])
        words, n = self._elements[e].words, len(entries.numbers)
        if words is None or not self.program.compiled or len(entries.arguments) > 1:
            return False
        texts = entries.alone().arguments[e].columns[words[0]]
        if not isinstance(texts, tuple) or (n < _SMALL and self.program.compiled != "require"):
            return False
        split, counts = split_words(*texts)
        positions = np.arange(counts.sum())
        positions -= np.repeat(np.cumsum(counts) - counts, counts)
        rows = Entries.of_element(
            self._base[e] + words[1], np.repeat(entries.numbers, counts), positions,
            np.broadcast_to(_NOWHERE, len(positions)), split, Arguments([split]),
        )  # fmt: skip
        if len(rows.numbers):
            attempt.words.append(rows)
        attempt.numbers.append(entries.numbers)
        attempt.answers.append(AnswerColumn.empty(n))
        return True

    # Between partitions

    def _send(self, attempt: _Attempt) -> None:
        """Divide the rows that continue by their destination."""
        attempt.out = {}
        for entries in attempt.words:
            self._send_by_key(attempt, int(entries.elements[0]), entries, [])
        attempt.words = []
        while attempt.growing:
            e = next(iter(attempt.growing))
            rows = attempt.growing.pop(e)
            element = self._elements[e]
            spec = self.program.tables.get(element.table or "")
            if element.send == "key":
                keys, bad = self._keys(e, rows)
                self._send_by_key(attempt, e, rows.entries(e, keys), bad)
                continue
            dummy: Values | None = None
            if spec is not None and spec.where == "key":  # among others that have a key
                dummy = stored_values(spec.key, [DEFAULTS[spec.key]] * len(rows.keys))
            entries = rows.entries(e, dummy)
            if element.send == "here":
                self._add(attempt, e, entries)
                continue
            for q in range(self.partitions):
                if element.whole:
                    part = entries._replace(positions=np.full(len(rows.keys), q))
                else:
                    copies = np.full(len(rows.keys), _COPY)
                    homes = entries.homes if q == self.partition else copies
                    part = entries._replace(homes=homes)
                self._add_for(attempt, e, q, part)

    def _send_by_key(self, attempt: _Attempt, e: int, entries: Entries, bad: list[int]) -> None:
        """Send rows to the owners of their keys, except some with invalid keys."""
        assert entries.keys is not None
        if bad:
            self._run_wrong(attempt, e, entries.take(np.array(bad)))
        elif self.partitions == 1:
            self._add(attempt, e, entries)
            return
        owners = owners_of_keys(entries.keys, self.partitions)
        owners[bad] = -1
        for q in np.unique(owners).tolist():
            if q >= 0:
                self._add_for(attempt, e, q, entries.take(np.flatnonzero(owners == q)))

    def _run_wrong(self, attempt: _Attempt, e: int, entries: Entries) -> None:
        """Run a task element for keys of another type, which no partition has: where it comes to
        them it raises.
        """
        name = self._elements[e].table or ""
        spec, seen = self.program.tables[name], self._object.__dict__[name]
        if spec.indexed:
            self._object.__dict__[name] = RowOfWrongKey(spec)
        try:
            self._finish(attempt, entries, self._run_rows(attempt, entries))
        finally:
            self._object.__dict__[name] = seen

    def _add_for(self, attempt: _Attempt, e: int, q: int, entries: Entries) -> None:
        """Have rows wait here, or go to another partition."""
        if q == self.partition:
            self._add(attempt, e, entries)
        else:
            attempt.out.setdefault(q, []).append(entries.alone())

    def _keys(self, e: int, rows: Growing) -> tuple[Values, list[int]]:
        """Return the keys of rows, and which of them are of another type."""
        spec = self.program.tables[self._elements[e].table or ""]
        kind = int if spec.key == "int" else str
        if spec.size is None and set(map(type, rows.keys)) <= {kind}:
            with suppress(OverflowError):
                return stored_values(spec.key, rows.keys), []
        keys, bad = list[Any](), list[int]()
        for k, key in enumerate(rows.keys):
            try:
                keys.append(spec.convert_key(key))
            except (InputError, IndexError):
                keys.append(DEFAULTS[spec.key])
                bad.append(k)
        return stored_values(spec.key, keys), bad

    def _blocks(self, attempt: _Attempt) -> Iterator[tuple[int, bytes]]:
        """Yield what goes to other partitions."""
        for q in sorted({*attempt.out, *attempt.remote_results}):
            parts, results = attempt.out.get(q, []), attempt.remote_results.pop(q, [])
            try:
                yield q, pickle.dumps((parts, results))
            except Exception:
                yield q, pickle.dumps(self._that_can_be_sent(attempt, parts, results))

    def _that_can_be_sent(
        self,
        attempt: _Attempt,
        parts: list[Entries],
        results: list[tuple[int, int, int, Any]],
    ) -> Any:
        """Return what can be pickled; the other calls fail."""
        sendable = []
        for part in parts:
            good = []
            for k, arguments in enumerate(part.tuples()):
                try:
                    pickle.dumps(arguments)
                    good.append(k)
                except Exception as error:
                    self._failed(attempt, part, k, _cannot_send(error))
            sendable.append(part.take(np.array(good, np.int64)).alone())
        good_results = []
        for number, position, e, value in results:
            try:
                pickle.dumps(value)
                good_results.append((number, position, e, value))
            except Exception as error:
                self._fail(attempt, e, number, position, _cannot_send(error))
        return sendable, good_results

    def _receive(self, attempt: _Attempt, block: bytes) -> None:
        parts, results = pickle.loads(block)
        for part in parts:
            if len(part.numbers):
                self._add(attempt, int(part.elements[0]), part)
        for number, position, _, value in results:
            attempt.results.setdefault(number, []).append((position, value))

    # Rows

    def lookup(self, name: str, keys: Values) -> tuple[NDArray[np.int64], list[Any]]:
        """Return which of some keys have a row here, and the value of each."""
        table, spec = self.tables[name], self.program.tables[name]
        mine = np.arange(number_of_values(keys))
        if spec.where == "key":
            mine = np.flatnonzero(owners_of_keys(keys, self.partitions) == self.partition)
        elif spec.where == "everywhere" and self.partition:
            mine = mine[:0]
        wanted = take_values(keys, mine)
        table.sync()
        rows, places = table.find(wanted, np.zeros(len(mine), np.bool_))
        values = [*table.read(rows), ABSENT]
        there = [(k, values[p]) for k, p in zip(mine.tolist(), places.tolist(), strict=True)]
        there = [(k, value) for k, value in there if value is not ABSENT]
        return np.array([k for k, _ in there], np.int64), [value for _, value in there]

    def all_rows(self, name: str) -> tuple[list[Any], list[Any]]:
        """Return the keys of all rows that a table has here, and the value of each."""
        table = self.tables[name]
        if table.spec.where == "everywhere" and self.partition:
            return [], []
        table.sync()
        rows = table.present()
        return python_values(table.keys(rows)), table.read(rows)

    def has_rows_of(self, name: str, source: int, partitions: int) -> bool:
        """Return whether this partition may have rows of a stored one.

        Args:
            name: name of the state element.
            source, partitions: the partition that stored its rows, of how many.
        """
        where = self.program.tables[name].where
        if where == "key":  # both have ranges of the key groups
            first, last = source * self.partitions, (source + 1) * self.partitions
            return first < (self.partition + 1) * partitions and last > self.partition * partitions
        return where == "everywhere" or source % self.partitions == self.partition

    def restore(self, name: str, columns: dict[str, Column]) -> None:
        """Add the rows of a stored table that are this partition's.

        Args:
            columns: as a capture returned them, without rows that are gone.
        """
        spec = self.program.tables[name]
        mine = np.ones(len(columns["id"]), np.bool_)
        if spec.where == "key":
            keys = stored_keys(spec, columns)
            mine = owners_of_keys(keys, self.partitions) == self.partition
        self.tables[name].restore(columns, mine)

    def fork(self) -> KeyedPartition:
        """Return a copy, with nothing in common."""
        other = type(self)(self.program, self.partition, self.partitions)
        for name, table in self.tables.items():
            other._add_table(name, table.fork(other._journal))
        return other


_NONE = np.empty(0, np.int64)
_FAILED = object()


def _batch_column(values: Any) -> Any:
    """Return a column as a batch takes it (`StateElement.batches`)."""
    if isinstance(values, PackedBytes):
        buffers = [None, pa.py_buffer(values.offsets), pa.py_buffer(values.data)]
        n = number_of_values(values)
        return pa.LargeBinaryArray.from_buffers(pa.large_binary(), n, buffers)
    return python_values(values) if isinstance(values, tuple) else values


def _cannot_send(error: Exception) -> InputError:
    return InputError(
        f"a variable cannot be sent to another processor ({error}): use numbers, strings, lists or "
        "dicts of them"
    )


_INT64_MIN, _INT64_MAX = -(1 << 63), (1 << 63) - 1


class CurrentRow(MapAccess):
    """The row of the call that runs; that a method uses its key alone is known already.

    Attributes:
        value: the row's value: a value, a tuple of its fields, or `ABSENT`.
    """

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self.value: Any = ABSENT

    def load(self, key: Any) -> Any:
        """Return the row's value."""
        return self.value

    def store(self, key: Any, value: Any) -> None:
        """Set the row's value."""
        self.value = value


class RowOfWrongKey(MapAccess):
    """The row of a call whose key is not one: to access it raises, by the line that does."""

    def load(self, key: Any) -> Any:
        """Refuse the key."""
        self.spec.convert_key(key)
        return ABSENT

    def store(self, key: Any, value: Any) -> None:
        """Refuse the key."""
        self.spec.convert_key(key)


class CurrentValue(CurrentRow):
    """As `CurrentRow`, for a map with one value for each key: the short way for the usual calls."""

    def __init__(self, spec: TableSpec) -> None:
        super().__init__(spec)
        self._kind = next(iter(spec.fields.values()))
        self._type = KINDS[self._kind]
        self._convert, self._default = spec.converters[0], spec.default

    def __getitem__(self, key: Any) -> Any:
        value = self.value
        return self._default if value is ABSENT else value

    def get(self, key: Any, default: Any = None) -> Any:
        """Return the value, or a default where there is none."""
        value = self.value
        return default if value is ABSENT else value

    def __setitem__(self, key: Any, value: Any) -> None:
        self.value = value if value.__class__ is self._type else self._convert(value)


class CurrentInt(CurrentValue):
    """As `CurrentValue`, for integers, which have to fit into 64 bits."""

    def __setitem__(self, key: Any, value: Any) -> None:
        if value.__class__ is int and _INT64_MIN <= value <= _INT64_MAX:
            self.value = value
        else:
            self.value = to_int(value)


def current_row(spec: TableSpec) -> CurrentRow:
    """Return what the methods of a class see as this state element."""
    if not spec.single:
        return CurrentRow(spec)
    return (CurrentInt if spec.fields["value"] == "int" else CurrentValue)(spec)
