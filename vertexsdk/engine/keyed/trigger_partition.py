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

import gc
import math
import pickle
import threading
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.keyed._trigger_rows import (
    AccumulatorView,
    Activation,
    Operation,
    TableView,
    What,
    Writer,
)
from vertexsdk.engine.keyed.answers import Failure, is_interrupt, trigger_failure
from vertexsdk.engine.keyed.calls import (
    Calls,
    Values,
    owners_of_keys,
    python_values,
    stored_values,
    take_values,
)
from vertexsdk.engine.keyed.partition import KeyedPartition, Steps
from vertexsdk.engine.keyed.trigger_events import FIRST, Events, later
from vertexsdk.engine.keyed.trigger_writes import (
    OUTSIDE,
    OrderNeeded,
    Place,
    RoundWrites,
    VisibleWrites,
    Writes,
)
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.table_columns import Column
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

_FEW = 16  # events that an eager partition takes at a time
_KNOWN = 1 << 20  # keys whose owner is remembered


class _Report(NamedTuple):
    """The report of a partition to the others at the end of a round."""

    busy: int  # writes, and events that wait
    repeats: int  # accumulations that are to be repeated when all is done
    failed: bool
    ordered: Place | None  # writes to it have to be in order, and the batch has to run again


class TriggerPartition(KeyedPartition):
    """The rows of one partition of a trigger program.

    Args:
        program: what runs.
        partition, partitions: which one of how many.

    Attributes:
        events: those of the batch that runs, and how many each trigger had.
        runs: how often each trigger ran.
    """

    program: TriggerProgram

    def __init__(self, program: TriggerProgram, partition: int, partitions: int) -> None:
        super().__init__(program, partition, partitions)
        self.events = Events(len(program.triggers), every=program.schedule == "every")
        self.runs = [0] * len(program.triggers)
        self._writer = Writer()
        self._own_keys: dict[Any, bool] = {}  # whether this partition owns them
        self._running: tuple[Trigger, Any] | None = None  # and the key of its row
        self._views: dict[int, TableView] = {}
        self._applications: list[Any] = []
        self._visible: VisibleWrites | None = None
        self._merged = RoundWrites((), ())
        self._ordered: set[Place] = set()
        self._clear()

    def _clear(self) -> None:
        """Forget what belongs to one batch."""
        self.events.clear()
        self._writer.take()
        self._writer.refuses = ""
        self._merged.clear()
        if self._visible is not None:
            self._visible.clear()
        self._out: list[Writes] = []
        self._now = self.program.eager

    def _bind(self) -> VisibleWrites:
        """Make the objects whose methods run: once the tables are there."""
        program = self.program
        states = self._states = [table.state for table in self.tables.values()]  # type: ignore[attr-defined]
        for method, does in zip(program.methods.values(), program.does, strict=True):
            if does.kind != "upsert":
                continue
            spec, target = program.tables[does.table], self.program.targets[does.table]
            rows = states[target]
            assert isinstance(rows, TableRows)
            assert method.key is not None
            everywhere = rows if target in self.program.everywhere else None
            self._views[target] = TableView(
                target, does.table, method.key, spec.element, self._writer, everywhere
            )
        for application in program.applications:
            instance: Any = object.__new__(application.cls)
            instance.__dict__.update(application.parameters)
            for name in application.tables:
                instance.__dict__[name] = view = self._views[self.program.targets[name]]
                instance.__dict__.update(view.direct_methods())
            number = len(self._applications)
            instance.__dict__["_activation"] = Activation(program, number, self._writer)
            self._applications.append(instance)
        self._accumulators: dict[int, AccumulatorView] = {}
        for trigger in program.triggers:
            if isinstance(trigger, Accumulator):
                target = self.program.targets[trigger.table]
                cells = AccumulatorView(target, trigger, self._writer)
                self._accumulators[target] = cells
                attributes = self._applications[trigger.application].__dict__
                attributes[trigger.name] = cells
                attributes |= cells.direct_methods()
        self._merge_writes()
        first = self.partition == 0
        return VisibleWrites(program, states, self._views, self.events, first=first)

    def _merge_writes(self) -> None:
        """Have writes merged whose order is of no account: additions of ints, and cells."""
        program, sums, cells = self.program, list[Place](), list[int]()
        if not program.eager:
            plain = [t for t in program.triggers if isinstance(t, PlainTrigger)]
            watched = {program.targets[t.table] for t in plain} | program.everywhere
            combined = {(program.targets[name], k) for name, k in program.combiners}
            for target in self._views.keys() - watched:
                for k, column in enumerate(self._views[target].columns):
                    is_int = column.__class__ is Column and column.kind == "int"
                    if is_int and (target, k) not in self._ordered | combined:
                        sums.append((target, k))
            for target in self._accumulators.keys() - program.asynchronous:
                cells += [target] * ((target, 0) not in self._ordered)
        self._merged = RoundWrites(sums, cells)
        for target, table in self._views.items():
            places = range(len(table.columns))
            table.sums[:] = [self._merged.sums.get((target, place)) for place in places]
        for target, cells_of in self._accumulators.items():
            cells_of.cells = self._merged.cells.get(target)

    # Batches

    def run(self, calls: Calls, owners: NDArray[np.int32] | None) -> Steps:
        """Run the calls of a block, which write to tables and have no answers."""
        if self._visible is None:
            self._visible = self._bind()
        failures: list[Failure] = []
        for first, last in _batches(calls):
            low, size = first, last - first
            while low < last:
                high = min(low + size, last)
                failed, failure = yield from self._try(calls, owners, low, high)
                if not failed:
                    low, size = high, 2 * size
                elif high - low > 1:
                    size = (high - low) // 2
                else:
                    failures += [failure] if failure is not None else []
                    low = high
        return np.empty(0, np.int64), [], failures

    def _try(self, calls: Calls, owners: NDArray[np.int32] | None, low: int, high: int) -> Steps:
        """Run the calls low, low + 1, ... high - 1 together; take them back if a trigger raises.

        Returns:
            Whether one has raised, and its failure if it was here.
        """
        given = self._operations(calls, owners, low, high)
        while True:
            counts, runs = list(self.events.counts), list(self.runs)
            failed, failure, ordered = yield from self._try_once(given, low)
            if ordered is None:
                return failed, failure
            self.events.counts[:], self.runs[:] = counts, runs
            self._ordered.add(ordered)
            self._merge_writes()

    def _try_once(self, given: Sequence[Operation], low: int) -> Steps:
        """Run some writes of calls together; take them back if a trigger raises.

        Returns:
            Whether one has raised, its failure if it was here, and the place to which writes have
            to be in order, so that all is to run again.
        """
        visible = self._visible
        assert visible is not None
        failure: Failure | None = None
        ordered: Place | None = None
        self._clear()
        wave, at = 1, 0
        while True:
            writes: Sequence[Writes] = ()
            if failure is None and ordered is None:
                part = given[at : at + _FEW] if self.program.eager else given[at:]
                at += len(part)
                try:
                    with _rare_collections:
                        visible.apply(Writes(OUTSIDE, None, (wave, 0), part), urgent=self._now)
                        self._run_events()
                    writes, self._out = self._out, []
                except BaseException as error:
                    failure = self._failure(low, error)
            wave += 1
            merged = self._merged.take()
            left = self.events.count + (len(given) - at if failure is None else 0)
            busy = len(writes) + left + bool(merged)
            reports = [_Report(busy, len(visible.repeats), failure is not None, ordered)]
            others: list[RoundWrites] = []
            if self.partitions > 1:
                parts = self._divided(writes)
                merged_parts = merged.divided(self.program, self.partitions) if merged else None
                for q, part_of_q in enumerate(parts):
                    of_q = merged_parts[q] if merged_parts and merged_parts[q] else None
                    if (part_of_q or of_q is not None) and q != self.partition:
                        yield q, pickle.dumps((part_of_q, of_q))
                received, reports = yield PEERS, reports[0]
                writes = parts[self.partition]
                merged = merged_parts[self.partition] if merged_parts else merged
                for _, block in received:
                    more, other = pickle.loads(block)
                    writes += map(_with_own_nan, more)
                    others += [other] if other is not None else []
            writes = sorted(writes, key=self._order)
            if any(report.failed or report.ordered is not None for report in reports):
                break
            try:
                with _rare_collections:
                    for other in others:
                        merged.add(_merged_with_own_nan(other))
                    merged.require_no_order(writes)
                    self._writer.refuses = "a combiner"
                    combined = visible.combine(writes, self._applications)
                    self._writer.refuses = ""
                    if not self.program.eager:  # a row has one event, of what its cells are now
                        synchronous = self._accumulators.keys() - self.program.asynchronous
                        combined = merged.take_cells(combined, synchronous)
                    for one in combined:
                        self._running = self.program.triggers[one.trigger], one.key
                        visible.apply(one, urgent=self.program.eager)
                    if merged:
                        visible.apply_round(merged)
            except OrderNeeded as error:
                ordered = error.place
                continue
            except BaseException as error:  # a sum that does not fit into 64 bits, a combiner
                failure = self._failure(low, error)
                continue
            if not any(report.busy for report in reports):
                if not any(report.repeats for report in reports):
                    break
                self._repeat(visible)
        ordered = min([r.ordered for r in reports if r.ordered is not None], default=None)
        failed = any(report.failed for report in reports)
        if failed or ordered is not None:
            self._journal.undo(0)
        else:
            visible.end_batch()
        self._journal.clear()
        self._clear()
        return failed, failure, None if failed else ordered

    def _order(self, writes: Writes) -> tuple[Any, ...]:
        """Return what the writes of a round are sorted by."""
        if isinstance(self.program.triggers[writes.trigger], Accumulator):
            return writes.trigger, *_place_of_text(writes.key)
        return writes.trigger, isinstance(writes.key, str), writes.key

    def _repeat(self, visible: VisibleWrites) -> None:
        """Have accumulations run again whose results are not there any more."""
        repeats, visible.repeats = visible.repeats, {}
        for (target, key), (wave, round) in repeats.items():
            operation = (target, key, What.REPEAT, None, None)
            version = wave, round + 1
            self._out.append(Writes(self.program.accumulators[target], key, version, [operation]))

    def _operations(
        self, calls: Calls, owners: NDArray[np.int32] | None, low: int, high: int
    ) -> list[Operation]:
        """Return the writes of the calls that this partition takes, in their order."""
        program = self.program
        taken = np.ones(len(calls), np.bool_)
        if owners is not None:
            all_take = [
                not d.table or self.program.targets[d.table] in self.program.everywhere
                for d in program.does
            ]
            taken = (owners == self.partition) | np.array(all_take)[calls.methods]
        numbered: list[tuple[int, Operation]] = []
        present = np.unique(calls.methods[low:high]).tolist()
        for m in present:
            of_method = np.flatnonzero(calls.methods == m)
            inside = (of_method >= low) & (of_method < high) & taken[of_method]
            rows = np.flatnonzero(inside)
            parameters = range(1, len(program.parameters_of(m)))
            columns = [calls.arguments[m, p] for p in parameters]
            if len(rows) < len(inside):
                columns = [take_values(column, rows) for column in columns]
            operations = self._operations_of(m, columns)
            if len(present) == 1:
                return operations
            numbered += zip(of_method[inside].tolist(), operations, strict=True)
        numbered.sort(key=lambda pair: pair[0])
        return [operation for _, operation in numbered]

    def _operations_of(self, m: int, columns: Sequence[Values]) -> list[Operation]:
        """Return the writes of calls of one method, whose arguments are columns."""
        program, does = self.program, self.program.does[m]
        if does.kind == "activate":
            names, filters = map(python_values, columns)
            return [
                (program.trigger_named(name), "", What.ACTIVATE, where, None)
                for name, where in zip(names, filters, strict=True)
            ]
        target, keys = self.program.targets[does.table], python_values(columns[0])
        if does.kind == "delete":
            return [(target, key, What.DELETE, None, None) for key in keys]
        element: TableElement = program.tables[does.table].element
        given, places = np.asarray(columns[1]), range(len(element.columns))
        if len(given) and (given == given[0]).all():  # the same columns in all rows
            places = [k for k in places if int(given[0]) >> k & 1]  # type: ignore[assignment]
        values = []
        for k in places:
            column, stored = element.columns[k], python_values(columns[2 + k])
            values.append([(k, column.restore(value)) for value in stored])
        pairs = list(zip(*values, strict=True)) if values else [()] * len(keys)
        if len(values) == len(element.columns):
            bits = given.tolist()
            pairs = [
                tuple(pair for pair in row if bit >> pair[0] & 1)
                for row, bit in zip(pairs, bits, strict=True)
            ]
        return [(target, key, What.INSERT, None, row) for key, row in zip(keys, pairs, strict=True)]

    def _failure(self, number: int, error: BaseException) -> Failure:
        """Return the failure of a call; an interrupt is raised."""
        if is_interrupt(error):
            self._journal.undo(0)
            self._journal.clear()
            raise error
        return trigger_failure(self.program, self._running, number, error)

    # Between partitions

    def _divided(self, writes: Sequence[Writes]) -> list[list[Writes]]:
        """Return what goes to each partition."""
        keys: dict[type, list[Any]] = {int: [], str: []}
        for one in writes:
            for operation in one.operations:
                keys[operation[1].__class__].append(operation[1])
        owners = {
            int: iter(owners_of_keys(stored_values("int", keys[int]), self.partitions).tolist()),
            str: iter(owners_of_keys(stored_values("str", keys[str]), self.partitions).tolist()),
        }
        parts: list[list[Writes]] = [[] for _ in range(self.partitions)]
        for one in writes:
            divided: dict[int, list[Operation]] = {}
            for operation in one.operations:
                owner = next(owners[operation[1].__class__])
                to_all = operation[2] == What.ACTIVATE or operation[0] in self.program.everywhere
                for q in range(self.partitions) if to_all else (owner,):
                    divided.setdefault(q, []).append(operation)
            for q, operations in divided.items():
                parts[q].append(one._replace(operations=operations))
        return parts

    def _owns(self, key: Any) -> bool:
        """Return whether this partition has the row of a key."""
        owned = self._own_keys.get(key)
        if owned is None:
            keys = stored_values("str" if isinstance(key, str) else "int", [key])
            owned = int(owners_of_keys(keys, self.partitions)[0]) == self.partition
            if len(self._own_keys) >= _KNOWN:
                self._own_keys.clear()
            self._own_keys[key] = owned
        return owned

    # Running

    def _run_events(self) -> None:
        """Run what has events, once for each row."""
        eager = self.program.eager
        waiting, activated = self.events.take()
        forced: dict[int, dict[Any, Version]] = {}
        for t, filters in activated.items():
            forced[t] = self._rows_to_activate(t, filters)
            waiting[t] = {**forced[t], **waiting.get(t, {})}
        for t in sorted(waiting):
            of_trigger, chosen = waiting[t], forced.get(t, ())
            of_cells = isinstance(self.program.triggers[t], Accumulator)
            for key in sorted(of_trigger, key=_place_of_text if of_cells else None):
                self._run(t, key, of_trigger[key], forced=key in chosen)
                if self.events.urgent and not eager:
                    self._run_urgent(-1)
        if self.events.urgent:
            self._run_urgent(_FEW if eager else -1)

    def _run_urgent(self, most: int) -> None:
        """Run what does not wait for the end of the round, the oldest event first."""
        self._now = True
        while self.events.urgent and most:
            self._run(*self.events.take_urgent())
            most -= 1
        self._now = self.program.eager

    def _rows_to_activate(self, t: int, filters: dict[str, Version]) -> dict[Any, Version]:
        """Return the keys of the rows for which a trigger was activated, with versions."""
        trigger = self.program.triggers[t]
        assert isinstance(trigger, PlainTrigger)
        target = self.program.targets[trigger.table]
        if target in self.program.everywhere and self.partition:
            return {}
        view, application = self._views[target], self._applications[trigger.application]
        chosen: dict[Any, Version] = {}
        for where, version in filters.items():
            row_filter = self.program.row_filter(trigger, where)
            for key, row in self._states[target].rows.items():
                self._running = trigger, key
                shown = view.old_row_class(view, key, row)
                self._writer.refuses = "where="
                if row_filter is None or row_filter(application, shown):
                    chosen[key] = later(version, chosen.get(key, FIRST))
                self._writer.refuses = ""
        return chosen

    def _run(self, t: int, key: Any, version: Version, *, forced: bool = False) -> None:
        """Run a trigger for a row.

        Args:
            forced: whether or not the row has changed.
        """
        trigger = self.program.triggers[t]
        self._running = trigger, key
        writer = self._writer
        if isinstance(trigger, PlainTrigger):
            version = self._run_plain(t, trigger, key, version, forced=forced)
        else:
            assert isinstance(trigger, Accumulator)
            version = self._accumulate(t, trigger, key, version)
        if not writer.operations and not writer.puts:
            writer.adds = False
            return
        puts, operations = writer.puts, writer.take()
        if isinstance(trigger, Accumulator) and (
            puts or any(o[0] in self.program.accumulators for o in operations)
        ):
            version = version[0], version[1] + 1  # as what a trigger of a table writes
        if version[1] > self.program.max_rounds:
            raise InputError(
                f"it has run in {self.program.max_rounds:,} rounds that follow from one change: "
                "give it a condition that ends (when=), or more max_rounds="
            )
        if puts and version != self._merged.version:
            self._merged.version = later(version, self._merged.version)
        if operations and (self._now or self.program.asynchronous):
            now = [o for o in operations if self._is_now(o)]
            if now:
                assert self._visible is not None
                self._visible.apply(Writes(t, key, version, now), urgent=True)
                operations = [o for o in operations if not self._is_now(o)]
        if operations:
            self._out.append(Writes(t, key, version, operations))

    def _is_now(self, operation: Operation) -> bool:
        """Return whether a write does not wait for the end of the round."""
        target = operation[0]
        if operation[2] == What.ACTIVATE or not (self._now or target in self.program.asynchronous):
            return False
        if self.partitions == 1:
            return True
        return target not in self.program.everywhere and self._owns(operation[1])

    def _run_plain(
        self, t: int, trigger: PlainTrigger, key: Any, version: Version, *, forced: bool
    ) -> Version:
        """Run a trigger of a table, if the row is not as it last saw it, or it is activated."""
        target = self.program.targets[trigger.table]
        visible, view = self._visible, self._views[target]
        assert visible is not None
        row = self._states[target].rows.get(key, view.default)
        seen = visible.seen[t]
        previous = seen.get(key)
        if previous is None:
            previous = row
        if not forced and not view.differ(previous, row, trigger.columns):
            return version
        if self.program.eager:
            version = later(version, visible.row_version(target, key))
        new, old = view.row_class(view, key, row), view.old_row_class(view, key, previous)
        application, writer = self._applications[trigger.application], self._writer
        if not forced and trigger.when is not None:
            writer.refuses = "when="
            passes = trigger.when(application, new, old)
            writer.refuses = ""
            if not passes:
                return version
        seen.drop(key)
        self.runs[t] += 1
        writer.adds = True
        trigger.function(application, new, old)
        if view.has_lists:
            new._check_lists()
            old._check_lists()
        return version[0], version[1] + 1

    def _accumulate(self, t: int, trigger: Accumulator, key: str, version: Version) -> Version:
        """Run an accumulator on the cells of a row."""
        target = self.program.targets[trigger.table]
        state = self._states[target]
        assert isinstance(state, CellRows)
        assert self._visible is not None
        versions = self._visible.cell_versions(target, key)
        hidden: dict[Any, Any] = {}
        if versions:
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
            version: version of its event.
            versions: for each cell, the ones of this batch with their values, the oldest first.
        """
        for values in versions.values():
            version = later(version, values[-1][0])
        return version


def _place_of_text(text: str) -> tuple[bool, Any]:
    """Return what the keys of the rows of an accumulator are sorted by: ints come first."""
    key = key_of_text(text)
    return isinstance(key, str), key


def _hidden(versions: dict[Any, list[tuple[Version, Any]]], version: Version) -> dict[Any, Any]:
    """Return the cells of a row that are newer than an accumulation, as it reads them.

    Args:
        versions: those of this batch, by column, the oldest first.
        version: version of the accumulation.

    Returns:
        The newest value that is not newer, None for none, by column.
    """
    hidden = {}
    for column, values in versions.items():
        older = [v for at, v in values if at[0] <= version[0] and at[1] <= version[1]]
        if len(older) < len(values):
            hidden[column] = older[-1]
    return hidden


def _with_own_nan(writes: Writes) -> Writes:
    """Return writes of another partition, in which NaN is the one object that equals itself."""
    return writes._replace(operations=[(*o[:4], _own_nan(o[4])) for o in writes.operations])


def _merged_with_own_nan(writes: RoundWrites) -> RoundWrites:
    for cells in writes.cells.values():
        for row in cells.values():
            for column, value in row.items():
                if value.__class__ is float and value != value:
                    row[column] = math.nan
    return writes


def _own_nan(value: Any) -> Any:
    if value.__class__ is float:
        return value if value == value else math.nan
    if value.__class__ is tuple:
        return tuple(map(_own_nan, value))
    if value.__class__ is dict:
        return {name: _own_nan(cell) for name, cell in value.items()}
    return value


def _batches(calls: Calls) -> list[tuple[int, int]]:
    """Return where each batch of a block begins and ends."""
    batch = np.empty(len(calls), np.int64)
    for m in np.unique(calls.methods).tolist():
        batch[calls.methods == m] = calls.arguments[m, 0]
    ends = [*(np.flatnonzero(batch[1:] != batch[:-1]) + 1).tolist(), len(batch)]
    return list(zip([0, *ends[:-1]], ends, strict=True)) if len(batch) else []


class _RareCollections:
    """Has Python look for cycles less often: rows and writes are many new objects without any."""

    def __init__(self) -> None:
        self._lock, self._entered = threading.Lock(), 0
        self._threshold = gc.get_threshold()

    def __enter__(self) -> None:
        with self._lock:
            self._entered += 1
            if self._entered == 1:
                self._threshold = gc.get_threshold()
                gc.set_threshold(200_000, *self._threshold[1:])

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self._entered -= 1
            if not self._entered:
                gc.set_threshold(*self._threshold)


_rare_collections = _RareCollections()
