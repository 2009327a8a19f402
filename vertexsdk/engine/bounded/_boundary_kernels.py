"""Kernels over the edges which lead to other partitions."""

from __future__ import annotations

from vertexsdk.arrays.jit import njit


@njit
def crossing(start, stop, target, n, out):  # type: ignore[no-untyped-def]
    """Set out[u] where vertex u has a consumer in another partition."""
    for u in range(n):
        for e in range(start[u], stop[u]):
            if target[e] >= n:
                out[u] = True
                break


@njit
def all_covered(vertices, began, start, stop, target, n, covers, acked, out):  # type: ignore[no-untyped-def]
    """Set out[k] to the least iteration in which vertices[k] may commit; -1: not yet.

    It may when every consumer elsewhere has acknowledged: `covers` says, for each ghost, up to
    which Lamport time, and `acked` in which iteration the consumer has committed last.
    """
    for k in range(vertices.shape[0]):
        u = vertices[k]
        least = 0
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g >= 0:
                if covers[g] <= began[u]:
                    least = -1
                    break
                if acked[g] > least:
                    least = acked[g]
        out[k] = least


@njit
def ask_ghosts(vertices, began, start, stop, target, n, asked, covers, out):  # type: ignore[no-untyped-def]
    """Ask, for vertices by ascending time, each ghost that has not acknowledged; return how many.

    A ghost is asked with the time of the earliest of its producers, so once more when an earlier
    one comes to prepare after others: its consumer must not put it off as it does those. `out` gets
    its number.
    """
    count = 0
    for k in range(vertices.shape[0]):
        u = vertices[k]
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g < 0 or covers[g] > began[u]:
                continue
            if asked[g] == 0 or asked[g] > began[u]:
                asked[g] = began[u]
                out[count] = g
                count += 1
    return count


@njit
def still_wanted(vertices, began, start, stop, target, n, covers, out):  # type: ignore[no-untyped-def]
    """Set bit 1 of out[g] where a producer waits with ghost g's word, bit 2 where without it."""
    for k in range(vertices.shape[0]):
        u = vertices[k]
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g >= 0:
                out[g] |= 1 if covers[g] > began[u] else 2
