"""One partition of an events program: its vertices, their deltas, iterations, what is written.

As in the paper's figure 10: an edge reaches its vertex as an ADD_TARGET delta, which the program
answers by `addTarget`; messages are delivered once, in ascending order of their source. These
programs run interpreted, over Python values.
"""

from __future__ import annotations

import copy
import itertools
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.compile.interpreter import holder_of, new_cursor, random_step, user_error
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._node import EventCursor, Letter, Node, checked, default_state
from vertexsdk.engine.event_changes import (
    AppliedChanges,
    EventBatch,
    apply_change,
    letter_of,
    places,
    row_of,
    value_at,
)
from vertexsdk.engine.master import IterationStats
from vertexsdk.engine.processor import load_topology, names_of, with_classes
from vertexsdk.errors import LostError, VertexError
from vertexsdk.graph.changes.changes import ADD, REMOVE
from vertexsdk.graph.topology.id_codec import Namer
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import VertexId
from vertexsdk.program.fields import StateField
from vertexsdk.program.vertex import ADD_TARGET, REMOVE_TARGET, UPDATE, Aggregator, Delta, Vertex

Array = NDArray[Any]
EDGES, LETTERS = b"e", b"l"  # what a block holds
_SCALARS = (int, float, str, bytes, type(None), np.generic)


PICKLED = (dict, dict, set, set)  # the types of what `take_over` is given


class EventPartition:
    """The vertices by id, the deltas on their way to them, and what is to be written of them.

    Args:
        names: what string ids stand for; None where ids are integers.
        undirected: every edge is here both ways.

    Attributes:
        topology: topology of a run's graph, which stays: it says where vertices live. None if the
            graph changes; vertices then live where the hash of their id says.
    """

    def __init__(
        self,
        plan: Plan,
        partition: int,
        num_vertices: int,
        loop: str,
        *,
        names: Namer | None,
        undirected: bool,
    ) -> None:
        self.plan, self.partition = plan, partition
        self.cursor = EventCursor(names)
        self.cursor.seed = plan.seed
        self.vertices: list[Vertex] = []
        self.enter(loop, num_vertices)
        self.fresh: set[Any] = set()  # vertices which gather though nothing was sent to them
        self.unborn: set[Any] = set()  # those of them on which `init` is to be called
        self.mail: dict[Any, list[Letter]] = {}
        self.outgoing: dict[int, list[tuple[Any, Letter]]] = {}
        self.partitions, self.undirected = len(plan.topologies), undirected
        self.topology: Topology | None = None
        self.nodes = Records()
        self.count = self.edges = 0  # vertices and edges which are there
        self.born: list[Any] = []  # vertices which messages made
        self.touched = 0  # how often vertices gathered, or scattered first
        self.adapting = False  # `adapt` is to be called

    def enter(self, loop: str, num_vertices: int) -> None:
        """Run the methods as those of a loop."""
        plan, namer = self.plan, cast(Any, self.cursor.names)  # `new_cursor` only decodes
        self.vertices = [
            new_cursor(s, plan.params, num_vertices, loop, namer) for s in plan.program.classes
        ]
        for vertex in self.vertices:
            vertex._runtime = self.cursor

    def place(self, ids: list[Any]) -> list[int]:
        """The partitions where vertices live."""
        if self.topology is None:
            return places(ids, self.partitions)
        return [int(p) for p in self.topology.owners(np.array(ids, np.int64))]

    def set_vertices(self, count: int) -> None:
        """Tell the program how many vertices the graph has now."""
        for vertex in self.vertices:
            vertex.num_vertices = count

    def present_ids(self) -> list[Any]:
        """Return the ids of the vertices that are present."""
        return [i for i in self.nodes if self.nodes.peek(i).present]

    def node(self, vertex_id: Any, kind: int = 0) -> Node:
        """Return a vertex, which comes to be if it is not there."""
        if vertex_id not in self.nodes:
            state = default_state(self.plan.program.classes[kind], self.cursor.names)
            self.nodes[vertex_id] = Node(vertex_id, kind, state)
            self.unborn.add(vertex_id)
            self.fresh.add(vertex_id)
        return self.nodes[vertex_id]

    def wake(self) -> None:
        """Let every vertex scatter in the next iteration."""
        self.fresh |= set(self.present_ids())
        self.adapting = True

    def _adapt(self) -> None:
        """Call `adapt` on every vertex, when a branch has forked."""
        if self.adapting:
            for i in sorted(self.present_ids()):
                self._call(self.nodes[i], "adapt")
        self.adapting = False

    def _name(self, node: Node) -> None:
        self.count += not node.present
        node.named = True

    # Iterations. ----------------------------------------------------------------------------

    def step(self, iteration: int, aggregates: Mapping[str, Any]) -> IterationStats:
        """Run one iteration: every delta is gathered, then the vertices that gathered scatter.

        Vertices which messages make are there from now on.
        """
        for i in [i for i in self.mail if i not in self.nodes]:
            self._name(self.node(i))
            self.born.append(i)
        vanished = {
            i for i in self.unborn if not self.nodes.peek(i).present
            if iteration == 0 or i not in self.mail
        }  # fmt: skip  # which came and went before they were told of anything
        self.unborn -= vanished
        self.fresh -= vanished
        progress = IterationStats()
        self.outgoing = {}
        holders = self._holders(aggregates)
        if iteration == 0:
            senders = sorted(self.present_ids())
            for i in senders:
                self._call(self.nodes[i], "init")
            self.unborn = set()
            self._adapt()
        else:
            senders = self._gather(iteration, progress)
            self.mail = {}
        for i in senders:
            self._scatter(self.nodes[i], iteration, progress)
        progress.changed = len(senders)
        self.touched += len(senders)
        progress.pending = len(self.mail)
        progress.sent = sum(len(x) for x in self.outgoing.values())
        algebras = self.plan.program.aggregators
        progress.aggregates = {
            k: algebras[k].identity if h._partial is None else h._partial
            for k, h in holders.items()
        }
        self.unborn |= vanished
        self.fresh |= vanished
        return progress

    def _holders(self, aggregates: Mapping[str, Any]) -> dict[str, Aggregator]:
        holders = {}
        for name, algebra in self.plan.program.aggregators.items():
            holder = holder_of(algebra, algebra.combine, aggregates[name], self.cursor.names)
            holders[name] = holder
            holder._partial = algebra.identity
            for vertex in self.vertices:
                vertex.__dict__[name] = holder
        return holders

    def _gather(self, iteration: int, progress: IterationStats) -> list[Any]:
        for i in sorted(self.unborn):
            self._call(self.nodes[i], "init")
        self.fresh |= self.unborn
        self.unborn = set()
        self._adapt()
        names = self.cursor.names
        delta = Delta()
        always = set(self.present_ids()) if self.plan.always else set()
        active = sorted(self.fresh | set(self.mail) | always)
        for i in active:
            node = self.nodes[i]
            for source, kind, value, edge in sorted(self.mail.get(i, ()), key=itemgetter(0)):
                delta.kind, delta.value = kind, value
                self.cursor.announced = (value, edge) if kind == ADD_TARGET else None
                shown: Any = source
                if isinstance(kind, str):
                    shown = None
                elif names is not None:
                    shown = names.decode(source)
                    if kind in (ADD_TARGET, REMOVE_TARGET):
                        delta.value = names.decode(value)
                self._call(node, "gather", iteration, shown, delta)
                progress.updates += 1
            self.cursor.announced = None
        self.fresh = set()
        return active

    def _scatter(self, node: Node, iteration: int, progress: IterationStats) -> None:
        self.cursor.messages = []
        self._call(node, "scatter", iteration)
        node.previous = dict(node.targets)
        messages = self.cursor.messages
        progress.messages += len(messages)
        if not messages:
            return
        places = self.place([t for t, _ in messages])
        for (target, value), p in zip(messages, places, strict=True):
            if not isinstance(value, _SCALARS):  # each receiver has an object of its own
                value = copy.deepcopy(value)
            letter = (node.id, UPDATE, value, None)
            if p == self.partition:
                self.mail.setdefault(target, []).append(letter)
            else:
                self.outgoing.setdefault(p, []).append((target, letter))

    def _call(self, node: Node, method: str, *args: Any) -> None:
        vertex: Vertex = self.vertices[node.kind]
        spec = self.plan.program.classes[node.kind]
        space = vertex.__dict__
        names = self.cursor.names
        space["id"] = node.id if names is None else names.decode(node.id)
        space.update(node.state)
        name = "init" if method == "adapt" else method
        self.cursor.at(node, random_step(name, args[0] if args else 0))
        try:
            getattr(vertex, method)(*args)
        except VertexError:
            raise
        except Exception as error:
            iteration = args[0] if args else 0
            raise user_error(spec, method, error, space["id"], iteration) from error
        self.cursor.apply()
        for name in node.state:
            value = space[name]
            if name in spec.states:
                value = checked(spec, spec.states[name], value)
            node.state[name] = value

    # What comes in. -------------------------------------------------------------------------

    def receive(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Take in what other partitions, or a graph, sent."""
        edges: list[tuple[Any, ...]] = []
        for _, block in blocks:
            if block[:1] == LETTERS:
                for target, letter in pickle.loads(block[1:]):
                    self.mail.setdefault(target, []).append(letter)
            else:
                edges += pickle.loads(block[1:])
        if edges:
            self._load(edges)

    def _load(self, edges: list[tuple[Any, ...]]) -> None:
        """Take in a graph: ("v", vertex, class, named), ("o" or "i", vertex, other end, value).

        And attributes: ("a", vertex, field, value).
        """
        for what, vertex, other, value in edges:
            if what == "v" and not value:
                self.node(vertex, other)
        for what, vertex, other, value in edges:
            if what == "v":
                self.node(vertex).named |= value
            elif what == "a":
                self.node(vertex).state[other] = value
            elif what == "o":
                self.node(vertex).out[other] = value
            else:
                self.node(vertex).into[other] = value
        direction = self.plan.program.direction
        for i in sorted(self.nodes):
            node = self.nodes[i]
            self.count += node.present
            self.edges += self.counted(node)
            for target, value in row_of(node, direction).items():
                self._put(node, letter_of(node, target, None, value))

    def counted(self, node: Node) -> int:
        """Return how many of the graph's edges are counted at a vertex."""
        return sum(1 for t in node.out if node.id <= t) if self.undirected else len(node.out)

    def _put(self, node: Node, letter: Letter | None) -> int:
        if letter is None:
            return 0
        self.mail.setdefault(node.id, []).append(letter)
        return 1

    def take(self, batch: EventBatch) -> AppliedChanges:
        """Take in changes, in order, where either end of an edge is here."""
        taken = AppliedChanges()
        where = [self.place(ids) for ids in (batch.source, batch.target)]
        owners = self.place([s.vertex for s in batch.deltas.sent])
        number = 0
        for k, s in batch.deltas.steps():
            if s is not None:
                if owners[number] == self.partition:
                    node = self.node(s.vertex)
                    self._name(node)
                    taken.effects += self._put(node, (node.id, s.kind, s.value, None))
                number += 1
            elif k is not None:
                a, b = batch.source[k], batch.target[k]
                change = batch.kind[k], batch.value[k], batch.default
                if where[0][k] == self.partition:
                    met = self._change(a, b, change, taken, "out")
                    taken.counts[met] += 1
                    if met == "absent":
                        taken.absent.append(k)
                    self.edges += (met == "added") - (met == "removed")
                    if self.undirected and a != b:
                        self._change(a, b, change, taken, "into")
                if where[1][k] == self.partition:
                    self._change(b, a, change, taken, "into")
                    if self.undirected and a != b:
                        self._change(b, a, change, taken, "out")
        return taken

    def _change(
        self,
        vertex: Any,
        other: Any,
        change: tuple[int, Any, Any],
        taken: AppliedChanges,
        side: str,
    ) -> str:
        """Change an edge at one end of it; the vertex learns of it by a delta."""
        kind, value, default = change
        if kind != 0 and vertex not in self.nodes:
            return "absent"
        node, direction = self.node(vertex), self.plan.program.direction
        there, previous = node.present, value_at(node, direction, other)
        met = apply_change(node.out if side == "out" else node.into, kind, other, value, default)
        after = value_at(node, direction, other)
        taken.effects += self._put(node, letter_of(node, other, previous, after))
        if node.present != there:
            self.count += 1 if node.present else -1
            taken.effects += 1
        return met

    # What goes out. -------------------------------------------------------------------------

    def blocks(self) -> list[tuple[int, bytes]]:
        """Return the letters to other partitions, pickled; they are on their way then."""
        outgoing, self.outgoing = self.outgoing, {}
        return [(p, LETTERS + pickle.dumps(x, 5)) for p, x in sorted(outgoing.items())]

    def fork(self) -> EventPartition:
        """Return a partition with the same vertices and deltas, to be changed apart from these."""
        other = copy.copy(self)
        other.nodes = self.nodes.fork()
        other.cursor = EventCursor(self.cursor.names)
        other.cursor.seed = self.plan.seed
        other.enter(self.vertices[0].loop, self.vertices[0].num_vertices)
        waiting = self.mail, self.fresh, self.unborn, self.born
        other.mail, other.fresh, other.unborn, other.born = copy.deepcopy(waiting)
        return other

    def absent(self, batch: EventBatch) -> list[int]:
        """Return the numbers of the changes, of edges out of vertices here, that meet no edge."""
        edges: dict[tuple[Any, Any], bool] = {}
        absent = []
        for k, p in enumerate(self.place(batch.source)):
            if p != self.partition:
                continue
            a, b = batch.source[k], batch.target[k]
            pair = (min(a, b), max(a, b)) if self.undirected else (a, b)
            if pair not in edges:
                edges[pair] = a in self.nodes and b in self.nodes.peek(a).out
            if batch.kind[k] != ADD and not edges[pair]:
                absent.append(k)
            edges[pair] = batch.kind[k] != REMOVE and (edges[pair] or batch.kind[k] == ADD)
        return absent

    def columns(
        self, nodes: Sequence[Node], ids: Array, code: Callable[[Any], int] | None
    ) -> dict[str, Array]:
        """Return the state of vertices as a segment's columns.

        Args:
            nodes: the vertices.
            ids: int64[n], of each; codes where ids are strings.
            code: gives the code of a string id; None where ids are integers.
        """
        columns = {"id": ids, **_state_columns(self.plan, nodes, code)}
        if len(self.plan.program.classes) > 1:
            columns["kind"] = np.array([n.kind for n in nodes], np.uint8)
        return columns

    # A run, whose graph stays, with `Processor`'s methods. ----------------------------------

    @classmethod
    def of_run(cls, plan: Plan, partition: int, num_vertices: int) -> EventPartition:
        """Return the partition of a loaded graph; string ids are their codes."""
        self = cls(plan, partition, num_vertices, plan.sees, names=names_of(plan), undirected=False)
        t = self.topology = with_classes(load_topology(plan.topologies[partition], partition), plan)
        kinds = t.kind.tolist() if t.kind is not None else [0] * t.n
        targets = np.concatenate([t.ids, t.ghost_ids])[t.target].tolist()
        values = t.value.tolist() if t.value is not None else [1] * len(targets)
        start = t.start.tolist()
        for k, i in enumerate(t.ids.tolist()):
            self._name(self.node(i, kinds[k]))
            row = range(start[k], start[k + 1])
            if row:
                self.mail[i] = [(i, ADD_TARGET, targets[e], values[e]) for e in row]
        decode = None if self.cursor.names is None else self.cursor.names.decode
        for k, field, x in attributes_of(plan, t, decode):
            self.nodes[int(t.ids[k])].state[field] = x
        return self

    def _key(self, version: int) -> str:
        return f"{self.plan.run}/p{self.partition}-v{version}"

    def save(self, version: int) -> None:
        """Keep this version and the one before on the host."""
        shared_memory.save(self._key(version), *self.captured())
        if version > 1:
            shared_memory.drop(self._key(version - 2))

    def load(self, version: int) -> None:
        """Go to a version which was kept on this host.

        Raises:
            LostError: it is not there.
        """
        content = shared_memory.load(self._key(version))
        if content is None:
            raise LostError("an executor was lost with the vertices it held")
        self.clear()
        self.take_over(*pickle.loads(content[0]["pickle"].tobytes()))

    def settle(self) -> None:
        """Do nothing: no messages are combined."""

    def captured(self) -> tuple[dict[str, Array], dict[str, Any]]:
        """Return the vertices and what is on its way to them, as a column of one pickle."""
        nodes = {i: self.nodes.peek(i) for i in self.nodes}
        content = pickle.dumps((nodes, self.mail, self.fresh, self.unborn), 5)
        return {"pickle": np.frombuffer(content, np.uint8)}, {}

    def clear(self) -> None:
        """Forget what is on its way, and that vertices are here, before `take_over`."""
        self.mail, self.fresh, self.unborn, self.count = {}, set(), set(), 0

    def take_over(
        self,
        nodes: Mapping[Any, Node],
        mail: Mapping[Any, list[Letter]],
        fresh: set[Any],
        unborn: set[Any],
    ) -> None:
        """Have those of some vertices that live here, and what is on its way to them."""
        ids = list({*nodes, *mail})
        mine = {i for i, p in zip(ids, self.place(ids), strict=True) if p == self.partition}
        for i, node in nodes.items():
            if i in mine:
                self.nodes[i] = node
                self.count += node.present
                self.edges += self.counted(node)
        self.mail |= {i: letters for i, letters in mail.items() if i in mine}
        self.fresh |= fresh & mine
        self.unborn |= unborn & mine

    def result(self) -> dict[str, NDArray[Any]]:
        """Return the state as a base segment's columns."""
        ids, names = sorted(self.present_ids()), self.cursor.names
        nodes = [self.nodes.peek(i) for i in ids]
        code = None if names is None else names.encode
        columns = self.columns(nodes, np.array(ids, np.int64), code)
        if self.topology is not None and self.topology.names is not None:
            columns["name.offsets"], columns["name.bytes"] = self.topology.names
        return columns


def attributes_of(
    plan: Plan, t: Topology, decode: Callable[[int], str] | None
) -> Iterator[tuple[int, str, Any]]:
    """The vertex attributes of a partition: local vertex, field, value as a method sees it.

    Args:
        decode: the name of a string id's code; None where ids are integers.
    """
    if plan.initial is None:
        return
    for kind, spec in enumerate(plan.program.classes):
        for name, f in spec.states.items():
            column = plan.program.column(kind, name)
            if column not in plan.initial.value.columns:
                continue
            known, values = plan.initial.value.columns[column]
            here = np.isin(known, t.ids)
            rows = values[here].tolist() if f.size is None else list(values[here])
            if f.type is VertexId and decode is not None:
                rows = [decode(x) for x in rows]
            places = np.searchsorted(t.ids, known[here]).tolist()
            yield from zip(places, itertools.repeat(name), rows, strict=False)


def _state_columns(plan: Plan, nodes: Sequence[Node], encode: Any) -> dict[str, NDArray[Any]]:
    """The state fields of some vertices as columns; `encode` gives the code of a string id."""
    columns: dict[str, NDArray[Any]] = {}
    for kind, spec in enumerate(plan.program.classes):
        for name, f in spec.states.items():
            column = np.empty((len(nodes), *f.shape), f.dtype)
            if f.dtype != object:
                column[...] = 0
            for k, node in enumerate(nodes):
                if node.kind == kind:
                    column[k] = _stored(f, node.state[name], encode)
            columns[plan.program.column(kind, name)] = column
    return columns


def _stored(f: StateField, value: Any, encode: Any) -> Any:
    if f.type is VertexId and encode is not None and value is not None:
        return encode(value)
    if value is None and f.dtype != object:
        return 0
    return value


# The vertices of one partition of an events program, which forks share until they change them.
#
# Each vertex is a record: it is unpickled when it is touched, and pickled again when the
# partition is forked. So a fork costs what was touched since the one before, and forks share the
# rest.


class Records(Mapping[Any, Node]):
    """Vertices by id, which stay; one that is read may be changed in place.

    Attributes:
        unwritten: ids of the vertices that may differ from what the store has.
    """

    def __init__(self) -> None:
        self._pickles: dict[Any, bytes] = {}
        self._nodes: dict[Any, Node] = {}
        self._touched: set[Any] = set()  # since the last fork
        self.unwritten: set[Any] = set()

    def __getitem__(self, key: Any) -> Node:
        self._touched.add(key)
        self.unwritten.add(key)
        return self.peek(key)

    def peek(self, key: Any) -> Node:
        """A vertex that is only looked at."""
        node = self._nodes.get(key)
        if node is None:
            node = self._nodes[key] = pickle.loads(self._pickles[key])
        return node

    def __setitem__(self, key: Any, node: Node) -> None:
        self._nodes[key] = node
        self._pickles.setdefault(key, b"")
        self._touched.add(key)
        self.unwritten.add(key)

    def __contains__(self, key: Any) -> bool:
        return key in self._pickles

    def __iter__(self) -> Iterator[Any]:
        return iter(self._pickles)

    def __len__(self) -> int:
        return len(self._pickles)

    def fork(self) -> Records:
        """Return the same vertices, to be changed apart from these."""
        for key in self._touched:
            self._pickles[key] = pickle.dumps(self._nodes[key], 5)
        self._touched = set()
        other = Records()
        other._pickles, other.unwritten = self._pickles.copy(), self.unwritten.copy()
        return other
