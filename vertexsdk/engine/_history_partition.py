"""A partition whose graph changes, of a program whose iterations are refined where they differ.

The first answer is computed as that of any other program, and recorded: for each vertex, the
iterations after which its state or message was another one (`History`). After changes, iterations
are refined one after another: a vertex at the end of a changed edge, or with a producer whose
messages differ from those recorded, gathers again whenever a producer of it has sent; where its
messages are the recorded ones, nothing follows. So the answer, and every iteration, are those of a
run from scratch. Where this would look at much of the graph, it begins with `init` instead.

Where a message depends on its edge, a digest of the fields that it follows from is recorded in its
place, and messages along the edges of a vertex are computed when it gathers again.

Source: "Differential dataflow" (McSherry et al., CIDR 2013), sections 3.2 and 3.3; GraphBolt
(Mariappan and Vora, EuroSys 2019) for vertex programs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.adjacency_kernels import entries_of
from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.methods import Edges, Methods, Scope
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine._arena_partition import UNWRITTEN
from vertexsdk.engine._recomputed_partition import MUCH, FollowingPartition
from vertexsdk.engine.adjacency import RowTopology, distinct
from vertexsdk.engine.arena import Arena
from vertexsdk.engine.commands import AnswerStart, LoopReport
from vertexsdk.engine.iterations import Iterations, combining, make_master
from vertexsdk.engine.master import IterationStats, Master
from vertexsdk.engine.new_partition import NewPartition
from vertexsdk.engine.partition_graph import ResolvedChanges
from vertexsdk.engine.processor import by_class, class_numbers_of
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.errors import VertexError
from vertexsdk.graph.topology.edge_attributes import no_values
from vertexsdk.state.difference import unequal, unequal_bits
from vertexsdk.transport.transport import Blocks

Array = NDArray[Any]
Columns = dict[str, Array]
_Parts = list[tuple[Array, Columns]]
_ROWS = ("history.start", "history.stop", "history.room")
_SPARE = 1 << 16
NEVER = (1 << 31) - 1  # an iteration that there is not
ROUND = 1 << 16  # iteration i of round r is recorded as that of number r * ROUND + i
_ROUNDS = (1 << 14) - 2  # rounds that are recorded, at most


class History:
    """The entries of all places, in an arena.

    Args:
        arena: where they are.
        fields: dtype of each column beside `at` (int32) and `sent` (bool), by name.
    """

    def __init__(self, arena: Arena, fields: Mapping[str, DTypeLike]) -> None:
        self.arena = arena
        self.fields = {"at": np.int32, "sent": np.bool_, **fields}

    def create(self, parts: _Parts) -> None:
        """Begin with entries, in parts that ascend by iteration.

        Args:
            parts: the distinct places of entries (int[k]), and their columns.
        """
        lengths = np.zeros(self.arena.length("ids"), np.int64)
        for places, _ in parts:
            lengths[places] += 1
        following = self._make_room(lengths)
        all_columns = {name: self._column(name) for name in self.fields}
        for places, columns in parts:
            at = following[places]
            following[places] += 1
            for name, column in all_columns.items():
                column[at] = columns[name]

    def _make_room(self, lengths: Array) -> Array:
        """Have room for so many entries of each place; return where those of each begin."""
        room = lengths + lengths // 4
        starts: Array = np.cumsum(room) - room
        for name, values in zip(_ROWS, (starts, starts + lengths, room), strict=True):
            self.arena.resize(name, len(lengths), np.int64)[...] = values
        self._resize(int(room.sum()))
        self.arena.meta["history.entries"] = int(lengths.sum())
        return starts

    def _column(self, name: str) -> Array:
        return self.arena[f"history.{name}"]

    def _resize(self, tail: int) -> None:
        self.arena.meta["history.tail"] = tail
        for name, dtype in self.fields.items():
            self.arena.resize(f"history.{name}", tail, dtype)

    @property
    def rows(self) -> tuple[Array, Array]:
        """The bounds of the entries of every place (int64[n] each)."""
        return self.arena[_ROWS[0]], self.arena[_ROWS[1]]

    @property
    def entries(self) -> int:
        """The number of entries."""
        return int(self.arena.meta["history.entries"])

    @property
    def width(self) -> int:
        """The bytes of an entry."""
        return sum(np.dtype(dtype).itemsize for dtype in self.fields.values())

    @property
    def bytes(self) -> int:
        """The bytes of all entries, and of room for more."""
        return int(self.arena.meta.get("history.tail", 0)) * self.width

    def columns(self) -> Columns:
        """All columns, with room that is not used."""
        return {name: self._column(name) for name in self.fields}

    def grow(self, n: int) -> None:
        """Have n places."""
        for name in _ROWS:
            previous = self.arena.length(name)
            if previous < n:
                self.arena.resize(name, n)[previous:] = 0

    def entries_of(self, places: Array) -> tuple[Array, Array]:
        """The entries of some places: where they are, and the number of each one's place."""
        start, stop = self.rows
        return entries_of(np.arange(len(places)), start[places], stop[places])

    def replace(self, places: Array, place: Array, columns: Columns) -> None:
        """Have other entries at some places.

        Args:
            places: which (int32, ascending).
            place: the place of each new entry, ascending.
            columns: columns of these entries, by name.
        """
        start, stop, room = (self.arena[name] for name in _ROWS)
        lengths = np.bincount(np.searchsorted(places, place), minlength=len(places))
        self.arena.meta["history.entries"] += int(
            lengths.sum() - (stop[places] - start[places]).sum()
        )
        moved = places[lengths > room[places]]
        if len(moved):
            wanted = lengths[lengths > room[places]]
            wanted += wanted // 4 + 1
            tail = int(self.arena.meta["history.tail"])
            start[moved] = tail + np.cumsum(wanted) - wanted
            room[moved] = wanted
            self._resize(tail + int(wanted.sum()))
        stop[places] = start[places] + lengths
        at, _ = self.entries_of(places)
        for name in self.fields:
            self._column(name)[at] = columns[name]
        if self.arena.meta["history.tail"] > 3 * self.entries + _SPARE:
            self.renumber(np.arange(len(start)))

    def renumber(self, places: Array) -> None:
        """Keep these places only, in this order; their entries lie close together then."""
        at, place = self.entries_of(places)
        kept = {name: column[at] for name, column in self.columns().items()}
        self._make_room(np.bincount(place, minlength=self.arena.length("ids")))
        at, _ = self.entries_of(np.arange(self.arena.length("ids")))
        for name in self.fields:
            self._column(name)[at] = kept[name]


class Refinement:
    """The history as it becomes: new entries of some places, and the old ones of all others.

    Attributes:
        rows, old: the bounds of old entries, and their columns.
        head: for each place, 0 where its old entries hold; else the number of its latest new entry,
            from 1 on, or -1 where it has none (int64[n]).

    Args:
        history: as it is.
        n: the number of places.
    """

    def __init__(self, history: History, n: int) -> None:
        self.history = history
        self.rows, self.old = history.rows, history.columns()
        self.head, self._last = np.zeros((2, n), np.int64)
        self._since = np.zeros(n, np.int32)  # the first iteration whose old entries are not taken
        self._parts: list[Array] = []
        self._places: list[Array] = []
        self._length = 0
        self._columns = {name: np.empty(1024, dtype) for name, dtype in history.fields.items()}
        self._columns["link"] = np.empty(1024, np.int64)  # the entry before it of the same place

    def begin(self, places: Array, iteration: int) -> None:
        """Have places, of which the old entries hold, get new ones from an iteration on.

        Args:
            places: int32[k], distinct.
        """
        at, number = self.history.entries_of(places)
        old = self.old
        iterations = old["at"][at]
        earlier = (iterations < iteration) & (iterations >= self._since[places][number])
        at, number = at[earlier], number[earlier]
        last = self._last[places]
        self.head[places] = np.where(last > 0, last, -1)
        self._places.append(places)
        self.add(places[number], {name: column[at] for name, column in old.items()})

    def rejoin(self, places: Array, iteration: int) -> None:
        """Have the old entries of places (int32[k]) hold again after an iteration."""
        self.head[places], self._since[places] = 0, iteration + 1

    def add(self, place: Array, columns: Columns) -> None:
        """Add entries, ascending by iteration for each place.

        Args:
            place: int32[k].
            columns: columns of these entries, by name.
        """
        count = len(place)
        if not count:
            return
        stop = self._length + count
        if stop > len(self._columns["at"]):
            for name, column in self._columns.items():
                longer = np.empty((2 * stop, *column.shape[1:]), column.dtype)
                longer[: self._length] = column[: self._length]
                self._columns[name] = longer
        numbers, link = np.arange(self._length + 1, stop + 1), self._last[place]
        again = np.flatnonzero(place[1:] == place[:-1])
        link[again + 1] = numbers[again]
        for name, column in self._columns.items():
            column[self._length : stop] = link if name == "link" else columns[name]
        self._last[place] = numbers  # of several, the last one counts
        self.head[place] = self._last[place]
        self._parts.append(place)
        self._length = stop

    def latest(self, places: Array, iteration: int) -> tuple[Array, Array, Array]:
        """The entry of each place that holds after an iteration.

        Returns:
            Where it is among the new entries, from 1 on, or among the old ones, as -1 - its place;
            0 where there is none (int64[k]); those among the old ones alone, in the same way; and
            the iteration of the old entry after it, or `NEVER` (int32[k]).
        """
        out, old = np.empty((2, len(places)), np.int64)
        following = np.empty(len(places), np.int32)
        find: Any = _latest
        find(
            places, iteration, self.head, self._columns["at"], self._columns["link"], *self.rows,
            self.old["at"], out, old, following,
        )  # fmt: skip
        return out, old, following

    def values(self, name: str, entry: Array, default: Any) -> Array:
        """The values of a column at entries that `latest` told; a default where there is none."""
        new, old = self._columns[name], self.old[name]
        values = np.full((len(entry), *old.shape[1:]), default, old.dtype)
        for chosen, column, at in (entry > 0, new, entry - 1), (entry < 0, old, -1 - entry):
            values[chosen] = column[at[chosen]]
        return values

    def places(self) -> Array:
        """The places that get new entries (int32, ascending)."""
        return np.unique(np.concatenate([*self._places, np.zeros(0, np.int32)])).astype(np.int32)

    def commit(self) -> None:
        """Have the new entries in the history."""
        places = self.places()
        at, number = self.history.entries_of(places)
        old = self.old
        later = (self.head[places] == 0)[number] & (old["at"][at] >= self._since[places][number])
        at, number = at[later], number[later]
        self.add(places[number], {name: column[at] for name, column in old.items()})
        place = np.concatenate([*self._parts, np.zeros(0, np.int32)])
        order = np.argsort(place, kind="stable")
        columns = {name: self._columns[name][: self._length][order] for name in old}
        self.history.replace(places, place[order], columns)


@njit
def _latest(  # type: ignore[no-untyped-def]
    places, iteration, head, new_at, link, start, stop, at, out, old, following
):
    for k in range(places.shape[0]):
        u = places[k]
        e = stop[u]
        while e > start[u] and at[e - 1] > iteration:
            e -= 1
        old[k] = -e if e > start[u] else 0
        h = head[u]
        while h > 0 and new_at[h - 1] > iteration:
            h = link[h - 1]
        out[k] = old[k] if head[u] == 0 else max(h, 0)
        following[k] = at[e] if e < stop[u] else NEVER


_MIXING = [
    (np.uint64(30), np.uint64(0xBF58476D1CE4E5B9)), (np.uint64(27), np.uint64(0x94D049BB133111EB)),
]  # fmt: skip
_END = np.uint8(4)  # bit of the column "dirty": an edge at the vertex has changed
_FEW = 1 << 16  # messages that are looked at sooner than a graph is arranged
_WORTH = 8  # an answer from scratch takes so many times what an attempt may cost
_PAUSE = 31  # answers without an attempt, at most
_ONE_EDGE = 2  # the size of a change of one edge
_OTHERS = 8  # answers from `init` that are recorded, though the next one is to begin with it too
_FIRST = 3  # times as long as later it takes to look at a message for the first time
_MOST = 192  # bytes of the history for each vertex and edge
_LEAST = 1 << 21  # bytes that it may have in any case


@dataclass(slots=True)
class _Attempts:
    """The attempts to refine iterations that were given up, and what follows from them.

    Changes are of the same size where the bit length of the number of their ends is the same. Where
    an attempt is given up, those after more changes would be too.

    Attributes:
        pause: by size, how many answers begin with `init` after an attempt that was given up.
        left: by size, how many of these are still to come.
        others: how many answers there were one after the other that began with `init`.
    """

    pause: dict[int, int] = field(default_factory=dict)
    left: dict[int, int] = field(default_factory=dict)
    others: int = 0

    def waits(self, size: int) -> bool:
        """Return whether the answer after so many changes is to begin with `init`."""
        return self._left(size) > 0

    def given_up(self, size: int) -> None:
        """Note an attempt that was given up."""
        self.left[size] = self.pause[size] = min(2 * self.pause.get(size, 0) + 1, _PAUSE)

    def done(self, size: int) -> None:
        """Note an attempt that came to an answer, as those after fewer changes would."""
        for known in [known for known in self.pause if known <= size]:
            self.pause[known] = self.left[known] = 0
        self.others = 0

    def is_recorded(self, size: int) -> bool:
        """Note an answer that begins with `init`; return whether its iterations are recorded.

        They are if the next one may follow from it, or one of the next after fewer changes.
        """
        left = self._left(size)
        self.others = self.others + 1 if left else 0
        fewest = min((known for known, count in self.left.items() if count), default=_ONE_EDGE)
        for known in [known for known in self.left if known <= size]:
            self.left[known] = max(self.left[known] - 1, 0)
        return left <= 1 or (self.others <= _OTHERS and fewest > _ONE_EDGE)

    @property
    def pauses(self) -> bool:
        """True if the answers after changes of some size are to begin with `init`."""
        return any(self.left.values())

    def _left(self, size: int) -> int:
        return max((count for known, count in self.left.items() if known <= size), default=0)


@dataclass(slots=True)
class _RefinedEnd(SuperstepEnd):
    """The report of a partition about one refined iteration.

    Attributes:
        events: how many more vertices than before sent something else, by iteration.
        next: the next iteration in which vertices of the partition are due.
        told: messages that differ were sent to other partitions.
        opened: there are vertices of which recorded entries do not hold.
        work: messages that were looked at so far.
        bytes: bytes of the history.
        changed: ends of edges that have changed.
    """

    events: Counter[int] = field(default_factory=Counter)
    next: int = NEVER
    told: bool = False
    opened: bool = False
    work: int = 0
    bytes: int = 0
    changed: int = 0


def _size(ends: Sequence[_RefinedEnd]) -> int:
    """The size of the changes of all partitions, as `_Attempts` has it."""
    return sum(end.changed for end in ends).bit_length()


@dataclass(slots=True)
class _RecordedEnd(SuperstepEnd):
    """The report of a partition about a run that it has recorded.

    Attributes:
        messages: messages of the run.
        too_large: there are too many entries.
        bytes: bytes that its entries take.
    """

    messages: int = 0
    too_large: bool = False
    bytes: int = 0


class _NoDelivery(Delivery):
    """Leaves messages with their senders, or where they were put, by entries of in-rows."""

    def number_entries(self) -> None:
        """Have a message for each entry of the transposed adjacency, at its number."""
        self._in_index = np.arange(len(self.topology.in_source), dtype=np.int32)
        self._in_index.flags.writeable = False  # as in_source: kernels compile once

    def push(self, parts: Any, msg: Array, agg: Array) -> int:
        """Return how many edges messages would be delivered along."""
        del msg, agg
        return sum(self.edges_of(senders) for senders, _ in parts)


class _Recorder:
    """Takes down what the iterations of a run from `init` change.

    Attributes:
        parts: the vertices that changed, by their numbers, and their entries, of each iteration.
        entries: how many entries there are.
        messages: messages of the run.
        events: vertices that gave others, or themselves, something to gather, by iteration.

    Args:
        run: the run, before iteration 0.
        most: how many entries there may be.
        part: for whose history.
    """

    def __init__(self, run: Iterations, most: int, part: HistoryPartition) -> None:
        self.run, self.most, self.part = run, most, part
        self.parts: _Parts = []
        self.entries = self.messages = 0
        self.events = Counter[int]()
        self._previous: Columns = {}
        self._degrees = np.zeros(0, np.int64)  # of all vertices, from iteration 0 on
        self._is_part = False  # what is in `_previous` is in the last part too
        self._next = 0  # the number of the next iteration
        run.after_each = self.note

    @property
    def too_large(self) -> bool:
        """True if there are more entries than there may be, of which nothing is kept."""
        return self.entries > self.most

    def note(self, _: int) -> None:
        """Take down an iteration, which has ended."""
        iteration, part = self._next, self.part
        self._next = number_of_next(self.run.master, iteration)
        if part.is_beyond(iteration):
            self.entries = self.most + 1
        if self.too_large:
            self.parts = []
            return
        v = self.run.processor.v
        n = v.topology.n
        now = {f"state.{name}": column for name, column in v.states.items()}
        now["message"] = part.digests(v.states, np.arange(n)) if part.along_edges else v.msg[:n]
        if iteration == 0:
            index, self._degrees = np.arange(n, dtype=np.int32), np.diff(v.topology.start)
            none = np.array(part.no_message, now["message"].dtype)
            event = unequal(now["message"], np.broadcast_to(none, now["message"].shape))
        else:
            event = unequal(now["message"], self._previous["message"])
            changed = event.copy()
            for name, column in now.items():
                changed |= unequal_bits(column, self._previous[name])
            index = np.flatnonzero(changed).astype(np.int32)
        columns = {name: column[index] for name, column in now.items()}
        counted = (event & (self._degrees > 0))[index]
        if part.round_of(iteration):
            for name in v.states:
                name = f"state.{name}"
                counted |= unequal(columns[name], self._previous[name][index])
        self.entries += len(index)
        self.messages += int(self._degrees[event].sum())
        self.events[iteration] += int(counted.sum())
        self._take(index, columns, n)
        self.parts.append(
            (index, {**columns, "at": np.array(iteration, np.int32), "sent": event[index]})
        )

    def _take(self, index: Array, columns: Columns, n: int) -> None:
        """Have the state of some of n vertices as that of the previous iteration."""
        if len(index) == n:
            self._previous, self._is_part = columns, True
            return
        if self._is_part:
            self._previous = {name: column.copy() for name, column in self._previous.items()}
            self._is_part = False
        for name, column in columns.items():
            self._previous[name][index] = column


def number_of_next(master: Master, iteration: int) -> int:
    """The number of the iteration after one, which the master has taken in."""
    return master.round * ROUND if master.begins else iteration + 1


class HistoryPartition(FollowingPartition):
    """A partition of a loop that keeps the history of its iterations.

    Args:
        plan: the plan of the loop, of a program for which `why_no_history` has no reason.
        layout: the layout of the adjacency.
        partition: the partition's number.
        start: the start of the loop's answers.
    """

    def __init__(self, plan: Plan, layout: str, partition: int, start: AnswerStart) -> None:
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        self.module = delivery_module(self.algebra)
        self._states = {f"state.{name}": f for name, f in plan.program.states().items()}
        every = [spec.facts for spec in plan.program.classes]
        self.rounds = any(facts.rounds for facts in every)
        self.reads_round = any(facts.rounds and facts.reads_round for facts in every)
        self.stateless = not self.rounds and all(
            facts.repeatable and facts.gather_leaves is None for facts in every
        )
        self.message_type: DTypeLike = self.algebra.column_dtype
        self.no_message: Any = self.algebra.identity
        self.sources: list[str] = []  # the fields from which messages along edges follow
        self.along_edges = every[0].message_shape != "uniform"
        if self.along_edges:
            self.message_type, self.no_message = np.dtype(np.int64), np.int64(0)
            self.sources = sorted(every[0].scatter_reads)
        self._recorder: _Recorder | None = None
        self._recorded: _Parts | None = None  # what the history is to begin with
        columns: dict[str, Any] = {"dirty": (np.uint8, 0)}
        columns |= {name: (f.column_dtype, f.default) for name, f in self._states.items()}
        super().__init__(plan, layout, partition, start, columns)

    @property
    def history(self) -> History:
        """The history, as it is in the arena."""
        fields = {name: f.column_dtype for name, f in self._states.items()}
        return History(self.arena, {**fields, "message": self.message_type})

    @property
    def kinds(self) -> Array | None:
        """The class number (uint8) of each place; None where all vertices are of the first one."""
        return class_numbers_of(self.arena["kind"], self.plan) if self.plan.kinds else None

    def states(self) -> dict[str, Array]:
        """The columns of all fields, by place, and that of classes."""
        kinds = self.kinds
        return super().states() if kinds is None else {**super().states(), "kind": kinds}

    @property
    def told(self) -> list[str]:
        """The columns of entries that other partitions are told."""
        return ["at", "sent", "message", *(f"state.{name}" for name in self.sources)]

    def digests(self, states: Mapping[str, Array], places: Array) -> Array:
        """The digest (int64[k]) of the fields of vertices from which messages along edges follow.

        Other values have another digest, but for a chance of 1 in 2**64.
        """
        mixed = np.ones(len(places), np.uint64)
        for name in self.sources:
            column = states[name][places]
            mixed += column.view(np.uint64) if column.dtype.itemsize == 8 else column
            for shift, factor in _MIXING:  # SplitMix64
                mixed = (mixed ^ (mixed >> shift)) * factor
            mixed ^= mixed >> np.uint64(31)
        digests: Array = mixed.view(np.int64)
        return digests

    def round_of(self, iteration: int) -> int:
        """The round that begins in an iteration; 0 where none does."""
        return iteration // ROUND if self.rounds and iteration % ROUND == 0 else 0

    def is_beyond(self, iteration: int) -> bool:
        """Return whether the iteration after the next one cannot be numbered."""
        longest = iteration % ROUND >= ROUND - 2
        return self.rounds and (longest or iteration // ROUND >= _ROUNDS)

    def fork(self) -> HistoryPartition:
        """Return a copy, in which iterations that have not ended begin again."""
        other = super().fork()
        assert isinstance(other, HistoryPartition)
        other._recorder = None
        return other

    def begin(self, new: NewPartition) -> None:
        """Begin with a graph, before iteration 0."""
        super().begin(new)
        self.arena.meta |= {"attempts": _Attempts(), "changed": 0}

    # Changes. -------------------------------------------------------------------------------------

    def edit(self, changes: ResolvedChanges, columns: Mapping[str, Array]) -> Steps[int]:
        """Make changes; iterations follow before the next answer."""
        graph, arena = self.graph, self.arena
        sources, targets = columns["source"], columns["target"]
        at = graph.index.find(np.concatenate([sources, targets]))
        ends = at[at >= 0]
        if graph.alone:
            ends = np.concatenate([changes.edits.row, changes.edits.key])
        ends = graph.mirrors.local(distinct(ends, graph.index.n))
        arena.meta["changed"] += len(ends)
        if self._recorded is not None:
            yield from self._make_history()
        if not self.begun:
            return (yield from super().edit(changes, columns))
        history = self.history
        history.grow(graph.index.n)
        self._note_ends(ends[(arena["dirty"][ends] & _END) == 0])
        _, _, removed = graph.edit(changes)
        arena["dirty"][ends] |= _END
        if not graph.alone:
            yield from self._tell_history(at, np.concatenate([targets, sources]))
        self.forget(removed)
        if (new := graph.tidy()) is not None:
            kept = np.flatnonzero(new >= 0)
            history.renumber(kept[np.argsort(new[kept])])
            due = [(new[places], at) for places, at in arena.meta["due"]]
            arena.meta["due"] = [(p[p >= 0], at[p >= 0]) for p, at in due]
            arena.meta["layers"] = None
        return len(ends)

    def _note_ends(self, places: Array) -> None:
        """Note what vertices, whose edges change for the first time since an answer, had sent."""
        meta, history = self.arena.meta, self.history
        sending = self.rows_of(places)[0] > 0
        meta["events"].subtract(self.events_of(places, sending).tolist())
        if not self.stateless:
            lengths, sources, _ = self.rows_of(places, incoming=True)
            at, number = history.entries_of(sources)
            event = history.columns()["sent"][at]
            place = np.repeat(places, lengths)[number[event]]
            meta["due"].append((place, history.columns()["at"][at[event]] + 1))

    def edges_of(self, places: Array, *, incoming: bool = False) -> tuple[Array, Columns]:
        """The edges of vertices, as for `rows_of`, by column.

        Returns:
            How many each vertex has; the places of their other ends ("target"), whether each is
            followed against its direction ("reverse"), and their values ("value"), if any.
        """
        direction = self.plan.program.direction
        lengths, target, pick, reverse = self.graph.rows_of(places, direction, incoming=incoming)
        none: Any = False
        columns = {"target": target, "reverse": none if reverse is None else reverse}
        if (value := self.graph.adjacency.values_at(pick)) is not None:
            columns["value"] = value
        return lengths, columns

    def events_of(self, places: Array, sending: Array) -> Array:
        """The iterations that gave others, or itself, something to gather, for each vertex.

        Args:
            places: places of the vertices.
            sending: which of these have targets (bool).
        """
        history = self.history
        at, number = history.entries_of(places)
        columns = history.columns()
        iterations: Array = columns["at"][at[self.are_events(columns, at, sending[number])]]
        return iterations

    def are_events(self, columns: Columns, at: Array, sending: Array) -> Array:
        """A mask (bool) of the entries that have other messages, or changes by a round.

        Args:
            columns: columns of entries, those of a vertex one after the other.
            at: where in these the entries are.
            sending: whether the vertex of each has targets (bool).
        """
        events: Array = columns["sent"][at] & sending
        if self.rounds:
            iterations = columns["at"][at]
            begins = np.flatnonzero((iterations > 0) & (iterations % ROUND == 0))
            entry = at[begins]  # which is never the first one of its vertex
            moved = np.zeros(len(entry), np.bool_)
            for name in self._states:
                moved |= unequal(columns[name][entry], columns[name][entry - 1])
            events[begins] |= moved
        return events

    def forget(self, removed: Array) -> None:
        """Have the vertices that went at their defaults, without a history."""
        super().forget(removed)
        none = {name: column[:0] for name, column in self.history.columns().items()}
        self.history.replace(removed, removed[:0], none)

    def _tell_history(self, places: Array, others: Array) -> Steps[None]:
        """Tell the owners of other vertices what this partition's vertices have sent.

        Args:
            places: places of the ends of edges, -1 for those that are not here.
            others: the ids of the other ends.
        """
        graph = self.graph
        owners = graph.mirrors.owners(others)
        ours = (places >= 0) & (owners != graph.partition)
        ours[ours] = graph.mirrors.are_local(places[ours])
        parts = [
            (p, np.unique(places[ours & (owners == p)])) for p in np.unique(owners[ours]).tolist()
        ]
        blocks = self._histories(parts)
        received, _ = yield from end_superstep(blocks, SuperstepEnd())
        self._take_histories(received)

    def _histories(self, parts: list[tuple[int, Array]]) -> Blocks:
        """The entries of some places for other partitions, without states."""
        history, ids, blocks = self.history, self.arena["ids"], Blocks()
        start, stop = history.rows
        for p, places in parts:
            at, _ = history.entries_of(places)
            told = {name: history.columns()[name][at] for name in self.told}
            told |= {"id": ids[places], "count": stop[places] - start[places]}
            blocks.append((p, encode_bytes(told)))
        self.bytes_sent += sum(len(block) for _, block in blocks)
        return blocks

    def _take_histories(self, blocks: Blocks) -> None:
        """Have what other partitions tell of their vertices, where these are mirrors."""
        parts = [decode(block, trusted=True)[0] for _, block in blocks]
        if not parts:
            return
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        places, counts = self.graph.index.find(joined["id"]), joined["count"]
        place = np.repeat(places, counts)
        order = np.argsort(place, kind="stable")
        order = order[np.searchsorted(place[order], 0) :]  # -1: it has no edge here
        columns = {name: joined[name][order] for name in self.told}
        places = np.sort(places[places >= 0]).astype(np.int32)
        self.history.replace(places, place[order], self.with_states(columns))

    def with_states(self, columns: dict[str, Array]) -> dict[str, Array]:
        """Columns of mirrors, of which no other fields are known."""
        n = len(columns["at"])
        none = {name: np.zeros(n, f.column_dtype) for name, f in self._states.items()}
        return {**none, **columns}

    # Answers. -------------------------------------------------------------------------------------

    def _begin(self) -> Steps[Iterations]:
        """Arrange the graph as it is for iterations, which are recorded."""
        run, meta = (yield from super()._begin()), self.arena.meta
        _, ends = yield from end_superstep([], _RefinedEnd(changed=meta["changed"]))
        if not meta["attempts"].is_recorded(_size(ends)):
            return run
        most = _MOST * (self.graph.vertices + int(self.arena.meta["entries"])) + _LEAST
        if self.start.history_bytes is not None:
            most = min(most, self.start.history_bytes)
        self._recorder = _Recorder(run, most // self.history.width, self)
        return run

    def take_over(self, report: LoopReport) -> Steps[None]:
        """Keep what iterations from `init` came to, and their history."""
        recorder, self._recorder = self._recorder, None
        assert self._iterations is not None
        meta = self.arena.meta
        meta["changed"] = 0
        if recorder is None:
            meta["restart"] = "no iterations were recorded, as changes were at much of the graph"
            return
        end = _RecordedEnd(messages=recorder.messages, too_large=recorder.too_large)
        end.bytes = recorder.entries * self.history.width
        _, ends = yield from end_superstep([], end)
        if any(e.too_large for e in ends) or self._too_large(e.bytes for e in ends):
            meta["restart"] = f"the history of iterations {self._excess}"
            return
        self._recorded = recorder.parts
        meta |= {
            "last": self._iterations.iterations, "due": [],
            "rounds": self._iterations.master.round,
            "messages": sum(e.messages for e in ends),
            "events": recorder.events,
        }  # fmt: skip
        report.statistics = {**report.statistics, "history_bytes": sum(e.bytes for e in ends)}
        yield from super().take_over(report)
        if not meta["attempts"].pauses:
            yield from self._make_history()

    def _make_history(self) -> Steps[None]:
        """Have what was recorded as the history, unless the next answer begins with `init`."""
        graph, meta = self.graph, self.arena.meta
        _, ends = yield from end_superstep([], _RefinedEnd(changed=meta["changed"]))
        if meta["attempts"].waits(_size(ends)):
            self.recompute(MUCH)
            return
        assert self._recorded is not None
        places = graph.in_order()
        self.history.create([(places[index], columns) for index, columns in self._recorded])
        self._recorded = None
        if graph.alone:
            return
        row, key, _ = graph.edges()
        local, other = np.concatenate([row, key]), np.concatenate([key, row])
        away = graph.mirrors.are_local(local) & ~graph.mirrors.are_local(other)
        local, owner = local[away], self.arena["owner"][other[away]]
        parts = [(p, distinct(local[owner == p], graph.index.n)) for p in np.unique(owner)]
        received, _ = yield from end_superstep(self._histories(parts), SuperstepEnd())
        self._take_histories(received)

    def recompute(self, reason: str) -> None:
        """Have the next answer begin with `init`."""
        self._recorded = None
        super().recompute(reason)

    def follow(self, report: LoopReport) -> Steps[str]:
        """Refine iterations; return why the answer has to begin with `init`, or ""."""
        arena, meta, work = self.arena, self.arena.meta, report.work
        if self._recorded is not None:
            yield from self._make_history()
            if not self.begun:
                return MUCH
        ends = np.flatnonzero(arena["dirty"] & _END).astype(np.int32)
        ends = ends[arena["alive"][ends] != 0]
        most = max(meta["messages"] // _WORTH, _FEW)
        refined = RefinedIterations(self, ends, most)
        end = _RefinedEnd(vertices=self.graph.vertices, events=meta["events"])
        end.bytes, end.changed = self.history.bytes, meta["changed"]
        _, told = yield from end_superstep([], end)
        report.statistics = {"history_bytes": sum(e.bytes for e in told)}
        if self._too_large(e.bytes for e in told):
            return f"the history of iterations {self._excess}"
        size, attempts = _size(told), meta["attempts"]
        if attempts.waits(size):
            return MUCH
        master = make_master(self.plan, sum(e.vertices for e in told))
        events = Counter[int]()
        for e in told:
            events.update(e.events)
        iteration = at = 0  # what is computed, and what the run would do next
        while True:
            if self.is_beyond(iteration) or self.is_beyond(at):
                return "it takes too many iterations"
            end, blocks = refined.step(iteration)
            work.bytes += sum(len(block) for _, block in blocks)
            work.hops += not self.graph.alone
            received, told = yield from end_superstep(blocks, end)
            if any(e.failure is not None for e in told):
                return "a method failed"
            if sum(e.work for e in told) > most:
                attempts.given_up(size)
                return MUCH
            for e in told:
                events.update(e.events)
            refined.receive(received, iteration)
            following = min(e.next for e in told)
            if any(e.told for e in told):
                following = iteration + 1
            opened = any(e.opened for e in told)
            try:
                while master.reason is None and at < following:
                    if master.begins and at > iteration and opened:
                        break
                    pending = events.get(at, 0)
                    master.advance(IterationStats(1, changed=pending, pending=pending))
                    at = number_of_next(master, at)
            except VertexError:
                return "converged failed"
            last, ahead = master.iteration - 1, iteration // ROUND + 1
            if opened and ahead <= max(meta["rounds"], master.round):
                following = min(following, ahead * ROUND)  # all that may differ begin a round
            if meta["reason"] != "quiet" and last > meta["last"]:
                return "it takes more iterations"
            if master.reason not in (None, "quiet") or following == NEVER:
                break
            iteration = following  # where it is quiet, later entries are still to go
        if self.reads_round and master.round != meta["rounds"]:
            return "it takes another number of rounds"
        self._commit(refined)
        meta |= {"reason": master.reason, "last": last, "rounds": master.round, "changed": 0}
        attempts.done(size)
        meta["clock"] += last
        work.iterations, work.updates, work.touched = last, refined.updates, refined.updates
        work.reason, work.quiet = master.reason, True
        return ""

    @property
    def _excess(self) -> str:
        limit = self.start.history_bytes
        return "is too large" if limit is None else f"takes more than history_bytes={limit:,}"

    def _too_large(self, parts: Iterable[int]) -> bool:
        limit = self.start.history_bytes
        return limit is not None and sum(parts) > limit

    def _commit(self, refined: RefinedIterations) -> None:
        """Have the refined iterations as the history, and their last states as the answer."""
        arena, meta = self.arena, self.arena.meta
        refinement = refined.refinement
        refined.rejoin(NEVER)
        refinement.commit()
        places = self.graph.mirrors.local(refinement.places())
        history = self.history
        latest = history.rows[1][places] - 1
        for name in self._states:
            values = history.columns()[name][latest]
            differs = unequal_bits(values, arena[name][places])
            arena["dirty"][places[differs]] |= UNWRITTEN
            arena[name][places] = values
        ends = refined.ends
        arena["dirty"][ends] = (arena["dirty"][ends] | UNWRITTEN) & ~_END  # they may be new
        meta["events"].update(refined.events)
        meta["due"] = []


class _Rows:
    """Rows of the vertices that were asked for so far, in the order of ids.

    Args:
        n: the number of places.
        value_type: value dtype of the program (`edge_attributes`); None where edges have none.
    """

    def __init__(self, n: int, value_type: str | None) -> None:
        self.start, self.stop = np.zeros((2, n), np.int64)
        self._columns = {"target": np.empty(1024, np.int32), "reverse": np.empty(1024, np.bool_)}
        if value_type is not None:
            self._columns["value"] = no_values(1024, value_type)
        self._length = 0

    def add(self, places: Array, lengths: Array, columns: Columns) -> None:
        """Add the rows of some places, which are one after the other."""
        first, stop = self._length, self._length + int(lengths.sum())
        for name, column in self._columns.items():
            if stop > len(column):
                self._columns[name] = np.empty((2 * stop, *column.shape[1:]), column.dtype)
                self._columns[name][:first] = column[:first]
            self._columns[name][first:stop] = columns[name]
        ends = first + np.cumsum(lengths)
        self.start[places], self.stop[places] = ends - lengths, ends
        self._length = stop

    def topology(self, ids: Array, into: _Rows) -> Any:
        """The rows and those of sources, for methods; not to be written to."""
        arrays = [
            x[:] for x in (self.start, self.stop, *self._columns.values(), into.start, into.stop,
                           into._columns["target"])
        ]  # fmt: skip
        for array in arrays:
            array.flags.writeable = False  # as those of a topology, or kernels compile twice
        start, stop, target, reverse, *value, in_start, in_stop, in_source = arrays
        t: Any = RowTopology.of_rows(ids, start, stop, target, reverse)
        t.in_start, t.in_stop, t.in_source = in_start, in_stop, in_source
        t.value = value[0] if value else None
        return t

    def edges(self, places: Array) -> tuple[Array, Array]:
        """The entries of some places, and the number of each one's place."""
        return entries_of(np.arange(len(places)), self.start[places], self.stop[places])

    def column(self, name: str, entries: Array) -> Array | None:
        """The column "target", "reverse" or "value" of entries; None where there is none."""
        column = self._columns.get(name)
        return None if column is None else column[entries]

    def targets(self, places: Array) -> Array:
        """The targets of some places, with repetitions."""
        targets: Array = self._columns["target"][self.edges(places)[0]]
        return targets


class RefinedIterations:
    """The iterations after changes, where they may differ from those that were recorded.

    Attributes:
        refinement: the history as it becomes.
        events: how many more vertices than before sent something else, by iteration.
        updates: vertices that gathered, each time they did.

    Args:
        part: the partition, with its graph as it is now.
        ends: places of its vertices with a changed edge (int32, ascending).
        most: messages to look at; beyond these, a run from scratch takes less time.
    """

    def __init__(self, part: HistoryPartition, ends: Array, most: int) -> None:
        self.part, self.ends, self.graph, self._most = part, ends, part.graph, most
        n = self.graph.index.n
        self.refinement = Refinement(part.history, n)
        self.events = Counter[int]()
        self.updates = self.work = 0
        self._untold = Counter[int]()
        self._due: dict[int, list[Array]] = {}
        self._later: dict[int, list[Array]] = {}
        self._out, self._into = (_Rows(n, part.plan.program.value_dtype) for _ in range(2))
        same = part.plan.program.direction == "undirected" or part.layout == "undirected"
        # Sums of floats, and what a user's function combines, depend on the order.
        self._by_partition = not self.graph.alone and part.algebra.recombines
        if same and not self._by_partition:
            self._into = self._out
        fields = part.plan.program.states()
        self._fields, self._kinds = fields, part.kinds
        self._states = {name: np.zeros(n, f.column_dtype) for name, f in fields.items()}
        self._message, self._earlier = np.empty((2, n), part.message_type)
        self._sources = {name: np.zeros(n, fields[name].dtype) for name in part.sources}
        self._along = filled(0, part.algebra)  # the message along each entry of `_into`
        self._agg = filled(0, part.algebra)
        if part.algebra.kind != "latest":
            self._agg = np.empty(n, part.algebra.column_dtype)
        self._event, self._known, self._waits = np.zeros((3, n), np.bool_)
        self._clock = np.zeros((n, 2), np.int32)  # as `_fetch_messages` has it
        self._computed = np.zeros(n, np.int32)  # the last iteration in which it was
        self._given: tuple[VertexArrays, Delivery, MutationLog] | None = None  # for methods
        self._same: list[tuple[Array, int]] = []  # vertices as recorded after that iteration
        if len(ends):
            self._due |= {0: [ends], 1: [ends]}
            at, number = part.history.entries_of(ends)  # which another producer may have caused
            self._schedule_later(ends[number], self.refinement.old["at"][at])
        for places, at in part.arena.meta["due"]:
            self._schedule_later(places, at)

    # What is due. ---------------------------------------------------------------------------------

    def _schedule(self, places: Array, iteration: int) -> None:
        places = self.graph.mirrors.local(places)
        if len(places):
            self._due.setdefault(iteration, []).append(places)

    def _schedule_later(self, places: Array, at: Array) -> None:
        """Have each place due in its iteration, unless recorded entries hold for it then."""
        order = np.argsort(at, kind="stable")
        places, at = places[order], at[order]
        cuts = np.flatnonzero(np.diff(at)) + 1
        for some, when in zip(np.split(places, cuts), np.split(at, cuts), strict=True):
            if len(some):
                self._later.setdefault(int(when[0]), []).append(some)

    def _due_in(self, iteration: int) -> Array:
        """The vertices that are due in an iteration (int32, ascending)."""
        due = self._due.pop(iteration, [])
        for places in self._later.pop(iteration, []):
            due.append(places[self.refinement.head[places] != 0])
        if not due:
            return np.zeros(0, np.int32)
        places = distinct(np.concatenate(due), self.graph.index.n)
        present: Array = places[self.part.arena["alive"][places] != 0]
        return present

    def _opened(self) -> Array:
        """The places of vertices here whose recorded entries do not hold (int32, ascending)."""
        places = np.flatnonzero(self.refinement.head).astype(np.int32)
        places = self.graph.mirrors.local(places)
        opened: Array = places[self.part.arena["alive"][places] != 0]
        return opened

    def _moved(self, places: Array, iteration: int, *, recorded: bool = False) -> Array:
        """A mask (bool) of the vertices that a round changes as it begins, or as recorded."""
        latest = [self.refinement.latest(places, i)[recorded] for i in (iteration - 1, iteration)]
        moved: Array = np.zeros(len(places), np.bool_)
        for name, f in self._fields.items():
            moved |= unequal(
                *(self.refinement.values(f"state.{name}", e, f.default) for e in latest)
            )
        return moved

    def _open(self, places: Array, iteration: int) -> None:
        """Have vertices of the partition get new entries, from an iteration on."""
        self._add_rows(places)
        self.refinement.begin(places, iteration)
        self._count_recorded(places, iteration, -1)

    def _add_rows(self, places: Array) -> None:
        """Have the rows of places, if they were not asked for before."""
        places = places[~self._known[places]]
        if not len(places):
            return
        self._known[places], self._given = True, None
        part = self.part
        for rows, incoming in ((self._out, False), (self._into, True)):
            if not incoming or rows is not self._out:
                lengths, columns = part.edges_of(places, incoming=incoming)
                if incoming and self._by_partition:
                    columns = self._in_parts(lengths, columns)
                rows.add(places, lengths, columns)
        lengths = self._into.stop[places] - self._into.start[places]
        self.work += (_FIRST - 1) * int(lengths.sum())

    def _in_parts(self, lengths: Array, columns: Columns) -> Columns:
        """The sources of vertices, those of the partition before those of others, by partition."""
        owner = self.part.arena["owner"][columns["target"]]
        owner[owner == self.graph.partition] = -1
        order = np.lexsort((owner, np.repeat(np.arange(len(lengths)), lengths)))
        return {name: x[order] if np.ndim(x) else x for name, x in columns.items()}

    def _count_recorded(self, places: Array, iteration: int, by: int) -> None:
        """Count the recorded events of vertices, from an iteration on, if they still count.

        Those of vertices with other edges than when they were recorded do not.
        """
        counts = (self.part.arena["dirty"][places] & _END) == 0
        places = places[counts & self.graph.mirrors.are_local(places)]
        sending = self._out.stop[places] > self._out.start[places]
        iterations = self.part.events_of(places, sending)
        for at in iterations[iterations >= iteration].tolist():
            self._untold[at] += by

    def rejoin(self, iteration: int) -> None:
        """Have recorded entries hold where a vertex was as recorded two iterations ago or more.

        An iteration earlier its targets may still ask whether it sent something.
        """
        ready = [one for one in self._same if one[1] < iteration - 1]
        self._same = self._same[len(ready) :]
        for places, at in ready:
            places = places[self._waits[places] & (self._computed[places] == at)]
            self._waits[places] = False
            self.refinement.rejoin(places, at)
            self._clock[places, 0] = 0

    # Iterations. ----------------------------------------------------------------------------------

    def step(self, iteration: int) -> tuple[_RefinedEnd, Blocks]:
        """Compute an iteration where it may differ; return what others are to know of it."""
        end, blocks = _RefinedEnd(), Blocks()
        self.rejoin(iteration)
        due = self._due_in(iteration)
        if self.part.round_of(iteration):
            due = self._opened()
        fresh = due[~self._known[due]]
        much = int(self.graph.degrees(due).sum()) // 2  # as many producers as targets
        much += (_FIRST - 1) * int(self.graph.degrees(fresh).sum()) // 2
        if self.work + much > self._most:
            self.work += much
        elif len(due):
            try:
                with combining(self.part.plan):
                    blocks = self._evaluate(due, iteration)
            except VertexError as error:
                end.failure = error
        end.next, end.told = min([*self._due, *self._later], default=NEVER), bool(blocks)
        end.opened = self.part.rounds and len(self._opened()) > 0
        end.work, end.events, self._untold = self.work, self._untold, Counter()
        self.events.update(end.events)
        return end, blocks

    def _evaluate(self, due: Array, iteration: int) -> Blocks:
        refinement, part = self.refinement, self.part
        fresh = due[refinement.head[due] == 0]
        if len(fresh):
            self._open(fresh, iteration)
        again = due[self._waits[due]]
        if len(again):
            self._count_recorded(again, iteration, -1)
            self._waits[again] = False
        entry, recorded, _ = refinement.latest(due, iteration - 1)
        previous = refinement.values("message", entry, part.no_message)
        self._message[due] = previous
        earlier = {}
        for name, f in self._fields.items():
            earlier[name] = refinement.values(f"state.{name}", entry, f.default)
            self._states[name][due] = earlier[name]
        scope, begins = self._scope(iteration), part.round_of(iteration) > 0
        if iteration == 0:
            self._fill(due)
            active, following = np.ones(len(due), np.bool_), np.full(len(due), NEVER, np.int32)
            for methods, some in self._by_class(due):
                methods.init(scope, some)
            senders = due
        else:
            sends, active, following = self._fetch(due, iteration - 1)
            active |= (part.arena["dirty"][due] & _END) != 0
            if begins:
                sends = np.ones(len(due), np.bool_)
            elif part.along_edges:
                sends = self._messages_along_edges(due, sends, iteration - 1)
            elif part.algebra.kind != "latest":
                sends = self._combine(due, sends, iteration - 1)
            if part.round_of(iteration - 1):
                sends = sends | self._moved(due, iteration - 1)
            todo = due if iteration == 1 or part.stateless else due[sends]
            self.updates += len(todo)
            parts = [methods.gather(scope, some) for methods, some in self._by_class(todo)]
            senders = parts[0] if len(parts) == 1 else np.sort(np.concatenate(parts))
        if part.along_edges:
            self._message[due] = part.digests(self._states, due)
        else:
            for methods, some in self._by_class(np.array(senders, np.int32)):
                methods.scatter(scope, some)
        now = self._message[due]
        event = unequal(now, previous)
        changed = unequal_bits(now, previous) | (iteration == 0)
        columns = {"message": now, "sent": event}
        for name in self._fields:
            columns[f"state.{name}"] = self._states[name][due]
            changed |= unequal_bits(columns[f"state.{name}"], earlier[name])
        if changed.any():
            added = {name: column[changed] for name, column in columns.items()}
            added["at"] = np.full(len(added["message"]), iteration, np.int32)
            refinement.add(due[changed], added)
        counted = event & (self._out.stop[due] > self._out.start[due])
        if begins:
            moved = self._moved(due, iteration)
            counted |= moved
            active |= moved != self._moved(due, iteration, recorded=True)
            self._schedule(due[moved], iteration + 1)
        if counted.any():
            self._untold[iteration] += int(counted.sum())
        later = refinement.latest(due, iteration)
        for name, f in self._fields.items():
            old = refinement.values(f"state.{name}", later[1], f.default)
            active |= unequal_bits(columns[f"state.{name}"], old)
        return self._follow(
            due, iteration, previous, now, event, recorded, later, active, following
        )

    def _by_class(self, places: Array) -> Sequence[tuple[Methods, Array]]:
        """The places of the vertices of each class, with its methods."""
        return by_class(self.part.class_methods, self._kinds, places)

    def _fill(self, due: Array) -> None:
        """Have vertices at their attributes, for `init`."""
        states = {name: column[due] for name, column in self._states.items()}
        self.part.plan.fill(states, self.part.arena["ids"][due])
        for name, column in states.items():
            self._states[name][due] = column

    def _fetch(self, due: Array, iteration: int) -> tuple[Array, Array, Array]:
        """Have the messages of producers as they were after an iteration.

        Returns:
            For each of `due`, whether a producer sent something else in it, whether the message of
            one is not the recorded one (bool), and the next iteration in which one may have sent
            something else, as recorded (int32).
        """
        old = self.refinement.old
        event, differs = np.zeros((2, len(due)), np.bool_)
        following = np.empty(len(due), np.int32)
        t: Any = self._given_for_methods()[0].topology
        fetch: Any = _fetch_messages
        self.work += fetch(
            due, t.in_start, t.in_stop, t.in_source, iteration, *self.refinement.rows, old["at"],
            old["sent"], old["message"], self.part.no_message, self._message, self._earlier,
            self._clock, event, differs, following,
        )  # fmt: skip
        return event, differs, following

    def _messages_along_edges(self, due: Array, sends: Array, iteration: int) -> Array:
        """Have the messages to vertices as they were after an iteration, and their aggregates.

        Args:
            due: places of the vertices.
            sends: whether the fields of a producer changed in it.
            iteration: the iteration.

        Returns:
            Which of `due` are to gather (bool).
        """
        entries, number = self._into.edges(due)
        self._along[entries] = now = self._offers(due[number], entries, iteration)
        if not (self.part.algebra.kind == "latest" or self.part.plan.compares):
            self._aggregate(due, self._along)
            return sends
        recent = sends[number]
        entries, number, now = entries[recent], number[recent], now[recent]
        earlier = filled(len(entries), self.part.algebra)
        if iteration:
            earlier = self._offers(due[number], entries, iteration - 1)
        if self.part.algebra.kind != "latest":
            return self._changed_aggregates(due, self._along, entries, earlier)
        changed = np.zeros(len(due), np.bool_)
        changed[number[unequal(now, earlier)]] = True
        return changed

    def _aggregate(self, due: Array, messages: Array) -> Array:
        """Combine the messages to vertices; return their aggregates."""
        v, delivery, _ = self._given_for_methods()
        if self._by_partition:
            v.agg[due] = self._combined_in_parts(due, messages)
        else:
            delivery.combine(due, messages, v.agg)
        aggregates: Array = v.agg[due]
        return aggregates

    def _combined_in_parts(self, due: Array, messages: Array) -> Array:
        """Combine messages to vertices, those from each other partition first, as it sends them."""
        entries, number = self._into.edges(due)
        sources: Any = self._into.column("target", entries)
        owner = self.part.arena["owner"][sources]
        values = messages[entries if self.part.along_edges else sources]
        first = np.ones(len(entries), np.bool_)
        first[1:] = (np.diff(number) != 0) | (np.diff(owner) != 0)
        here = owner == self.graph.partition
        start = np.flatnonzero(first)
        stop = np.append(start[1:], len(entries))[: len(start)]
        away = ~here[start]
        values[start[away]] = self._combined_rows(start[away], stop[away], values)
        kept = here | first
        bounds = np.searchsorted(number[kept], np.arange(len(due) + 1))
        return self._combined_rows(bounds[:-1], bounds[1:], values[kept])

    def _combined_rows(self, start: Array, stop: Array, values: Array) -> Array:
        """Combine values[start[k]:stop[k]], for each k."""
        algebra = self.part.algebra
        out = np.empty(len(start), algebra.column_dtype)
        rows = np.arange(len(start), dtype=np.int32)
        given = start.copy(), stop.copy(), np.arange(len(values), dtype=np.int32)
        for array in given:
            array.flags.writeable = False  # as those of a topology, or kernels compile twice
        self.part.module.repair(rows, *given, values, out, algebra.identity)
        return out

    def _changed_aggregates(
        self, due: Array, messages: Array, places: Array, earlier: Array
    ) -> Array:
        """Combine the messages to vertices.

        Args:
            due: places of the vertices.
            messages: what is combined.
            places, earlier: where some of these are, and what they were before.

        Returns:
            Which aggregates (bool) the earlier messages did not have.
        """
        now = messages[places]
        messages[places] = earlier
        previous = self._aggregate(due, messages)
        messages[places] = now
        return unequal(self._aggregate(due, messages), previous)

    def _offers(self, targets: Array, entries: Array, iteration: int) -> Array:
        """The messages to vertices, along the edges of these entries, after an iteration."""
        into, refinement = self._into, self.refinement
        sources: Any = into.column("target", entries)
        places = distinct(sources, self.graph.index.n)
        entry = refinement.latest(places, iteration)[0]
        for name, column in self._sources.items():
            default = self._fields[name].default
            column[places] = refinement.values(f"state.{name}", entry, default)
        value, reverse = (into.column(name, entries) for name in ("value", "reverse"))
        v = replace(self._given_for_methods()[0], tracked={**self._states, **self._sources})
        return self.part.methods.offers(v, sources, Edges(targets, value, reverse))

    def _combine(self, due: Array, sends: Array, iteration: int) -> Array:
        """Have the aggregates of the messages as they were after an iteration.

        Args:
            due: places of the vertices.
            sends: whether a producer sent something else in it.
            iteration: the iteration.

        Returns:
            Which of `due` are to gather (bool).
        """
        if not self.part.plan.compares or not sends.any():
            self._aggregate(due, self._message)
            return sends
        sources = self._into.targets(due[sends])
        sources = np.unique(sources[self._clock[sources, 1] >> 1 == iteration])
        return self._changed_aggregates(due, self._message, sources, self._earlier[sources])

    def _follow(
        self,
        places: Array,
        iteration: int,
        previous: Array,
        now: Array,
        event: Array,
        recorded: Array,
        later: tuple[Array, Array, Array],
        active: Array,
        following: Array,
    ) -> Blocks:
        """Have targets follow where messages differ from those recorded; tell other partitions.

        Args:
            places: places that were computed, or mirrors.
            iteration: in which.
            previous: their messages after the iteration before this one.
            now: their messages after it.
            event: whether that is something else.
            recorded: their old entries after the iteration before.
            later: their entries now.
            active: whether what they gather may differ from what is recorded until a producer
                sends; if so, they gather whenever one sends.
            following: the next iteration in which one may.
        """
        refinement, none = self.refinement, self.part.no_message
        _, entry, ends = later
        old_now = refinement.values("message", entry, none)
        differs = unequal_bits(now, old_now)
        active |= differs
        again = active & (following < NEVER)
        if again.any():
            self._schedule_later(places[again], following[again] + 1)
        if not active.all():
            same = places[~active]
            self._same.append((same, iteration))
            self._waits[same] = True
            self._count_recorded(same, iteration + 1, 1)
        self._computed[places] = iteration
        self._earlier[places] = previous
        self._clock[places, 0] = -ends
        self._clock[places, 1] = np.where(event, 2 * iteration, -2) + differs
        old_previous = refinement.values("message", recorded, none)
        changed = unequal_bits(now, previous) | unequal_bits(old_now, old_previous)
        flagged = (differs | unequal_bits(previous, old_previous)) & changed
        if not flagged.any():
            return []
        self._schedule(self._out.targets(places[flagged]), iteration + 1)
        if self.graph.alone:
            return []
        told = flagged & self.graph.mirrors.are_local(places)
        self._event[places] = event
        columns = {"message": self._message, "sent": self._event}
        columns |= {f"state.{name}": self._states[name] for name in self.part.sources}
        mirrors, ids = self.graph.mirrors, self.part.arena["ids"]
        return mirrors.blocks(places[told], self._given_for_methods()[0].topology, ids, columns)

    def receive(self, blocks: Blocks, iteration: int) -> None:
        """Take in what vertices of other partitions sent."""
        if (columns := self.graph.mirrors.read(blocks)) is None:
            return
        places = self.graph.index.find(columns["id"])
        order = np.argsort(places)
        order = order[places[order] >= 0]
        places, now, event = places[order], columns["message"][order], columns["sent"][order]
        refinement = self.refinement
        fresh = places[refinement.head[places] == 0]
        self._add_rows(fresh)
        refinement.begin(fresh, iteration)
        entry, recorded, _ = refinement.latest(places, iteration - 1)
        previous = refinement.values("message", entry, self.part.no_message)
        changed = unequal_bits(now, previous)
        added = {name: columns[name][order][changed] for name in self.part.told if name != "at"}
        added["at"] = np.full(len(added["sent"]), iteration, np.int32)
        refinement.add(places[changed], self.part.with_states(added))
        self._message[places], self._waits[places] = now, False
        later = refinement.latest(places, iteration)
        never, none = np.full(len(places), NEVER, np.int32), np.zeros(len(places), np.bool_)
        self._follow(places, iteration, previous, now, event, recorded, later, none, never)

    def _given_for_methods(self) -> tuple[VertexArrays, Delivery, MutationLog]:
        """The arrays that methods take, with the rows that were asked for so far."""
        if self._given is None:
            part, none = self.part, np.zeros(0, np.int32)
            t = self._out.topology(part.arena.read("ids"), self._into)
            delivery = _NoDelivery(t, part.algebra, part.plan.shape, part.module, part.plan.threads)
            messages = self._message
            if part.along_edges:
                messages = self._along = np.resize(self._along, len(t.in_source))
                delivery.number_entries()
            v = VertexArrays(t, self._states, messages, self._agg, none, all_pending=False)
            self._given = v, delivery, MutationLog(part.algebra, None)
        return self._given

    def _scope(self, iteration: int) -> Scope:
        v, delivery, log = self._given_for_methods()
        return Scope(v, delivery, iteration, {}, {}, log, self.part.round_of(iteration))


@njit
def _fetch_messages(  # type: ignore[no-untyped-def]
    todo, start, stop, source, iteration, first, end, at, events, message, none, out, earlier,
    clock, event, differs, following,
):  # fmt: skip
    """Write the messages of producers to `out`, and those of before to `earlier`; count them.

    In `clock`, for each producer: the iteration with the next recorded entry, negative where
    recorded entries do not hold, and `out` does; and twice the iteration in which it sent what it
    has, plus one if that is not what is recorded.
    """
    count = 0
    for k in range(todo.shape[0]):
        count += stop[todo[k]] - start[todo[k]]
        soonest = NEVER
        for e in range(start[todo[k]], stop[todo[k]]):
            u = source[e]
            until = clock[u, 0]
            if abs(until) <= iteration:
                j = end[u]
                while j > first[u] and at[j - 1] > iteration:
                    j -= 1
                now = at[j] if j < end[u] else NEVER
                if until < 0:
                    now = -now
                else:
                    out[u], earlier[u], clock[u, 1] = none, none, -2
                    if j > first[u]:
                        out[u] = message[j - 1]
                        if j - 1 > first[u]:
                            earlier[u] = message[j - 2]
                        if events[j - 1]:
                            clock[u, 1] = 2 * at[j - 1]
                clock[u, 0] = until = now
            soonest = min(soonest, abs(until))
            code = clock[u, 1]
            if code >> 1 == iteration:
                event[k] = True
            if code & 1:
                differs[k] = True
        following[k] = soonest
    return count
