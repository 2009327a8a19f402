"""The level at which each task element runs, so that a block of calls has the results that the
calls would have one after another.

Where all methods come to the state elements in one order, each of these has one level: all calls of
a block run on it before any of them goes on. A method that comes to one twice, or in another order
than those before it in the class, runs its calls one at a time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

from vertexsdk.program.keyed import KeyedMethod, TaskElement
from vertexsdk.stateful._cuts import Cut

_Place: TypeAlias = "str | tuple[str, int]"  # a state element, or a task element without one


def ordered(
    methods: Mapping[str, list[Cut]], *, parts_of: Mapping[str, tuple[KeyedMethod, list[Cut]]]
) -> dict[str, KeyedMethod]:
    """Return the methods with their task elements.

    Args:
        methods: the cuts of each method, in the order in which a call comes to them.
        parts_of: the methods without task elements.
    """
    after: dict[_Place, set[_Place]] = {}
    serial: dict[str, str] = {}
    first: dict[tuple[str, str], str] = {}  # which method comes from one to the other
    for name, cuts in methods.items():
        places = _places(name, cuts)
        reason = _conflict(name, cuts, places, after, first)
        if reason:
            serial[name] = reason
            continue
        for one, other in zip(places, places[1:], strict=False):
            after.setdefault(one, set()).add(other)
        tables = [(k, c.table) for k, c in enumerate(cuts) if c.table]
        for i, (_, one) in enumerate(tables):
            for _, other in tables[i + 1 :]:
                first.setdefault((one, other), name)
    levels = _levels(after)
    made = {}
    for name, cuts in methods.items():
        method = parts_of[name][0]
        places = _places(name, cuts)
        own = list(range(len(cuts))) if name in serial else [levels.get(p, 0) for p in places]
        made[name] = replace(
            method,
            elements=tuple(
                TaskElement(
                    c.table, c.send, c.body, level, c.writes, _alone(cuts, k), c.last, c.item,
                    c.whole, c.line, c.text, c.interpreted, c.words, c.batch,
                )
                for k, (c, level) in enumerate(zip(cuts, own, strict=True))
            ),
            serial=f"{Path(method.file).name}:{serial[name]}" if name in serial else "",
        )  # fmt: skip
    return made


def _places(name: str, cuts: list[Cut]) -> list[_Place]:
    return [c.table or (name, k) for k, c in enumerate(cuts)]


def _conflict(
    name: str, cuts: list[Cut], places: list[_Place], after: dict[_Place, set[_Place]],
    first: dict[tuple[str, str], str],
) -> str:  # fmt: skip
    """Return the line that breaks the order, and how; "" where none does."""
    seen: list[str] = []
    for c in cuts:
        if c.table is None:
            continue
        if c.table in seen:
            other = "another state element" if seen[-1] != c.table else "another key"
            return f"{c.line}: {name} accesses {c.table} again, after {other}"
        for earlier in seen:
            if earlier in _reachable(c.table, after):
                by = first.get((c.table, earlier), "")
                return (
                    f"{c.line}: {name} accesses {c.table} after {earlier}"
                    + (f", and {by} the other way round" if by else "")
                )  # fmt: skip
        seen.append(c.table)
    return ""


def _reachable(place: _Place, after: dict[_Place, set[_Place]]) -> set[_Place]:
    found: set[_Place] = set()
    todo = [place]
    while todo:
        for following in after.get(todo.pop(), ()):
            if following not in found:
                found.add(following)
                todo.append(following)
    return found


def _levels(after: dict[_Place, set[_Place]]) -> dict[_Place, int]:
    """Return the longest way to each place."""
    levels: dict[_Place, int] = {}
    places = set(after).union(*after.values())
    before = {place: {one for one in after if place in after[one]} for place in places}

    def level(place: _Place) -> int:
        if place not in levels:
            levels[place] = max((level(one) + 1 for one in before[place]), default=0)
        return levels[place]

    for place in places:
        level(place)
    return levels


def _alone(cuts: list[Cut], k: int) -> bool:
    """Whether a call that raises in a task element has changed nothing but there."""
    writes = [c.writes for c in cuts]
    if not any(writes):
        return True
    return not (any(writes[:k]) or cuts[k].item or cuts[k].send == "all")
