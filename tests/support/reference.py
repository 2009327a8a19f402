"""The semantics of one synchronous loop, in the plainest Python: what the engine is tested against.

Nothing here is fast and nothing is shared with the engine. Every vertex is an object, every edge
keeps the latest message sent along it, and every iteration combines all messages from scratch:

- iteration 0 is `init`, then `scatter`, on every vertex; iteration 1 gathers on every vertex;
- later, a vertex gathers when the messages to it changed;
- after it has gathered, a vertex scatters when its state or its targets changed;
- a vertex whose targets were changed by its scatter gathers and scatters in the next iteration;
- a vertex which is sent to and is not there begins with `init` in the next iteration,
  gathers and scatters;
- where a class has `next_round` and there is nothing to gather, it is called on every vertex in the
  next iteration; those it changes scatter, and gather and scatter in the one after it;
- vertices are visited in ascending order of id, and sums are taken in that order.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tests.support.adjacency import adjacency
from tests.support.loop import Loop, Message
from tests.support.node import Node
from tests.support.values import copied, fold, same, typed
from vertexsdk.program.algebra import INT_MAX, INT_MIN, Latest, VertexId
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import ADD_TARGET, Delta, Vertex
from vertexsdk.testing.oracles import near

__all__ = ["Reference", "reference"]


@dataclass
class Reference:
    """What a run of the reference executor ends with."""

    state: dict[Any, dict[str, Any]] = field(default_factory=dict)  # by vertex id, then by field
    kinds: dict[Any, str] = field(default_factory=dict)  # class name by vertex id
    targets: dict[Any, list[tuple[Any, Any, bool]]] = field(default_factory=dict)
    iterations: int = 0  # the last one in which a vertex gathered
    updates: int = 0  # calls of gather and next_round
    rounds: int = 0  # that have begun after round 0
    messages: int = 0  # values sent along one edge, or to one id
    aggregates: dict[str, Any] = field(default_factory=dict)  # of the last iteration

    def values(self, name: str) -> dict[Any, Any]:
        """One field of every vertex that has it."""
        return {v: fields[name] for v, fields in self.state.items() if name in fields}


def reference(
    program: type[Vertex] | Sequence[type[Vertex]] | Program,
    edges: Iterable[Sequence[Any]],
    vertices: Iterable[Any] = (),
    params: Mapping[str, Any] | None = None,
    *,
    max_iterations: int | None = None,
    undirected: bool = False,
    multi: bool = False,
) -> Reference:
    """Run a program to its fixed point, vertex by vertex.

    Args:
        program: a Vertex subclass, several, or a Program; the first class is the default one.
        edges: (source, target) or (source, target, value); the last of duplicates counts. Ids
            are all int, or all str.
        vertices: ids, or (id, class name) pairs.
        params: the program's parameters.
        max_iterations: instead of the class's own.
        undirected: every edge stands for both directions.
        multi: keep duplicate edges.

    >>> from vertexsdk.algorithms.bfs import BreadthFirstSearch
    >>> reference(BreadthFirstSearch, [(1, 2), (2, 3)], params={"origin": 1}).values("depth")
    {1: 0, 2: 1, 3: 2}
    """
    if isinstance(program, type):
        program = Program(program)
    elif not isinstance(program, Program):
        program = Program(*program)
    first = program.classes[0].cls
    first_name = program.classes[0].name
    kinds: dict[Any, str] = dict(v if isinstance(v, tuple) else (v, first_name) for v in vertices)
    rows = adjacency(
        [(s, t, typed(first.edge, None, x[0] if x else 1)) for s, t, *x in edges],
        kinds,
        program.direction,
        undirected=undirected,
        multi=multi,
    )
    if any(isinstance(v, str) for v in rows):
        program = _of_strings(program)
    loop = Loop(program, params or {})
    specs = {spec.name: spec for spec in program.classes}
    for v in sorted(rows):
        loop.create(v, specs[kinds.get(v, first_name)], rows[v])
    loop.num_vertices = len(loop.nodes)
    limit = first.max_iterations if max_iterations is None else max_iterations
    result = _run(loop, limit)
    for v, node in sorted(loop.nodes.items()):
        result.state[v], result.kinds[v] = node.state(), node.spec.name
        result.targets[v] = [(e.id, e.value, e.reverse) for e in node.edges]
    return result


def _of_strings(program: Program) -> Program:
    """The program for a graph of string ids, where no id is a string too."""
    changed: Program = object.__new__(Program)
    changed.__dict__.update(program.__dict__)
    changed.__dict__["classes"] = tuple(
        replace(spec, algebra=_named(spec.algebra)) for spec in program.classes
    )
    changed.__dict__["aggregators"] = {n: _named(a) for n, a in program.aggregators.items()}
    return changed


def _named(algebra: Any) -> Any:
    if algebra is None or algebra.type is not VertexId or isinstance(algebra, Latest):
        return algebra
    from vertexsdk.graph.topology.id_codec import BOTTOM, TOP

    changed = copy.copy(algebra)
    changed.identity = {INT_MAX: TOP, INT_MIN: BOTTOM}.get(algebra.identity, algebra.identity)
    return changed


def _run(loop: Loop, limit: int | None) -> Reference:
    result = Reference()
    for node in loop.ascending():
        loop.call(node, "init")
    for node in loop.ascending():
        loop.scatter(node, 0)
    loop.close()
    previous: dict[Any, list[Message]] = {}
    box, unknown = loop.deliver()
    fresh = set(loop.nodes)  # gather whatever they hear
    due: set[Any] = set()  # scatter whatever they gather
    begins = False  # the iteration begins a round
    while limit is None or result.iterations < limit:
        result.iterations += 1
        for v in sorted(unknown):
            loop.call(loop.create(v, loop.program.classes[0], []), "init")
            fresh.add(v)
            due.add(v)
        active = []
        for node in loop.ascending():
            v, every = node.vertex.id, loop.every[node.spec.name]
            if begins:
                active.append(node)
                result.updates += 1
                if node.spec.facts.rounds:
                    loop.call(node, "next_round", result.rounds)
            elif v in fresh or every or _waits(node, box.get(v, []), previous.get(v, [])):
                active.append(node)
                result.updates += _gather(loop, node, result.iterations, box.get(v, []))
        restless, moved = False, set()
        for node in active:
            if node.vertex.id in due or _must_scatter(node, loop.volatile[node.spec.name]):
                loop.scatter(node, result.iterations)
                restless |= loop.every[node.spec.name]
                moved.add(node.vertex.id)
        read = loop.values
        loop.close()
        restless |= any(loop.every.values()) and not begins and not same(read, loop.values)
        previous, due = box, moved if begins else set()
        fresh = set(due)
        box, unknown = loop.deliver()
        if loop.converged(result.iterations):
            break
        waits = any(_waits(n, box[v], previous.get(v, [])) for v, n in loop.nodes.items())
        if unknown or waits or restless or fresh:
            begins = False
        elif begins or not any(spec.facts.rounds for spec in loop.program.classes):
            break
        else:
            begins, result.rounds = True, result.rounds + 1
    result.messages, result.aggregates = loop.messages, loop.values
    return result


def _waits(node: Node, now: list[Message], previous: list[Message]) -> bool:
    """Whether the vertex has to gather, given its messages now and an iteration before."""
    algebra = node.spec.algebra
    if algebra is None:
        return bool(now)  # an event is delivered once
    if node.moved or isinstance(algebra, Latest):
        return node.moved or not same(now, previous)
    values, before = [m[2] for m in now], [m[2] for m in previous]
    return not same(fold(algebra, values), fold(algebra, before))


def _gather(loop: Loop, node: Node, iteration: int, messages: list[Message]) -> int:
    algebra = node.spec.algebra
    if algebra is None:
        for source, kind, value in messages:
            node.event = value if kind == ADD_TARGET else None
            delta = Delta(value.id if kind == ADD_TARGET else value, None, kind)
            loop.call(node, "gather", iteration, source, delta)
        node.event = None
        return len(messages)
    values = [value for _, _, value in messages]
    delta = Delta()
    if not isinstance(algebra, Latest):
        delta.value = copied(fold(algebra, values))
        if algebra.kind in ("min", "max") and algebra.dtype.kind == "f":
            delta.value += 0.0  # a zero has no sign
    else:
        plain = algebra.dtype == object or any(isinstance(x, str) for x in values)
        delta.values = values if plain else np.array(values, algebra.dtype)
    loop.call(node, "gather", iteration, -1, delta)
    return 1


def _must_scatter(node: Node, volatile: bool) -> bool:
    """After a gather: whether the state, the targets, or what scatter reads has changed."""
    cls, now, then = node.spec.cls, node.state(), node.scattered
    if node.spec.algebra is None or node.moved or volatile:
        return True
    return not all(near(then[n], now[n], cls.tolerance) for n in now)
