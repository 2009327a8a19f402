"""One vertex of the reference executor: its object, its consumers, what it does in a method."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.adjacency import Edge
from tests.support.values import copied, same, typed
from vertexsdk.program.program import ClassSpec
from vertexsdk.program.vertex import ADD_TARGET, REMOVE_TARGET, Target

__all__ = ["Node"]


@dataclass(eq=False)
class Node:
    """The `_runtime` of a vertex: what `self.targets`, `self.emit` and the others call."""

    vertex: Any
    spec: ClassSpec
    edges: list[Edge]
    valued: bool = True  # whether the program reads edge values
    sent: list[tuple[Edge | None, Any, Any]] = field(default_factory=list)
    changes: list[tuple[int, Any, Any]] = field(default_factory=list)
    moved: bool = True  # targets have changed since the last scatter
    scattered: dict[str, Any] = field(default_factory=dict)  # the state after the last scatter
    before: dict[Any, Target] = field(default_factory=dict)  # the targets after the last scatter
    nodes: Mapping[Any, Node] = field(default_factory=dict)  # all vertices
    event: Edge | None = None  # the edge whose ADD_TARGET is being gathered

    def targets(self) -> list[Target]:
        return [Target(e.id, e.value, e.reverse, k, self._row_of) for k, e in enumerate(self.edges)]

    def _row_of(self, target: Target) -> list[Target]:
        return [Target(e.id, rows=self._common_row) for e in self.nodes[target.id].edges]

    def _common_row(self, target: Target) -> list[Target]:
        return self._row_of(target) if self.edges_to(target) else []

    def edges_to(self, target: Target) -> int:
        return sum(e.id == target.id for e in self.edges)

    def added_targets(self) -> list[Target]:
        return [t for t in self.targets() if not self._was(t)]

    def retained_targets(self) -> list[Target]:
        return [t for t in self.targets() if self._was(t)]

    def _was(self, target: Target) -> bool:
        before = self.before.get(target.id)
        return before is not None and before.value == target.value

    def removed_targets(self) -> list[Target]:
        now = {e.id for e in self.edges}
        return [t for v, t in self.before.items() if v not in now]

    def emit(self, target: Any, value: Any) -> None:
        if isinstance(target, Target):
            edge = self.edges[target.edge] if self.find(target.id) is not None else None
            self.sent.append((edge, target.id, copied(value)))
        else:
            self.sent.append((self.find(target), target, copied(value)))

    def emit_all(self, value: Any) -> None:
        self.sent += [(edge, edge.id, copied(value)) for edge in self.edges]

    def add_target(self, target: Any, value: Any) -> None:
        if value is None and self.event is not None and self.event.id == target:
            value = self.event.value
        self.changes.append((ADD_TARGET, target, value))

    def remove_target(self, target: Any) -> None:
        self.changes.append((REMOVE_TARGET, getattr(target, "id", target), None))

    def find(self, target: Any) -> Edge | None:
        """The first edge to a vertex, None where it is not a target."""
        return next((edge for edge in self.edges if edge.id == target), None)

    def apply_changes(self) -> None:
        """Make addTarget and removeTarget take effect, in the order of their calls.

        A row that is as before in the end has not changed: an edge removed and added again, with
        the value it had, is the edge there was.
        """
        if not self.changes:
            return
        before, removed = self._row(), dict[Any, Edge]()
        for kind, target, value in self.changes:
            known = self.find(target)
            if kind == REMOVE_TARGET:
                gone = [edge for edge in self.edges if edge.id == target]
                if len(gone) == 1 and not gone[0].reverse:
                    removed[target] = gone[0]
                self.edges = [edge for edge in self.edges if edge.id != target]
            elif known is None:
                edge = removed.pop(target, None) or Edge(target)
                edge.value = typed(self.spec.cls.edge, None, 1 if value is None else value)
                self.edges = sorted([*self.edges, edge], key=lambda e: (e.id, e.reverse))
            elif value is not None:
                known.value = typed(self.spec.cls.edge, None, value)
        self.changes = []
        self.moved |= not same(before, self._row())

    def _row(self) -> list[tuple[Any, ...]]:
        return [(e.id, e.reverse, e.value if self.valued else None) for e in self.edges]

    def state(self) -> dict[str, Any]:
        """Copies of the declared fields, converted to their types in the vertex itself too."""
        for name, f in self.spec.states.items():
            setattr(self.vertex, name, typed(f.type, f.size, getattr(self.vertex, name)))
        names = [*self.spec.states, *self.spec.producers]
        return {name: copied(getattr(self.vertex, name)) for name in names}
