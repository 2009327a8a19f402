"""Worlds of two and three vertices, small enough to search."""

from __future__ import annotations

from typing import Any

from tests.support.protocol_world import Change, World

__all__ = ["WORLDS", "small_world"]

# Vertices, edges of length 1, and changes that come in while updates are under way.
WORLDS: dict[str, tuple[int, list[tuple[int, int]], list[Change]]] = {
    "ring": (3, [(0, 1), (1, 2), (2, 0)], []),
    "triangle": (3, [(0, 1), (1, 2), (2, 1), (0, 2)], []),
    "grows": (3, [(0, 1), (1, 0)], [Change(1, 2, 1)]),
    "joins": (3, [(0, 2), (1, 0)], [Change(1, 2, 1)]),
    "shrinks": (2, [(0, 1), (1, 0)], [Change(0, 1, None), Change(0, 1, 2)]),
    "self-loop": (2, [(0, 1), (1, 1), (1, 0)], [Change(0, 1, None)]),
}


def small_world(name: str, bound: int, partitions: int, **classes: Any) -> World:
    """One of them, in which reports reach the master at once."""
    vertices, edges, changes = WORLDS[name]
    graph = dict.fromkeys(edges, 1)
    return World(graph, vertices, bound, partitions, changes, instant=True, **classes)
