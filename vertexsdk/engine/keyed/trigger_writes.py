"""Makes the writes of actions and of calls visible in the tables of a trigger program."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple, TypeAlias

from vertexsdk.engine.keyed._trigger_rows import Operation, TableView, What
from vertexsdk.engine.keyed.calls import owners_of_keys, stored_values
from vertexsdk.engine.keyed.trigger_events import FIRST, Events, later
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.keyed_state import RowsState
from vertexsdk.program.trigger_program import (
    Accumulator,
    CellRows,
    PlainTrigger,
    TableRows,
    TriggerProgram,
    Version,
)

LEAST_INT, GREATEST_INT = -(1 << 63), (1 << 63) - 1
OUTSIDE: Final = -1  # in place of a trigger: writes of calls
_MERGED: Final = -1  # in place of what an operation does
_DERIVED: Final = (What.SET, What.ADD, What.SET_CELL, What.INSERT)  # comes back (`repeats`)


class Writes(NamedTuple):
    """The writes of one action, or of calls.

    Attributes:
        trigger: the place of the trigger whose action it was; `OUTSIDE` for calls.
        key: key of the row that it ran for.
        version: version of what is written.
        operations: in order.
    """

    trigger: int
    key: Any
    version: Version
    operations: Sequence[Operation]


Place: TypeAlias = tuple[int, int]  # of a table, and of one of its columns; 0 for an accumulator


class OrderNeeded(Exception):
    """Writes of a round that cannot be merged, as their order counts.

    Args:
        place: place of what is written.
    """

    def __init__(self, place: Place) -> None:
        super().__init__(place)
        self.place = place


class RoundWrites:
    """Writes of one round whose order is of no account, merged by what they change.

    Args:
        sums: where numbers are added to columns.
        cells: the places of the tables of accumulators.

    Attributes:
        sums: what is added, by place and key.
        cells: what cells are set to, by place, key and column; `ABSENT` removes one.
        version: the latest of what they follow from.
    """

    def __init__(self, sums: Iterable[Place], cells: Iterable[int]) -> None:
        self.sums: dict[Place, dict[Any, int]] = {place: defaultdict(int) for place in sums}
        self.cells: dict[int, dict[str, dict[Any, Any]]] = {target: {} for target in cells}
        self.version: Version = FIRST

    def __bool__(self) -> bool:
        return any(self.sums.values()) or any(self.cells.values())

    def clear(self) -> None:
        """Forget all writes."""
        for amounts in self.sums.values():
            amounts.clear()
        for cells in self.cells.values():
            cells.clear()
        self.version = FIRST

    def take(self) -> RoundWrites:
        """Return the writes of a round that has ended."""
        taken = RoundWrites((), ())
        taken.version = self.version
        taken.sums = {place: dict(amounts) for place, amounts in self.sums.items() if amounts}
        taken.cells = {target: dict(cells) for target, cells in self.cells.items() if cells}
        self.clear()
        return taken

    def divided(self, program: TriggerProgram, partitions: int) -> list[RoundWrites]:
        """Return what goes to each partition."""
        parts = [RoundWrites((), ()) for _ in range(partitions)]
        kinds = [spec.key for spec in program.tables.values()]
        for part in parts:
            part.version = self.version
        for place, amounts in self.sums.items():
            for owner, of_owner in enumerate(_by_owner(amounts, kinds[place[0]], partitions)):
                parts[owner].sums[place] = of_owner
        for target, cells in self.cells.items():
            for owner, rows in enumerate(_by_owner(cells, "str", partitions)):
                parts[owner].cells[target] = rows
        return parts

    def add(self, other: RoundWrites) -> None:
        """Take in the writes of another partition.

        Raises:
            OrderNeeded: both have set a cell.
        """
        self.version = later(self.version, other.version)
        for place, amounts in other.sums.items():
            sums = self.sums.setdefault(place, {})
            for key, amount in amounts.items():
                sums[key] = sums.get(key, 0) + amount
        for target, cells in other.cells.items():
            rows = self.cells.setdefault(target, {})
            for key, values in cells.items():
                row = rows.setdefault(key, values)
                if row is not values:
                    if not row.keys().isdisjoint(values):
                        raise OrderNeeded((target, 0))
                    row.update(values)

    def take_cells(self, writes: Iterable[Writes], targets: Collection[int]) -> list[Writes]:
        """Take in what writes, in their order, do to cells; return what else they do.

        Args:
            targets: the places of the accumulators.
        """
        others = []
        for one in writes:
            rest = []
            for operation in one.operations:
                target, key, what, column, value = operation
                if target not in targets or what not in (What.PUT, What.DISCARD):
                    rest.append(operation)
                    continue
                row = self.cells.setdefault(target, {}).setdefault(key, {})
                row[column] = value if what == What.PUT else ABSENT
                self.version = later(self.version, one.version)
            if rest:
                others.append(
                    one if len(rest) == len(one.operations) else one._replace(operations=rest)
                )
        return others

    def require_no_order(self, writes: Iterable[Writes]) -> None:
        """Check that other writes of the round do not set what is added to.

        Raises:
            OrderNeeded: they do.
        """
        tables = {target for target, _ in self.sums}
        if not tables:
            return
        for one in writes:
            for target, key, what, place, _ in one.operations:
                if target not in tables or what not in (What.SET, What.DELETE):
                    continue
                for (of_table, column), amounts in self.sums.items():
                    is_same = of_table == target and (what == What.DELETE or column == place)
                    if is_same and key in amounts:
                        raise OrderNeeded((target, column))


def _by_owner(rows: Mapping[Any, Any], kind: str, partitions: int) -> list[dict[Any, Any]]:
    """Return the rows that each partition has."""
    parts: list[dict[Any, Any]] = [{} for _ in range(partitions)]
    keys = list(rows)
    owners = owners_of_keys(stored_values(kind, keys), partitions).tolist()
    for owner, key in zip(owners, keys, strict=True):
        parts[owner][key] = rows[key]
    return parts


class LastSeen:
    """The rows of a table as one of its triggers last saw them, where they have changed since then.

    What changes within a batch is kept in memory, and is state once the batch has ended.

    Args:
        t: the place of the trigger.
        trigger: the trigger.
        state: the rows, between batches.
    """

    def __init__(self, t: int, trigger: PlainTrigger, state: RowsState) -> None:
        self.t, self.columns, self.reads = t, trigger.columns, trigger.reads
        self._state, self._stored = state, state.rows
        self._recent: dict[Any, tuple[Any, ...]] = {}

    def get(self, key: Any) -> tuple[Any, ...] | None:
        """Return the row of a key; None where it has not changed."""
        row = self._recent.get(key)
        return self._stored.get(key) if row is None else row

    def set(self, key: Any, row: tuple[Any, ...]) -> None:
        """Keep the row of a key."""
        if key in self._stored:
            self._state.note(self._stored, key, key)
            self._stored[key] = row
        else:
            self._recent[key] = row

    def drop(self, key: Any) -> None:
        """Be told that the trigger has seen the row as it is."""
        if self._recent.pop(key, None) is None and key in self._stored:
            self._state.note(self._stored, key, key)
            del self._stored[key]

    def clear(self) -> None:
        """Forget what has changed within the batch."""
        self._recent.clear()

    def store(self, rows: Mapping[Any, tuple[Any, ...]], default: tuple[Any, ...]) -> None:
        """Keep what has changed within the batch.

        Args:
            rows: as they are now.
            default: a row that is not there.
        """
        for key, row in self._recent.items():
            if row[:-1] != rows.get(key, default)[:-1]:
                self._state.note(self._stored, key, key)
                self._stored[key] = row
        self._recent.clear()


class VisibleWrites:
    """Makes writes visible, and fires the events of the triggers that watch what they change.

    Args:
        program: what runs.
        states: the states of its tables, in their order.
        views: the tables of the user, by place.
        events: takes the events.
        first: this is the first partition, which has the events of tables that all have.

    Attributes:
        repeats: accumulations, by table and key, whose results were deleted, or replaced from
            outside, with the version of that: they are to run again once all is done.
        seen: what each trigger of a table last saw, by its place.
    """

    def __init__(
        self, program: TriggerProgram, states: Sequence[RowsState],
        views: Mapping[int, TableView], events: Events, *, first: bool,
    ) -> None:  # fmt: skip
        self._program, self._states, self._views, self._events = program, states, views, events
        self._eager = program.eager
        targets = program.targets
        self.seen: dict[int, LastSeen] = {}
        self._watching: list[list[LastSeen]] = [[] for _ in targets]
        for t, trigger in enumerate(program.triggers):
            if isinstance(trigger, PlainTrigger):
                seen = self.seen[t] = LastSeen(t, trigger, states[targets[trigger.seen]])
                target = targets[trigger.table]
                if first or target not in program.everywhere:
                    self._watching[target].append(seen)
        self._reads = [
            frozenset[int]().union(*(seen.reads for seen in watching)) if watching else None
            for watching in self._watching
        ]
        self._combiners = {(targets[name], k): c for (name, k), c in program.combiners.items()}
        self.clear()

    def clear(self) -> None:
        """Forget what belongs to one batch."""
        self.repeats: dict[tuple[int, Any], Version] = {}
        self._row_versions: dict[tuple[int, Any], Version] = {}
        self._cell_versions: dict[tuple[int, Any], dict[Any, list[tuple[Version, Any]]]] = {}
        for seen in self.seen.values():
            seen.clear()

    def end_batch(self) -> None:
        """Make state of what triggers last saw."""
        for target, watching in enumerate(self._watching):
            for seen in watching:
                seen.store(self._states[target].rows, self._views[target].default)

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

    def apply_round(self, writes: RoundWrites) -> None:
        """Make the merged writes of a round visible.

        Raises:
            OrderNeeded: a sum does not fit into 64 bits.
        """
        for target, cells in writes.cells.items():
            state = self._states[target]
            assert isinstance(state, CellRows)
            changed, count = state.put_cells(cells)
            t = self._program.accumulators[target]
            self._events.fire_rows(t, changed, writes.version, count)
        for place, amounts in writes.sums.items():
            self._add(place, amounts)

    def _add(self, place: Place, amounts: Mapping[Any, int]) -> None:
        """Add numbers to a column of a table that no trigger watches."""
        target, column = place
        state, exists = self._states[target], self._views[target].exists
        rows, default = state.rows, self._views[target].default
        keys = [key for key, amount in amounts.items() if amount]
        state.note_all(keys)
        following = column + 1
        for key in keys:
            row = rows.get(key, default)
            value = row[column] + amounts[key]
            if not LEAST_INT <= value <= GREATEST_INT:
                raise OrderNeeded(place)
            new = (*row[:column], value, *row[following:])
            if row[-2] or exists(new):
                rows[key] = new
            else:
                rows.pop(key, None)

    def _apply_to_cell(self, operation: Operation, version: Version, *, urgent: bool) -> None:
        target, key, what, column, value = operation
        state = self._states[target]
        assert isinstance(state, CellRows)
        if self._eager and what != What.REPEAT:
            versions = self._cell_versions.setdefault((target, key), {})
            previous = state.rows.get(key, {}).get(column)
            versions.setdefault(column, [(FIRST, previous)]).append((version, value))
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
            previous = row[k]
            if cell is not previous and cell != previous:
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
        for seen in self._watching[target]:
            previous = seen.get(key)
            if seen.t == t and previous is not None:
                other = {
                    k: v for k, v in known.items() if k not in seen.columns and k < len(row) - 2
                }
                self._see_again(seen, key, previous, row, other)

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
        version = writes.version
        if self._eager:
            at = target, key
            version = self._row_versions[at] = later(version, self._row_versions.get(at, FIRST))
        reads = self._reads[target]
        if reads is None:
            return
        existence = exists != (row[-2] or view.exists(row))
        if not existence and reads.isdisjoint(changed):
            return
        for seen in self._watching[target]:
            if not existence and seen.reads.isdisjoint(changed):
                continue
            previous = seen.get(key)
            known = seen.t == writes.trigger and key == writes.key  # it knows what it has set
            if known:
                previous = row if previous is None else previous
                unwatched = [k for k in changed if k not in seen.columns and k < len(row) - 2]
                convert = state.element.columns
                values = {
                    k: new[k] if amount is None else convert[k].convert(previous[k] + amount)
                    for k in unwatched
                }
                self._see_again(seen, key, previous, new, values)
            elif previous is None:
                seen.set(key, row)
            elif previous[:-1] == new[:-1]:
                seen.drop(key)
            if existence or not seen.columns.isdisjoint(changed):
                self._events.fire(seen.t, key, version, urgent=urgent)

    @staticmethod
    def _see_again(
        seen: LastSeen, key: Any, previous: tuple[Any, ...], new: tuple[Any, ...],
        known: Mapping[int, Any],
    ) -> None:  # fmt: skip
        """Have a trigger have seen a row, in some columns as it is now.

        Args:
            seen: what it has seen.
            previous: the row that it has seen last.
            known: what it has set itself, by place.
        """
        if known:
            previous = tuple(known.get(k, v) for k, v in enumerate(previous))
        if previous[:-1] == new[:-1]:
            seen.drop(key)
        elif seen.get(key) is not previous:
            seen.set(key, previous)

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
                previous = lists[earlier[0]][earlier[1]]
                lists[earlier[0]][earlier[1]] = (*previous[:2], _MERGED, *previous[3:])
                column = self._views[target].columns[place]
                both = function(
                    applications[application], column.show(previous[4]), column.show(value)
                )
                operations[o] = target, key, what, place, column.convert(both)
        return [
            one._replace(operations=[o for o in operations if o[2] != _MERGED])
            for one, operations in zip(writes, lists, strict=True)
        ]
