"""One partition of a trigger program: its tables, and the rounds in which triggers run.

A batch of calls writes to tables; each change is an event of the triggers that watch it. In a round
every row of which a trigger has events runs once, on the newest values, so that what a later event
makes redundant does not run (section 5.2.4 of the Domino paper). What actions write is exchanged,
and becomes visible at the end of the round, in the order of (trigger, row, write), which is the
same for any number of partitions (5.3). What an asynchronous accumulator is sent by its own
partition does not wait for that end.

Each event has a version, the wave of the change from outside that it comes from and the round
since then. An accumulation has the elementwise maximum of the versions of its event and of the
cells of its row, so that the last one of a row reads the newest value of every cell (5.2.3 has the
version of the event alone, which hides a cell of an earlier wave and a later round from it).

A call whose triggers raise, or do not end, changes nothing: the batch is taken back, and its halves
are tried.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.keyed._partition import KeyedPartition, Steps
from vertexsdk.engine.keyed._trigger_rows import (
    AccumulatorView,
    Activation,
    OldRow,
    Operation,
    Row,
    TableView,
    What,
    Writer,
)
from vertexsdk.engine.keyed.answers import Failure, is_interrupt, trigger_failure
from vertexsdk.engine.keyed.calls import (
    Calls,
    owners_of_keys,
    python_values,
    stored_values,
    take_values,
)
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.keyed_state import RowsState
from vertexsdk.program.trigger_program import (
    Accumulator,
    CellRows,
    PlainTrigger,
    TableElement,
    TableRows,
    Trigger,
    TriggerProgram,
    Version,
    key_of_text,
)
from vertexsdk.transport.transport import PEERS

_OUTSIDE = -1  # in place of a trigger: writes of calls
_FEW = 16  # events that an eager partition takes at a time
_MERGED = -1  # in place of what an operation does
_KNOWN = 1 << 20  # keys whose owner is remembered
_FIRST: Version = (0, 0)


class _Writes(NamedTuple):
    """What one action, or one call, has written.

    Attributes:
        trigger: whose action; `_OUTSIDE` for none.
        key: of the row that it ran for; the number of the call.
        version: of what is written.
        operations: in order.
    """

    trigger: int
    key: Any
    version: Version
    operations: Sequence[Operation]

    def order(self) -> tuple[Any, ...]:
        """Return what writes are sorted by."""
        return self.trigger, isinstance(self.key, str), self.key


class _Report(NamedTuple):
    """What a partition tells the others at the end of a round."""

    busy: int  # writes, and events that wait
    repeats: int  # accumulations that are to be repeated when all is done
    failed: bool


def later(one: Version, other: Version) -> Version:
    """Return the elementwise maximum of two versions.

    >>> later((1, 5), (2, 1))
    (2, 5)
    """
    return max(one[0], other[0]), max(one[1], other[1])


class TriggerPartition(KeyedPartition):
    """The rows of one partition of a trigger program.

    Args:
        program: what runs.
        partition, partitions: which one of how many.

    Attributes:
        events: how many each trigger had.
        runs: how often each one ran.
    """

    program: TriggerProgram

    def __init__(self, program: TriggerProgram, partition: int, partitions: int) -> None:
        super().__init__(program, partition, partitions)
        self._names = list(program.tables)
        targets = {name: k for k, name in enumerate(self._names)}
        self._writer = Writer()
        self.events, self.runs = [0] * len(program.triggers), [0] * len(program.triggers)
        self._watching: list[list[tuple[int, PlainTrigger, int]]] = [[] for _ in targets]
        self._accumulator_of: dict[int, int] = {}
        for t, trigger in enumerate(program.triggers):
            if isinstance(trigger, PlainTrigger):
                watched = targets[trigger.table]
                self._watching[watched].append((t, trigger, targets[trigger.seen]))
            elif isinstance(trigger, Accumulator):
                self._accumulator_of[targets[trigger.table]] = t
        self._targets = targets
        self._asynchronous = {
            targets[trigger.table]
            for trigger in program.triggers
            if isinstance(trigger, Accumulator) and not trigger.synchronous
        }
        self._everywhere = {
            targets[name] for name, spec in program.tables.items() if spec.where == "everywhere"
        }
        self._own_keys: dict[Any, bool] = {}  # whether this partition owns them
        self._running: tuple[Trigger, Any] | None = None  # and the key of its row
        self._views: dict[str, TableView] = {}
        self._applications: list[Any] = []
        self._every = program.schedule == "every"
        self._clear()

    def _clear(self) -> None:
        """Forget what belongs to one batch."""
        self._events: dict[int, dict[Any, Version]] = {}
        self._urgent: dict[tuple[Any, ...], Version] = {}
        self._activated: dict[int, dict[str, Version]] = {}
        self._row_versions: dict[tuple[int, Any], Version] = {}
        self._cell_versions: dict[tuple[int, Any], dict[Any, list[tuple[Version, Any]]]] = {}
        self._repeats: dict[tuple[int, Any], None] = {}
        self._out: list[_Writes] = []
        self._now = self.program.eager

    def _state(self, target: int) -> RowsState:
        state: RowsState = self.tables[self._names[target]].state  # type: ignore[attr-defined]
        return state

    def _bind(self) -> None:
        """Make the objects whose methods run: once the tables are there."""
        program = self.program
        self._rows = [self._state(k) for k in range(len(self._names))]
        for method, does in zip(program.methods.values(), program.does, strict=True):
            if does.kind != "upsert":
                continue
            spec = program.tables[does.table]
            rows = self._rows[self._targets[does.table]]
            assert isinstance(rows, TableRows)
            assert method.key is not None
            everywhere = rows if spec.where == "everywhere" else None
            self._views[does.table] = TableView(
                self._targets[does.table], does.table, method.key, spec.element, self._writer,
                everywhere,
            )  # fmt: skip
        for application in program.applications:
            own: Any = object.__new__(application.cls)
            own.__dict__.update(application.parameters)
            own.__dict__.update({name: self._views[name] for name in application.tables})
            own.__dict__["_activation"] = Activation(program, len(self._applications), self._writer)
            self._applications.append(own)
        for target, t in self._accumulator_of.items():
            accumulator = program.triggers[t]
            assert isinstance(accumulator, Accumulator)
            view = AccumulatorView(target, accumulator, self._writer)
            self._applications[accumulator.application].__dict__[accumulator.name] = view

    # Batches

    def run(self, calls: Calls, owners: NDArray[np.int32] | None) -> Steps:
        """See `KeyedPartition`: a call writes to a table, and has no answer."""
        if not self._applications:
            self._bind()
        failures: list[Failure] = []
        batches = _batches(calls)
        for first, last in batches:
            low, size = first, last - first
            while low < last:
                high = min(low + size, last)
                failed, own = yield from self._attempt(calls, owners, low, high)
                if not failed:
                    low, size = high, 2 * size
                elif high - low > 1:
                    size = (high - low) // 2
                else:
                    failures += [own] if own is not None else []
                    low = high
        return np.empty(0, np.int64), [], failures

    def _attempt(  # type: ignore[override]
        self, calls: Calls, owners: NDArray[np.int32] | None, low: int, high: int
    ) -> Steps:
        """Run the calls low, low + 1, ... high - 1 together; take them back if a trigger raises.

        Returns:
            Whether one has raised, and its failure if it was here.
        """
        own: Failure | None = None
        given = self._operations(calls, owners, low, high)
        self._clear()
        wave = 1
        while True:
            try:
                if own is None:
                    for one in _taken(given, wave, _FEW if self.program.eager else high - low):
                        self._apply(one)
                    self._run_events()
            except BaseException as error:
                if is_interrupt(error):
                    self._journal.undo(0)
                    raise
                own = self._failure(low, error)
                self._out.clear()
            wave += 1
            writes, self._out = self._out, []
            left = len(self._urgent) + (given.length_hint() if own is None else 0)
            reports = [_Report(len(writes) + left, len(self._repeats), own is not None)]
            if self.partitions > 1:
                for q, block in self._divided(writes):
                    if q == self.partition:
                        writes = block
                    else:
                        yield q, pickle.dumps(block)
                received, reports = yield PEERS, reports[0]
                writes = sorted(
                    [*writes, *(w for _, block in received for w in pickle.loads(block))],
                    key=_Writes.order,
                )
            if any(report.failed for report in reports):
                break
            try:
                for one in self._combined(writes):
                    self._apply(one)
            except BaseException as error:  # a sum that does not fit into 64 bits, a combiner
                if is_interrupt(error):
                    self._journal.undo(0)
                    raise
                own = self._failure(low, error)
                continue
            if not any(report.busy for report in reports):
                if not any(report.repeats for report in reports):
                    break
                self._repeat()
        failed = any(report.failed for report in reports)
        if failed:
            self._journal.undo(0)
        self._journal.clear()
        self._clear()
        return failed, own

    def _combined(self, writes: Sequence[_Writes]) -> Sequence[_Writes]:
        """Return the writes of a round, those merged that set a column that has a combiner."""
        program = self.program
        if not program.combiners:
            return writes
        places = {(self._targets[name], k): c for (name, k), c in program.combiners.items()}
        merged: dict[tuple[int, Any, int], tuple[int, int]] = {}
        lists = [list(one.operations) for one in writes]
        for w, operations in enumerate(lists):
            for o, operation in enumerate(operations):
                target, key, what, place, value = operation
                if what != What.SET or (target, place) not in places:
                    continue
                first = merged.setdefault((target, key, place), (w, o))
                if first != (w, o):
                    application, function = places[target, place]
                    before = lists[first[0]][first[1]]
                    column = self._rows[target].element.columns[place]
                    self._running = program.triggers[writes[w].trigger], writes[w].key
                    value = column.convert(
                        function(
                            self._applications[application], column.show(before.value),
                            column.show(value),
                        )
                    )  # fmt: skip
                    lists[first[0]][first[1]] = before._replace(what=_MERGED)
                    merged[target, key, place] = w, o
                    operations[o] = operation._replace(value=value)
        return [
            one._replace(operations=[o for o in own if o.what != _MERGED])
            for one, own in zip(writes, lists, strict=True)
        ]

    def _repeat(self) -> None:
        """Have accumulations whose results were overwritten or deleted from outside run again."""
        repeats, self._repeats = self._repeats, {}
        for target, key in repeats:
            operation = Operation(target, key, What.REPEAT)
            self._out.append(_Writes(_OUTSIDE, key, _FIRST, [operation]))

    def _operations(
        self, calls: Calls, owners: NDArray[np.int32] | None, low: int, high: int
    ) -> _Given:
        """Return the writes of the calls that this partition takes."""
        program = self.program
        own = np.ones(len(calls), np.bool_)
        if owners is not None:
            everywhere = [
                not d.table or program.tables[d.table].where == "everywhere" for d in program.does
            ]
            own = (owners == self.partition) | np.array(everywhere)[calls.methods]
        writes: list[_Writes] = []
        for m in np.unique(calls.methods[low:high]).tolist():
            of_method = np.flatnonzero(calls.methods == m)
            inside = (of_method >= low) & (of_method < high) & own[of_method]
            rows, numbers = np.flatnonzero(inside), of_method[inside]
            parameters = range(len(list(program.methods.values())[m].parameters))
            columns = [_part(calls.arguments[m, p], rows) for p in parameters]
            does = program.does[m]
            if does.kind == "activate":
                for number, name, where in zip(numbers.tolist(), *columns[1:], strict=True):
                    operation = Operation(program.trigger_named(name), "", What.ACTIVATE, where)
                    writes.append(_Writes(_OUTSIDE, number, _FIRST, [operation]))
                continue
            target, element = self._targets[does.table], program.tables[does.table].element
            if does.kind == "delete":
                for number, key in zip(numbers.tolist(), columns[1], strict=True):
                    operation = Operation(target, key, What.DELETE)
                    writes.append(_Writes(_OUTSIDE, number, _FIRST, [operation]))
            else:
                values = zip(numbers.tolist(), *columns[1:], strict=True)
                writes += [_upsert(target, element, *value) for value in values]
        writes.sort(key=lambda one: one.key)
        return _Given(writes)

    def _failure(self, number: int, error: BaseException) -> Failure:
        return trigger_failure(self.program, self._running, number, error)

    # Between partitions

    def _divided(self, writes: Sequence[_Writes]) -> Iterator[tuple[int, list[_Writes]]]:
        """Yield what goes to each partition, this one first."""
        keys: dict[type, list[Any]] = {int: [], str: []}
        for one in writes:
            for operation in one.operations:
                keys[operation.key.__class__].append(operation.key)
        owners = {
            int: iter(owners_of_keys(stored_values("int", keys[int]), self.partitions).tolist()),
            str: iter(owners_of_keys(stored_values("str", keys[str]), self.partitions).tolist()),
        }
        parts: list[list[_Writes]] = [[] for _ in range(self.partitions)]
        for one in writes:
            divided: dict[int, list[Operation]] = {}
            for operation in one.operations:
                owner = next(owners[operation.key.__class__])
                all_of_them = (
                    operation.what == What.ACTIVATE or operation.target in self._everywhere
                )
                to = range(self.partitions) if all_of_them else (owner,)
                for q in to:
                    divided.setdefault(q, []).append(operation)
            for q, operations in divided.items():
                parts[q].append(one._replace(operations=operations))
        yield self.partition, parts[self.partition]
        for q, part in enumerate(parts):
            if part and q != self.partition:
                yield q, part

    # Running

    def _run_events(self) -> None:
        """Run what has events, once for each row."""
        events, self._events = self._events, {}
        activated, self._activated = self._activated, {}
        forced: dict[int, dict[Any, Version]] = {}
        for t, filters in activated.items():
            forced[t] = self._rows_to_activate(t, filters)
            events[t] = {**forced[t], **events.get(t, {})}
        for t in sorted(events):
            for key in sorted(events[t]):
                self._run(t, key, events[t][key], forced=key in forced.get(t, ()))
                if self._urgent and not self.program.eager:
                    self._run_urgent(-1)
        self._run_urgent(_FEW if self.program.eager else -1)

    def _run_urgent(self, most: int) -> None:
        """Run what does not wait for the end of the round, the oldest event first."""
        self._now = True
        while self._urgent and most:
            event = self._next()
            self._run(event[0], event[1], self._urgent.pop(event))
            most -= 1
        self._now = self.program.eager

    def _next(self) -> tuple[Any, ...]:
        """Return which one of the urgent events is taken."""
        return next(iter(self._urgent))

    def _rows_to_activate(self, t: int, filters: dict[str, Version]) -> dict[Any, Version]:
        """Return the keys of the rows for which a trigger was activated, with versions."""
        trigger = self.program.triggers[t]
        assert isinstance(trigger, PlainTrigger)
        target = self._targets[trigger.table]
        if target in self._everywhere and self.partition:
            return {}
        view, application = self._views[trigger.table], self._applications[trigger.application]
        chosen: dict[Any, Version] = {}
        for where, version in filters.items():
            row_filter = self.program.row_filter(trigger, where)
            for key, row in self._rows[target].rows.items():
                self._running = trigger, key
                if row_filter is None or row_filter(application, OldRow(view, key, row)):
                    chosen[key] = later(version, chosen.get(key, _FIRST))
        return chosen

    def _run(self, t: int, key: Any, version: Version, *, forced: bool = False) -> None:
        """Run a trigger for a row.

        Args:
            forced: whether or not the row has changed.
        """
        trigger = self.program.triggers[t]
        self._running = trigger, key
        if isinstance(trigger, PlainTrigger):
            version = self._run_plain(t, trigger, key, version, forced=forced)
        else:
            assert isinstance(trigger, Accumulator)
            version = self._accumulate(t, trigger, key, version)
        operations = self._writer.take()
        if not operations:
            return
        if version[1] > self.program.max_rounds:
            raise InputError(
                f"it has run in {self.program.max_rounds:,} rounds that follow from one change: "
                "give it a condition that ends (when=), or more max_rounds="
            )
        writes = _Writes(t, key, version, operations)
        now = [o for o in operations if self._is_now(o)]
        if now:
            self._apply(writes._replace(operations=now), urgent=True)
            later_ones = [o for o in operations if not self._is_now(o)]
            writes = writes._replace(operations=later_ones)
        if writes.operations:
            self._out.append(writes)

    def _is_now(self, operation: Operation) -> bool:
        """Return whether a write does not wait for the end of the round."""
        if operation.what == What.ACTIVATE or not (
            self._now or operation.target in self._asynchronous
        ):
            return False
        if self.partitions == 1:
            return True
        return operation.target not in self._everywhere and self._owns(operation.key)

    def _owns(self, key: Any) -> bool:
        own = self._own_keys.get(key)
        if own is None:
            keys = stored_values("str" if isinstance(key, str) else "int", [key])
            own = int(owners_of_keys(keys, self.partitions)[0]) == self.partition
            if len(self._own_keys) >= _KNOWN:
                self._own_keys.clear()
            self._own_keys[key] = own
        return own

    def _run_plain(
        self, t: int, trigger: PlainTrigger, key: Any, version: Version, *, forced: bool
    ) -> Version:
        """Run a trigger of a table, if the row is not as it last saw it, or it is activated."""
        target = self._targets[trigger.table]
        seen = self._rows[self._targets[trigger.seen]]
        if key not in seen.rows and not forced:
            return version
        view = self._views[trigger.table]
        default = view.element.default
        row = self._rows[target].rows.get(key, default)
        before = seen.rows.get(key, row)
        if not forced and not view.differ(before, row, trigger.columns):
            return version
        version = later(version, self._row_versions.get((target, key), _FIRST))
        new, old = Row(view, key, row), OldRow(view, key, before)
        application = self._applications[trigger.application]
        passes = forced or trigger.when is None or trigger.when(application, new, old)
        if not passes:
            return version
        if key in seen.rows:
            seen.note(seen.rows, key, key)
            del seen.rows[key]
        self.runs[t] += 1
        trigger.function(application, new, old)
        new._check_lists()
        old._check_lists()
        return version[0], version[1] + 1

    def _accumulate(self, t: int, trigger: Accumulator, key: str, version: Version) -> Version:
        """Run an accumulator on the cells of a row."""
        target = self._targets[trigger.table]
        state = self._rows[target]
        assert isinstance(state, CellRows)
        versions = self._cell_versions.get((target, key), {})
        version = self._accumulation_version(version, versions)
        hidden = _hidden(versions, version)
        if hidden:
            visible = {c: v for c, v in (state.rows.get(key, {}) | hidden).items() if v is not None}
            total = state.element.accumulation.total(visible)
        else:
            total = state.total(key)
        if total is not ABSENT:
            self.runs[t] += 1
            application = self._applications[trigger.application]
            trigger.function(application, key_of_text(key), total)
        return version

    def _accumulation_version(
        self, version: Version, versions: dict[Any, list[tuple[Version, Any]]]
    ) -> Version:
        """Return the version at which an accumulation runs.

        Args:
            version: of its event.
            versions: of each cell, the ones of this batch with their values, the oldest first.
        """
        for values in versions.values():
            version = later(version, values[-1][0])
        return version

    # Writing

    def _fire(self, t: int, key: Any, version: Version, *, urgent: bool) -> None:
        """Have a trigger run for a row."""
        self.events[t] += 1
        if urgent:
            event = (t, key, self.events[t]) if self._every else (t, key)
            self._urgent[event] = later(version, self._urgent.get(event, _FIRST))
        else:
            events = self._events.setdefault(t, {})
            events[key] = later(version, events.get(key, _FIRST))

    def _apply(self, writes: _Writes, *, urgent: bool | None = None) -> None:
        """Make writes visible, and have the triggers run that watch what they change."""
        urgent = self.program.eager if urgent is None else urgent
        if writes.trigger != _OUTSIDE:
            self._running = self.program.triggers[writes.trigger], writes.key
        for operation in writes.operations:
            if operation.what == What.ACTIVATE:
                filters = self._activated.setdefault(operation.target, {})
                where = operation.place
                filters[where] = later(writes.version, filters.get(where, _FIRST))
            elif operation.target in self._accumulator_of:
                self._apply_cell(operation, writes.version, urgent=urgent)
            else:
                self._apply_row(operation, writes, urgent=urgent)

    def _apply_cell(self, operation: Operation, version: Version, *, urgent: bool) -> None:
        target, key, what, column, value = operation
        state = self._rows[target]
        assert isinstance(state, CellRows)
        if self.program.eager and what != What.REPEAT:
            versions = self._cell_versions.setdefault((target, key), {})
            before = state.rows.get(key, {}).get(column)
            versions.setdefault(column, [(_FIRST, before)]).append((version, value))
        if what == What.PUT:
            changed = state.put_cell(key, column, value)
        elif what == What.DISCARD:
            changed = state.discard_cell(key, column)
        else:  # to be repeated, unless there is nothing any more
            changed = key in state.rows
        if not changed:
            return
        urgent = (urgent and self.program.eager) or target in self._asynchronous
        self._fire(self._accumulator_of[target], key, version, urgent=urgent)

    def _apply_row(self, operation: Operation, writes: _Writes, *, urgent: bool) -> None:
        target, key, what, place, value = operation
        state = self._rows[target]
        assert isinstance(state, TableRows)
        element: TableElement = state.element
        row = state.rows.get(key, element.default)
        new = list(row)
        if what == What.SET:
            new[place] = value
        elif what == What.ADD:
            new[place] = element.columns[place].convert(row[place] + value)
        elif what == What.SET_CELL:
            place, name = place
            new[place] = {**row[place], name: value}
        elif what == What.DROP_CELL:
            place, name = place
            new[place] = {n: cell for n, cell in row[place].items() if n != name}
        elif what == What.DELETE:
            new = list(element.default)
        else:
            new[-2] = True
            for place, cell in value or ():
                new[place] = cell
        changed = [
            k for k, before in enumerate(row[:-1]) if new[k] is not before and new[k] != before
        ]
        if not changed:
            return
        outside = writes.trigger == _OUTSIDE
        if row[-1] is not None and (outside or what == What.DELETE):
            self._note_repeats(row, operation)
        trigger = None if outside else self.program.triggers[writes.trigger]
        if isinstance(trigger, Accumulator) and what in (What.SET, What.ADD):
            writer = trigger.table, writes.key
            if (row[-1] or {}).get(place) != writer:
                new[-1] = {**(row[-1] or {}), place: writer}
        self._replace(target, key, row, tuple(new), changed, writes, urgent=urgent)

    def _replace(
        self, target: int, key: Any, row: tuple[Any, ...], new: tuple[Any, ...],
        changed: Sequence[int], writes: _Writes, *, urgent: bool,
    ) -> None:  # fmt: skip
        """Have another row at a key.

        Args:
            changed: the places of what is different.
        """
        state, view = self._rows[target], self._views[self._names[target]]
        state.note(state.rows, key, key)
        existed, exists = view.exists(row), view.exists(new)
        if exists:
            state.rows[key] = new
        else:
            state.rows.pop(key, None)
        version = writes.version
        if self.program.eager:
            at = target, key
            version = self._row_versions[at] = later(version, self._row_versions.get(at, _FIRST))
        own = target not in self._everywhere or not self.partition
        for t, trigger, seen_target in self._watching[target]:
            seen = self._rows[seen_target]
            before = seen.rows.get(key, row)
            if t == writes.trigger and key == writes.key:  # it knows what it has set
                known = [k for k in changed if k not in trigger.columns]
                before = tuple(new[k] if k in known else v for k, v in enumerate(before))
            if own and before[:-1] != new[:-1]:
                if seen.rows.get(key) is not before:
                    seen.note(seen.rows, key, key)
                    seen.rows[key] = before
            elif key in seen.rows:
                seen.note(seen.rows, key, key)
                del seen.rows[key]
            if own and (exists != existed or not trigger.columns.isdisjoint(changed)):
                self._fire(t, key, version, urgent=urgent)

    def _note_repeats(self, row: tuple[Any, ...], operation: Operation) -> None:
        """Have accumulations repeat, whose results are deleted, or replaced from outside."""
        places = {place for place, _ in operation.value or ()}
        for place, (table, key) in row[-1].items():
            if operation.what == What.DELETE or place in places:
                self._repeats[self._targets[table], key] = None


class _Given:
    """The writes of calls, which an eager partition takes a few at a time."""

    def __init__(self, writes: Sequence[_Writes]) -> None:
        self._writes, self._at = writes, 0

    def length_hint(self) -> int:
        """Return how many are left."""
        return len(self._writes) - self._at

    def take(self, most: int) -> Sequence[_Writes]:
        """Return the next ones."""
        first, self._at = self._at, min(self._at + most, len(self._writes))
        return self._writes[first : self._at]


def _taken(given: _Given, wave: int, most: int) -> Iterator[_Writes]:
    """Yield some of the writes of calls, as one wave."""
    for writes in given.take(most):
        yield writes._replace(version=(wave, 0))


def _hidden(versions: dict[Any, list[tuple[Version, Any]]], version: Version) -> dict[Any, Any]:
    """Return the cells of a row that are newer than an accumulation, as it reads them.

    Args:
        versions: of this batch, by column, the oldest first.
        version: of the accumulation.

    Returns:
        The newest value that is not newer, None for none, by column.
    """
    hidden = {}
    for column, values in versions.items():
        own = [v for at, v in values if at[0] <= version[0] and at[1] <= version[1]]
        if len(own) < len(values):
            hidden[column] = own[-1]
    return hidden


def _batches(calls: Calls) -> list[tuple[int, int]]:
    """Return where each batch of a block begins and ends."""
    batch = np.empty(len(calls), np.int64)
    for m in np.unique(calls.methods).tolist():
        batch[calls.methods == m] = calls.arguments[m, 0]
    ends = [*(np.flatnonzero(batch[1:] != batch[:-1]) + 1).tolist(), len(batch)]
    return list(zip([0, *ends[:-1]], ends, strict=True)) if len(batch) else []


def _part(column: Any, rows: NDArray[np.int64]) -> list[Any]:
    return python_values(take_values(column, rows))


def _upsert(
    target: int, element: TableElement, number: int, key: Any, given: int, *stored: Any
) -> _Writes:
    """Return the write of one upsert."""
    values = tuple(
        (k, column.restore(value))
        for k, (column, value) in enumerate(zip(element.columns, stored, strict=True))
        if given >> k & 1
    )
    operation = Operation(target, key, What.INSERT, None, values)
    return _Writes(_OUTSIDE, number, _FIRST, [operation])
