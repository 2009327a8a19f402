"""The events level: programs without a message algebra gather every delta by itself.

As in the paper's figure 10: an edge reaches its vertex as an ADD_TARGET delta, which the program
answers by `addTarget`; messages are delivered once, in ascending order of their source. These
programs run interpreted, over Python values.
"""

from __future__ import annotations

import pickle
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk import resident
from vertexsdk.algebra import VertexId
from vertexsdk.compile.interpret import new_cursor, user_error
from vertexsdk.errors import ProgramError, RunError, VertexError
from vertexsdk.master import Progress
from vertexsdk.partition import owner
from vertexsdk.plan import Plan
from vertexsdk.processor import load_topology, names_of, with_classes
from vertexsdk.program import ClassSpec, StateField
from vertexsdk.vertex import ADD_TARGET, UPDATE, Aggregator, Delta, Target, Vertex

__all__ = ["EventProcessor"]

Letter = tuple[int, int, Any, Any]  # source, kind, value, edge value


class _Node:
    """One vertex: its state by field name, its consumers, and those at the last scatter."""

    __slots__ = ("before", "id", "kind", "state", "targets")

    def __init__(self, vertex_id: int, kind: int, state: dict[str, Any]) -> None:
        self.id, self.kind, self.state = vertex_id, kind, state
        self.targets: dict[int, Any] = {}
        self.before: dict[int, Any] = {}


class _Cursor:
    """The services behind `self` while one vertex's method runs."""

    def __init__(self, processor: EventProcessor) -> None:
        self.names = names_of(processor.plan)
        self.node: _Node
        self.sent: list[tuple[int, Any]] = []
        self.changes: list[tuple[int, bool, Any]] = []
        self.announced: tuple[int, Any] | None = None

    def _show(self, rows: Mapping[int, Any]) -> list[Target]:
        name = self.names.decode if self.names is not None else int
        return [Target(name(k), rows[k]) for k in sorted(rows)]

    def targets(self) -> list[Target]:
        return self._show(self.node.targets)

    def added_targets(self) -> list[Target]:
        n = self.node
        return self._show({k: x for k, x in n.targets.items() if k not in n.before})

    def retained_targets(self) -> list[Target]:
        n = self.node
        return self._show({k: x for k, x in n.targets.items() if k in n.before})

    def removed_targets(self) -> list[Target]:
        n = self.node
        return self._show({k: x for k, x in n.before.items() if k not in n.targets})

    def code(self, vertex: Any) -> int:
        vertex = vertex.id if isinstance(vertex, Target) else vertex
        return self.names.encode(vertex) if self.names is not None else int(vertex)

    def emit(self, target: Any, value: Any) -> None:
        self.sent.append((self.code(target), value))

    def emit_all(self, value: Any) -> None:
        self.sent += [(k, value) for k in sorted(self.node.targets)]

    def add_target(self, target: Any, value: Any) -> None:
        code = self.code(target)
        if value is None and self.announced is not None and self.announced[0] == code:
            value = self.announced[1]
        self.changes.append((code, True, value))

    def remove_target(self, target: Any) -> None:
        self.changes.append((self.code(target), False, None))

    def apply(self) -> None:
        """Make the changes which the last method asked for."""
        targets = self.node.targets
        for code, added, value in self.changes:
            if not added:
                targets.pop(code, None)
            elif code not in targets or value is not None:
                targets[code] = 1 if value is None else value
        self.changes = []


class EventProcessor:
    """One partition of an events program; the interface is `Processor`'s."""

    def __init__(self, plan: Plan, partition: int, num_vertices: int) -> None:
        self.plan, self.partition = plan, partition
        topology = with_classes(load_topology(plan.topologies[partition], partition), plan)
        self.topology = topology
        self.cursor = _Cursor(self)
        self.vertices = [
            new_cursor(s, plan.params, num_vertices, plan.loop, self.cursor.names)
            for s in plan.program.classes
        ]
        for vertex in self.vertices:
            vertex._runtime = self.cursor
        kinds = topology.kind.tolist() if topology.kind is not None else [0] * topology.n
        ids = topology.ids.tolist()
        self.nodes = {i: self._new(i, k) for i, k in zip(ids, kinds, strict=True)}
        self.fresh = set(ids)
        self.mail: dict[int, list[Letter]] = {}
        self.outgoing: dict[int, list[tuple[int, Letter]]] = {}
        self.partial: dict[str, Any] = {}
        slot_ids = np.concatenate([topology.ids, topology.ghost_ids])
        for k, i in enumerate(ids):
            lo, hi = int(topology.start[k]), int(topology.start[k + 1])
            if lo < hi:
                row = slot_ids[topology.target[lo:hi]].tolist()
                value = topology.value
                values = value[lo:hi].tolist() if value is not None else [1] * (hi - lo)
                self.mail[i] = [(i, ADD_TARGET, t, x) for t, x in zip(row, values, strict=True)]

    @property
    def count(self) -> int:
        """How many vertices the partition has now."""
        return len(self.nodes)

    def set_vertices(self, count: int) -> None:
        """Tell the program how many vertices the graph has now."""
        for vertex in self.vertices:
            vertex.num_vertices = count

    def _new(self, vertex_id: int, kind: int) -> _Node:
        spec = self.plan.program.classes[kind]
        names = self.cursor.names
        state: dict[str, Any] = {}
        for name, f in spec.states.items():
            default = f.default
            if f.size is not None:
                row = np.empty(f.size, f.dtype)
                row[...] = default
                default = row
            elif f.type is VertexId and names is not None and isinstance(default, int):
                default = None
            state[name] = default
        state.update({name: {} for name in spec.producers})
        return _Node(vertex_id, kind, state)

    # One iteration. -------------------------------------------------------------------------

    def step(self, iteration: int, aggregates: Mapping[str, Any]) -> Progress:
        """Run one iteration: every delta is gathered, then whoever gathered scatters."""
        progress = Progress()
        self.outgoing = {}
        holders = self._holders(aggregates)
        if iteration == 0:
            for i in sorted(self.nodes):
                self._call(self.nodes[i], "init")
            senders = sorted(self.nodes)
        else:
            senders = self._gather(iteration, progress)
        waiting = {} if iteration else self.mail
        self.mail = waiting
        for i in senders:
            self._scatter(self.nodes[i], iteration, progress)
        progress.changed = len(senders)
        progress.pending = len(self.mail)
        progress.sent = sum(len(x) for x in self.outgoing.values())
        algebras = self.plan.program.aggregators
        progress.aggregates = {
            k: algebras[k].identity if h._partial is None else h._partial
            for k, h in holders.items()
        }
        return progress

    def _holders(self, aggregates: Mapping[str, Any]) -> dict[str, Aggregator]:
        holders = {}
        for name, algebra in self.plan.program.aggregators.items():
            holders[name] = holder = Aggregator(algebra.combine, aggregates[name])
            holder._partial = algebra.identity
            for vertex in self.vertices:
                vertex.__dict__[name] = holder
        return holders

    def _gather(self, iteration: int, progress: Progress) -> list[int]:
        for i in sorted(set(self.mail) - set(self.nodes)):
            self.nodes[i] = self._new(i, 0)
            self.fresh.add(i)
            self._call(self.nodes[i], "init")
        names = self.cursor.names
        delta = Delta()
        active = sorted(
            self.fresh | set(self.mail) | (set(self.nodes) if self.plan.always else set())
        )
        for i in active:
            node = self.nodes[i]
            for source, kind, value, edge in sorted(self.mail.get(i, ()), key=_by_source):
                delta.kind, delta.value = kind, value
                self.cursor.announced = (value, edge) if kind == ADD_TARGET else None
                shown: Any = source
                if names is not None:
                    shown = names.decode(source)
                    if kind != UPDATE:
                        delta.value = names.decode(value)
                self._call(node, "gather", iteration, shown, delta)
                progress.updates += 1
            self.cursor.announced = None
        self.fresh = set()
        return active

    def _scatter(self, node: _Node, iteration: int, progress: Progress) -> None:
        self.cursor.sent = []
        self._call(node, "scatter", iteration)
        node.before = dict(node.targets)
        sent = self.cursor.sent
        progress.messages += len(sent)
        if not sent:
            return
        owners = owner(np.array([t for t, _ in sent], np.int64), self.topology.partitions)
        for (target, value), p in zip(sent, owners.tolist(), strict=True):
            letter = (node.id, UPDATE, value, None)
            if p == self.partition:
                self.mail.setdefault(target, []).append(letter)
            else:
                self.outgoing.setdefault(p, []).append((target, letter))

    def _call(self, node: _Node, method: str, *args: Any) -> None:
        vertex: Vertex = self.vertices[node.kind]
        spec = self.plan.program.classes[node.kind]
        space = vertex.__dict__
        names = self.cursor.names
        space["id"] = node.id if names is None else names.decode(node.id)
        space.update(node.state)
        self.cursor.node = node
        try:
            getattr(vertex, method)(*args)
        except VertexError:
            raise
        except Exception as error:
            raise user_error(spec, method, error) from error
        self.cursor.apply()
        for name in node.state:
            value = space[name]
            if name in spec.states:
                value = _checked(spec, spec.states[name], value)
            node.state[name] = value

    # Between partitions, and versions. ------------------------------------------------------

    def receive(self, blocks: Sequence[tuple[int, bytes]]) -> None:
        """Take in the letters of other partitions."""
        for _, block in blocks:
            for target, letter in pickle.loads(block):
                self.mail.setdefault(target, []).append(letter)

    def blocks(self) -> list[tuple[int, bytes]]:
        """Return the letters to other partitions, pickled."""
        return [(p, pickle.dumps(x, 5)) for p, x in sorted(self.outgoing.items())]

    def _key(self, version: int) -> str:
        return f"{self.plan.run}/p{self.partition}-v{version}"

    def save(self, version: int) -> int:
        """Keep this version on the host; return its bytes."""
        nodes = [(n.id, n.kind, n.state, n.targets, n.before) for n in self.nodes.values()]
        data = np.frombuffer(pickle.dumps((nodes, self.fresh, self.mail), 5), np.uint8)
        size = resident.save(self._key(version), {"pickle": data}, {})
        if version > 1:
            resident.drop(self._key(version - 2))
        return size

    def load(self, version: int) -> None:
        """Go to a version which was kept on this host."""
        found = resident.open(self._key(version))
        if found is None:
            raise RunError(f"partition {self.partition} has lost version {version}")
        nodes, self.fresh, self.mail = pickle.loads(found[0]["pickle"].tobytes())
        self.nodes = {}
        for i, kind, state, targets, before in nodes:
            node = self.nodes[i] = _Node(i, kind, state)
            node.targets, node.before = targets, before

    def result(self) -> dict[str, NDArray[Any]]:
        """Return the state as a base segment's columns."""
        nodes = [self.nodes[i] for i in sorted(self.nodes)]
        columns: dict[str, NDArray[Any]] = {"id": np.array([n.id for n in nodes], np.int64)}
        program = self.plan.program
        for kind, spec in enumerate(program.classes):
            for name, f in spec.states.items():
                column = np.empty((len(nodes), *f.shape), f.dtype)
                if f.dtype != object:
                    column[...] = 0
                for k, node in enumerate(nodes):
                    if node.kind == kind:
                        column[k] = self._stored(f, node.state[name])
                columns[program.column(kind, name)] = column
        t = self.topology
        if t.kind is not None:
            columns["kind"] = np.array([n.kind for n in nodes], np.uint8)
        if t.names is not None:
            columns["name.offsets"], columns["name.bytes"] = t.names
        return columns

    def _stored(self, f: StateField, value: Any) -> Any:
        if f.type is VertexId and self.cursor.names is not None and value is not None:
            return self.cursor.names.encode(value)
        if value is None and f.dtype != object:
            return 0
        return value


def _by_source(letter: Letter) -> int:
    return letter[0]


def _checked(spec: ClassSpec, f: StateField, value: Any) -> Any:
    """Return a field's new value, converted; refuse what its type cannot hold."""
    if f.size is not None:
        return np.array(value, f.dtype)
    kind = f.dtype.kind
    if kind == "O" or (f.type is VertexId and isinstance(value, str)) or value is None:
        return value
    if isinstance(value, (bool, np.bool_)):
        fine = True
    elif isinstance(value, (int, np.integer)):
        fine = kind in "if"
    else:
        fine = kind == "f" and isinstance(value, (float, np.floating))
    if not fine:
        raise ProgramError(
            f"{spec.file}:{spec.line}: {spec.name}: field {f.name} is {f.type.__name__}, it was "
            f"set to {value!r}"
        )
    return {"f": float, "i": int, "b": bool}[kind](value)
