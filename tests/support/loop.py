"""All vertices of a loop of the reference executor, and what is on its way between them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import SimpleNamespace
from typing import Any

from tests.support.adjacency import NOTHING, Edge
from tests.support.node import Node
from tests.support.reads import gathers_always, scatters_always
from tests.support.values import fold, identity_of, same, typed
from vertexsdk.program.algebra import Algebra
from vertexsdk.program.program import ClassSpec, Program
from vertexsdk.program.vertex import ADD_TARGET, UPDATE, Aggregates, Aggregator

__all__ = ["Loop", "Message"]

Message = tuple[Any, int, Any]  # producer, kind, value


class Loop:
    """All vertices, the aggregators, and the messages on their way to the next iteration."""

    def __init__(self, program: Program, params: Mapping[str, Any]) -> None:
        self.program = program
        self.params = program.bind(params)
        self.nodes: dict[Any, Node] = {}
        self.once: list[tuple[Any, Message]] = []  # (target, message), delivered and forgotten
        self.values = {n: identity_of(a) for n, a in program.aggregators.items()}
        self.partial: dict[str, Any] = {}
        self.messages = 0
        self.num_vertices = 0  # at the end of the last iteration
        self.every = {s.name: gathers_always(s.cls) for s in program.classes}
        self.volatile = {s.name: scatters_always(s.cls) for s in program.classes}

    def ascending(self) -> list[Node]:
        return [node for _, node in sorted(self.nodes.items(), key=lambda item: item[0])]

    def create(self, vertex_id: Any, spec: ClassSpec, row: list[Edge]) -> Node:
        """Make a vertex; at the events level its targets are announced to it instead."""
        vertex = object.__new__(spec.cls)
        node = self.nodes[vertex_id] = Node(vertex, spec, row, self.program.value_dtype is not None)
        node.nodes = self.nodes
        if spec.algebra is None:
            node.edges = []
            self.once += [(vertex_id, (vertex_id, ADD_TARGET, e)) for e in row]
        vertex.id, vertex.loop, vertex._runtime = vertex_id, "main", node
        for name, value in self.params.items():
            setattr(vertex, name, value)
        for name, f in spec.states.items():
            setattr(vertex, name, typed(f.type, f.size, f.default))
        for name in spec.producers:
            setattr(vertex, name, {})
        return node

    def call(self, node: Node, method: str, *args: Any) -> None:
        """Run one method on one vertex, then let its contributions and changes take effect."""
        node.vertex.num_vertices = self.num_vertices
        for name in node.spec.aggregators:
            mine = Aggregator(_adding(self.program.aggregators[name]), self.values[name])
            mine._partial = self.partial.get(name)
            setattr(node.vertex, name, mine)
        getattr(node.vertex, method)(*args)
        for name in node.spec.aggregators:
            self.partial[name] = getattr(node.vertex, name)._partial
        node.apply_changes()

    def scatter(self, node: Node, iteration: int) -> None:
        """Run scatter; several messages along one edge are combined, the identity withdraws."""
        row, node.moved = node.edges, False
        self.call(node, "scatter", iteration)
        node.scattered = node.state()
        node.before = {t.id: t for t in node.targets()}
        self.messages += len(node.sent)
        for edge, target, value in node.sent:
            algebra = self.algebra(target)
            if algebra is None or edge is None:
                self.once.append((target, (node.vertex.id, UPDATE, value)))
            else:
                edge.fresh.append(typed(algebra.type, algebra.size, value))
        for edge in row:
            algebra = self.algebra(edge.id)
            if edge.fresh and algebra is not None:
                value = fold(algebra, edge.fresh)
                edge.message = NOTHING if same(value, identity_of(algebra)) else value
            edge.fresh = []
        node.sent = []

    def algebra(self, target: Any) -> Algebra | None:
        """The algebra by which a vertex takes messages, known or not yet created."""
        spec = self.nodes[target].spec if target in self.nodes else self.program.classes[0]
        return spec.algebra

    def deliver(self) -> tuple[dict[Any, list[Message]], set[Any]]:
        """The current messages to every vertex, ascending by producer, and who is not yet there."""
        box: dict[Any, list[Message]] = {v: [] for v in self.nodes}
        for node in self.ascending():
            for edge in node.edges:
                row = box.setdefault(edge.id, [])
                if edge.message is not NOTHING:
                    row.append((node.vertex.id, UPDATE, edge.message))
        for target, (source, kind, value) in self.once:
            row, algebra = box.setdefault(target, []), self.algebra(target)
            if algebra is not None:
                value = typed(algebra.type, algebra.size, value)
                if same(value, identity_of(algebra)):
                    continue
            row.append((source, kind, value))
        self.once = []
        for row in box.values():
            row.sort(key=lambda message: message[0])
        return box, box.keys() - self.nodes.keys()

    def close(self) -> None:
        """End an iteration: what was contributed in it is what is read in the next."""
        for name, algebra in self.program.aggregators.items():
            value = self.partial.get(name)
            self.values = {**self.values, name: identity_of(algebra) if value is None else value}
        self.partial = {}
        self.num_vertices = len(self.nodes)

    def converged(self, iteration: int) -> bool:
        driver: Any = SimpleNamespace(**self.params, num_vertices=self.num_vertices)
        rule = self.program.classes[0].cls.converged
        return bool(rule(driver, iteration, Aggregates(self.values)))


def _adding(algebra: Algebra) -> Callable[[Any, Any], Any]:
    def add(partial: Any, value: Any) -> Any:
        value = typed(algebra.type, algebra.size, value)
        return fold(algebra, [value] if partial is None else [partial, value])

    return add
