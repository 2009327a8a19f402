"""A vertex of the events level: what it holds, and the services behind `self`."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np

from vertexsdk.compile.interpreter import random_key, random_unit
from vertexsdk.errors import ProgramError, RunError, excerpt
from vertexsdk.graph.topology.id_codec import BOTTOM, TOP, Namer
from vertexsdk.program.algebra import INT_MAX, INT_MIN, VertexId
from vertexsdk.program.fields import StateField
from vertexsdk.program.program import ClassSpec
from vertexsdk.program.vertex import Target

Letter = tuple[Any, Any, Any, Any]  # source, kind, value, edge value


class Strings:
    """String ids stand for themselves."""

    def decode(self, code: Any) -> Any:
        """Return an id; the extreme integers stand for `TOP` and `BOTTOM`."""
        return {INT_MAX: TOP, INT_MIN: BOTTOM}.get(code, code) if isinstance(code, int) else code

    def encode(self, name: Any) -> Any:
        """Return an id, which must be a string."""
        if not isinstance(name, str):
            raise RunError(f"{excerpt(name)} is not a vertex: the graph's ids are strings")
        return name


class Node:
    """One vertex: its state by field name, its consumers, and those at the last scatter.

    `out` and `into` are its edges in a graph that changes, with their values; `named` says that
    it is there without any.
    """

    __slots__ = ("id", "into", "kind", "named", "out", "previous", "state", "targets")

    def __init__(self, vertex_id: Any, kind: int, state: dict[str, Any]) -> None:
        self.id, self.kind, self.state = vertex_id, kind, state
        self.targets: dict[Any, Any] = {}
        self.previous: dict[Any, Any] = {}
        self.out: dict[Any, Any] = {}
        self.into: dict[Any, Any] = {}
        self.named = False

    def __getstate__(self) -> tuple[Any, ...]:
        return (self.id, self.kind, self.state, self.targets, self.previous, self.out, self.into,
                self.named)  # fmt: skip

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        (self.id, self.kind, self.state, self.targets, self.previous, self.out, self.into,
         self.named) = state  # fmt: skip

    @property
    def present(self) -> bool:
        """True if the vertex is present: an edge, the vertex file, or something else names it."""
        return self.named or bool(self.out) or bool(self.into)


class EventCursor:
    """The services behind `self` while one vertex's method runs."""

    def __init__(self, names: Namer | None) -> None:
        self.names = names
        self.node: Node
        self.messages: list[tuple[Any, Any]] = []
        self.changes: list[tuple[Any, bool, Any]] = []
        self.announced: tuple[Any, Any] | None = None
        self.seed = 0
        self.drawn: tuple[Any, int] = (None, 0)  # by whom and when random numbers are drawn
        self.calls = 0  # how many of them were

    def at(self, node: Node, step: int) -> None:
        """Make a vertex the current one, in a method of an iteration."""
        self.node = node
        if self.drawn != (node.id, step):
            self.drawn, self.calls = (node.id, step), 0

    def random(self, vertex_id: Any) -> float:
        self.calls += 1
        return random_unit(self.seed, random_key(vertex_id), self.drawn[1], self.calls)

    def _show(self, rows: Mapping[Any, Any]) -> list[Target]:
        name = self.names.decode if self.names is not None else int
        return [Target(name(k), rows[k]) for k in sorted(rows)]

    def targets(self) -> list[Target]:
        return self._show(self.node.targets)

    def added_targets(self) -> list[Target]:
        n = self.node
        return self._show(
            {k: x for k, x in n.targets.items() if k not in n.previous or n.previous[k] != x}
        )

    def retained_targets(self) -> list[Target]:
        n = self.node
        return self._show(
            {k: x for k, x in n.targets.items() if k in n.previous and n.previous[k] == x}
        )

    def removed_targets(self) -> list[Target]:
        n = self.node
        return self._show({k: x for k, x in n.previous.items() if k not in n.targets})

    def code(self, vertex: Any) -> Any:
        vertex = vertex.id if isinstance(vertex, Target) else vertex
        return self.names.encode(vertex) if self.names is not None else int(vertex)

    def emit(self, target: Any, value: Any) -> None:
        self.messages.append((self.code(target), value))

    def emit_all(self, value: Any) -> None:
        self.messages += [(k, value) for k in sorted(self.node.targets)]

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


def default_state(spec: ClassSpec, names: Namer | None) -> dict[str, Any]:
    """The state of a vertex before `init`."""
    state: dict[str, Any] = {}
    for name, f in spec.states.items():
        default = f.default
        if f.size is not None:
            row = np.empty(f.size, f.dtype)
            row[...] = default
            default = row
        elif f.type is VertexId and names is not None and isinstance(default, int):
            default = None
        state[name] = deepcopy(default)  # a vertex may change its own
    state.update({name: {} for name in spec.producers})
    return state


def checked(spec: ClassSpec, f: StateField, value: Any) -> Any:
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
