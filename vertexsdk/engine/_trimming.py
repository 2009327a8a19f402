"""Values which lost what they came from, withdrawn: where iterations on a changed graph begin.

With Min and Max a vertex may hold a value which came along an edge that has gone, and vertices
on a cycle may support each other in it for ever. Every vertex has a *level*, which grows from a
producer to who took its value, as the iteration does in which a value last changed. So a value
stands if the messages of producers of lower levels still give it, and what stands is well founded.
What does not is withdrawn (`init`), and all that rested on it is looked at again.

The levels do the work of the dependence trees in Vora, Gupta and Xu, "KickStarter", ASPLOS 2017.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.methods import Methods, Scope
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.vertex_arrays import VertexArrays

Array = NDArray[Any]
# Why every answer begins with `init`
MESSAGES_WORSE = "messages got worse, so the answer depends on the start"


def unsupported(
    v: VertexArrays,
    delivery: Delivery,
    methods: Methods,
    vertices: Array,
    log: MutationLog,
) -> Array:
    """The vertices (int32) whose state would be another one without any message; none is changed.

    Args:
        vertices: which to look at (int32, ascending); they have sent their state.
        log: takes what methods log, which is nothing.
    """
    aggregates = v.agg[vertices]
    states = {name: column[vertices] for name, column in v.states.items()}
    v.agg[vertices] = delivery.algebra.identity
    changed: Array = methods.gather(Scope(v, delivery, 1, {}, {}, log), vertices).copy()
    v.agg[vertices] = aggregates
    for name, column in v.states.items():
        column[vertices] = states[name]
    return changed


def withdraw(
    v: VertexArrays,
    delivery: Delivery,
    methods: Methods,
    suspects: Array,
    seen: Array,
    level: int,
    log: MutationLog,
    support: Callable[[Array, Array], Array],
    dependants: Callable[[Array, Array, Array], Array],
    exchange: Callable[[Array], Generator[tuple[int, bytes], Any, Array | None]],
) -> Generator[tuple[int, bytes], Any, tuple[Array, Array, int]]:
    """Find the vertices whose value is not well founded, and give them the state of `init`.

    Args:
        suspects: vertices (int32) which may have lost what their value came from.
        seen: the aggregate which the state of each vertex was computed from; what still stands
            on less has that noted.
        level: of a vertex whose value is withdrawn.
        support: of vertices and withdrawn flags (uint8[n]): what producers of lower levels which
            are not withdrawn give to each of the vertices.
        dependants: of vertices, `seen` and marks (uint8[n]): targets not marked, to which one of
            the vertices may have given their value.
        exchange: tells other partitions which values are withdrawn; returns the mirrors of vertices
            whose values others withdrew, or None where nobody withdrew any.

    Returns:
        The vertices withdrawn (int32, ascending), which have not sent; those of which `seen` is
        less now; and the number of gathers.
    """
    assert v.level is not None
    gone, mark = np.zeros(v.topology.n, np.uint8), np.zeros(v.topology.n, np.uint8)
    lesser = np.minimum if delivery.algebra.kind == "min" else np.maximum
    waves: list[Array] = []
    lessened = [suspects[:0]]
    todo, gathers = np.sort(suspects).astype(np.int32), 0
    mark[todo] = 1
    while True:
        before = len(waves)
        while len(todo):
            gathers += len(todo)
            mark[todo] = 0  # what loses its support later is looked at again
            supported = support(todo, gone)
            aggregates = v.agg[todo]
            states = {name: column[todo] for name, column in v.states.items()}
            v.agg[todo] = supported
            changed = methods.gather(Scope(v, delivery, 1, {}, {}, log), todo)
            v.agg[todo] = aggregates
            was = seen[todo]
            better = (supported != was) & (lesser(supported, was) == supported)
            for name, column in v.states.items():
                column[todo] = states[name]  # a better value is taken in its iteration
            bad = changed[~better[np.searchsorted(todo, changed)]]
            gone[bad] = 1
            less = ~better & (gone[todo] == 0)
            seen[todo[less]] = supported[less]
            lessened.append(todo[less])
            waves.append(bad)
            mark[bad] = 1
            todo = np.sort(dependants(bad, seen, mark))
        mirrors = yield from exchange(np.sort(np.concatenate([todo, *waves[before:]])))
        if mirrors is None:
            break
        gone[mirrors] = mark[mirrors] = 1
        todo = np.sort(dependants(mirrors, seen, mark))
    withdrawn: Array = np.sort(np.concatenate([*waves, todo]))
    v.level[withdrawn] = level
    methods.init(Scope(v, delivery, 0, {}, {}, log), withdrawn)
    return withdrawn, np.concatenate(lessened), gathers
