"""Values which have lost what they came from, withdrawn on a graph that has just changed.

With Min and Max a vertex may hold a value which came along an edge that has gone, and vertices on
a cycle may support each other in it for ever. Every vertex has a *level*, which grows from a
producer to who took its value. So a value stands if the messages of producers of lower levels
still give it; what does not is withdrawn (`init`), and so are those that rested on it.

The levels do the work of the dependence trees in Vora, Gupta and Xu, "KickStarter", ASPLOS 2017.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.compile.native import NativeMethods
from vertexsdk.delivery import Delivery
from vertexsdk.live.messages import Messages
from vertexsdk.log import Log
from vertexsdk.vertices import Vertices

__all__ = ["trim"]

Array = NDArray[Any]


def trim(
    v: Vertices,
    delivery: Delivery,
    methods: NativeMethods,
    messages: Messages,
    suspects: Array,
    seen: Array,
    level: int,
    log: Log,
) -> tuple[Array, int]:
    """Withdraw what is not well founded any more.

    Args:
        v: the partition; aggregates fit its edges.
        suspects: vertices (int32) which lost a message no worse than what they saw.
        seen: the aggregate which the state of each vertex was computed from; what still stands
            on less has that noted.
        level: of a vertex whose value is withdrawn.

    Returns:
        The vertices withdrawn (int32, ascending), which are to gather; and the number of gathers.
        They have sent, so that `delivery.finish` is due.
    """
    assert v.level is not None
    n, algebra = v.topology.n, delivery.algebra
    gone = np.zeros(n, np.uint8)
    mark = np.zeros(n, np.uint8)
    lesser = np.minimum if algebra.kind == "min" else np.maximum
    waves: list[Array] = []
    todo, gathers = np.sort(suspects).astype(np.int32), 0
    mark[todo] = 1
    while len(todo):
        gathers += len(todo)
        mark[todo] = 0  # what loses its support later is looked at again
        found = messages.support(v, todo, gone, seen)
        aggregates = v.agg[todo]
        kept = {name: column[todo] for name, column in v.states.items()}
        v.agg[todo] = found
        changed = methods.gather(v, delivery, todo, 1, {}, {}, log)
        v.agg[todo] = aggregates
        was = seen[todo]
        better = (found != was) & (lesser(found, was) == found)
        for name, column in v.states.items():
            column[todo] = kept[name]  # a better value is taken in an iteration
        bad = changed[~better[np.searchsorted(todo, changed)]]
        gone[bad] = 1
        less = ~better & (gone[todo] == 0)
        seen[todo[less]] = found[less]
        waves.append(bad)
        mark[bad] = 1
        todo = np.sort(messages.dependants(v, bad, seen, mark))
    withdrawn: Array = np.sort(np.concatenate([*waves, todo]))
    v.level[withdrawn] = level
    seen[withdrawn] = algebra.identity
    methods.init(v, withdrawn, {}, {}, log)
    methods.scatter(v, delivery, withdrawn, 1, {}, {}, log)
    return withdrawn, gathers
