"""Every interleaving of a small world: a search of its states, each visited once."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Hashable, Iterable
from itertools import chain
from typing import Any, cast

from tests.support.protocol_rules import check_end
from tests.support.protocol_world import World

__all__ = ["search"]

_LEFT_OUT = frozenset(["method", "calls"])
_SLOTS: dict[type, tuple[str, ...]] = {}
_CONTAINERS = frozenset([list, dict, set, Counter])


def search(world: World, copies: int = 0, limit: int = 10**6) -> int:
    """Visit every state that can be reached, checking each step and each end; how many there are.

    Args:
        world: where it begins; it is left as it is.
        copies: how many messages, whichever they are, come twice.
        limit: of states.

    Raises:
        Violation: a rule is broken in some interleaving.
        ValueError: there are more states than `limit`.
    """
    keys = _Keys()
    first = [keys.of_vertex(world, v) for v in range(len(world.methods))]
    seen = {(copies, keys.of(world, first))}
    left = [(world, first, copies)]
    while left:
        before, vertices, more = left.pop()
        actions = before.actions()
        if not actions:
            check_end(before)
        if more:
            actions += [("copy", n) for kind, n in actions if kind == "deliver"]
        for kind, number in actions:
            touched = before.touched(kind, number)
            after = _twin(before, touched)
            after.act(kind, number)
            rest = more - (kind == "copy")
            now = list(vertices)
            for v in touched:
                now[v] = keys.of_vertex(after, v)
            key = rest, keys.of(after, now)
            if key not in seen:
                seen.add(key)
                left.append((after, now, rest))
        if len(seen) > limit:
            raise ValueError(f"more than {limit} states: take a smaller world")
    return len(seen)


class _Keys:
    """What decides how a world goes on, and what is checked in it, as small numbers."""

    def __init__(self) -> None:
        self.numbers: dict[Hashable, int] = {}

    def number(self, value: Hashable) -> int:
        """The number of a value: the same for equal ones."""
        return self.numbers.setdefault(value, len(self.numbers))

    def of_vertex(self, world: World, v: int) -> int:
        """That of all that belongs to a vertex."""
        truth = world.truths[v]
        checked = truth.committed, truth.todo, frozenset(truth.gathered.items())
        return self.number((_state(world.components[v]), _state(world.methods[v]), checked))

    def of(self, world: World, vertices: list[int]) -> Hashable:
        """That of a world with these vertices."""
        return (
            tuple(vertices),
            tuple(sorted(map(self.number, world.net))),
            frozenset(world.again),
            tuple(sorted(map(self.number, world.announcements))),
            tuple(world.reports),
            tuple(map(len, world.inboxes)),
            len(world.changes),
            tuple(world.heard),
            _state(world.frontier),
        )


def _twin(world: World, touched: Iterable[int]) -> World:
    """A world of its own in the same state; of vertices only those that are touched are its own."""
    twin = copy.copy(world)
    for name, value in vars(world).items():
        if isinstance(value, list | dict | set):
            setattr(twin, name, value.copy())
    for v in touched:
        twin.methods[v] = _copied(world.methods[v])
        twin.components[v] = _copied(world.components[v])
        twin.components[v].method = twin.methods[v]
        twin.truths[v] = _copied(world.truths[v])
    twin.frontier = _copied(world.frontier)
    return twin


def _copied(thing: Any) -> Any:
    twin = object.__new__(type(thing))
    for name in _slots(type(thing)):
        value = getattr(thing, name)
        setattr(twin, name, value.copy() if type(value) in _CONTAINERS else value)
    return twin


def _slots(kind: type) -> tuple[str, ...]:
    if kind not in _SLOTS:
        names = (getattr(base, "__slots__", ()) for base in kind.__mro__)
        _SLOTS[kind] = tuple(chain.from_iterable(names))
    return _SLOTS[kind]


def _state(thing: Any) -> Hashable:
    return tuple(_frozen(getattr(thing, s)) for s in _slots(type(thing)) if s not in _LEFT_OUT)


def _frozen(value: Any) -> Hashable:
    if type(value) not in _CONTAINERS:
        return cast(Hashable, value)
    if not value:
        return None
    if isinstance(value, dict):
        return frozenset(value.items())
    return tuple(value) if isinstance(value, list) else frozenset(value)
