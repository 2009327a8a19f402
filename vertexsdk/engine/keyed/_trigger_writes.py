"""How the writes of actions and of calls become visible in the tables of a trigger program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from vertexsdk.engine.keyed._trigger_events import FIRST, Events, later
from vertexsdk.engine.keyed._trigger_rows import Operation, TableView, What
from vertexsdk.program.keyed_state import RowsState
from vertexsdk.program.trigger_program import (
    Accumulator,
    CellRows,
    PlainTrigger,
    TableRows,
    TriggerProgram,
    Version,
)

OUTSIDE: Final = -1  # in place of a trigger: writes of calls
_MERGED: Final = -1  # in place of what an operation does
_DERIVED: Final = (What.SET, What.ADD, What.SET_CELL, What.INSERT)  # comes back, see `repeats`


class Writes(NamedTuple):
    """What one action, or calls, have written.

    Attributes:
        trigger: the place of the trigger whose action it was; `OUTSIDE` for calls.
        key: of the row that it ran for.
        version: of what is written.
        operations: in order.
    """

    trigger: int
    key: Any
    version: Version
    operations: Sequence[Operation]


class VisibleWrites:
    """Makes writes visible, and fires the events of the triggers that watch what they change.

    Args:
        program: what runs.
        states: of its tables, in their order.
        views: the tables of the user, by place.
        events: takes the events.
        first: this is the first partition, which has the events of tables that all have.

    Attributes:
        repeats: accumulations, by table and key, whose results were deleted, or replaced from
            outside, with the version of that: they are to run again once all is done.
    """

    def __init__(
        self, program: TriggerProgram, states: Sequence[RowsState],
        views: Mapping[int, TableView], events: Events, *, first: bool,
    ) -> None:  # fmt: skip
        self._program, self._states, self._views, self._events = program, states, views, events
        self._eager = program.eager
        targets = program.targets
        self._watching: list[list[tuple[int, frozenset[int], RowsState]]] = [[] for _ in targets]
        for t, trigger in enumerate(program.triggers):
            if isinstance(trigger, PlainTrigger):
                target = targets[trigger.table]
                if first or target not in program.everywhere:
                    seen = states[targets[trigger.seen]]
                    self._watching[target].append((t, trigger.columns, seen))
        self._combiners = {(targets[name], k): c for (name, k), c in program.combiners.items()}
        self.clear()

    def clear(self) -> None:
        """Forget what belongs to one batch."""
        self.repeats: dict[tuple[int, Any], Version] = {}
        self._row_versions: dict[tuple[int, Any], Version] = {}
        self._cell_versions: dict[tuple[int, Any], dict[Any, list[tuple[Version, Any]]]] = {}

    def row_version(self, target: int, key: Any) -> Version:
        """Return the version of a row, where triggers do not wait for rounds."""
        return self._row_versions.get((target, key), FIRST)

    def cell_versions(self, target: int, key: Any) -> dict[Any, list[tuple[Version, Any]]]:
        """Return the values of this batch of the cells of a row, by column, with their versions."""
        return self._cell_versions.get((target, key), {})

    def apply(self, writes: Writes, *, urgent: bool) -> None:
        """Make writes visible.

        Args:
            urgent: their events do not wait for the end of the round.
        """
        accumulators, version = self._program.accumulators, writes.version
        for operation in writes.operations:
            target = operation[0]
            if operation[2] == What.ACTIVATE:
                self._events.activate(target, operation[3], version)
            elif target in accumulators:
                self._apply_to_cell(operation, version, urgent=urgent)
            else:
                self._apply_to_row(operation, writes, urgent=urgent)

    def _apply_to_cell(self, operation: Operation, version: Version, *, urgent: bool) -> None:
        target, key, what, column, value = operation
        state = self._states[target]
        assert isinstance(state, CellRows)
        if self._eager and what != What.REPEAT:
            versions = self._cell_versions.setdefault((target, key), {})
            before = state.rows.get(key, {}).get(column)
            versions.setdefault(column, [(FIRST, before)]).append((version, value))
        if what == What.PUT:
            changed = state.put_cell(key, column, value)
        elif what == What.DISCARD:
            changed = state.discard_cell(key, column)
        else:  # to be repeated, unless there is nothing any more
            changed = key in state.rows
        if changed:
            urgent = (urgent and self._eager) or target in self._program.asynchronous
            self._events.fire(self._program.accumulators[target], key, version, urgent=urgent)

    def _apply_to_row(self, operation: Operation, writes: Writes, *, urgent: bool) -> None:
        target, key, what, place, value = operation
        state = self._states[target]
        assert isinstance(state, TableRows)
        default: tuple[Any, ...] = state.element.default
        row: tuple[Any, ...] = state.rows.get(key, default)
        if what in (What.SET, What.ADD):
            if what == What.ADD:
                value = state.element.columns[place].convert(row[place] + value)
            pairs: Sequence[tuple[int, Any]] = ((place, value),)
        elif what == What.INSERT:
            pairs = (*(value or ()), (len(default) - 2, True))
        elif what == What.DELETE:
            pairs = list(enumerate(default[:-1]))
        else:
            family, name = place
            cells = dict(row[family])
            is_new = name not in cells
            if what == What.SET_CELL:
                cells[name] = value
                cells = dict(sorted(cells.items())) if is_new else cells
            else:
                cells.pop(name, None)
            pairs = ((family, cells),)
        new, changed = list(row), list[int]()
        for k, cell in pairs:
            before = row[k]
            if cell is not before and cell != before:
                new[k] = cell
                changed.append(k)
        writers = row[-1]
        trigger = None if writes.trigger == OUTSIDE else self._program.triggers[writes.trigger]
        if isinstance(trigger, Accumulator) and what in _DERIVED:
            writer = trigger.table, writes.key
            at = len(default) - 2 if what == What.INSERT else place
            if writers is None or writers.get(at) != writer:
                new[-1] = {**(writers or {}), at: writer}
                if not changed and key in state.rows:  # the value was there already
                    state.note(state.rows, key, key)
                    state.rows[key] = tuple(new)
        if not changed:
            if trigger is not None and key == writes.key:
                self._know(target, key, row, dict(pairs), writes.trigger)
            return
        if writers is not None and (trigger is None or what == What.DELETE):
            self._note_repeats(writers, what, changed, writes.version)
        if what == What.DELETE:
            new[-1] = None
        amount = operation[4] if what == What.ADD else None
        self._replace(target, key, row, tuple(new), changed, writes, amount, urgent=urgent)

    def _know(
        self, target: int, key: Any, row: tuple[Any, ...], known: dict[int, Any], t: int
    ) -> None:
        """Have a trigger have seen what it has set, and what was there already."""
        for own, columns, seen in self._watching[target]:
            before = seen.rows.get(key)
            if own == t and before is not None:
                values = {k: v for k, v in known.items() if k not in columns and k < len(row) - 2}
                self._see_again(seen, key, before, row, values)

    def _replace(
        self, target: int, key: Any, row: tuple[Any, ...], new: tuple[Any, ...],
        changed: Sequence[int], writes: Writes, amount: Any, *, urgent: bool,
    ) -> None:  # fmt: skip
        """Have another row at a key.

        Args:
            changed: the places of what is different.
            amount: what was added to the only one of these; None where it was set.
        """
        state, view = self._states[target], self._views[target]
        rows = state.rows
        state.note(rows, key, key)
        exists = new[-2] or view.exists(new)
        if exists:
            rows[key] = new
        else:
            rows.pop(key, None)
        watching = self._watching[target]
        version = writes.version
        if self._eager:
            at = target, key
            version = self._row_versions[at] = later(version, self._row_versions.get(at, FIRST))
        if not watching:
            return
        existed = row[-2] or view.exists(row)
        for t, columns, seen in watching:
            before = seen.rows.get(key)
            known = t == writes.trigger and key == writes.key  # it knows what it has set
            if before is None and not known:
                seen.note(seen.rows, key, key)
                seen.rows[key] = row
            else:
                before = row if before is None else before
                own = [k for k in changed if known and k not in columns and k < len(row) - 2]
                convert = state.element.columns
                values = {
                    k: new[k] if amount is None else convert[k].convert(before[k] + amount)
                    for k in own
                }
                self._see_again(seen, key, before, new, values)
            if exists != existed or not columns.isdisjoint(changed):
                self._events.fire(t, key, version, urgent=urgent)

    @staticmethod
    def _see_again(
        seen: RowsState, key: Any, before: tuple[Any, ...], new: tuple[Any, ...],
        known: Mapping[int, Any],
    ) -> None:  # fmt: skip
        """Have a trigger have seen a row, in some columns as it is now.

        Args:
            seen: what it has seen.
            before: the row that it has seen last.
            known: what it has set itself, by place.
        """
        if known:
            before = tuple(known.get(k, v) for k, v in enumerate(before))
        if before[:-1] == new[:-1]:
            if key in seen.rows:
                seen.note(seen.rows, key, key)
                del seen.rows[key]
        elif seen.rows.get(key) is not before:
            seen.note(seen.rows, key, key)
            seen.rows[key] = before

    def _note_repeats(
        self, writers: dict[Any, Any], what: int, changed: Sequence[int], version: Version
    ) -> None:
        """Have accumulations repeat whose results are deleted, or replaced from outside."""
        for place, (table, key) in writers.items():
            column = place[0] if isinstance(place, tuple) else place
            if what == What.DELETE or column in changed:
                at = self._program.targets[table], key
                self.repeats[at] = later(version, self.repeats.get(at, FIRST))

    def combine(self, writes: Sequence[Writes], applications: Sequence[Any]) -> Sequence[Writes]:
        """Return the writes of a round, those merged that set a column that has a combiner.

        Args:
            writes: in their order.
            applications: the objects whose methods combine.
        """
        if not self._combiners:
            return writes
        latest: dict[tuple[int, Any], dict[int, tuple[int, int]]] = {}
        lists = [list(one.operations) for one in writes]
        for w, operations in enumerate(lists):
            for o, (target, key, what, place, value) in enumerate(operations):
                if what != What.SET or (target, place) not in self._combiners:
                    if what == What.DELETE:  # no write goes past another one of its column
                        latest.pop((target, key), None)
                    elif what == What.ADD:
                        latest.get((target, key), {}).pop(place, None)
                    continue
                of_row = latest.setdefault((target, key), {})
                earlier = of_row.get(place)
                of_row[place] = w, o
                if earlier is None:
                    continue
                application, function = self._combiners[target, place]
                before = lists[earlier[0]][earlier[1]]
                lists[earlier[0]][earlier[1]] = (*before[:2], _MERGED, *before[3:])
                column = self._views[target].columns[place]
                both = function(
                    applications[application], column.show(before[4]), column.show(value)
                )
                operations[o] = target, key, what, place, column.convert(both)
        return [
            one._replace(operations=[o for o in own if o[2] != _MERGED])
            for one, own in zip(writes, lists, strict=True)
        ]
