"""A batch for the events level: changes of edges, and deltas that are not edges, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.raw_columns import pickled
from vertexsdk.errors import InputError, VertexError, excerpt
from vertexsdk.graph.changes.changes import Changes, id_array
from vertexsdk.program.program import Program
from vertexsdk.state.stored_pickles import unpickle

# Said where changes have string ids and the graph does not.
INTEGER_IDS = (
    "the graph's ids are integers; so must be those of its changes (a graph of string ids that "
    "begins without edges is Graph.empty(str))"
)


@dataclass(frozen=True, slots=True)
class Sent:
    """A delta that is not an edge: `gather` of `vertex` gets it with `delta.kind == kind`.

    `at` says how many changes of edges of the batch come before it.
    """

    at: int
    vertex: Any
    kind: str
    value: Any = None


Step: TypeAlias = tuple[int | None, Sent | None]  # the number of a change, or what was sent


@dataclass(frozen=True)
class Deltas(Changes):
    """A batch of k edge changes and of deltas for chosen vertices, in one order.

    `len` and slices count both. Make one with `mixed` or an `Ingester`.

    Args:
        kind: uint8[k], `ADD`, `REMOVE` or `CHANGE`.
        source: ids of the sources, an Arrow array of length k, int64 or strings.
        target: ids of the targets, of the same type.
        value: float64[k] or int64[k], the values of the edges.
        places: where each change was read, for error messages; or empty.
        time: float64[k], when each change happened, in seconds; or of length 0.
        sent: the deltas for chosen vertices, ascending by `at`: how many edge changes of the batch
            precede each.

    Example:
        >>> batch = Deltas.mixed([("send", 7, "RATING", 4.5), ("+", 7, 9), ("send", 9, "PING")])
        >>> len(batch), batch.kind.tolist(), [s.at for s in batch.sent]
        (3, [0], [0, 1])
        >>> batch[1:].sent
        (Sent(at=1, vertex=9, kind='PING', value=None),)
    """

    sent: tuple[Sent, ...] = field(default=())

    @classmethod
    def mixed(cls, rows: Iterable[Sequence[Any]]) -> Deltas:
        """Make a batch from tuples.

        Args:
            rows: as those of `Changes.of`, and `("send", vertex, kind[, value])` for deltas that
                are not edges; `kind` is a string, `value` can be pickled.

        Raises:
            InputError: a row of another form, or a kind that is not a string.
        """
        edges: list[Sequence[Any]] = []
        others: list[Sent] = []
        for row in rows:
            if not len(row) or row[0] != "send":
                edges.append(row)
            elif len(row) not in (3, 4):
                raise InputError(
                    f"{excerpt(row)} is not a delta; write ('send', vertex, kind[, value])"
                )
            else:
                others.append(_checked(Sent(len(edges), *row[1:])))
        changes = Changes.of(edges)
        named = id_array([s.vertex for s in others])
        source, target = changes.source, changes.target
        if edges and others and pa.types.is_integer(named.type) != changes.are_integers:
            source, target = changes.strings()  # as where some ids of changes are strings
            named = pc.cast(named, pa.large_string())
        ids = named.to_pylist()
        deltas = tuple(Sent(s.at, i, s.kind, s.value) for s, i in zip(others, ids, strict=True))
        return cls(changes.kind, source, target, changes.value, (), sent=deltas)

    @classmethod
    def of_changes(cls, changes: Changes) -> Deltas:
        """Return changes as a `Deltas` without other deltas; a `Deltas` is returned as it is."""
        if isinstance(changes, Deltas):
            return changes
        return cls(**vars(changes))

    def __len__(self) -> int:
        return len(self.kind) + len(self.sent)

    def steps(self) -> Iterator[Step]:
        """All in their order."""
        done = 0
        for s in self.sent:
            yield from ((k, None) for k in range(done, s.at))
            done = s.at
            yield None, s
        yield from ((k, None) for k in range(done, len(self.kind)))

    def __getitem__(self, part: slice) -> Deltas:
        steps = list(self.steps())[part]
        numbers = [k for k, _ in steps if k is not None]
        low, high = (numbers[0], numbers[-1] + 1) if numbers else (0, 0)
        changes = Changes(**{f.name: getattr(self, f.name) for f in fields(Changes)})[low:high]
        c, deltas, done = changes, [], 0
        for k, s in steps:
            if k is not None:
                done += 1
            elif s is not None:
                deltas.append(Sent(done, s.vertex, s.kind, s.value))
        return Deltas(**vars(c), sent=tuple(deltas))

    def sending(self, sent: Sequence[Sent], *, integers: bool) -> Deltas:
        """Return the same changes with other deltas among them.

        Args:
            sent: ascending by `at`.
            integers: the ids of the graph are int64; else they are strings.

        Raises:
            InputError: an id is a string where the graph's are integers.
        """
        if integers and not all(isinstance(s.vertex, int) for s in sent):
            raise InputError(INTEGER_IDS)
        if not integers:
            sent = [Sent(s.at, str(s.vertex), s.kind, s.value) for s in sent]
        return replace(self, sent=tuple(sent))

    def columns(self) -> dict[str, NDArray[Any]]:
        """Return the deltas that are not edges as a column of the change log (a pickle, uint8)."""
        data = pickled(self.sent, "what a delta carries", "; send plain values", InputError)
        return {"sent": np.frombuffer(data, np.uint8)}

    @classmethod
    def with_sent(cls, changes: Changes, columns: Mapping[str, NDArray[Any]]) -> Deltas:
        """Return the batch of `changes` and the result of `columns`.

        This reads a pickle: its writer must be trusted.

        Raises:
            CorruptError: it is not one of deltas.
        """
        deltas = unpickle(columns["sent"].tobytes())
        if not all(isinstance(one, Sent) for one in deltas):
            raise CorruptError("what was sent to vertices is not deltas")
        return replace(cls.of_changes(changes), sent=deltas)


def edges_only(program: Program, changes: Changes) -> Changes:
    """Return the changes, which a program with declared messages takes in.

    Raises:
        InputError: something else was sent among them.
    """
    if program.algebra is not None and isinstance(changes, Deltas) and changes.sent:
        first = changes.sent[0]
        raise InputError(
            f"{first.kind!r} for vertex {first.vertex!r} is not a change of an edge: "
            f"{program.name} declares messages, so it takes in edges only; leave messages "
            "out (events level) to gather other deltas"
        )
    return changes


def _checked(delta: Sent) -> Sent:
    if not isinstance(delta.kind, str) or not delta.kind:
        raise InputError(
            f"a delta's kind is {excerpt(delta.kind)}; it must be a string such as 'RATING'"
        )
    return delta


class Ingester:
    """Subclass this and write `ingest`, which is called for every record of a source, in order.

    A record is whatever the source gives: a line, a dict, a row of a DataFrame. `ingest`
    turns it into changes by any number of calls of `addEdge`, `removeEdge`, `changeEdge` and
    `send`. It runs in the driver.

    Raises:
        InputError: from `batch`, when `ingest` failed; it names the record.

    Example:
        >>> class Orders(Ingester):
        ...     def ingest(self, record):
        ...         self.addEdge(record["customer"], record["product"])
        ...         self.send(record["product"], "SOLD", record["pieces"])
        >>> batch = Orders().batch([{"customer": 1, "product": 7, "pieces": 3}])
        >>> len(batch), batch.sent[0].kind, batch.sent[0].value
        (2, 'SOLD', 3)
    """

    _rows: list[tuple[Any, ...]]

    # What a user writes. ------------------------------------------------------------------

    def ingest(self, record: Any) -> None:
        """Turn one record into deltas."""
        raise NotImplementedError(f"{type(self).__name__} must define ingest(self, record)")

    # What a user calls in `ingest`. -------------------------------------------------------

    def addEdge(self, source: Any, target: Any, value: Any = None) -> None:
        """Add an edge, or give the one that is there this value; or a dict of edge attributes.

        What is left out stays as it is; of a new edge it is 1, or an IntEnum's first member.
        """
        self._rows.append(("+", source, target, value))

    def removeEdge(self, source: Any, target: Any) -> None:
        """Remove an edge."""
        self._rows.append(("-", source, target))

    def changeEdge(self, source: Any, target: Any, value: Any) -> None:
        """Give an edge that is there another value, or other attributes (a dict)."""
        self._rows.append(("~", source, target, value))

    def send(self, vertex: Any, kind: str, value: Any = None) -> None:
        """Send a vertex a delta that is not an edge.

        `gather` gets it as `delta.kind` and `delta.value`. The vertex is created if it does not
        exist. Needs a program without `messages`.

        Args:
            vertex: its id.
            kind: a string of the program's own, such as "RATING".
            value: anything that can be pickled.
        """
        self._rows.append(("send", vertex, kind, value))

    # What a loop calls. -------------------------------------------------------------------

    def batch(self, records: Iterable[Any]) -> Deltas:
        """Call `ingest` for each record.

        Args:
            records: in the order of the source.

        Returns:
            The changes and deltas of all records, in order.

        Raises:
            InputError: `ingest` failed; the message names the record.
        """
        rows: list[tuple[Any, ...]] = []
        places: list[str] = []
        name = type(self).__name__
        for number, record in enumerate(records, 1):
            self._rows = []
            place = f"{name}, record {number}"
            try:
                self.ingest(record)
                Deltas.mixed(self._rows)
            except NotImplementedError:
                raise
            except Exception as error:
                kind = "" if isinstance(error, VertexError) else f"{type(error).__name__}: "
                raise InputError(f"{place}: {kind}{error}") from error
            rows += self._rows
            places += [place for row in self._rows if row[0] != "send"]
        self._rows = []
        return replace(Deltas.mixed(rows), places=tuple(places))
