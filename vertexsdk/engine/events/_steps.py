"""The iterations of one partition of an events program: gather each delta, then scatter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from typing import Any

from vertexsdk.compile.interpreter import new_cursor, user_error
from vertexsdk.compile.plan import Plan
from vertexsdk.engine._master import Progress
from vertexsdk.engine.events._node import Cursor, Letter, Node, checked, default_state
from vertexsdk.errors import VertexError
from vertexsdk.program.vertex import ADD_TARGET, REMOVE_TARGET, UPDATE, Aggregator, Delta, Vertex

__all__ = ["EventSteps"]


class EventSteps:
    """The vertices of a partition by id, the letters to them, and what an iteration does.

    Subclasses say where vertices come from (`nodes`), and where they live (`place`).
    """

    nodes: MutableMapping[Any, Node]

    def __init__(
        self, plan: Plan, partition: int, num_vertices: int, names: Any, loop: str
    ) -> None:
        self.plan, self.partition = plan, partition
        self.cursor = Cursor(names)
        self.vertices = [
            new_cursor(s, plan.params, num_vertices, loop, names) for s in plan.program.classes
        ]
        for vertex in self.vertices:
            vertex._runtime = self.cursor
        self.fresh: set[Any] = set()  # vertices which gather though nothing was sent to them
        self.unborn: set[Any] = set()  # those of them on which `init` is to be called
        self.mail: dict[Any, list[Letter]] = {}
        self.outgoing: dict[int, list[tuple[Any, Letter]]] = {}

    def set_vertices(self, count: int) -> None:
        """Tell the program how many vertices the graph has now."""
        for vertex in self.vertices:
            vertex.num_vertices = count

    def new(self, vertex_id: Any, kind: int) -> Node:
        """Return a vertex that is not there yet."""
        state = default_state(self.plan.program.classes[kind], self.cursor.names)
        return Node(vertex_id, kind, state)

    def place(self, ids: list[Any]) -> list[int]:
        """The partitions where vertices live."""
        raise NotImplementedError

    def everyone(self) -> Iterable[Any]:
        """The ids of the vertices which are there."""
        return self.nodes

    def step(self, iteration: int, aggregates: Mapping[str, Any]) -> Progress:
        """Run one iteration: every delta is gathered, then whoever gathered scatters."""
        progress = Progress()
        self.outgoing = {}
        holders = self._holders(aggregates)
        if iteration == 0:
            senders = sorted(self.everyone())
            for i in senders:
                self._call(self.nodes[i], "init")
            self.unborn = set()
        else:
            senders = self._gather(iteration, progress)
            self.mail = {}
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

    def _gather(self, iteration: int, progress: Progress) -> list[Any]:
        for i in sorted(self.unborn):
            self._call(self.nodes[i], "init")
        self.fresh |= self.unborn
        self.unborn = set()
        names = self.cursor.names
        delta = Delta()
        everyone = set(self.everyone()) if self.plan.always else set()
        active = sorted(self.fresh | set(self.mail) | everyone)
        for i in active:
            node = self.nodes[i]
            for source, kind, value, edge in sorted(self.mail.get(i, ()), key=_by_source):
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

    def _scatter(self, node: Node, iteration: int, progress: Progress) -> None:
        self.cursor.sent = []
        self._call(node, "scatter", iteration)
        node.before = dict(node.targets)
        sent = self.cursor.sent
        progress.messages += len(sent)
        if not sent:
            return
        places = self.place([t for t, _ in sent])
        for (target, value), p in zip(sent, places, strict=True):
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
                value = checked(spec, spec.states[name], value)
            node.state[name] = value


def _by_source(letter: Letter) -> Any:
    return letter[0]
