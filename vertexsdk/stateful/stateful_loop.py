"""`StatefulLoop`: a stateful class on partitions, with its state in a store."""

from __future__ import annotations

import inspect
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.compile.kernel_cache import Compiled
from vertexsdk.engine.keyed.calls import Calls, number_of_values
from vertexsdk.engine.keyed.keyed_engine import segment_groups
from vertexsdk.errors import CallError, InputError, excerpt
from vertexsdk.loops.snapshot_policy import SnapshotEvery, SnapshotKind, SnapshotPolicy
from vertexsdk.loops.streams.intake import Stream
from vertexsdk.program.keyed import KeyedMethod, KeyedProgram, TaskElement
from vertexsdk.state import Manifest, Store
from vertexsdk.state.address import Address
from vertexsdk.state.manifests import layers_by_partition
from vertexsdk.state.reading import overlay
from vertexsdk.stateful._history import counts_of
from vertexsdk.stateful.analysis import compiled_program, program_of
from vertexsdk.stateful.call_columns import blocks_of
from vertexsdk.stateful.call_service import CallAnswers
from vertexsdk.stateful.elements import choose_element
from vertexsdk.stateful.keyed_loop import KeyedLoop, first_of
from vertexsdk.stateful.stateful import Stateful, bind, without_self

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class MethodCalls:
    """The calls of one method of a `StatefulLoop`; `flow.count` is one.

    Args:
        loop: the loop that has the method.
        name: the method's name.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class WordCount(Stateful):
        ...     counts = Partitioned(Map(str, int), key="word")
        ...     def add(self, line: str) -> None:
        ...         for word in line.split():
        ...             self.counts[word] += 1
        ...     def count(self, word: str) -> int:
        ...         return self.counts[word]
        >>> flow = StatefulLoop(WordCount, backend="memory://method-calls")
        >>> flow.add("to be or not to be")
        >>> flow.count.submit("be").result()
        2
        >>> flow.count.map(["to", "or", "that"])
        [2, 1, 0]
        >>> flow.close()
    """

    def __init__(self, loop: StatefulLoop, name: str) -> None:
        self._loop, self._number = loop, list(loop.program.methods).index(name)
        self._method = loop.program.methods[name]
        self._name = f"{loop.program.name}.{name}"
        function = inspect.unwrap(inspect.getattr_static(loop.program.cls, name))
        self._signature = without_self(function)
        self.__doc__ = function.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the method, and return its answer.

        Args:
            args, kwargs: as the method takes them.

        Raises:
            InputError: arguments that the method does not take.
            CallError: it raised; nothing was changed.
            RunError, StateError: a processor or the store failed, as of `StatefulLoop`.
        """
        future = self._future(args, kwargs)
        self._loop._drain(future)
        return future.result()

    def submit(self, *args: Any, **kwargs: Any) -> Future[Any]:
        """Call the method, and return a future of its answer at once; calls run in their order.

        Args:
            args, kwargs: as the method takes them.

        Raises:
            InputError: arguments that the method does not take.
        """
        future = self._future(args, kwargs)
        self._loop._wake()
        return future

    def map(self, *columns: Any, return_exceptions: bool = False) -> list[Any]:
        """Call the method many times, and return the answers in the order of the calls.

        Calls go in blocks of 65,536, fewer where arguments of type bytes are large. Each block is
        in the log before it is answered.

        Args:
            columns: for each parameter its values, an iterable, a NumPy array, an Arrow array or a
                column of pandas or Polars; or one table, an Arrow table or a data frame of pandas,
                Polars or Spark, with a column for each parameter; or one iterable of tuples. For a
                parameter of type bytes also a NumPy array of shape (n, k), whose rows are taken as
                their bytes.
            return_exceptions: a call that raised has its `CallError` as answer.

        Raises:
            InputError: columns that the method does not take; earlier blocks have run.
            CallError: a call raised, and changed nothing; all others have run.
            RunError, StateError: a processor or the store failed, as of `StatefulLoop`.
        """
        answers: list[Any] = []
        failed: dict[int, CallError] = {}
        for values in blocks_of(self._name, self._method, columns):
            arguments = {(self._number, p): column for p, column in enumerate(values)}
            methods = np.full(number_of_values(values[0]), self._number, np.uint8)
            block_answers, errors = self._loop._run(Calls(methods, arguments))
            failed |= {len(answers) + number: error for number, error in errors.items()}
            answers += block_answers
        if return_exceptions:
            for number, error in failed.items():
                answers[number] = error
        elif failed:
            errors_in_order = [failed[number] for number in sorted(failed)]
            raise first_of(errors_in_order, f"{len(answers):,} calls")
        return answers

    def start(
        self,
        stream: DataFrame | str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        *,
        follow: bool | None = None,
        idle: float | None = None,
        checkpointLocation: str | None = None,
        trigger: Mapping[str, Any] | None = None,
    ) -> Stream:
        """Start to make the calls of a stream in the background, each once across restarts.

        A restarted stream continues after the last call: its position is committed with the calls.
        Answers are dropped. A call that raises changes nothing, and is counted and logged.

        Args:
            stream: files, directories and globs; or a streaming DataFrame with a column for each
                parameter. A method with one `str` takes the lines of text files. Else files are
                Parquet, or CSV whose first line has the names of the parameters; bytes are in
                Parquet files only.
            follow: for files: wait for files that grow, and for files moved into directories; by
                default the stream ends when all are read.
            idle: for files that are followed: end after so many seconds without a call.
            checkpointLocation: for a DataFrame: where Spark stores its offsets, for restarts.
            trigger: for a DataFrame: as for `DataStreamWriter.trigger`.

        Returns:
            The stream: `progress()`, `stop()`, `awaitTermination()`, `processAllAvailable()`.

        Raises:
            InputError: another kind of stream, options for the other kind, or a method that
                changes no state; nothing was started.

        Example:
            >>> stream = flow.add.start("logs/*.txt")  # doctest: +SKIP
            >>> stream.awaitTermination()  # doctest: +SKIP
            True
            >>> print(stream.progress())  # doctest: +SKIP
            1,200,000 calls · 410,000/s · 0 behind
        """
        options = {
            "follow": follow, "idle": idle, "checkpointLocation": checkpointLocation,
            "trigger": trigger,
        }  # fmt: skip
        return self._loop._start(self._name, self._number, self._method, stream, options)

    def _future(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Future[Any]:
        values = bind(self._signature, self._name, args, kwargs)
        for k, parameter in enumerate(self._method.parameters):
            try:
                values[k] = parameter.convert(values[k])
            except InputError as error:
                raise InputError(f"{self._name}(), parameter {parameter.name}: {error}") from None
        return self._loop._put(self._number, values)


class StatefulLoop(KeyedLoop):
    """A stateful class that runs on partitions, keeps its state and answers calls.

    The methods of the class are attributes: `flow.count("be")` calls one and returns its answer,
    `flow.count.submit("be")` returns a future, `flow.count.map(words)` takes many calls. Answers
    are those of an instance of the class on which the calls are made one after the other.

    Calls that change state are in the log of the store before they are answered. Where a call
    raises `StateError` or `RunError`, it may have been done or not; no other one is lost.

    Args:
        cls: a subclass of `Stateful`.
        backend: URL of the store; the default is that of `MainLoop`.
        loop: the name of the loop in the store; by default that of the class.
        partitions: among how many the rows are divided; by default one, or one per executor.
        spark: the session on whose executors the partitions are; None for this process.
        snapshot_every: write the changed rows to the store after so many calls that change state,
            or a time as "10s". `close` does, and a resumed loop repeats the calls since then.
        snapshots: "asynchronous", rows are copied while calls run on, and a thread writes them; or
            "synchronous", calls wait until they are written.
        compiled: task elements that access one row are compiled once there are many calls, which
            continue meanwhile; `explain` says which. False interprets them; "require" refuses a
            class in which one does not compile, and has the first calls wait for the compiler.
        replace: drop the calls of an earlier loop of that name.

    Attributes:
        program: the program that the class became.
        loop: the name of the loop in the store.
        partitions: the number of partitions, which `rescale` changes.

    Raises:
        InputError: arguments that do not fit each other, or the store has calls of this loop.
        ProgramError: the class cannot run as written; the message names the line.
        StateError: the store cannot be opened.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful
        >>> class KeyValue(Stateful):
        ...     values = Partitioned(Map(int, float), key="key")
        ...     def put(self, key: int, value: float) -> None:
        ...         self.values[key] = value
        ...     def get(self, key: int) -> float:
        ...         return self.values.get(key, 0.0)
        >>> with StatefulLoop(KeyValue, backend="memory://stateful-loop") as flow:
        ...     flow.put(7, 0.5)
        ...     flow.get.map([7, 8])
        [0.5, 0.0]
        >>> with StatefulLoop.resume(KeyValue, backend="memory://stateful-loop") as flow:
        ...     flow.get(7)
        0.5
    """

    _kind = "a stateful class"

    def __init__(
        self,
        cls: type[Stateful],
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        compiled: Compiled = True,
        replace: bool = False,
    ) -> None:
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        keyed_program = compiled_program(program_of(cls), compiled)
        self._open(keyed_program, backend, loop, partitions, spark, policy, replace=replace)

    @classmethod
    def resume(
        cls,
        program: type[Stateful],
        *,
        backend: str | Address | None = None,
        loop: str | None = None,
        partitions: int | None = None,
        spark: SparkSession | None = None,
        snapshot_every: SnapshotEvery | None = None,
        snapshots: SnapshotKind = "asynchronous",
        compiled: Compiled = True,
    ) -> Self:
        """Continue a loop from its store: read the snapshot, and repeat the calls since then.

        Args:
            program: the class; its state elements are those that the loop was written with.
            backend, loop, spark, snapshot_every, snapshots, compiled: as for `StatefulLoop`.
            partitions: among how many the rows are divided from now on.

        Raises:
            StateInputError: the store has no such loop.
            InputError, ProgramError, StateError: as for `StatefulLoop`.
        """
        flow = cls.__new__(cls)
        policy = SnapshotPolicy.of(snapshot_every, snapshots)
        keyed_program = compiled_program(program_of(program), compiled)
        flow._open(keyed_program, backend, loop, partitions, spark, policy, resume=True)
        return flow

    def __getattr__(self, name: str) -> MethodCalls:
        program = self.__dict__.get("program")
        if program is None or name not in program.methods:
            known = "" if program is None else f"; its methods are {', '.join(program.methods)}"
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}{known}")
        method = MethodCalls(self, name)
        self.__dict__[name] = method
        return method

    def __dir__(self) -> Iterable[str]:
        return [*super().__dir__(), *self.program.methods]

    def lookup(self, keys: Any, element: str | None = None) -> dict[Any, dict[str, Any]]:
        """Return the rows of some keys as they are now; keys without one are left out.

        Args:
            keys: a key, or several of them (a list, an array, ...).
            element: the name of the state element, where the class has several.

        Returns:
            For each key its fields by name; a map with one value has the field `value`.

        Raises:
            InputError: keys of another type, or no such state element.
            RunError: a processor was lost.
        """
        tables = self.program.tables
        spec = tables[choose_element(self.program.name, tables, element)]
        return self._lookup(spec, keys)

    def explain(self) -> KeyedExplanation:
        """Return how the methods run: their task elements by level, and the order of calls."""
        return KeyedExplanation(self.program)

    def serve(self, host: str = "127.0.0.1") -> None:
        """Answer the calls of other processes, until the loop is closed.

        They use a `StatefulClient`, or `vertexsdk call`. Every process that can read the store can
        call; the connections are encrypted.

        Args:
            host: the name or address of this host on which to listen; others than 127.0.0.1 let
                other hosts call.

        Raises:
            InputError: this process cannot listen there, or it does so already.
            StateError: the store cannot be written.

        Example:
            >>> flow.serve()  # doctest: +SKIP
            >>> with StatefulClient("WordCount") as client:  # doctest: +SKIP
            ...     client.count("be")
            2
        """
        from vertexsdk.loops.request_service import RequestService

        with self._lock:
            self._require_open()
            if self._service is not None:
                raise InputError(f"loop {self.loop!r} answers the calls of other processes already")
            answers = CallAnswers(self.program, self._submit)
            self._service = RequestService(self._store, self.loop, "calls", answers, host)

    def _submit(self, name: str, arguments: Sequence[Any]) -> Future[Any]:
        future: Future[Any] = getattr(self, name).submit(*arguments)
        return future


_ONE_AT_A_TIME = "as if calls ran one after another"


@dataclass(frozen=True)
class KeyedExplanation:
    """Explains how the methods of a stateful class run; `print` it, or draw `to_mermaid()`.

    Attributes:
        program: the class, as it runs.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
        >>> class Views(Stateful):
        ...     pages = Partitioned(Map(str, int), key="page")
        ...     users = Partitioned(Map(int, int), key="user")
        ...     def view(self, page: str, user: int) -> None:
        ...         self.pages[page] += 1
        ...         self.users[user] += 1
        >>> with StatefulLoop(Views, backend="memory://explained") as flow:
        ...     print(flow.explain())
        Views
          level 0  pages  Partitioned(Map(str, int))  view by key
          level 1  users  Partitioned(Map(int, int))  view by key
          order    as if calls ran one after another
          compiled     view on users
          interpreted  view on pages: line 5, the call continues from there
    """

    program: KeyedProgram

    def __str__(self) -> str:
        rows = self._rows()
        widths = [max((len(row[k]) for row in rows), default=0) for k in range(3)]
        lines = [
            "  " + "  ".join([*(x.ljust(w) for x, w in zip(row, widths, strict=False)), row[3]])
            for row in rows
        ]
        label = "order".ljust(max(widths[0], len("order")))
        lines.append(f"  {label}  {_ONE_AT_A_TIME}")
        for method in self.program.methods.values():
            if method.serial:
                lines.append(f"  {' ' * len(label)}  {self._serial(method)}")
        return "\n".join([self.program.name, *lines, *self._compiled()])

    def _compiled(self) -> Iterator[str]:
        """Yield the compiled task elements, and the interpreted ones with the line and why."""
        compiled, interpreted = list[str](), list[str]()
        for method in self.program.methods.values():
            for element in filter(self.program.accesses_row, method.elements):
                shown = f"{method.name} on {element.table}"
                if element.text is not None and self.program.compiled:
                    compiled.append(shown)
                else:
                    why = element.interpreted if self.program.compiled else "compiled=False"
                    interpreted.append(f"{shown}: {why}")
        if not compiled and not interpreted:
            yield "  interpreted: all methods"
        if compiled:
            yield f"  compiled     {', '.join(dict.fromkeys(compiled))}"
        for k, why in enumerate(dict.fromkeys(interpreted)):
            yield f"  {'' if k else 'interpreted':11}  {why}"

    def _serial(self, method: KeyedMethod) -> str:
        way = [e.table or "no state" for e in method.elements]
        return f"{method.name} runs alone, one call at a time ({', '.join(way)}): {method.serial}"

    def _rows(self) -> list[tuple[str, str, str, str]]:
        """The level, state element and its type, and the methods, of task elements."""
        placed: dict[tuple[int, str], list[str]] = {}
        for method in self.program.methods.values():
            for k, element in enumerate(method.elements if not method.serial else ()):
                if element.table is None and not k and not element.last:
                    continue  # computes the first key
                shown = f"{method.name} {self._path(method, k)}"
                placed.setdefault((element.level, element.table or ""), []).append(shown)
        rows = []
        for (level, table), methods in sorted(placed.items()):
            declared = repr(inspect.getattr_static(self.program.cls, table)) if table else ""
            rows.append((f"level {level}", table, declared, ", ".join(methods)))
        return rows

    def _path(self, method: KeyedMethod, k: int) -> str:
        """Return the way in which rows go to a task element."""
        element = method.elements[k]
        if element.table is None:
            return "all-to-one" if k else "accesses no state"
        each = ", a row for each item" if element.item and not element.whole else ""
        return {"key": "by key", "here": "one-to-any", "all": "one-to-all"}[element.send] + each

    def to_mermaid(self) -> str:
        """Return the task elements and their state elements as a Mermaid flowchart."""
        lines = ["flowchart LR"]
        for table in self.program.tables:
            declared = repr(inspect.getattr_static(self.program.cls, table))
            lines.append(f'  {table}[("{table}: {declared}")]')
        for method in self.program.methods.values():
            names = [f"{method.name}_{k}" for k in range(len(method.elements))]
            for k, (name, element) in enumerate(zip(names, method.elements, strict=True)):
                lines.append(f'  {name}["{method.name}, line {element.line}"]')
                if k:
                    lines.append(f"  {names[k - 1]} -->|{self._path_short(element)}| {name}")
                if element.table is not None:
                    lines.append(f"  {name} {'---' if element.writes else '-.-'} {element.table}")
        return "\n".join(lines)

    def _path_short(self, element: TaskElement) -> str:
        if element.table is None:
            return "all-to-one"
        return {"key": "by key", "here": "one-to-any", "all": "one-to-all"}[element.send]


def is_stateful(manifest: Manifest) -> bool:
    """Return whether a version is of a stateful class."""
    return counts_of(manifest) is not None


class StoredState:
    """One version of a stateful class in a store.

    Args:
        store: the store.
        manifest: the version's manifest.
        element: the state element; None where the class has only one.

    Attributes:
        missing: calls in the log that the snapshot does not have.

    Raises:
        InputError: no such state element, or none is named and there are several.

    Example:
        >>> from vertexsdk import Map, Partitioned, Stateful, StatefulLoop
        >>> from vertexsdk.state import open_store
        >>> class KeyValue(Stateful):
        ...     values = Partitioned(Map(int, float), key="key")
        ...     def put(self, key: int, value: float) -> None:
        ...         self.values[key] = value
        >>> with StatefulLoop(KeyValue, backend="memory://stored-state") as flow:
        ...     flow.put(7, 0.5)
        >>> with open_store("memory://stored-state") as store:
        ...     dict(StoredState(store, store.version("KeyValue")).rows([7]))
        {7: {'value': 0.5}}
    """

    def __init__(self, store: Store, manifest: Manifest, element: str | None = None) -> None:
        self._store, self._manifest = store, manifest
        counts = counts_of(manifest) or {"calls": 0, "snapshot": 0}
        self.missing = counts["calls"] - counts["snapshot"]
        fields = manifest.state_fields
        keys = {str(one.get("element")): str(one.get("key")) for one in fields.values()}
        shown = {str(one.get("element")) for one in fields.values() if not one.get("internal")}
        partial = {one.get("element") for one in fields.values() if one.get("where") == "partition"}
        self._element = choose_element(
            manifest.loop, [name for name in keys if name in shown], element
        )
        self._internal = {
            name.rpartition(".")[2] for name, one in fields.items()
            if one.get("internal") and one.get("element") == self._element
        }  # fmt: skip
        self._key, self._partial = keys[self._element], self._element in partial
        self._group = segment_groups(keys)[self._element]

    def rows(self, keys: Sequence[Any] = ()) -> Iterator[tuple[Any, dict[str, Any]]]:
        """Yield keys with their fields; of `PerPartition` state those of each partition.

        Args:
            keys: those without a row are left out; none of them for all rows.

        Raises:
            StateError: the version cannot be read.
        """
        if keys and not self._partial:
            known = self._store.lookup(
                self._manifest.loop, keys, self._manifest, group=self._group, ids_of_group=self._key
            )
            for key, fields in known.items():
                yield key, {n: value for n, value in fields.items() if n not in self._internal}
            return
        for (_, group), refs in layers_by_partition(self._store.segments(self._manifest)):
            if group != self._group:
                continue
            columns = overlay([self._store.segment(ref) for ref in refs])
            ids: list[Any] = columns.pop("id").tolist()
            if self._key == "str":
                ids = unpack_strings(columns.pop("name.offsets"), columns.pop("name.bytes"))
            columns = {n: column for n, column in columns.items() if n not in self._internal}
            values = zip(*(column.tolist() for column in columns.values()), strict=True)
            for key, row in zip(ids, values, strict=True):
                if not keys or key in keys:
                    yield key, dict(zip(columns, row, strict=True))

    def key_of(self, text: str) -> Any:
        """Return the key that a text names.

        Raises:
            InputError: it is not an integer, and the keys of the element are.
        """
        if self._key == "str":
            return text
        try:
            return int(text)
        except ValueError:
            raise InputError(
                f"{excerpt(text)} is not a key: the keys of {self._element} are integers"
            ) from None
