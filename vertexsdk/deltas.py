"""A batch for the events level: changes of edges, and deltas that are no edges, in one order."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk.changes import Changes, _ids
from vertexsdk.errors import InputError
from vertexsdk.program import Program

__all__ = ["Deltas", "Sent", "Step", "edges_only"]


@dataclass(frozen=True, slots=True)
class Sent:
    """A delta that is no edge: `gather` of `vertex` gets it with `delta.kind == kind`.

    `at` says how many changes of edges of the batch come before it.
    """

    at: int
    vertex: Any
    kind: str
    value: Any = None


Step: TypeAlias = tuple[int | None, Sent | None]  # the number of a change, or what was sent


@dataclass(frozen=True)
class Deltas(Changes):
    """Changes, and `sent` among them, ascending by `at`; `len` and slices count both.

    >>> batch = Deltas.mixed([("send", 7, "RATING", 4.5), ("+", 7, 9), ("send", 9, "PING")])
    >>> len(batch), batch.kind.tolist(), [s.at for s in batch.sent]
    (3, [0], [0, 1])
    >>> batch[1:].sent
    (Sent(at=1, vertex=9, kind='PING', value=None),)
    """

    sent: tuple[Sent, ...] = field(default=())

    @classmethod
    def mixed(cls, rows: Iterable[Sequence[Any]]) -> Deltas:
        """Take rows as `Changes.of` does, and `("send", vertex, kind[, value])` among them.

        Raises:
            InputError: a row of another form, ids that do not go together, or a kind that is no
                string.
        """
        edges: list[Sequence[Any]] = []
        sent: list[Sent] = []
        for row in rows:
            if not len(row) or row[0] != "send":
                edges.append(row)
            elif len(row) not in (3, 4):
                raise InputError(f"{row!r} is no delta; write ('send', vertex, kind[, value])")
            else:
                sent.append(_checked(Sent(len(edges), *row[1:])))
        changes = Changes.of(edges)
        named = _ids([s.vertex for s in sent])
        if sent and edges and pa.types.is_integer(named.type) != changes.are_integers:
            raise InputError("some ids of the batch are integers and others strings; use one type")
        ids = named.to_pylist()
        kept = tuple(Sent(s.at, i, s.kind, s.value) for s, i in zip(sent, ids, strict=True))
        return cls(changes.kind, changes.source, changes.target, changes.value, (), kept)

    @classmethod
    def among(cls, changes: Changes) -> Deltas:
        """The same changes, with nothing sent among them; a `Deltas` as it is."""
        if isinstance(changes, Deltas):
            return changes
        c = changes
        return cls(c.kind, c.source, c.target, c.value, c.places)

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
        taken = list(self.steps())[part]
        numbers = [k for k, _ in taken if k is not None]
        low, high = (numbers[0], numbers[-1] + 1) if numbers else (0, 0)
        changes = Changes(self.kind, self.source, self.target, self.value, self.places)[low:high]
        c, sent, done = changes, [], 0
        for k, s in taken:
            if k is not None:
                done += 1
            elif s is not None:
                sent.append(Sent(done, s.vertex, s.kind, s.value))
        return Deltas(c.kind, c.source, c.target, c.value, c.places, tuple(sent))

    def sent_columns(self) -> dict[str, NDArray[Any]]:
        """What was sent as columns, to be written to a log; `with_sent` takes them back."""
        columns: dict[str, NDArray[Any]] = {
            "sent.at": np.array([s.at for s in self.sent], np.int64)
        }
        for name, values in (
            ("vertex", [s.vertex for s in self.sent]),
            ("kind", [s.kind for s in self.sent]),
            ("value", [(s.value,) for s in self.sent]),  # in a tuple, so that it stays as it is
        ):
            columns[f"sent.{name}"] = np.empty(len(values), object)
            for k, value in enumerate(values):
                columns[f"sent.{name}"][k] = value
        return columns

    @classmethod
    def with_sent(cls, changes: Changes, columns: dict[str, NDArray[Any]]) -> Deltas:
        """The batch of which `changes` were the changes, and `columns` what `sent_columns` gave."""
        names = ("at", "vertex", "kind", "value")
        rows = zip(*(columns[f"sent.{n}"].tolist() for n in names), strict=True)
        sent = tuple(Sent(at, vertex, kind, value[0]) for at, vertex, kind, value in rows)
        c = changes
        return cls(c.kind, c.source, c.target, c.value, c.places, sent)


def edges_only(program: Program, changes: Changes) -> Changes:
    """Return the changes, which a program with declared messages takes in.

    Raises:
        InputError: something else was sent among them.
    """
    if program.algebra is not None and isinstance(changes, Deltas) and changes.sent:
        first = changes.sent[0]
        raise InputError(
            f"{first.kind!r} for vertex {first.vertex!r} is no change of an edge: {program.name} "
            "declares messages, so it takes in edges only; leave messages out (events level) to "
            "gather other deltas"
        )
    return changes


def _checked(sent: Sent) -> Sent:
    if not isinstance(sent.kind, str) or not sent.kind:
        raise InputError(f"a delta's kind is {sent.kind!r}; it must be a string such as 'RATING'")
    return sent
