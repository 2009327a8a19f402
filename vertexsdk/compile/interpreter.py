"""The methods of one class run as plain Python, where they do not compile.

Only the user's code is interpreted. Messages are delivered by the same kernels as those of
compiled methods, and contributions are combined per block of the same size, so results are equal.
"""

from __future__ import annotations

import os
import traceback
from collections import Counter
from collections.abc import Callable, Collection
from copy import deepcopy
from dataclasses import replace
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.compile._arithmetic import interpreted_class
from vertexsdk.compile._id_kinds import needs_integers
from vertexsdk.compile._intrinsics import random_key, random_step, random_unit
from vertexsdk.compile._method_kernels import BLOCK
from vertexsdk.compile._python_values import (
    equal,
    read_column,
    to_array,
)
from vertexsdk.compile.adjacency_kernels import entries_of
from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.methods import Edges, Methods, Scope
from vertexsdk.compile.mutation_log import ADD, EMIT, REMOVE, LogEntry, MutationLog
from vertexsdk.compile.plan import Plan
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.errors import ProgramError, RunError, VertexError
from vertexsdk.graph.topology.edge_attributes import attribute_members, attribute_types, records
from vertexsdk.graph.topology.id_codec import IdCodec, Namer
from vertexsdk.graph.topology.target_rows import TargetRows
from vertexsdk.program.algebra import Algebra, VertexId
from vertexsdk.program.program import ClassSpec, constant_of
from vertexsdk.program.vertex import Aggregator, Delta, Target, Vertex

__all__ = ["Cursor", "InterpretedMethods", "at_vertex", "combiner", "holder_of", "new_cursor"]
__all__ += ["own_ids", "random_key", "random_step", "random_unit", "user_error"]

Array = NDArray[Any]
_PACKAGE = str(Path(__file__).parents[1]) + os.sep  # whose frames are of no use to a user


class _PartOfTargets(list[Target]):
    """Some of a vertex's targets, which say how many there are of all."""

    degree = 0

    def __len__(self) -> int:
        return self.degree


class Cursor:
    """The services behind `self` while one vertex's method runs (`Vertex._runtime`)."""

    def __init__(
        self,
        v: VertexArrays,
        names: IdCodec | None,
        log: MutationLog,
        value: str | None = None,
        edge: Any = None,
    ) -> None:
        t = v.topology
        self.start, self.stop = t.start, t.stop
        self.target = t.target
        self.attributes = [*attribute_types(value)]
        self.enums = {name: edge[name] for name in attribute_members(value)}
        self.value = None if t.value is None else records(t.value, value)
        self.reverse = t.reverse
        self._ghosts = len(t.ghost_ids)
        self.slot_ids = np.concatenate([t.ids, t.ghost_ids]) if len(t.ghost_ids) else t.ids
        self.names = names
        self.log = log
        self.index = -1
        self.messages: dict[int, Any] | None = None
        self.edges: list[int] = []
        self.values: list[Any] = []
        self.combine: Callable[[Any, Any], Any] | None = None
        self.uniform = False
        self.ids_sent = False  # messages are ids
        self._targets: list[Target] | None = None
        self.reach: TargetRows | None = None
        self._counts: Counter[Any] | None = None  # of the ids of the current vertex's targets
        self.seed, self.step, self.calls = 0, 0, 0  # of random numbers

    def move(self, index: int) -> None:
        """Make the vertex with this local index the current one."""
        self.index, self.calls = index, 0
        self._targets = self._counts = None

    def random(self, vertex_id: Any) -> float:
        """Return the next random number of the current vertex."""
        self.calls += 1
        return random_unit(self.seed, random_key(vertex_id), self.step, self.calls)

    def targets(self) -> list[Target]:
        """The consumers of the current vertex, in ascending order of ids."""
        if self._targets is None:
            lo, hi = int(self.start[self.index]), int(self.stop[self.index])
            ids = self.slot_ids[self.target[lo:hi]].tolist()
            if self.names is not None:
                ids = [self.names.decode(i) for i in ids]
            values: list[Any] = [None] * (hi - lo)
            if self.value is not None:
                values = self.value[lo:hi].tolist()
            if self.attributes:
                values = [dict(zip(self.attributes, x, strict=True)) for x in values]
                for name, kind in self.enums.items():
                    for x in values:
                        x[name] = kind(x[name])
            back = [False] * (hi - lo)
            if self.reverse is not None:
                back = self.reverse[lo:hi].tolist()
            rows = self._row_of
            edges = range(lo, hi)
            targets = [Target(*x, rows) for x in zip(ids, values, back, edges, strict=True)]
            if self.reach is not None and self.reach.part is not None:
                targets = _PartOfTargets(targets)
                targets.degree = int(self.reach.stop[self.index] - self.reach.start[self.index])
            self._targets = targets
        return self._targets

    def _row_of(self, target: Target) -> list[Target]:
        """The targets of a target of the current vertex."""
        rows = self.reach
        if rows is None:
            raise ProgramError("the source of a method that reads target.targets cannot be read")
        return [Target(i, rows=self._common_row) for i in self._row(rows, self.target[target.edge])]

    def _row(self, rows: TargetRows, slot: int) -> list[Any]:
        """Return the ids in the row of a slot."""
        entries = rows.target[rows.start[slot] : rows.stop[slot]].astype(np.int64)
        local_ids = self.slot_ids[: len(self.slot_ids) - self._ghosts]
        local = entries < len(local_ids)
        codes = np.empty(len(entries), np.int64)
        codes[local] = local_ids[entries[local]]
        codes[~local] = rows.other_ids[entries[~local] - len(local_ids)]
        ids: list[Any] = codes.tolist()
        return ids if self.names is None else [self.names.decode(i) for i in ids]

    def _common_row(self, target: Target) -> list[Target]:
        """The targets of a target's target, where that is a target of the current vertex too."""
        match = next((t for t in self.targets() if t.id == target.id), None)
        return [] if match is None else self._row_of(match)

    def edges_to(self, target: Target) -> int:
        """Return how many of the current vertex's targets are the same vertex."""
        if self._counts is None:
            if self.reach is not None and self.reach.part is not None:
                self._counts = Counter(self._row(self.reach, self.index))
            else:
                self._counts = Counter(t.id for t in self.targets())
        return self._counts[target.id]

    def _code(self, vertex: Any) -> int:
        if isinstance(vertex, Target):
            return self._code(vertex.id)
        if self.names is not None:
            return self.names.encode(vertex)
        return int(vertex)

    def emit(self, target: Any, value: Any) -> None:
        """Send along the edge to a target, or by id to a vertex that is none."""
        if type(target) is Target and target.edge >= 0:
            self._edge(target.edge, value)
            return
        code = self._code(target)
        lo, hi = int(self.start[self.index]), int(self.stop[self.index])
        edges = np.flatnonzero(self.slot_ids[self.target[lo:hi]] == code)
        if len(edges):
            self._edge(lo + int(edges[0]), value)
        else:
            if self.ids_sent and self.names is not None:
                value = self.names.encode(value)
            self.log.add(LogEntry(EMIT, self.index, code, message=value))

    def _edge(self, edge: int, value: Any) -> None:
        if self.uniform and edge != self.start[self.index]:
            return  # one message per vertex is kept, so one edge speaks for all
        if isinstance(value, (np.ndarray, list)):
            value = value.copy()  # the method may change it afterwards
        if self.messages is not None:
            if edge in self.messages and self.combine is not None:
                value = self.combine(self.messages[edge], value)
            self.messages[edge] = value
        else:
            self.edges.append(edge)
            self.values.append(value)

    def emit_all(self, value: Any) -> None:
        """Send along every edge."""
        lo, hi = int(self.start[self.index]), int(self.stop[self.index])
        if self.uniform:
            if lo < hi:
                self._edge(lo, value)
            return
        for edge in range(lo, hi):
            self._edge(edge, value)

    def add_target(self, target: Any, value: Any) -> None:
        """Log a new consumer."""
        self.log.add(LogEntry(ADD, self.index, self._code(target), value=value))

    def remove_target(self, target: Any) -> None:
        """Log the removal of a consumer."""
        self.log.add(LogEntry(REMOVE, self.index, self._code(target)))

    def _events_only(self) -> list[Target]:
        raise ProgramError("addedTargets, removedTargets and retainedTargets need the events level")

    added_targets = removed_targets = retained_targets = _events_only


class InterpretedMethods(Methods):
    """The methods of one class, interpreted; `names` decode string ids, None for integer ids."""

    def __init__(self, plan: Plan, kind: int, num_vertices: int, names: IdCodec | None) -> None:
        super().__init__(plan, kind, num_vertices)
        self.names = names
        self.vertex = new_cursor(self.spec, plan.params, num_vertices, plan.sees, names)
        if names is not None and (needs := needs_integers(self.spec)) is not None:
            raise ProgramError(
                f"{self.spec.file}:{self.spec.line}: {self.spec.name}: {': '.join(needs)}; give it "
                "a graph whose ids are integers"
            )

    def _cursor(self, v: VertexArrays, log: MutationLog) -> Cursor:
        cursor = Cursor(v, self.names, log, self.spec.value_dtype, self.spec.cls.edge)
        cursor.ids_sent = self.algebra.type is VertexId
        if self.spec.facts.reads_target_rows:
            cursor.reach = v.reach or TargetRows.alone(v.topology)
        return cursor

    def _visit(
        self,
        method: str,
        scope: Scope,
        todo: Array,
        cursor: Cursor,
        call: Callable[[int, int], None],
    ) -> dict[str, tuple[list[Any], list[Any]]]:
        """Run `call(k, i)` with the cursor on every vertex; return old and new state lists."""
        self.vertex._runtime, self.vertex.num_vertices = cursor, self.num_vertices
        iteration = self.iteration = 0 if method == "init" else scope.iteration
        cursor.seed, cursor.step = self.plan.seed, random_step(method, iteration)
        try:
            with np.errstate(all="ignore"):  # inf and NaN are values, as in compiled methods
                return self._each(scope, todo, cursor, call)
        except VertexError:
            raise
        except Exception as error:
            vertex = own_ids(scope.v, [cursor.index], self.names)[0]
            raise user_error(self.spec, method, error, vertex, iteration) from error
        finally:
            cursor.move(-1)  # its targets refer to it

    def _each(
        self, scope: Scope, todo: Array, cursor: Cursor, call: Callable[[int, int], None]
    ) -> dict[str, tuple[list[Any], list[Any]]]:
        space = self.vertex.__dict__
        t: Any = scope.v.topology
        ids = (t.vertices if isinstance(t, _Rows) else t.ids)[todo].tolist()
        if self.names is not None:
            ids = [self.names.decode(i) for i in ids]
        columns = self.columns(scope.v.states)
        old: dict[str, list[Any]] = {}
        new: dict[str, list[Any]] = {}
        for name, f in self.spec.states.items():
            old[name] = read_column(columns[name], todo, f, self.names)
            new[name] = []
        holders = {
            name: holder_of(a, a.combined, scope.read[name], self.names)
            for name, a in self.spec.aggregators.items()
        }
        space.update(holders)
        fields = [
            # a method may change a vector or an object, which is compared with the old one then
            (name, old[name] if f.size is None and f.dtype != object else deepcopy(old[name]),
             new[name].append)
            for name, f in self.spec.states.items()
        ]  # fmt: skip
        for k, i in enumerate(todo.tolist()):
            if k % BLOCK == 0:
                self._take(holders, scope.into)
            cursor.move(i)
            space["id"] = ids[k]
            for name, values, _ in fields:
                space[name] = values[k]
            call(k, i)
            for name, _, append in fields:
                append(space[name])
        self._take(holders, scope.into)
        for name, f in self.spec.states.items():
            kind = f"{f.type.__name__}{'' if f.size is None else f'[{f.size}]'}"
            complaint = f"field {name} is {kind}, it was set to"
            columns[name][todo] = to_array(new[name], f, self.names, self.spec, complaint)
        return {name: (old[name], new[name]) for name in old}

    def _take(self, holders: dict[str, Aggregator], into: dict[str, Any]) -> None:
        for name, holder in holders.items():
            algebra = self.spec.aggregators[name]
            if holder._partial is not None:
                into[name] = algebra.combined(into[name], holder._partial)
            holder._partial = algebra.identity

    def init(self, scope: Scope, todo: Array) -> None:
        """Run `init` on the vertices of `todo`, then `adapt` on a branch."""

        def call(k: int, i: int) -> None:
            self.vertex.init()
            if self.plan.forked:
                self.vertex.adapt()

        self._visit("init", scope, todo, self._cursor(scope.v, scope.log), call)

    def gather(self, scope: Scope, todo: Array) -> Array:
        """Run `gather` on the vertices of `todo`; return those that must scatter."""
        if self.is_without(scope):
            return todo[:0]
        v, iteration = scope.v, scope.iteration
        vertex, delta, algebra = self.vertex, Delta(), self.algebra
        names = self.names if algebra.type is VertexId else None
        if scope.round:

            def call(k: int, i: int) -> None:
                vertex.next_round(scope.round)

        elif algebra.kind == "latest":
            rows, ends = v.topology.in_start, v.topology.in_stop
            index, msg = scope.delivery.in_index, v.msg
            reduction = None if self.spec.latest else self.spec.algebra

            def call(k: int, i: int) -> None:
                values = msg[index[rows[i] : ends[i]]]
                if algebra.dtype == object:
                    delta.values = [x for x in values.tolist() if x is not None]
                else:
                    floats = algebra.dtype.kind == "f"
                    said = values == values if floats else values != algebra.identity
                    delta.values = values[said if said.ndim == 1 else said.any(axis=1)]
                    if names is not None:
                        delta.values = [names.decode(x) for x in delta.values.tolist()]
                delta.value = delta.values if reduction is None else fold(reduction, delta.values)
                vertex.gather(iteration, -1, delta)
        else:
            aggregated = v.agg[todo]
            if algebra.unsigned_zeros:
                aggregated += 0.0
            inputs: Any = aggregated if aggregated.ndim > 1 else aggregated.tolist()
            if names is not None:
                inputs = [names.decode(x) for x in inputs]

            def call(k: int, i: int) -> None:
                delta.value = inputs[k]
                vertex.gather(iteration, -1, delta)

        method = "next_round" if scope.round else "gather"
        lists = self._visit(method, scope, todo, self._cursor(v, scope.log), call)
        if self.spec.facts.volatile:
            return todo
        result: Array = todo[self._changed(v, todo, lists)]
        return result

    def _changed(
        self, v: VertexArrays, todo: Array, lists: dict[str, tuple[list[Any], list[Any]]]
    ) -> Array:
        tolerance = self.plan.tolerance
        states = self.columns(v.states)
        tracked = self.columns(v.tracked) if tolerance > 0 else {}
        changed: Array = np.zeros(len(todo), np.bool_)
        for name, f in self.spec.states.items():
            old, new = lists[name]
            if f.dtype == object:
                changed |= _unequal(old, new)
                continue
            now = states[name][todo]
            then = tracked[name][todo] if tolerance > 0 else to_array(old, f, self.names, self.spec)
            if f.dtype.kind == "f":
                with np.errstate(invalid="ignore"):
                    gap = now - then
                    different = (now != then) & ((now == now) | (then == then))
                    if tolerance > 0:
                        different = (np.abs(gap) > tolerance) | (different & (gap - gap != 0))
            else:
                different = now != then
            changed |= different if different.ndim == 1 else different.any(axis=1)
        return changed

    def scatter(self, scope: Scope, todo: Array) -> int:
        """Run `scatter` on the vertices of `todo`; return the number of messages."""
        v, delivery = scope.v, scope.delivery
        self.iteration = scope.iteration
        if self.plan.shape == "derived":
            return self._scatter_derived(scope, todo)
        vertex, algebra = self.vertex, self.algebra
        cursor = self._cursor(v, scope.log)
        cursor.uniform = self.plan.shape == "uniform"
        cursor.combine = None if algebra.kind == "latest" else combiner(algebra)
        collect = self.plan.shape != "edge"

        def call(k: int, i: int) -> None:
            if collect:
                messages: dict[int, Any] = {}
                cursor.messages = messages
                vertex.scatter(scope.iteration)
                if not messages:
                    return
                if cursor.uniform:
                    cursor.edges.append(i)
                    cursor.values.append(next(iter(messages.values())))
                else:
                    for edge in sorted(messages):
                        cursor.edges.append(edge)
                        cursor.values.append(messages[edge])
            else:
                vertex.scatter(scope.iteration)

        self._visit("scatter", scope, todo, cursor, call)
        if self.plan.tolerance > 0:
            self._track(v, todo)
        where = np.array(cursor.edges, np.int64)
        values = self._messages(cursor)
        if not cursor.uniform:
            edges = delivery.edges_of(todo)
            dense = delivery.dense(edges)
            delivery.module.emit_edges(
                where, values, v.topology.target,
                *delivery.arguments(v.msg, v.agg, 0 if dense else 1, 0),
            )  # fmt: skip
            if dense:
                delivery.pull(v.msg, v.agg)
            return edges
        old = v.msg[where]
        if algebra.dtype == object:
            changed = _unequal(list(old), list(values))
        else:
            same = (old == values) | ((old != old) & (values != values))
            changed = ~(same if same.ndim == 1 else same.all(axis=1))
        senders = where[changed].astype(np.int32)
        old = old[changed]
        v.msg[senders] = values[changed]
        return delivery.push([(senders, old)], v.msg, v.agg)

    def _messages(self, cursor: Cursor) -> Array:
        complaint = f"messages are {self.algebra}, scatter sent"
        return to_array(cursor.values, self.algebra, self.names, self.spec, complaint)

    def _track(self, v: VertexArrays, todo: Array) -> None:
        """Note the state of vertices that scatter."""
        states = self.columns(v.states)
        for name, column in self.columns(v.tracked).items():
            column[todo] = states[name][todo]

    # Where no messages are kept, they follow from the state at the last scatter. ---------------

    def _scatter_derived(self, scope: Scope, todo: Array) -> int:
        v, delivery, t = scope.v, scope.delivery, scope.v.topology
        edges, sources = entries_of(todo, t.start, t.stop)
        along = Edges.numbered(t, edges)
        old = filled(len(edges), self.algebra)
        if scope.iteration > 0:
            old = self.offers(v, sources, along)
        self._track(v, todo)
        new = self.offers(v, sources, along)
        some = np.flatnonzero((old != new) & ((old == old) | (new == new)))
        delivery.module.apply_each(
            t.target[edges[some]], old[some], new[some], v.agg, delivery.ch, delivery.list,
            delivery.counts,
        )  # fmt: skip
        return len(edges)

    def offers(self, v: VertexArrays, sources: Array, edges: Edges) -> Array:
        """Return the messages along some edges, by running `scatter` on rows of these edges."""
        places, inverse = np.unique(sources, return_inverse=True)
        ends = np.cumsum(np.bincount(inverse, minlength=len(places)))
        order = np.argsort(inverse, kind="stable")
        rows = _Rows(v.topology, ends, edges, order)
        rows.vertices = v.topology.ids[places]
        log = MutationLog(self.algebra, self.spec.value_dtype)
        states = {column: x[places] for column, x in v.tracked.items()}
        arrays = replace(v, topology=rows, states=states)  # type: ignore[arg-type]
        cursor = self._cursor(arrays, log)
        none = {name: a.identity for name, a in self.spec.aggregators.items()}
        nowhere: Any = None  # what is sent stays with the cursor
        scope = Scope(arrays, nowhere, self.iteration, none, dict(none), log)
        all_rows = np.arange(len(places), dtype=np.int32)
        self._visit("scatter", scope, all_rows, cursor, lambda k, i: self.vertex.scatter(1))
        emitted = filled(len(sources), self.algebra)
        emitted[cursor.edges] = self._messages(cursor)
        messages = filled(len(sources), self.algebra)
        messages[order] = emitted
        return messages

    def _combined(
        self, v: VertexArrays, slots: Array, counts: Callable[[Array, Array], Array] | None
    ) -> Array:
        """Return what producers send to each slot; `counts` selects the edges that take part."""
        t: Any = v.topology
        entries, rows = entries_of(np.arange(len(slots)), t.in_start[slots], t.in_stop[slots])
        sources = t.in_source[entries]
        if counts is not None:
            some = counts(sources, slots[rows])
            entries, rows, sources = entries[some], rows[some], sources[some]
        values = None if t.value is None else t.in_value[entries]
        out = filled(len(slots), self.algebra)
        self._better.at(out, rows, self.offers(v, sources, Edges(slots[rows], values)))
        return out

    @property
    def _better(self) -> np.ufunc:
        return np.minimum if self.algebra.kind == "min" else np.maximum

    def repair(self, v: VertexArrays, delivery: Delivery, slots: Array) -> None:
        """Recompute the aggregates of slots from the messages of their producers."""
        v.agg[slots] = self._combined(v, slots, None)

    def support(self, v: VertexArrays, todo: Array, removed: Array, want: Array) -> Array:
        """Return what producers of lower levels that are not removed give to each of `todo`."""
        level: Any = v.level
        return self._combined(v, todo, lambda u, s: (level[u] < level[s]) & (removed[u] == 0))

    def dependants(self, v: VertexArrays, vertices: Array, seen: Array, mark: Array) -> Array:
        """Mark and return the targets to which `vertices` sent nothing worse than they saw."""
        t = v.topology
        edges, sources = entries_of(vertices, t.start, t.stop)
        targets = t.target[edges]
        values = None if t.value is None else t.value[edges]
        messages = self.offers(v, sources, Edges(targets, values))
        reached = (mark[targets] == 0) & (self._better(messages, seen[targets]) == messages)
        result: Array = np.unique(targets[reached]).astype(np.int32)
        mark[result] = 1
        return result


def own_ids(v: VertexArrays, todo: Any, names: IdCodec | None) -> list[Any]:
    """Return the ids of vertices as a user knows them; a compiled run has no `names` of others."""
    t: Any = v.topology
    if names is None and t.names is not None:
        decoded = unpack_strings(*t.names)
        return [str(decoded[i]) for i in todo]
    ids: list[Any] = (t.vertices if isinstance(t, _Rows) else t.ids)[todo].tolist()
    return ids if names is None else [names.decode(i) for i in ids]


def _unequal(old: Collection[Any], new: Collection[Any]) -> Array:
    """Return which objects differ from the previous ones."""
    differ = (not equal(a, b) for a, b in zip(old, new, strict=True))
    return np.fromiter(differ, np.bool_, len(new))


class _Rows:
    """Edges that need not be in the graph, with the attributes of `Topology` that cursors read."""

    names = None

    def __init__(self, topology: Any, ends: Array, edges: Edges, order: Array) -> None:
        self.ids, self.ghost_ids = topology.ids, topology.ghost_ids  # of the targets
        self.vertices = topology.ids  # of the rows
        self.start = np.concatenate([[0], ends[:-1]]) if len(ends) else ends
        self.stop, self.target = ends, edges.target[order]
        columns = edges.value, edges.reverse
        self.value, self.reverse = (None if x is None else x[order] for x in columns)


def holder_of(
    algebra: Algebra, combine: Callable[[Any, Any], Any], value: Any, names: Namer | None
) -> Aggregator:
    """Return an aggregator as methods see it, which is by names where ids are strings."""
    if names is None or algebra.type is not VertexId:
        return Aggregator(combine, value)
    decode, encode = names.decode, names.encode
    return Aggregator(lambda a, b: encode(combine(decode(a), b)), decode(value))


def combiner(algebra: Algebra) -> Callable[[Any, Any], Any]:
    """Return combine for whole messages: element by element where they are vectors."""
    if algebra.size is None:
        return algebra.combined
    combine = algebra.combined

    def elements(a: Any, b: Any) -> Any:
        pairs = zip(np.asarray(a).tolist(), np.asarray(b).tolist(), strict=True)
        return np.array([combine(x, y) for x, y in pairs], algebra.dtype)

    return elements


def fold(algebra: Algebra, values: list[Any]) -> Any:
    """Combine messages of a program whose classes have different algebras."""
    combine = combiner(algebra)
    value: Any
    if algebra.size is not None:
        value = reduce(combine, values, np.full(algebra.size, algebra.identity, algebra.dtype))
    else:
        value = reduce(combine, values, algebra.identity)
        value = float(value) if algebra.dtype.kind == "f" else value
    return value + 0.0 if algebra.unsigned_zeros else value


def new_cursor(
    spec: ClassSpec, params: dict[str, Any], num_vertices: int, loop: str, names: IdCodec | None
) -> Vertex:
    """Return the one object of the user's class whose methods run for every vertex in turn."""
    vertex: Vertex = object.__new__(interpreted_class(spec))
    for name, (kind, _) in spec.params.items():
        value = params[name]
        if kind is VertexId and names is not None and isinstance(value, int):
            value = names.decode(value)
        constant = constant_of(value)
        vertex.__dict__[name] = value if constant is None else constant
    vertex.num_vertices = num_vertices
    vertex.loop = loop
    return vertex


def at_vertex(vertex: Any, iteration: int) -> str:
    """Return what the message of a method's error ends with."""
    return f" (vertex {vertex!r}, iteration {iteration})"


def user_error(
    spec: ClassSpec,
    what: str,
    error: BaseException,
    vertex: Any = None,
    iteration: int | None = None,
) -> RunError:
    """Return the error of a user's method as one line with its file and line, and its frames.

    Args:
        spec: the class.
        what: the method.
        error: what it raised.
        vertex: the id of the vertex whose method it was; None for `converged`.
        iteration: the iteration in which it was called.
    """
    files = {m.function.__code__.co_filename for m in spec.methods.values()} or {spec.file}
    frames = [
        (frame.f_code.co_filename, line, frame.f_code.co_name)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename in files or not frame.f_code.co_filename.startswith(_PACKAGE)
    ]
    while frames and frames[0][0] not in files:
        del frames[0]
    places = [f"{file}:{line}: " for file, line, _ in frames if file in files]
    place = places[-1] if places else ""
    where = "" if iteration is None else f" (iteration {iteration})"
    where = where if vertex is None or iteration is None else at_vertex(vertex, iteration)
    said = ": ".join(filter(None, (type(error).__name__, str(error))))
    failure = RunError(f"{place}{spec.name}.{what}: {said}{where}")
    failure.user_frames = tuple(frames)
    return failure
