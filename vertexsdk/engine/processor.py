"""The work of a Spark task for one partition: messages in, iterations, messages and state out.

A step is one iteration of all the partition's vertices: gather, change the graph, scatter,
deliver. With a single partition a hop holds many steps; with several it holds one.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.corruption import CorruptError
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.raw_columns import decode, encode_bytes
from vertexsdk.compile.adjacency_kernels import marked
from vertexsdk.compile.delivery import Delivery, filled, message_count
from vertexsdk.compile.interpreter import InterpretedMethods, combiner
from vertexsdk.compile.methods import Methods, Scope
from vertexsdk.compile.mutation_log import EMIT, LogEntry, MutationLog
from vertexsdk.compile.native import NativeMethods
from vertexsdk.compile.plan import Plan, delivery_module
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.engine._mutation import GraphMutations, restructure
from vertexsdk.engine.boundary import Boundary
from vertexsdk.engine.master import IterationStats
from vertexsdk.errors import LostError, ProgramError, RunError
from vertexsdk.graph.topology.id_codec import IdCodec
from vertexsdk.graph.topology.target_rows import TargetRows, rows_for
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra
from vertexsdk.state.stored_columns import Described, described_like
from vertexsdk.state.version_writer import copied

Array = NDArray[Any]
_MANY = 1 << 14  # vertices, from which on marks are faster than a sort
_GRAPH = "graph."  # before the names of a topology's arrays
_OPTIONAL = {
    "once.vertex": Described(np.int32),
    "level": Described(np.int32, rows=""),
    "producers": Described(np.int64, rows=""),
    "reach.start": Described(np.int64, rows=""),
    "reach.stop": Described(np.int64, rows=""),
    "reach.target": Described(np.int32, rows=""),
    "reach.other_ids": Described(np.int64, rows=""),
}


class Processor:
    """The vertices of one partition at one version, and the means to move them on."""

    def __init__(
        self,
        plan: Plan,
        partition: int,
        num_vertices: int,
        topology: Topology | None = None,
        names: IdCodec | None = None,
    ) -> None:
        """Stand before iteration 0 of the plan's loop, on the plan's topology or another one."""
        if topology is None:
            topology = with_classes(load_topology(plan.topologies[partition], partition), plan)
        self.plan, self.partition = plan, partition
        assert plan.program.algebra is not None
        self.algebra = plan.program.algebra
        self.combine = combiner(self.algebra)
        self.topology_key = self._loaded_key = plan.topologies[partition]
        self.module = delivery_module(self.algebra)
        self.names = names or names_of(plan)
        self.methods = methods_of(plan, num_vertices, self.names)
        self.delivery = self._delivery(topology)
        self.v = VertexArrays.fresh(topology, plan)
        self.by_producer: ProducerMessages | None = None
        if plan.each:
            self.v.producers = topology.producers
            if plan.resident and plan.shape == "uniform" and topology.producers is not None:
                self.by_producer = ProducerMessages(topology)
        if plan.compares:
            self.v.gathered = self.v.agg.copy()
        self.boundary: Boundary | None = None  # where the delay bound is above 1
        self.reading: Mapping[str, Any] = {}  # what aggregators read there
        self._all: Array = np.empty(0, np.int32)  # kept by `_all_vertices`
        self.outgoing: dict[int, dict[str, Any]] = {}
        self.partial: dict[str, Any] = {}
        self.restructured = False

    def _delivery(self, topology: Topology) -> Delivery:
        plan = self.plan
        made = Delivery(topology, self.algebra, plan.shape, self.module, plan.threads)
        if topology.partitions == 1:
            made.lazy = plan.always
        elif self.algebra.recombines:
            made.local = topology.n
        if plan.shape == "derived":
            # no messages are kept: rows are recomputed from the state of their sources
            part = weakref.proxy(self)  # so that its arrays are freed with it
            made.derived = lambda slots: part.methods[0].repair(part.v, part.delivery, slots)
        return made

    @property
    def count(self) -> int:
        """The number of vertices of the partition; one just created counts once it ran."""
        return self.v.topology.n - len(self.v.created)

    def set_vertices(self, count: int) -> None:
        """Tell the methods how many vertices the graph has now."""
        for m in self.methods:
            m.num_vertices = count

    # One iteration. -----------------------------------------------------------------------

    def step(self, iteration: int, aggregates: Mapping[str, Any], round: int = 0) -> IterationStats:
        """Run one iteration; what it sends to other partitions is left in `outgoing`.

        Args:
            iteration: its number.
            aggregates: what aggregators read in it.
            round: the round that begins in it; 0 where none does.
        """
        read = dict(aggregates)
        self.outgoing = {}
        self.partial = {k: a.identity for k, a in self.plan.program.aggregators.items()}
        progress = IterationStats()
        if iteration < 0:
            self._send_rows()
            progress.pending, progress.aggregates = self.v.topology.n, self.partial
            return progress
        if iteration == 0:
            senders = self._begin(read)
        else:
            senders = self._gather(iteration, read, progress, round)
            if round:
                self.v.moved = merged(self.v.moved, senders)  # to gather in the next iteration
        progress.changed = len(senders)
        log = self.new_log()
        scope = Scope(self.v, self.delivery, iteration, read, self.partial, log)
        for methods, part in self.by_class(senders):
            progress.messages += methods.scatter(scope, part)
        self._follow(log, progress)
        v, delivery, n = self.v, self.delivery, self.v.topology.n
        waiting, changed = 0, self._all[:0]
        if delivery.due:  # and so all vertices gather, and all are here
            waiting = n
        elif delivery.local:
            changed, waiting = delivery.finish_ghosts(v.msg, v.agg)
        else:
            changed = delivery.finish(v.msg, v.agg)
            cut = int(np.searchsorted(changed, n))
            self._schedule(changed[:cut])
            if v.gathered is not None and v.topology.partitions == 1:
                v.pending = self._differing(v.pending)  # else more messages come before
            changed = changed[cut:]
        progress.sent = self._send_changed(changed)
        progress.pending = waiting + len(v.pending) + len(v.created) + len(v.moved)
        progress.aggregates = self.partial
        return progress

    def _send_changed(self, ghosts: Array) -> int:
        """Send the aggregates of ghosts that are not what was sent last."""
        ghosts, v = self._differing(ghosts), self.v
        if v.gathered is not None:
            v.gathered[ghosts] = v.agg[ghosts]
        return self.send(ghosts)

    def _begin(self, read: dict[str, Any]) -> Array:
        log = self.new_log()
        scope = Scope(self.v, self.delivery, 0, read, self.partial, log)
        for methods, part in self.by_class(self._all_vertices()):
            methods.init(scope, part)
        self._follow(log, None)
        return self._all_vertices()

    def _gather(
        self, iteration: int, read: dict[str, Any], progress: IterationStats, round: int
    ) -> Array:
        v = self.v
        self.settle()
        log = self.new_log()
        scope = Scope(v, self.delivery, iteration, read, self.partial, log, round)
        created = v.created
        if len(created):
            for methods, part in self.by_class(created):
                methods.init(scope, part)
            v.created = created[:0]
        moved, v.moved = v.moved, v.moved[:0]
        todo = self._differing(v.pending)
        if v.all_pending or self.plan.always or round:
            todo = self._all_vertices()
        elif len(created) or len(moved) or v.once:
            extra = np.fromiter(v.once, np.int32, len(v.once))
            todo = merged(todo, created, moved, extra)
        v.all_pending = False
        v.pending = todo[:0]
        with _once(v, self) as again:
            parts = [methods.gather(scope, part) for methods, part in self.by_class(todo)]
            senders = parts[0] if len(parts) == 1 else np.concatenate(parts)
            if v.gathered is not None:
                v.gathered[todo] = v.agg[todo]
        progress.updates = len(todo)
        self._schedule(np.array(again, np.int32))
        if len(created) or len(moved):
            senders = merged(senders, created, moved)
        if len(self.methods) > 1:
            senders = np.sort(senders)
        v.extra["senders"] = senders
        if log:
            self._follow(log, None)
        result: Array = (
            v.extra.pop("senders", senders) if self.v is v else self.v.extra.pop("senders")
        )
        return result.astype(np.int32, copy=False)

    def _differing(self, slots: Array) -> Array:
        """Those of `slots` (int32) that have another aggregate than they gathered or sent last."""
        if self.v.gathered is None or len(slots) == 0:
            return slots
        out = np.empty_like(slots)
        return out[: self.module.differing(slots, self.v.agg, self.v.gathered, out)]

    def _all_vertices(self) -> Array:
        """All vertices; not to be written to."""
        if len(self._all) != self.v.topology.n:
            self._all = np.arange(self.v.topology.n, dtype=np.int32)
        return self._all

    def by_class(self, todo: Array) -> Sequence[tuple[Methods, Array]]:
        """The vertices of each class, with its methods."""
        return by_class(self.methods, self.v.topology.kind, todo)

    def new_log(self) -> MutationLog:
        """Return a log for what methods do beyond their own row."""
        return MutationLog(self.algebra, self.plan.program.value_dtype)

    def _schedule(self, vertices: Array) -> None:
        """Have the vertices gather in the next iteration."""
        pending = self.v.pending
        if len(vertices) and len(pending) < self.v.topology.n:  # else all of them do already
            self.v.pending = merged(pending, vertices) if len(pending) else vertices

    # What methods asked for beyond their own row. -------------------------------------------

    def _follow(self, log: MutationLog, progress: IterationStats | None) -> None:
        if not log:
            return
        entries = log.entries()
        once = self._one_shots([e for e in entries if e.what == EMIT])
        if progress is not None:
            progress.messages += len(once)
        changes = GraphMutations()
        changes.note(entries, self.v.topology)
        if changes:
            self._restructure(changes)
        self._send_once(once)

    def _one_shots(self, entries: list[LogEntry]) -> list[tuple[int, Any]]:
        """Return the (vertex id, message) pairs to vertices which are not targets."""
        if entries and self.algebra.kind == "latest":
            raise ProgramError(
                f"{self.plan.program.name}: emit to a vertex that is not among the targets; with "
                "messages = Latest(...) call addTarget first"
            )
        return [(e.target, e.message) for e in entries]

    def _send_once(self, once: list[tuple[int, Any]]) -> None:
        if not once:
            return
        t = self.v.topology
        ids = np.array([target for target, _ in once], np.int64)
        owners = t.owners(ids)
        for (target, value), p in zip(once, owners.tolist(), strict=True):
            if p == self.partition:
                self._receive_once(target, value)
            else:
                block = self.outgoing.setdefault(p, {})
                block.setdefault("once", []).append((target, value))

    def _receive_once(self, target: int, value: Any) -> None:
        k = int(np.searchsorted(self.v.topology.ids, target))
        if k in self.v.once:
            value = self.combine(self.v.once[k], value)
        self.v.once[k] = value
        self._schedule(np.array([k], np.int32))

    def _restructure(self, changes: GraphMutations) -> None:
        if self.plan.reaches:
            raise ProgramError(
                f"{self.plan.program.name} reads the targets of its targets, which are those of "
                "the graph as the run began: it cannot change the graph, nor send to ids that "
                "are not vertices"
            )
        pulled = self.delivery.finish(self.v.msg, self.v.agg)
        old = self.v.topology
        senders = self.v.extra.pop("senders", None)
        done = restructure(self.v, changes, self.plan.program, self.plan.each)
        self.v = done.vertices
        t = self.v.topology
        self.restructured = True
        self.delivery = self._delivery(t)
        if len(done.created):
            self.v.created = merged(self.v.created, done.created)
        if senders is None:  # by a scatter: the new targets are sent to in the next iteration
            self.v.moved = merged(self.v.moved, done.touched)
        else:
            kept = done.moved[senders]
            self.v.extra["senders"] = merged(kept, done.touched)
        for p, ids in done.appended.items():
            block = self.outgoing.setdefault(p, {})
            block["register"] = np.concatenate([block.get("register", ids[:0]), ids])
            if p in done.sources:
                known = block.get("producers", ids[:0])
                block["producers"] = np.concatenate([known, done.sources[p]])
        if self.v.producers is not None:
            self.delivery.order(self.v.producers)
        shift = np.repeat((t.ghost_start[:-1] - old.ghost_start[:-1]), np.diff(old.ghost_start))
        ghosts = pulled[pulled >= old.n].astype(np.int64) - old.n
        slots = np.concatenate([done.moved[pulled[pulled < old.n]], t.n + ghosts + shift[ghosts]])
        self.delivery.recompute(done.lost, self.v.msg, self.v.agg)
        self.delivery.mark(slots)

    # Between partitions. --------------------------------------------------------------------

    def receive(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Take in what other partitions sent in the last hop."""
        parts = [(p, *decode(b, trusted=True)) for p, b in blocks]
        if any("rows.id" in columns for _, columns, _ in parts):
            rows = {p: columns for p, columns, _ in parts}
            self.v.reach = TargetRows.joined(self.v.topology, rows)
            return
        changes = GraphMutations()
        for p, columns, _ in parts:
            if "register" in columns:
                changes.registered[p] = columns["register"]
                if "producers" in columns:
                    changes.producers[p] = columns["producers"]
            if "once.id" in columns:
                ids = columns["once.id"]
                changes.create |= set(ids[~np.isin(ids, self.v.topology.ids)].tolist())
        if changes:
            self._restructure(changes)
        for p, columns, _ in parts:
            if (values := self.inbound_values(p, columns)) is not None:
                self.delivery.inbound(p, *values, self.v.msg, self.v.agg)
            if "once.id" in columns:
                for target, value in zip(
                    columns["once.id"].tolist(), list(columns["once.value"]), strict=True
                ):
                    self._receive_once(target, value)
        self._finish()

    def inbound_values(
        self, source: int, columns: Mapping[str, Array]
    ) -> tuple[Array, Array] | None:
        """The inbound ghosts of a partition that a block from there updates, and their values."""
        if "index" in columns:
            return columns["index"], columns["value"]
        if "producer" not in columns:
            return None
        assert self.by_producer is not None
        return self.by_producer.incoming(source, columns["producer"], columns["value"])

    def _send_rows(self) -> None:
        """Send the rows of vertices to the partitions from which edges lead to them."""
        t = self.v.topology
        for p in range(t.partitions):
            if p != self.partition:
                self.outgoing[p] = rows_for(t, p)

    def send(self, slots: Array) -> int:
        """Queue the new aggregate of every changed ghost for its owner."""
        name, queued = "index", self.ghost_values(slots)
        if self.by_producer is not None and self.v.topology.producers is not None:
            name, queued = "producer", self.by_producer.outgoing(slots, self.v.msg)
        for p, index, values in queued:
            block = self.outgoing.setdefault(p, {})
            block[name], block["value"] = index, values
        return len(slots)

    def ghost_values(self, slots: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each partition that owns some of these ghosts: their numbers, and aggregates."""
        if len(slots) == 0:
            return
        t = self.v.topology
        numbers = slots.astype(np.int64) - t.n
        if self.algebra.kind == "latest":
            # a ghost which lost its edge sends the identity: the message is withdrawn
            first = t.in_start[slots]
            live = t.in_start[slots.astype(np.int64) + 1] > first
            values = filled(len(slots), self.algebra)
            values[live] = self.v.msg[self.delivery.in_index[first[live]]]
        else:
            values = self.v.agg[slots]
        cuts = np.searchsorted(numbers, t.ghost_start)
        for p in range(t.partitions):
            lo, hi = int(cuts[p]), int(cuts[p + 1])
            if lo < hi:
                yield p, (numbers[lo:hi] - t.ghost_start[p]).astype(np.int32), values[lo:hi]

    def blocks(self) -> list[tuple[int, bytes]]:
        """Return what `step` left for other partitions, encoded."""
        result = []
        for p, block in sorted(self.outgoing.items()):
            columns = {k: x for k, x in block.items() if k != "once"}
            if "once" in block:
                columns["once.id"] = np.array([target for target, _ in block["once"]], np.int64)
                values = np.empty((len(block["once"]), *self.v.msg.shape[1:]), self.v.msg.dtype)
                for k, (_, x) in enumerate(block["once"]):
                    values[k] = x
                columns["once.value"] = values
            result.append((p, encode_bytes(columns)))
        return result

    # Versions. ------------------------------------------------------------------------------

    def save(self, version: int) -> None:
        """Keep this version and the one before on the host, of synchronous iterations."""
        key = self._key(version)
        self.settle()
        columns, meta = self.v.to_columns(self.algebra)
        if self.restructured:
            self.topology_key = f"{key}-topology"
            shared_memory.save(self.topology_key, *self.v.topology.to_columns())
            self.restructured = False
        meta["topology"] = self.topology_key
        shared_memory.save(key, columns, meta)
        if version > 1:
            shared_memory.drop(self._key(version - 2))

    def load(self, version: int) -> None:
        """Go to a version which was kept on this host.

        Raises:
            RunError: this host does not have it.
        """
        saved = shared_memory.load(self._key(version))
        if saved is None:
            raise RunError(f"partition {self.partition} has lost version {version}")
        columns, meta = saved
        if meta["topology"] != self.topology_key:
            self.topology_key = meta["topology"]
            # saved by a run, so its kinds are class numbers already
            topology = load_topology(self.topology_key, self.partition)
            self.delivery = self._delivery(topology)
        self._set_arrays(VertexArrays.from_columns(self.delivery.topology, columns, meta))

    def _set_arrays(self, v: VertexArrays) -> None:
        self.v = v
        if self.v.producers is not None and self.delivery.topology.producers is None:
            self.delivery.order(self.v.producers)

    def _key(self, version: int) -> str:
        return f"{self.plan.run}/p{self.partition}-v{version}"

    # Snapshots. -----------------------------------------------------------------------------

    def settle(self) -> None:
        """Combine messages now, as the next iteration would."""
        self.delivery.settle(self.v.msg, self.v.agg)
        if self.delivery.local:
            self._finish()

    def _finish(self) -> None:
        """Have vertices whose aggregate changed gather in the next iteration."""
        changed = self.delivery.finish(self.v.msg, self.v.agg)
        self._schedule(changed[changed < self.v.topology.n])

    def captured(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return copies of what `restore` takes, and the rest as values for JSON."""
        columns, meta = self.v.to_columns(self.algebra)
        columns = {name: copied(values) for name, values in columns.items()}
        columns["id"] = self.v.topology.ids
        meta["changed"] = self.restructured or self.topology_key != self._loaded_key
        if meta["changed"]:
            graph, _ = self.v.topology.to_columns()
            columns |= {_GRAPH + name: values for name, values in graph.items()}
        else:
            columns.pop("producers", None)
        return columns, meta

    def described(self) -> dict[str, Described]:
        """Return what a segment must have for `restore`, without lengths that the graph gives."""
        arrays, _ = self.v.to_columns(self.algebra)
        arrays.pop("producers", None)  # which is stored where the graph has changed
        columns = described_like(arrays, rows="")
        for name in arrays:
            if name.startswith(("state.", "tracked.")):
                columns[name] = replace(columns[name], rows="id")
        messages = {"agg": self.v.agg, "gathered": self.v.agg, "once.value": self.v.msg}
        optional = {**described_like(messages, rows=""), **_OPTIONAL}
        graph, _ = self.delivery.topology.to_columns()
        optional |= described_like({_GRAPH + name: x for name, x in graph.items()}, rows="")
        optional = {n: replace(one, required=False) for n, one in optional.items()}
        once = {n: replace(optional[n], rows="once") for n in ("once.vertex", "once.value")}
        pending = Described(np.int32, rows="", ascends=True)
        return {**optional, **once, **columns, "id": Described(np.int64), "pending": pending}

    def restore(self, columns: Mapping[str, Array], meta: Mapping[str, Any]) -> None:
        """Stand where a partition with the same vertices stood when it was `captured`.

        Raises:
            CorruptError: the arrays do not fit the graph.
        """
        loaded = self.delivery.topology
        if meta["changed"]:
            size = len(_GRAPH)
            graph = {name[size:]: x for name, x in columns.items() if name.startswith(_GRAPH)}
            for array in graph.values():
                array.flags.writeable = False  # as those that were loaded
            divided = {"partition": loaded.partition, "partitions": loaded.partitions}
            changed = Topology.from_columns(graph, divided)
            self.delivery = self._delivery(replace(changed, placement=loaded.placement))
            self.restructured = True
        v = VertexArrays.from_columns(self.delivery.topology, columns, meta)
        check_arrays(v, self.plan.shape, self.algebra)
        if self.plan.each and not meta["changed"]:
            v.producers = loaded.producers
        elif self.plan.each and loaded.producers is not None and v.producers is None:
            raise CorruptError("it has no column 'producers'")
        self._set_arrays(v)

    def messages_along_edges(self) -> tuple[Array, Array, Array]:
        """The last message of each edge that carries one: ids of both ends, and messages."""
        t, msg = self.v.topology, self.v.msg
        sources = np.repeat(t.ids, t.stop - t.start[: t.n])
        targets = np.concatenate([t.ids, t.ghost_ids])[t.target]
        if self.plan.shape == "uniform":
            messages = np.repeat(msg[: t.n], t.stop - t.start[: t.n], axis=0)
        else:
            messages = msg[: t.m]
        carried = messages != self.algebra.identity
        carried = carried if carried.ndim == 1 else carried.any(axis=1)
        return sources[carried], targets[carried], messages[carried]

    def result(self) -> dict[str, Array]:
        """Return the state as a base segment's columns: id, fields, and names of string ids."""
        t = self.v.topology
        columns: dict[str, Array] = {"id": t.ids, **self.v.states}
        if t.kind is not None:
            columns["kind"] = t.kind
        if len(self.v.created):  # the loop ended before they came to be
            kept = np.ones(t.n, np.bool_)
            kept[self.v.created] = False
            columns = {name: column[kept] for name, column in columns.items()}
        if t.names is not None:
            columns["name.offsets"], columns["name.bytes"] = t.names
        return columns


def merged(*parts: Array) -> Array:
    """Return the distinct vertices of all parts, ascending; int32.

    >>> merged(np.array([1, 3]), np.array([0, 3]))
    array([0, 1, 3], dtype=int32)
    """
    count = sum(map(len, parts))
    if count > _MANY:
        end = max(int(part.max(initial=-1)) for part in parts) + 1
        if end < 16 * count:
            marks = np.zeros(end, np.uint8)
            for part in parts:
                marks[part] = 1
            return marked(marks)
    joined = np.sort(np.concatenate(parts).astype(np.int32, copy=False))
    keep = np.ones(len(joined), np.bool_)
    np.not_equal(joined[1:], joined[:-1], out=keep[1:])
    result: Array = joined[keep]
    return result


def load_topology(key: str, partition: int) -> Topology:
    """Map a partition's topology.

    Raises:
        LostError: this host does not have it.
    """
    loaded = shared_memory.load(key)
    if loaded is None:
        raise LostError(f"partition {partition} has lost its graph")
    return Topology.from_columns(*loaded)


def by_class(
    methods: Sequence[Methods], kind: Array | None, todo: Array
) -> Sequence[tuple[Methods, Array]]:
    """The vertices of each class, with its methods.

    Args:
        methods: those of each class.
        kind: the class number of every vertex; None where all are of the first class.
        todo: the vertices.
    """
    if len(methods) == 1 or kind is None:
        return [(methods[0], todo)]
    numbers = kind[todo]
    return [(one, todo[numbers == number]) for number, one in enumerate(methods)]


def with_classes(topology: Topology, plan: Plan) -> Topology:
    """Return the topology with class numbers of the program in place of the file's codes."""
    if topology.kind is None or not plan.kinds:
        return topology
    return replace(topology, kind=class_numbers_of(topology.kind, plan))


def class_numbers_of(codes: Array, plan: Plan) -> Array:
    """Return class numbers of the program (uint8[n]) in place of the vertex file's codes."""
    table = np.zeros(256, np.uint8)
    table[: len(plan.kinds)] = plan.kinds
    numbers: Array = table[codes]
    return numbers


class _once:
    """Adds one-shot messages to aggregates while vertices gather, and takes them out again."""

    def __init__(self, v: VertexArrays, processor: Processor) -> None:
        self.v, self.combine = v, processor.combine
        self.kept: list[tuple[int, Any]] = []
        self.again: list[int] = []

    def __enter__(self) -> list[int]:
        agg = self.v.agg
        for k, value in self.v.once.items():
            old = agg[k].copy() if agg.ndim > 1 else agg[k]
            self.kept.append((k, old))
            agg[k] = self.combine(old, value)
            if not np.all(agg[k] == old):
                self.again.append(k)
        self.v.once = {}
        return sorted(self.again)

    def __exit__(self, *error: object) -> None:
        for k, old in self.kept:
            self.v.agg[k] = old


_decoders: dict[int, tuple[Any, IdCodec]] = {}  # the broadcast too, so that no other has its id


def names_of(plan: Plan) -> IdCodec | None:
    """The names of string ids for interpreted methods; one object per process and broadcast."""
    if plan.names is None:
        return None
    key = plan.names.id if hasattr(plan.names, "id") else id(plan.names)
    if key not in _decoders:
        _decoders.clear()
        _decoders[key] = (plan.names, IdCodec(plan.names.value))
    return _decoders[key][1]


def methods_of(plan: Plan, num_vertices: int, names: IdCodec | None = None) -> list[Methods]:
    """The methods of every class of the plan's program, as kernels or to be interpreted.

    Args:
        names: names of string ids; by default those of the plan.
    """
    names = names or names_of(plan)
    return [
        InterpretedMethods(plan, kind, num_vertices, names)
        if text is None
        else NativeMethods(plan, kind, num_vertices, text, names)
        for kind, text in enumerate(plan.kernels)
    ]


# Messages to other partitions where ghosts are one per edge: a producer's travels once.
#
# A producer that sends all of its targets the same has one message for each partition, however
# many of its targets are there. Both sides number the producers of such a pair of partitions by
# ascending id; the receiver knows which of its inbound ghosts each of them is behind.


class ProducerMessages:
    """The producers behind the ghosts of one partition, and behind those of others.

    Args:
        topology: with a ghost per edge, as it was loaded.
    """

    def __init__(self, topology: Topology) -> None:
        self._t = t = topology
        self._sources = t.in_source[t.in_start[t.n] : t.in_start[t.n + t.ghosts]]  # [g]
        self._marks = np.zeros(t.n, np.bool_)
        self._producers = [
            self._distinct(self._sources[a:z]) for a, z in self._bounds(t.ghost_start)
        ]
        self._fan_out = [self._ghosts_behind(a, z) for a, z in self._bounds(t.inbound_start)]

    def _bounds(self, start: Array) -> Iterator[tuple[int, int]]:
        return zip(start[:-1].tolist(), start[1:].tolist(), strict=True)

    def _distinct(self, vertices: Array) -> Array:
        self._marks[vertices] = True
        distinct: Array = np.flatnonzero(self._marks).astype(np.int32)
        self._marks[distinct] = False
        return distinct

    def _ghosts_behind(self, first: int, end: int) -> tuple[Array, Array]:
        """Bounds and numbers of the inbound ghosts of one partition, by their producers."""
        t = self._t
        assert t.producers is not None
        assert t.inbound_order is not None
        order = t.inbound_order[first:end]
        ids = t.producers[order]
        starts = np.flatnonzero(np.concatenate([[True], ids[1:] != ids[:-1]])[: len(ids)])
        return np.append(starts, len(ids)), order - np.int32(first)

    def outgoing(self, slots: Array, messages: Array) -> Iterator[tuple[int, Array, Array]]:
        """For each partition: the numbers (int32) of producers, and their messages.

        Args:
            slots: ghosts whose producers have sent, ascending.
            messages: messages of all vertices.
        """
        t = self._t
        cuts = np.searchsorted(slots, t.n + t.ghost_start)
        for p, producers in enumerate(self._producers):
            lo, hi = int(cuts[p]), int(cuts[p + 1])
            if lo < hi:
                numbers = np.empty(len(producers), np.int32)
                find: Any = _senders
                count = find(slots[lo:hi], t.n, self._sources, producers, self._marks, numbers)
                numbers = numbers[:count]
                yield p, numbers, messages[producers[numbers]]

    def incoming(self, partition: int, numbers: Array, messages: Array) -> tuple[Array, Array]:
        """Return inbound ghosts (int32) of a partition, and the message for each.

        Args:
            numbers, messages: what `outgoing` said there.
        """
        starts, order = self._fan_out[partition]
        lengths = starts[numbers + 1] - starts[numbers]
        ghosts = np.empty(int(lengths.sum()), np.int32)
        fill: Any = _fan_out
        fill(numbers, starts, order, ghosts)
        return ghosts, np.repeat(messages, lengths, axis=0)


@njit
def _senders(slots, n, sources, producers, marks, out):  # type: ignore[no-untyped-def]
    """List the producers behind the ghosts `slots`, by their numbers; return how many."""
    for s in slots:
        marks[sources[s - n]] = True
    count = 0
    for k in range(producers.shape[0]):
        if marks[producers[k]]:
            marks[producers[k]] = False
            out[count] = k
            count += 1
    return count


@njit
def _fan_out(numbers, starts, order, out):  # type: ignore[no-untyped-def]
    """List the ghosts behind producers."""
    k = 0
    for number in numbers:
        for j in range(starts[number], starts[number + 1]):
            out[k] = order[j]
            k += 1


def check_arrays(v: VertexArrays, shape: str, algebra: Algebra) -> None:
    """Refuse arrays that kernels would read or write beyond their ends.

    Args:
        shape: the message layout.
        algebra: algebra of the messages.

    Raises:
        CorruptError: a length does not fit the graph, or an index is out of range.
    """
    t = v.topology
    n, slots = t.n, t.n + t.ghosts
    lengths = {
        **dict.fromkeys([*v.states, *v.tracked], n),
        "msg": message_count(t, shape) + len(t.inbound),
        "agg": 0 if algebra.kind == "latest" else slots,
    }
    columns = {**v.states, **v.tracked, "msg": v.msg, "agg": v.agg}
    optional = {"gathered": lengths["agg"], "producers": len(t.inbound), "level": n}
    for name, length in optional.items():
        if getattr(v, name) is not None:
            columns[name], lengths[name] = getattr(v, name), length
    for name, column in columns.items():
        _require(len(column) == lengths[name], name)
    once = np.fromiter(v.once, np.int64, len(v.once))
    for name, places in [
        ("pending", v.pending), ("created", v.created), ("moved", v.moved), ("once", once),
        ("inbound", t.inbound),
    ]:  # fmt: skip
        _require(_within(places, n), name)
    for name, starts, end in [
        ("start", t.start, t.m),
        ("in_start", t.in_start, len(t.in_source)),
        ("ghost_start", t.ghost_start, t.ghosts),
        ("inbound_start", t.inbound_start, len(t.inbound)),
    ]:  # fmt: skip
        rises = len(starts) > 0 and starts[0] == 0 and starts[-1] == end
        _require(bool(rises and (starts[1:] >= starts[:-1]).all()), name)
    _require((len(t.start), len(t.in_start)) == (n + 1, slots + 1), "start")
    _require(_within(t.target, slots), "target")
    _require(_within(t.in_source, n + len(t.inbound)), "in_source")
    per_graph = {"value": t.m, "reverse": t.m, "kind": n, "producers": len(t.inbound),
                 "in_order": len(t.in_source), "inbound_order": len(t.inbound)}  # fmt: skip
    for name, column in t.to_columns()[0].items():
        _require(len(column) == per_graph.get(name, len(column)), name)
    _require(t.in_order is None or _within(t.in_order, n + len(t.inbound)), "in_order")
    _require(t.inbound_order is None or _within(t.inbound_order, len(t.inbound)), "inbound_order")
    if (rows := v.reach) is not None:
        complete = len(rows.start) == len(rows.stop) >= slots
        _require(complete and bool((rows.start <= rows.stop).all()), "reach.start")
        _require(_within(rows.start, len(rows.target) + 1), "reach.start")
        _require(_within(rows.stop, len(rows.target) + 1), "reach.stop")
        _require(_within(rows.target, n + rows.size), "reach.target")


def _within(places: Array, end: int) -> bool:
    return len(places) == 0 or bool(places.min() >= 0 and places.max() < end)


def _require(fine: bool, name: str) -> None:
    if not fine:
        raise CorruptError(f"the snapshot's array {name!r} does not fit the graph")
