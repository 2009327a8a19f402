"""A partition of a loop of an events program over a graph that changes.

A change of an edge becomes a delta for the vertex whose target it concerns: ADD_TARGET where the
edge is new or has a new value, REMOVE_TARGET where it has gone. So a program that answers them as
`Vertex.gather` does has the edges as `targets`; `addedTargets` are those which are new, or have
another value, since the last scatter. A change that changes nothing makes no delta. Deltas that
are not edges come with `delta.kind` as sent, and None for the source. What came in is gathered in
the next iteration, in the order in which it came, where the vertex itself stands in the order of
sources.

Vertices stay once they were created, with their state; the answers have those which an edge, the
vertex file, a parameter, a delta that is not an edge, or (if they had not been there) a message
names.
"""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.packed_strings import pack_strings, unpack_strings
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._events_partition import EDGES, PICKLED, EventPartition, attributes_of
from vertexsdk.engine._loop_partition import LoopPartition
from vertexsdk.engine._node import Strings
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.commands import CreatePartition, LoopCommand, LoopReport
from vertexsdk.engine.event_changes import EventBatch, places
from vertexsdk.engine.iterations import Iterations, make_master
from vertexsdk.engine.processor import load_topology, with_classes
from vertexsdk.engine.snapshot_writer import WriteSnapshot
from vertexsdk.engine.snapshots import SnapshotRequest
from vertexsdk.engine.supersteps import Steps, SuperstepEnd, end_superstep
from vertexsdk.graph.topology.id_codec import BOTTOM, TOP
from vertexsdk.program.algebra import INT_MAX, INT_MIN
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.state.address import Address
from vertexsdk.state.reading import NAME_COLUMNS, TOMBSTONE
from vertexsdk.state.stored_pickles import unpickle
from vertexsdk.state.version_writer import DeltaLayers
from vertexsdk.transport.transport import Blocks

Array = NDArray[Any]
_EXTREMES = {TOP: INT_MAX, BOTTOM: INT_MIN}
_SYNCHRONOUS = BoundChoice(1, False, "deltas are gathered in the iteration after they were sent")


class EventsLoopPartition(LoopPartition):
    """A partition of a loop of an events program, with the deltas on their way to its vertices.

    Args:
        plan: plan of the loop.
        partition: its number.
        undirected: edges have no direction.
    """

    def __init__(self, plan: Plan, partition: int, *, undirected: bool) -> None:
        self.plan, self.undirected = plan, undirected
        self.alone = len(plan.topologies) == 1
        self.part: EventPartition
        self._names: dict[int, str] | None = None  # by code; None where ids are integers
        self._codes: dict[str, int] = {}
        self._since = 0  # the iteration that was next when something came in last
        self._layers: DeltaLayers | None = None  # of what was written; None: a base is due
        self._partition = partition

    def create(self, create: CreatePartition) -> Steps[None]:
        """Make the vertices from the loaded graph, or from a checkpoint."""
        plan = self.plan
        if create.names is not None:
            self._names = {}
            codes = np.arange(1, len(create.names[0])) * (create.code_step or 1)
            self.add_names(codes, *create.names)
        self.part = EventPartition(
            plan, self._partition, 0, plan.sees, names=None if self._names is None else Strings(),
            undirected=self.undirected,
        )  # fmt: skip
        master = make_master(plan, 0)
        if create.nodes:
            assert plan.store is not None
            position = restore(self.part, plan.store, create.nodes)
            self._since, self.part.adapting = position.since, position.wake
            master.iteration, master.reason = position.iteration, position.reason
            master.aggregates = dict(position.aggregates) or master.aggregates
        else:
            blocks = self._loaded(create)
            own_blocks = [(p, block) for p, block in blocks if p == self._partition]
            others = [(p, block) for p, block in blocks if p != self._partition]
            received, _ = yield from end_superstep(others, SuperstepEnd())
            self.part.receive([*own_blocks, *received])
        self.iterations = Iterations(self.part, master, _SYNCHRONOUS)

    def _loaded(self, create: CreatePartition) -> Blocks:
        """The graph which was loaded here, as blocks to the places of its vertices."""
        plan, names = self.plan, self._names
        t = with_classes(load_topology(create.topologies[self._partition], self._partition), plan)

        def shown(ids: Array) -> list[Any]:
            numbers: list[Any] = ids.tolist()
            step = create.code_step or 1
            return numbers if names is None else [names[(k + 1) * step] for k in numbers]

        ids, slots = shown(t.ids), np.array(shown(np.concatenate([t.ids, t.ghost_ids])), object)
        ends = np.repeat(slots[: t.n], np.diff(t.start)).tolist(), slots[t.target].tolist()
        values = t.value.tolist() if t.value is not None else [1] * t.m
        kinds = t.kind.tolist() if t.kind is not None else [0] * t.n
        named = np.isin(t.ids, create.named).tolist()
        rows: list[tuple[Any, ...]] = [("v", *row) for row in zip(ids, kinds, named, strict=True)]
        decode = None if names is None else lambda code: shown(np.array([code]))[0]
        rows += [("a", ids[k], f, x) for k, f, x in attributes_of(plan, t, decode)]
        rows += [("o", a, b, x) for a, b, x in zip(*ends, values, strict=True)]
        rows += [("i", b, a, x) for a, b, x in zip(*ends, values, strict=True)]
        by_partition: list[list[tuple[Any, ...]]] = [[] for _ in plan.topologies]
        for row, p in zip(rows, places([r[1] for r in rows], len(by_partition)), strict=True):
            by_partition[p].append(row)
        return [(p, EDGES + pickle.dumps(x, 5)) for p, x in enumerate(by_partition) if x]

    def fork(self) -> EventsLoopPartition:
        other = copy.copy(self)
        other.part = self.part.fork()
        other._codes = self._codes.copy()
        other._names = None if self._names is None else self._names.copy()
        master = self.iterations.master
        other.iterations = Iterations(other.part, replace(master), _SYNCHRONOUS)
        return other

    def enter(self, plan: Plan) -> None:
        """Continue in another loop; every vertex scatters if the program reads the loop's name."""
        self._belong(plan)
        if plan.program.reads_loop:
            self.part.wake()
            self.iterations.master.reason = None

    def _belong(self, plan: Plan) -> None:
        """Have the plan of a loop, whose name methods read."""
        self.plan = self.part.plan = plan
        self.part.enter(plan.sees, self.part.vertices[0].num_vertices)

    def supersede(self, other: EventsLoopPartition) -> None:
        """Take the place of a partition; no vertex scatters for it, as a merge begins no branch."""
        self._belong(other.plan)
        self._layers = None
        master = self.iterations.master
        master.iteration = max(master.iteration, other.iterations.master.iteration)

    def close(self) -> None:
        self.__dict__.clear()

    @property
    def begun(self) -> bool:
        """True if iteration 0 has run."""
        return self.iterations.master.iteration > 0

    @property
    def clock(self) -> int:
        return self.iterations.iterations

    @property
    def pending(self) -> int:
        return len(self.part.mail.keys() | self.part.fresh)

    @property
    def vertices(self) -> int:
        return self.part.count

    @property
    def edges(self) -> int:
        return self.part.edges

    @property
    def aggregates(self) -> dict[str, Any]:
        return dict(self.iterations.master.aggregates)

    def add_names(self, codes: Array, offsets: Array, data: Array) -> None:
        assert self._names is not None
        numbers, names = codes.tolist(), unpack_strings(offsets, data)
        self._names.update(zip(numbers, names, strict=True))
        self._codes.update(zip(names, numbers, strict=True))

    def take(
        self, columns: Mapping[str, Array], *, strict: bool
    ) -> Steps[tuple[dict[str, int], list[int], int]]:
        """Take in changes, in order; no vertex gathers before the next iteration."""
        batch = EventBatch.of_columns(columns, self._names, self.plan.program.value_dtype)
        self.refused = False
        if strict:
            absent = self.part.absent(batch)
            _, ends = yield from end_superstep([], SuperstepEnd(vertices=len(absent)))
            self.refused = any(e.vertices for e in ends)
            if self.refused:
                return {}, absent, 0
        taken = self.part.take(batch)
        _, ends = yield from end_superstep([], SuperstepEnd(vertices=taken.effects))
        if any(e.vertices for e in ends):
            master = self.iterations.master
            self._since, master.reason = master.iteration, None
        return taken.counts, taken.absent, 0

    def iterate(self, command: LoopCommand, report: LoopReport) -> Steps[None]:
        run, work, limit = self.iterations, report.work, self.plan.max_iterations
        iterations_before, touched = run.iterations, self.part.touched
        if limit is not None and self._since:
            limit += self._since - 1
        _, ends = yield from end_superstep([], SuperstepEnd(vertices=self.part.count))
        count = sum(e.vertices for e in ends)
        self.part.set_vertices(count)
        rule = make_master(self.plan, count).converged  # it may read how many vertices there are
        run.master.converged, run.master.max_iterations = rule, limit
        report.failure = yield from run.run(work, command.seconds, command.iterations)
        run.deliver()
        work.iterations = run.iterations - iterations_before
        work.touched = self.part.touched - touched
        work.reason, work.quiet = run.master.reason, run.master.reason is not None

    def written(self) -> tuple[str, dict[str, Array]] | None:
        nodes, part = self.part.nodes, self.part
        layers = self._layers and self._layers.add(len(nodes.unwritten), part.count)
        if self._layers is not None and not nodes.unwritten:
            return None
        rows = part.present_ids() if layers is None else nodes.unwritten
        ordered = [nodes.peek(i) for i in sorted(rows)]
        ids = np.array([self._code(n.id) for n in ordered], np.int64)
        columns = part.columns(ordered, ids, None if self._names is None else self._code)
        if self._names is not None:
            named = pack_strings([n.id for n in ordered])
            columns |= dict(zip(NAME_COLUMNS, named, strict=True))
        removed = np.array([not n.present for n in ordered], np.bool_)
        if removed.any():
            columns[TOMBSTONE] = removed
        nodes.unwritten = set()
        self._layers = layers or DeltaLayers()
        return ("base" if layers is None else "delta"), columns

    def _code(self, vertex: Any) -> int:
        if self._names is None:
            return int(vertex)
        return _EXTREMES.get(vertex) or self._codes[vertex]

    def new_names(self) -> list[str]:
        """Return the names that messages brought since the last call."""
        new, self.part.born = self.part.born, []
        return [] if self._names is None else new

    def capture(self, request: SnapshotRequest) -> tuple[bool, WriteSnapshot]:
        """Take the vertices for a snapshot, in a segment of group "nodes", which `create` reads."""
        return True, (self if request.waits else self.fork())._put

    def _put(self, store: Store) -> list[SegmentRef]:
        master = self.iterations.master
        position = Position(
            master.iteration, self._since, self.aggregates, master.reason, self.part.adapting
        )
        code = None if self._names is None else self._code
        return put_checkpoint(self.part, store, self.plan.loop, position, code)


# An events loop in the store, for another process to continue: its edges and its vertices.
#
# Edges are segments of kind "topology" like those of every loop: an events
# program may have been told more than its edges, so its vertices stand beside them, in group
# "nodes": what each holds, and what is on its way to it.

NODES = "nodes"
_OWNERS = "owners_of_key_groups"  # so many partitions; older stores placed by another hash


@dataclass(frozen=True)
class Position:
    """The progress of a loop.

    Attributes:
        iteration: the next one to run.
        since: the one that was next when something came in last.
        aggregates: what aggregators read last.
        reason: why iterations ended; None if there is more to do.
        wake: every vertex is to scatter once.
    """

    iteration: int = 0
    since: int = 0
    aggregates: dict[str, Any] = field(default_factory=dict)
    reason: str | None = None
    wake: bool = False


def put_checkpoint(
    part: EventPartition,
    store: Store,
    loop: str,
    position: Position,
    code: Callable[[Any], int] | None,
) -> list[SegmentRef]:
    """Write one partition; `code` gives the codes of string ids."""
    at = part.partition, max(position.iteration - 1, 0)
    value = part.plan.program.value_dtype
    rows = [
        (i, t, x)
        for i in sorted(part.nodes)
        for t, x in sorted(part.nodes.peek(i).out.items())
        if not part.undirected or i <= t
    ]
    columns: dict[str, NDArray[Any]] = {}
    for k, name in enumerate(("source", "target")):
        ids = [row[k] if code is None else code(row[k]) for row in rows]
        columns[name] = np.array(ids, np.int64)
    if value is not None:
        columns["value"] = np.array([x for _, _, x in rows], value)
    nodes = {i: part.nodes.peek(i) for i in part.nodes}
    content = (nodes, part.mail, part.fresh, part.unborn, position)
    pickled = {"pickle": np.frombuffer(pickle.dumps(content, 5), np.uint8)}
    placed = {_OWNERS: part.partitions}
    return [
        store.put_segment(loop, *at, "topology", columns),
        store.put_segment(loop, *at, "topology", pickled, placed, group=NODES),
    ]


def restore(part: EventPartition, address: str | Address, refs: Sequence[SegmentRef]) -> Position:
    """Fill a partition from a checkpoint of any number of them; return how far the loop was.

    Of one with as many partitions, placed by key groups, only this partition's segment is read.
    """
    position = Position()
    with open_store(address, create=False) as store:
        for ref in refs:
            alike = store.table(ref).meta.get(_OWNERS) == part.partitions
            if alike and ref.key.partition != part.partition:
                continue
            columns = store.segment(ref)
            with store.naming_segment(ref):
                pickled = columns["pickle"].tobytes()
                *content, stored = unpickle(pickled, *PICKLED, Position)
                position = Position(*(getattr(stored, n) for n in Position.__dataclass_fields__))
                part.take_over(*content)
    return position
