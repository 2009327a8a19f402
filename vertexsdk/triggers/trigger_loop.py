"""`TriggerLoop`: classes of triggers on partitions, with their tables in a store."""

from __future__ import annotations

import csv
import glob
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pyarrow as pa

from vertexsdk.engine.keyed.calls import Calls, Values, number_of_values, stored_values
from vertexsdk.engine.keyed.keyed_engine import KeyedEngine
from vertexsdk.errors import CallError, InputError, excerpt
from vertexsdk.loops.snapshot_policy import SnapshotEvery, SnapshotKind, SnapshotPolicy
from vertexsdk.loops.streams.file_stream import paths_of
from vertexsdk.loops.streams.intake import Stream
from vertexsdk.program.keyed import ABSENT, Parameter, TableSpec
from vertexsdk.program.table_columns import Column, FamilyColumn, ListColumn, VectorColumn
from vertexsdk.program.trigger_program import (
    DEFAULT_ROUNDS,
    GIVEN,
    Accumulator,
    PlainTrigger,
    Schedule,
    TableElement,
    TriggerProgram,
)
from vertexsdk.state import Manifest, Store
from vertexsdk.state.address import Address
from vertexsdk.stateful.call_columns import blocks_of, table_of
from vertexsdk.stateful.call_stream import CallBatch
from vertexsdk.stateful.keyed_loop import KeyedLoop, first_of, is_one_value
from vertexsdk.triggers.program import trigger_program
from vertexsdk.triggers.triggers import Triggers, name_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


Applications = type[Triggers] | Triggers | Sequence[type[Triggers] | Triggers]


@dataclass(frozen=True)
class _Signature:
    """Some of the parameters of a method."""

    name: str
    parameters: tuple[Parameter, ...]
    writes: bool = True


class TriggerLoop(KeyedLoop):
    """Classes of triggers that run on partitions, and keep their tables.

    Rows that are written and deleted run the triggers that watch them, and these others, until
    nothing changes any more: then `upsert` returns. What was written is in the log of the store
    before that. Where a trigger raises, the row that led to it is refused, and changes nothing.

    Args:
        applications: a class of triggers, or several, which share tables of the same name;
            `Rank(tolerance=1e-6)` has other parameters than `Rank`.
        backend: URL of the store; the default is that of `MainLoop`.
        loop: the name of the loop in the store; by default those of the classes, joined by "-".
        partitions: among how many the rows are divided; by default one, or one per executor.
        spark: the session on whose executors the partitions are; None for this process.
        snapshot_every: write the changed rows to the store after so many rows that were written,
            or a time as "10s". `close` does, and a resumed loop repeats what came since then.
        snapshots: "asynchronous", rows are copied while others are written, and a thread stores
            them; or "synchronous".
        max_rounds: how many rounds may follow from one change; more is an error, which names the
            trigger.
        schedule: "rounds", every row for which a trigger has events runs once in a round. To
            compare: "eager", triggers run a few at a time and more often, and "every", they run
            for each event, also where a later one makes it redundant.
        replace: drop the rows of an earlier loop of that name.

    Attributes:
        program: the program that the classes became.
        loop: the name of the loop in the store.
        partitions: the number of partitions, which `rescale` changes.

    Raises:
        InputError: arguments that do not fit each other, or the store has rows of this loop.
        ProgramError: a class cannot run as written, or two declare a table in different ways.
        StateError: the store cannot be opened.

    Example:
        >>> from vertexsdk import Table, Triggers, on_change
        >>> class Words(Triggers):
        ...     pages = Table(url=str, text=str)
        ...     words = Table(word=str, count=int)
        ...     @on_change(pages, "text")
        ...     def split(self, page, old):
        ...         for word in old.text.split():
        ...             self.words[word].count -= 1
        ...         for word in page.text.split():
        ...             self.words[word].count += 1
        >>> with TriggerLoop(Words, backend="memory://trigger-loop") as loop:
        ...     loop.upsert("pages", url=["a", "b"], text=["to be or", "not to be"])
        ...     loop.delete("pages", "b")
        ...     loop.lookup("words", ["be", "or", "not"])
        {'be': {'count': 1}, 'or': {'count': 1}}
    """

    _kind = "triggers"
    program: TriggerProgram

    def __init__(
        self,
        applications: Applications,
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        max_rounds: int = DEFAULT_ROUNDS,
        schedule: Schedule = "rounds",
        replace: bool = False,
    ) -> None:
        program = trigger_program(applications, max_rounds=max_rounds, schedule=schedule)
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        self._open(program, backend, loop, partitions, spark, policy, replace=replace)

    @classmethod
    def resume(
        cls,
        applications: Applications,
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        max_rounds: int = DEFAULT_ROUNDS,
        schedule: Schedule = "rounds",
    ) -> Self:
        """Continue a loop from its store: read the snapshot, and repeat what came since then.

        Args:
            applications: with the tables that the loop was written with.
            backend, loop, spark, snapshot_every, snapshots, max_rounds, schedule: as for
                `TriggerLoop`.
            partitions: among how many the rows are divided from now on.

        Raises:
            StateInputError: the store has no such loop.
            InputError, ProgramError, StateError: as for `TriggerLoop`.
        """
        resumed = cls.__new__(cls)
        program = trigger_program(applications, max_rounds=max_rounds, schedule=schedule)
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        resumed._open(program, backend, loop, partitions, spark, policy, resume=True)
        return resumed

    def _begin(
        self, store: Store, newest: Manifest | None, policy: SnapshotPolicy,
        engine: KeyedEngine | None,
    ) -> None:  # fmt: skip
        """Continue from a version of the store, None for a new loop."""
        self._batch = 0
        super()._begin(store, newest, policy, engine)

    def upsert(self, table: str, rows: Any = None, /, **columns: Any) -> None:
        """Insert rows, or set columns of those that are there, and run what this triggers.

        Columns that are not given are not changed; those of a new row have their defaults. Of rows
        with the same key the last one counts. Rows are taken in blocks of 65,536.

        Args:
            table: its name.
            rows: an Arrow table or a data frame of pandas, Polars or Spark with columns of the
                table. Others are refused.
            columns: in place of that the values of columns by name, the key among them: lists,
                arrays, columns of Arrow, pandas or Polars; or for one row its values.

        Raises:
            InputError: no such table or column, or values are of another type; earlier blocks are
                written.
            CallError: a trigger raised: the rows that led to it are not written, all others are.
            RunError, StateError: a processor or the store failed: the rows may be written or not.

        Example:
            >>> loop.upsert("pages", url=["a"], links=[["b", "c"]])  # doctest: +SKIP
            >>> loop.upsert("pages", url="a", links=["b", "c"])  # doctest: +SKIP
            >>> loop.upsert("pages", data_frame)  # doctest: +SKIP
        """
        spec = self._table(table)
        method = self.program.method_of(table, "upsert")
        known = self.program.parameters_of(method)
        key = known[1]
        call = f"upsert({table!r})"
        if rows is not None:
            if columns:
                raise InputError(f"{call}: give a table, or columns by name, and not both")
            given = table_of(rows)
            if given is None:
                raise InputError(
                    f"{call}: {excerpt(rows)} is not a table: give an Arrow table, a data frame, "
                    f"or columns by name, as {key.name}=[...]"
                )
            columns = {name: given[name] for name in given.column_names}
        taken = {p.name: p for p in (key, *known[3:])}
        for name in columns:
            if name not in taken:
                raise InputError(
                    f"{call}: {table} has no column {name!r}; it has {', '.join(taken)}"
                )
        if key.name not in columns:
            raise InputError(f"{call}: the key is missing: give {key.name}=")
        if is_one_value(columns[key.name]):
            columns = {name: [value] for name, value in columns.items()}
        parameters = tuple(p for p in taken.values() if p.name in columns)
        self._write(method, spec, parameters, columns, call)

    def delete(self, table: str, keys: Any) -> None:
        """Delete rows, and run what this triggers; keys without a row are left out.

        What accumulators have set of a row comes back, where they still have partial results.

        Args:
            table: its name.
            keys: a key, or several of them (a list, an array, a column).

        Raises:
            InputError, CallError, RunError, StateError: as for `upsert`.
        """
        spec = self._table(table)
        method = self.program.method_of(table, "delete")
        key = self.program.parameters_of(method)[1]
        given = [keys] if is_one_value(keys) else keys
        self._write(method, spec, (key,), {key.name: given}, f"delete({table!r})")

    def _write(
        self, method: int, spec: TableSpec, parameters: tuple[Parameter, ...],
        columns: Mapping[str, Any], call: str,
    ) -> None:  # fmt: skip
        """Write rows of which some columns are given."""
        signature = _Signature(call, parameters)
        failed: list[CallError] = []
        count = 0
        for values in blocks_of(spec.name, signature, [columns[p.name] for p in parameters], call):
            taken = dict(zip([p.name for p in parameters], values, strict=True))
            rows = number_of_values(values[0])
            with self._lock:
                _, errors = self._run(self._calls(method, taken, rows))
            count += rows
            failed += [errors[number] for number in sorted(errors)]
        if failed:
            raise first_of(failed, f"{count:,} rows")

    def _calls(self, method: int, columns: Mapping[str, Values], rows: int) -> Calls:
        """Return the calls that write rows, as one batch; called with the lock."""
        parameters = self.program.parameters_of(method)
        self._batch = max(self._batch, self._history.record.calls) + 1
        arguments: dict[tuple[int, int], Values] = {
            (method, 0): np.full(rows, self._batch, np.int64)
        }
        for p, parameter in enumerate(parameters[1:], 1):
            if parameter.name == GIVEN:
                bits = [1 << k for k, c in enumerate(parameters[3:]) if c.name in columns]
                arguments[method, p] = np.full(rows, sum(bits), np.int64)
            elif parameter.name in columns:
                arguments[method, p] = columns[parameter.name]
            else:
                arguments[method, p] = _repeated(parameter, rows)
        return Calls(np.full(rows, method, np.uint8), arguments)

    def _table(self, name: str) -> TableSpec:
        tables = [does.table for does in self.program.does if does.kind == "upsert"]
        if name not in tables:
            raise InputError(f"there is no table {excerpt(name)}; there are {', '.join(tables)}")
        return self.program.tables[name]

    def activate(self, trigger: Any, where: str | Callable[..., Any] = "") -> None:
        """Have a trigger run for all rows of its table, and return when all is done.

        It runs whether or not rows have changed, and without its `when=`.

        Args:
            trigger: as "assign" or "KMeans.assign", or `KMeans.assign`.
            where: a method of the class, or its name, which is called with each row; where it
                returns False the trigger does not run.

        Raises:
            InputError: no such trigger or method.
            CallError: a trigger raised; nothing was changed.
            RunError, StateError: a processor or the store failed; it may have run or not.
        """
        name, chosen = name_of(trigger), name_of(where)
        place = self.program.trigger_named(name)
        self.program.row_filter(self.program.triggers[place], chosen)
        columns = {"trigger": stored_values("str", [name]), "where": stored_values("str", [chosen])}
        with self._lock:
            calls = self._calls(self.program.method_of("", "activate"), columns, 1)
            _, errors = self._run(calls)
        if errors:
            raise errors[0]

    def statistics(self) -> dict[str, dict[str, int]]:
        """Return how many events each trigger had and how often it ran, since the loop was opened.

        Returns:
            For each trigger, as "Rank.spread", its `events` and `runs`: events that a later one
            made redundant, and those of rows that were as before, have none.

        Raises:
            RunError: a processor was lost.

        Example:
            >>> from vertexsdk import Table, Triggers, on_change
            >>> class Seen(Triggers):
            ...     pages = Table(url=str, text=str)
            ...     @on_change(pages, "text")
            ...     def see(self, page, old): ...
            >>> with TriggerLoop(Seen, backend="memory://trigger-statistics") as loop:
            ...     loop.upsert("pages", url=["a", "a", "b"], text=["x", "y", "z"])
            ...     loop.statistics()
            {'Seen.see': {'events': 3, 'runs': 2}}
        """
        with self._lock:
            self._drain()
            self._recover()
            assert self._engine is not None
            counts = self._engine.trigger_counts()
        names = map(self.program.full_name, self.program.triggers)
        return {
            name: {"events": events, "runs": runs}
            for name, (events, runs) in zip(names, counts, strict=True)
        }

    def lookup(self, table: str, keys: Any) -> dict[Any, dict[str, Any]]:
        """Return the rows of some keys as they are now; keys without one are left out.

        Args:
            table: its name.
            keys: a key, or several of them (a list, an array, ...).

        Returns:
            For each key the values of its columns by name: lists, dicts of families, and for
            vectors arrays (size,).

        Raises:
            InputError: keys of another type, or no such table.
            RunError: a processor was lost.
        """
        spec = self._table(table)
        return self._lookup(spec, keys)

    def read(self, table: str) -> pa.Table:
        """Return all rows of a table as they are now, in the order of their keys.

        Args:
            table: its name.

        Returns:
            An Arrow table with the key and the columns; lists are lists, vectors lists of a fixed
            size, families maps.

        Raises:
            InputError: no such table.
            RunError: a processor was lost.

        Example:
            >>> from vertexsdk import Table, Triggers
            >>> class Ranks(Triggers):
            ...     pages = Table(url=str, rank=0.15)
            >>> with TriggerLoop(Ranks, backend="memory://trigger-read") as loop:
            ...     loop.upsert("pages", url=["b", "a"], rank=[0.5, 0.25])
            ...     loop.read("pages").to_pylist()
            [{'url': 'a', 'rank': 0.25}, {'url': 'b', 'rank': 0.5}]
        """
        spec = self._table(table)
        with self._lock:
            self._drain()
            self._recover()
            assert self._engine is not None
            state = self._engine.rows(table)
        key = self.program.parameters_of(self.program.method_of(table, "delete"))[1]
        return arrow_table(key.name, spec.element, state.rows)

    def start(
        self,
        table: str,
        stream: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        columns: Sequence[str] | None = None,
        delete: bool = False,
        follow: bool | None = None,
        idle: float | None = None,
        checkpointLocation: str | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> Stream:
        """Start to write the rows of a stream in the background, each once across restarts.

        A restarted stream continues after the last row: its position is committed with the rows. A
        row that a trigger refuses is counted and logged.

        Args:
            table: its name.
            stream: files, directories and globs, Parquet or CSV whose first line has the names of
                columns; or a streaming DataFrame. In CSV files lists and families are JSON.
            columns: those to set; by default all that the stream has.
            delete: delete the rows whose keys the stream has.
            follow, idle: for files: as for `MethodCalls.start`.
            checkpointLocation, trigger: for a DataFrame: as for `MethodCalls.start`.

        Returns:
            The stream: `progress()`, `stop()`, `awaitTermination()`, `processAllAvailable()`.

        Raises:
            InputError: no such table or column, another kind of stream, or options for the other
                kind; nothing was started.

        Example:
            >>> loop.start("pages", "pages/*.parquet", follow=True)  # doctest: +SKIP
        """
        self._table(table)
        number = self.program.method_of(table, "delete" if delete else "upsert")
        parameters = self.program.parameters_of(number)
        known = {p.name: p for p in (parameters[1], *parameters[3:])}
        wanted = list(columns_of(stream, known)) if columns is None else list(columns)
        for name in wanted:
            if name not in known:
                raise InputError(
                    f"start({table!r}): {table} has no column {name!r}; it has {', '.join(known)}"
                )
        names = dict.fromkeys([parameters[1].name, *wanted])
        taken = tuple(replace(known[name], default=ABSENT) for name in names)
        signature = _Signature(list(self.program.methods)[number], taken)

        def take(batch: CallBatch) -> Mapping[int, CallError]:
            columns = {p.name: batch.calls.arguments[number, k] for k, p in enumerate(taken)}
            with self._lock:
                calls = self._calls(number, columns, len(batch))
                return self._take(replace(batch, calls=calls))

        options = {
            "follow": follow, "idle": idle, "checkpointLocation": checkpointLocation,
            "trigger": trigger,
        }  # fmt: skip
        return self._start(f"start({table!r})", number, signature, stream, options, take)

    def process_all_available(self) -> None:
        """Return when all rows that streams have at this moment are written, and triggers ran.

        Raises:
            Exception: what a stream has failed with.
        """
        for stream in self._streams:
            stream.processAllAvailable()
        with self._lock:
            self._drain()

    def explain(self) -> str:
        """Return the tables, and the triggers that watch each."""
        lines = [self.program.name]
        for does in self.program.does:
            if does.kind != "upsert":
                continue
            spec = self.program.tables[does.table]
            columns = ", ".join(f"{c.name} {c.described}" for c in spec.element.columns)
            shown = f"  table        {does.table}  {spec.key} → {columns}"
            lines.append(shown + ", on every processor" * (spec.where == "everywhere"))
        for trigger in self.program.triggers:
            name = self.program.full_name(trigger)
            if isinstance(trigger, PlainTrigger):
                columns_of_table = self.program.tables[trigger.table].element.columns
                watched = ", ".join(columns_of_table[k].name for k in sorted(trigger.columns))
                when = ", when it passes a filter" if trigger.when else ""
                lines.append(f"  on change    {name}  {trigger.table}: {watched}{when}")
            else:
                assert isinstance(trigger, Accumulator)
                how = "at the end of a round" if trigger.synchronous else "as results arrive"
                lines.append(f"  accumulator  {name}  {trigger.algebra!r}, {how}")
        return "\n".join(lines)


def _repeated(parameter: Parameter, rows: int) -> Values:
    """Return a column that has the default in all rows."""
    return stored_values(parameter.kind, [parameter.default] * rows)


_TYPES = {
    "int": pa.int64(), "float": pa.float64(), "bool": pa.bool_(), "str": pa.large_string(),
    "bytes": pa.large_binary(),
}  # fmt: skip


def arrow_table(key: str, element: TableElement, rows: Mapping[Any, tuple[Any, ...]]) -> pa.Table:
    """Return rows in the order of their keys.

    Args:
        key: the name of the key.
        element: has the columns.
        rows: by key, as `TableRows` has them.
    """
    keys = sorted(rows)
    arrays = {key: pa.array(keys, _TYPES[element.key])}
    for place, column in enumerate(element.columns):
        arrays[column.name] = _array(column, [rows[k][place] for k in keys])
    return pa.table(arrays)


def _array(column: Column, values: list[Any]) -> pa.Array:
    of = _TYPES[column.kind]
    if isinstance(column, VectorColumn):
        numbers = [column.show(value) for value in values]
        return pa.array([x.tolist() for x in numbers], pa.list_(of, column.size))
    if isinstance(column, FamilyColumn):
        cells = [sorted(value.items()) for value in values]
        return pa.array(cells, pa.map_(_TYPES[column.names], of))
    return pa.array(values, pa.list_(of) if isinstance(column, ListColumn) else of)


def columns_of(stream: Any, table: Collection[str]) -> Sequence[str]:
    """Return the columns of a table that a stream has; all of them if no file exists yet.

    Args:
        stream: files, or a streaming DataFrame.
        table: the names of its columns.
    """
    if not isinstance(stream, str | os.PathLike | Sequence):
        names = getattr(stream, "columns", table)
        return [name for name in table if name in names]
    files = [file for path in paths_of(stream) for file in _files(path)]
    if not files:
        return list(table)
    if files[0].endswith(".parquet"):
        import pyarrow.parquet as pq

        names = pq.read_schema(files[0]).names
    else:
        with open(files[0], newline="", encoding="utf-8-sig", errors="replace") as file:
            separator = "\t" if files[0].endswith((".tsv", ".tab")) else ","
            names = next(csv.reader(file, delimiter=separator), [])
    return [name for name in table if name in names] or list(table)


def _files(path: str) -> list[str]:
    """Return the files that a path or a glob names, those of a directory included."""
    names = [path] if os.path.exists(path) else sorted(glob.glob(path))
    inside = [os.path.join(n, f) for n in names if os.path.isdir(n) for f in sorted(os.listdir(n))]
    return [name for name in [*names, *inside] if os.path.isfile(name)]
