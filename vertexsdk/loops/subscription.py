"""The differences between the versions of a main loop, one version after the other, as they come.

A subscription reads versions from the store, so it does not matter in which process. It holds the
version that it has read last, and compares the next one with it: where that has further layers, at
the cost of the rows in these.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.errors import InputError, StateError, first_line
from vertexsdk.loops._frames import arrow_table
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.result import VertexRows, arrow_types
from vertexsdk.program.fields import Fields
from vertexsdk.state import Manifest, MissingError, StateInputError, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.difference import changed_rows
from vertexsdk.state.errors import FencedError
from vertexsdk.state.manifests import field_differences
from vertexsdk.state.pins import Pin
from vertexsdk.state.version_history import VersionHistory
from vertexsdk.state.write_behind import wait_for_writes

_log = logging.getLogger("vertexsdk")
_ROWS = 1 << 16  # of a batch
_POLL_SECONDS = 0.02  # between two looks at the store of another process
_NOTHING = -1  # before the first version


class Change(NamedTuple):
    """A row that a version has and the version before has not, or the other way round.

    Attributes:
        vertex: its id; None in a mark.
        fields: the vertex's state, by name, as `Result.lookup` returns it; None in a mark.
        diff: +1 if the row is in this version, -1 if it was in the one before; 0 in a mark: no
            further rows of versions up to this one will come.
        version: the iteration of the version, as `as_of` takes it.
    """

    vertex: Any
    fields: dict[str, Any] | None
    diff: int
    version: int


class _Part(NamedTuple):
    """Rows of one version, at most `_ROWS`; a mark has None."""

    vertices: VertexRows | None
    diffs: NDArray[np.int8]
    manifest: Manifest
    last: bool


class Subscription:
    """The rows in which a loop's versions differ, one after the other; an iterator of `Change`.

    `MainLoop.subscribe` and `subscribe` return one. First come the rows of the version with which
    it begins, each with the diff +1. Then, for each further version, the rows that are new (+1)
    and those that are no longer so (-1), ascending by id: a vertex whose state has changed has
    both. All rows up to a version, added up, are the state of that version.

    An iteration ends when the loop or the subscription is closed, or no version came within
    `timeout`; another one then continues where it ended. One thread at a time may iterate. Until
    `close` the store keeps the version that was read last.

    Attributes:
        loop: the name of the loop.
        version: the newest version of which all rows were read; None before the first one. Another
            process continues from there: `subscribe(..., as_of=version, snapshot=False)`.
        seen: the loop's versions up to this iteration were looked at.

    Raises:
        StateError: a version that was not read yet is no longer in the store, or columns of Python
            objects, and not `trusted`.
        FencedError: another process has taken over the loop, while this one had it.

    Example:
        >>> from vertexsdk import Graph, MainLoop
        >>> with MainLoop("wcc", Graph.from_arrays([1], [2]), backend="memory://changed") as main:
        ...     main.query().close()
        ...     with main.subscribe(progress=True, timeout=0) as changes:
        ...         for vertex, fields, diff, version in changes:
        ...             print(f"{diff:+}", vertex, fields)
        +1 1 {'component': 1}
        +1 2 {'component': 1}
        +0 None None
    """

    def __init__(
        self,
        store: Store,
        loop: str,
        *,
        fields: str | Sequence[str] | None = None,
        snapshot: bool = True,
        as_of: int | None = None,
        progress: bool = False,
        approximate: bool = False,
        timeout: float | None = None,
        trusted: bool = False,
        history: VersionHistory[Any] | None = None,
    ) -> None:
        self.loop, self.seen = loop, _NOTHING
        self.version: int | None = None
        self._store, self._history = store, history
        self._names = [fields] if isinstance(fields, str) else fields
        self._marks, self._approximate, self._timeout = progress, approximate, timeout
        self._trusted, self._ended = trusted, threading.Event()
        self._pin: Pin | None = None
        self._head: str | None = None
        self._parts: deque[_Part] = deque()
        self._rows: Iterator[Change] = iter(())
        self._thread: threading.Thread | None = None
        self._error: BaseException | None = None
        self._busy = threading.RLock()  # held while a version is read
        try:
            if history is not None:
                history.readers.add(self)  # from now on the store keeps all newer versions
            self._begin(snapshot, as_of)
        except BaseException:
            self.close()
            raise

    def _begin(self, snapshot: bool, as_of: int | None) -> None:
        versions = self._versions()
        if not versions:
            raise self._store.unknown_loop(self.loop)
        newest, oldest = (self._store.manifest(versions[k][1]) for k in (-1, 0))
        self._fields_of(newest)
        if not isinstance(as_of, int | np.integer | None):
            raise InputError(f"as_of is {as_of!r}; give the number of a version: main.history()")
        if as_of is not None and as_of > newest.iteration:
            raise StateInputError(
                f"version {as_of} of loop {self.loop!r} is yet to come, the newest is "
                f"{newest.iteration}: subscribe without as_of, for a snapshot of that"
            )
        first = self._first(versions, newest.iteration if as_of is None else as_of)
        complete = _begins(oldest)
        if first is None and as_of is not None and as_of < oldest.iteration and not complete:
            if oldest.parent is None:
                raise StateInputError(
                    f"version {as_of} of loop {self.loop!r} had other fields, which were migrated "
                    f"in version {oldest.iteration}: subscribe without as_of, for a new snapshot"
                )
            raise StateInputError(
                f"version {as_of} of loop {self.loop!r} is not in the store any more, which has "
                f"those from {oldest.iteration}: subscribe without as_of, for a new snapshot, and "
                "open the loop with a larger retain="
            )
        if first is not None:
            self._take(first, rows=snapshot)
        self.seen = newest.iteration if as_of is None else as_of
        self._waits_for_first = first is None and not snapshot and not complete

    def _first(self, versions: list[tuple[int, str]], at: int) -> Manifest | None:
        """The newest version at or before an iteration to which the subscription is."""
        for iteration, name in reversed(versions):
            manifest = self._store.manifest(name)
            if iteration <= at and self._selects(manifest):
                return manifest
        oldest, newest = (self._store.manifest(versions[k][1]) for k in (0, -1))
        answer = self._store.head(f"{self.loop}-{Ledger.read(newest).queries}")
        if answer is None or answer.loop != self.loop or answer.iteration > at:
            return None
        return answer if self._same_answer(answer, oldest) else None  # older versions are deleted

    def _same_answer(self, read: Manifest, later: Manifest) -> bool:
        """True if no version between two had another answer, as no change was reflected."""
        a, b = Ledger.read(read), Ledger.read(later)
        return not self._approximate and a.exact and a.reflected == b.reflected

    def _versions(self) -> list[tuple[int, str]]:
        wait_for_writes(self._store.backend.location)
        return self._store.backend.list_versions(self.loop)

    def _selects(self, manifest: Manifest) -> bool:
        ledger = Ledger.read(manifest)
        return ledger.state and (self._approximate or ledger.exact)

    def _take(self, version: Manifest, *, rows: bool = True) -> None:
        """Read a version: compare it with the one that was read last, and hold it instead."""
        pin = self._hold(version)
        try:
            if rows:
                parts = self._compared(None if self._pin is None else self._pin.manifest, pin)
            else:
                parts = []
                self._fields_of(pin.manifest)
            if self._marks:
                parts.append(_Part(None, np.zeros(1, np.int8), pin.manifest, last=True))
            elif parts:
                parts[-1] = parts[-1]._replace(last=True)
            else:
                self.version = version.iteration
        except BaseException:
            pin.release(self._store)
            raise
        self._parts.extend(parts)
        self._release()
        self._pin, self._abandon = pin, weakref.finalize(self, pin.abandon)
        self._abandon.atexit = False

    def _release(self) -> None:
        if self._pin is not None:
            self._abandon.detach()
            self._pin.release(self._store)
            self._pin = None

    def _hold(self, version: Manifest) -> Pin:
        """Pin a version, in other processes too where this one does not write the loop."""
        try:
            return self._store.hold(self.loop, version, lease=self._history is None)
        except StateError:  # this user may not write to the store
            return self._store.hold(self.loop, version, lease=False)

    def _deleted(self) -> StateError:
        return StateError(
            f"versions of loop {self.loop!r} were deleted before this subscription had read them: "
            "subscribe again, for a new snapshot, and open the loop with a larger retain="
        )

    def _fields_of(self, manifest: Manifest) -> Fields:
        schema = manifest.state_fields
        first = manifest.statistics.get("result") or next(iter(schema), "")
        fields = Fields(self.loop, schema, str(first))
        for name in self._names or ():
            fields.find(name)
        return fields

    def _compared(self, older: Manifest | None, pin: Pin) -> list[_Part]:
        """The rows in which two versions differ, ascending by id, in parts of `_ROWS`."""
        newer = pin.manifest
        if older is not None:
            self._require_fields(older, newer)
        fields = self._fields_of(newer)
        columns = [c for where in self._wanted(fields).values() for c in where.values()]
        lost, gained = changed_rows(
            self._store, older, newer, fields=[*columns, "kind"], trusted=self._trusted,
            objects=fields.objects,
        )  # fmt: skip
        sides = [(x, diff) for x, diff in ((lost, -1), (gained, 1)) if len(x.get("id", ()))]
        if not sides:
            return []
        table = {n: np.concatenate([side[n] for side, _ in sides]) for n in sides[0][0]}
        diffs = np.concatenate([np.full(len(side["id"]), diff, np.int8) for side, diff in sides])
        order = np.argsort(table["id"], kind="stable")  # -1 before +1
        if fields.several and self._names is not None:
            order = order[np.isin(table["kind"][order], [*self._shown(fields)])]
        parts = []
        for low in range(0, len(order), _ROWS):
            rows = order[low : low + _ROWS]
            part = {name: column[rows] for name, column in table.items()}
            kinds = part["kind"] if fields.several else np.zeros(len(rows), np.uint8)
            vertices = VertexRows(part["id"], kinds, {name: part[name] for name in columns})
            parts.append(_Part(vertices, diffs[rows], newer, last=False))
        return parts

    def _require_fields(self, older: Manifest, newer: Manifest) -> None:
        """Refuse to compare versions of which one has other fields than the other."""
        if older.state_fields != newer.state_fields:
            raise StateInputError(
                f"the fields of loop {self.loop!r} were changed after version {older.iteration} "
                f"({field_differences(older.state_fields, newer.state_fields)}): subscribe again, "
                "for a new snapshot"
            )

    def _wanted(self, fields: Fields) -> dict[str, dict[int, str]]:
        """The columns of a table of the chosen fields, each as stored column by class number."""
        if self._names is None:
            return fields.table()
        stored = {c for name in self._names for c in fields.find(name).values()}
        wanted = {n: {k: c for k, c in w.items() if c in stored} for n, w in fields.table().items()}
        return {name: where for name, where in wanted.items() if where}

    def _next_part(self) -> _Part | None:
        """The next rows; None if there are none now, and none came within the time allowed."""
        end = None if self._timeout is None else time.monotonic() + self._timeout
        while not self._ended.is_set():
            with self._busy:
                if self._parts:
                    return self._parts.popleft()
                writes = 0 if self._history is None else self._history.writes
                ended = self._history is not None and self._history.closed_by is not None
                if not self._ended.is_set() and self._step():
                    continue
            if ended:
                assert self._history is not None
                if isinstance(self._history.closed_by, FencedError):
                    raise self._history.closed_by
                return None
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                return None
            self._wait(writes, left)
        return None

    def _wait(self, writes: int, seconds: float | None) -> None:
        history = self._history
        if history is None:
            self._ended.wait(_POLL_SECONDS if seconds is None else min(seconds, _POLL_SECONDS))
            return
        with history.written:
            history.written.wait_for(
                lambda: history.writes != writes or self._ended.is_set(), seconds
            )

    def _step(self) -> bool:
        """Read the next version, if there is one."""
        wait_for_writes(self._store.backend.location)
        head = self._store.backend.get_head(self.loop)
        if head is None:
            raise self._store.unknown_loop(self.loop)
        if head.manifest == self._head:
            return False
        versions = self._versions()
        if not self._require_all(versions):
            return True
        for iteration, name in versions:
            if iteration <= self.seen:
                continue
            try:
                manifest = self._store.manifest(name)
            except MissingError:  # it was replaced or deleted meanwhile
                return True
            selected = self._selects(manifest)
            if selected:
                try:
                    self._take(manifest, rows=not self._waits_for_first)
                except MissingError:
                    if self._store.backend.floor(self.loop, iteration) == (iteration, name):
                        raise
                    return True
                self._waits_for_first = False
            self.seen = iteration
            if selected:
                return True
        self._head = head.manifest
        return False

    def _require_all(self, versions: list[tuple[int, str]]) -> bool:
        """Refuse to continue where versions that were not read are gone.

        Returns:
            False if that cannot be said, as the list of versions has changed.

        Raises:
            StateError: so it is, or the loop was started anew.
        """
        if not versions:
            raise self._store.unknown_loop(self.loop)
        try:
            oldest = self._store.manifest(versions[0][1])
        except MissingError:  # it was replaced or deleted meanwhile
            return False
        read = None if self._pin is None else self._pin.manifest
        restarted = oldest.parent is None and read is not None and oldest.created > read.created
        if restarted or versions[-1][0] < self.seen:
            if read is not None and read.program == oldest.program:
                self._require_fields(read, oldest)
            raise StateError(
                f"loop {self.loop!r} was started anew after version {self.seen}: subscribe again, "
                "for a snapshot of what it is now"
            )
        if versions[0][0] > self.seen and not _begins(oldest):
            if self._same_answer(read, oldest) if read else not Ledger.read(oldest).state:
                return True
            raise self._deleted()
        return True

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Change:
        while not self._ended.is_set():
            row = next(self._rows, None)
            if row is not None:
                return row
            part = self._next_part()
            if part is None:
                break
            self._rows = self._changes(part)
        raise StopIteration

    def _changes(self, part: _Part) -> Iterator[Change]:
        version = part.manifest.iteration
        if part.vertices is None:
            self.version = version
            yield Change(None, None, 0, version)
            return
        fields = self._fields_of(part.manifest)
        rows = part.vertices.rows(fields, self._shown(fields), every=True)
        left = len(part.diffs)
        for (vertex, row), diff in zip(rows, part.diffs.tolist(), strict=True):
            left -= 1
            if part.last and not left:
                self.version = version
            yield Change(vertex, row, diff, version)

    def _shown(self, fields: Fields) -> dict[int, dict[str, str]]:
        """The chosen fields, by class number: name to stored column."""
        shown: dict[int, dict[str, str]] = {}
        chosen: Sequence[str | None] = [None] if self._names is None else self._names
        for name in chosen:
            for kind, columns in fields.shown(name).items():
                shown[kind] = {**shown.get(kind, {}), **columns}
        return shown

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the same as Arrow record batches, each of rows of one version.

        A batch has the columns `id`, those of `Result.to_arrow`, `diff` (int8) and `version`
        (int64). All batches have the same schema: fields of Python objects are strings. A mark is a
        batch of one row with the diff 0, whose other columns are null.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> graph = Graph.from_arrays([1], [2])
            >>> with MainLoop("degree", graph, backend="memory://batches") as main:
            ...     main.query().close()
            ...     with main.subscribe(fields="degree", timeout=0) as changes:
            ...         [batch.to_pydict() for batch in changes.batches()]
            [{'id': [1, 2], 'degree': [1, 1], 'diff': [1, 1], 'version': [1, 1]}]
        """
        while (part := self._next_part()) is not None:
            batch = self._batch(part)
            if part.last:
                self.version = part.manifest.iteration
            yield batch

    def _batch(self, part: _Part) -> pa.RecordBatch:
        manifest = part.manifest
        fields = self._fields_of(manifest)
        wanted = self._wanted(fields)
        types = arrow_types(fields, manifest.state_fields, wanted, string_ids=manifest.ids == "str")
        count = len(part.diffs)
        if part.vertices is None:
            table = pa.table({name: pa.nulls(count, kind) for name, kind in types.items()})
        else:
            columns = part.vertices.table(fields, wanted)
            for name, kind in types.items():
                if pa.types.is_string(kind) and columns[name].dtype == object:
                    columns[name] = np.array([*map(_text, columns[name])], object)
            table = arrow_table(columns)
        types |= {"diff": pa.int8(), "version": pa.int64()}
        table = table.append_column("diff", pa.array(part.diffs))
        table = table.append_column("version", pa.array(np.full(count, manifest.iteration)))
        return table.cast(pa.schema([*types.items()])).combine_chunks().to_batches()[0]

    def start(self, function: Callable[[Any], object], *, batches: bool = False) -> None:
        """Call a function with each change in a thread, until the iteration ends.

        Args:
            function: is called with a `Change`, or with an Arrow record batch.
            batches: call it with record batches.

        Raises:
            InputError: it was started already.
        """
        if self._thread is not None:
            raise InputError(f"the subscription to loop {self.loop!r} was started already")
        self._thread = threading.Thread(
            target=self._call, args=(function, batches), name="vertexsdk-subscription", daemon=True
        )
        self._thread.start()

    def _call(self, function: Callable[[Any], object], batches: bool) -> None:
        try:
            for change in self.batches() if batches else self:
                function(change)
        except BaseException as error:
            self._error = error
            _log.warning("%s: the subscription ended: %s", self.loop, first_line(error))

    def join(self, timeout: float | None = None) -> bool:
        """Wait until the thread of `start` has ended.

        Args:
            timeout: at most so many seconds; None waits as long as it takes.

        Returns:
            Whether it has ended.

        Raises:
            Exception: what the function, or reading a version, has raised.
        """
        if self._thread is None:
            raise InputError("there is nothing to wait for: start(function) first")
        self._thread.join(timeout)
        if self._error is not None:
            raise self._error
        return not self._thread.is_alive()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, in any thread, and let go of the version; may be called twice."""
        self._ended.set()
        history = self._history
        if history is not None:
            history.readers.discard(self)
            with history.written:
                history.written.notify_all()
        with self._busy:
            self._release()
            with contextlib.suppress(StateError):
                self._store.close()


def _begins(oldest: Manifest) -> bool:
    """True if a loop has its first version: none before it was deleted, or has other fields."""
    return oldest.parent is None and oldest.iteration == 0


def _text(value: Any) -> Any:
    return value if value is None or isinstance(value, str) else repr(value)


def subscribe(
    backend: str | Address,
    loop: str,
    *,
    fields: str | Sequence[str] | None = None,
    snapshot: bool = True,
    as_of: int | None = None,
    progress: bool = False,
    approximate: bool = False,
    timeout: float | None = None,
    trusted: bool = False,
) -> Subscription:
    """Subscribe to the answers of a main loop that any process runs.

    Args:
        backend: URL of the store, or "@FILE" for a file that contains it.
        loop: the name of the loop.
        fields: the fields to return, by name; None for all. Of others no difference is seen.
        snapshot: begin with all rows of a version; otherwise with the differences after it.
        as_of: begin with the newest version at or before this one, as `Subscription.version` and
            `MainLoop.history` name it; None for the newest.
        progress: also return a mark, with the diff 0, after each version, with or without rows.
        approximate: read all versions, not only those with an exact answer.
        timeout: seconds without a new version after which an iteration ends; 0 returns what there
            is now; None waits until the loop or the subscription is closed.
        trusted: unpickle state fields that are Python objects. A pickle can run code, so all who
            can write to the store must be trusted.

    Returns:
        The subscription, for the caller to close. It also waits for versions of a loop that
        another process has closed.

    Raises:
        StateInputError: no such store or loop, or the version is not in the store any more.
        InputError: it is not a main loop, or no such field.

    Example:
        >>> from vertexsdk import Graph, MainLoop
        >>> graph = Graph.from_arrays([1], [2])
        >>> with MainLoop("wcc", graph, backend="memory://elsewhere") as main:
        ...     main.query().close()
        ...     with subscribe("memory://elsewhere", "wcc", timeout=0) as changes:
        ...         rows = [tuple(change) for change in changes]
        >>> rows
        [(1, {'component': 1}, 1, 3), (2, {'component': 1}, 1, 3)]
    """
    return Subscription(
        open_store(backend, create=False), loop, fields=fields, snapshot=snapshot, as_of=as_of,
        progress=progress, approximate=approximate, timeout=timeout, trusted=trusted,
    )  # fmt: skip
