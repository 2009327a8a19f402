"""Random calls of a stateful class, made on a loop and on a plain object of the class."""

from __future__ import annotations

import copy
import inspect
import random
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import numpy as np
import pyarrow as pa

from tests.stateful import forty_programs, own_elements
from tests.stateful.programs import Blobs, Divided, KeyValue, Names, Visits, WordCount
from vertexsdk import CallError, InputError, Stateful, StatefulLoop
from vertexsdk.arrays.packed_strings import pack_bytes
from vertexsdk.errors import first_line
from vertexsdk.program.keyed import TableSpec
from vertexsdk.program.keyed_state import RowsState
from vertexsdk.stateful.placement import Placement

USERS = ["", "a", "b", "ä", "\0", "\ud800", *map(str, range(8))]
BYTES = [b"", b"\0", b"a\0\0", b"\xff\xfe", b"\xed\xa0\x80", "ä".encode(), b"\1" * (1 << 20)]
INTS = [*range(8), -1, (1 << 63) - 1, -(1 << 63)]
Draw = Callable[[random.Random], tuple[Any, ...]]


def _bytes(chance: random.Random) -> bytes:
    return BYTES[-1] if chance.random() < 0.002 else chance.choice(BYTES[:-1])


def _line(chance: random.Random) -> str:
    words = [chance.choice(USERS) for _ in range(chance.choice([0, 1, 3, 12]))]
    return " ".join(words)


CALLS: dict[type[Stateful], dict[str, Draw]] = {
    KeyValue: {
        "put": lambda c: (c.choice(INTS), c.choice([c.random(), -0.0, float("inf"), 3])),
        "get": lambda c: (c.choice(INTS),),
    },
    WordCount: {"add": lambda c: (_line(c),), "count": lambda c: (c.choice(USERS),)},
    Names: {
        "set_name": lambda c: (c.choice(INTS), c.choice(USERS), c.random() < 0.3),
        "forget": lambda c: (c.choice(INTS),),
        "take": lambda c: (c.choice(INTS), c.choice(USERS)),
        "first": lambda c: (c.choice(INTS), c.choice(USERS)),
        "name_of": lambda c: (c.choice(INTS),),
    },
    Blobs: {
        "put": lambda c: (c.choice(INTS), _bytes(c)),
        "take": lambda c: (c.choice(INTS), _bytes(c)),
        "first": lambda c: (c.choice(INTS), _bytes(c)),
        "learn": lambda c: (c.choice(USERS), c.random(), _bytes(c)),
        "count": lambda c: (c.choice(USERS), _bytes(c)),
        "forget": lambda c: (c.choice(USERS),),
        "move": lambda c: (c.choice(INTS), c.choice(USERS), _bytes(c)),
        "parts": lambda c: (_bytes(c), ",".join(c.choices(USERS, k=c.choice([1, 2, 5])))),
        "share": lambda c: (c.choice(USERS), _bytes(c)),
        "shared": lambda c: (c.choice(INTS), c.choice(USERS)),
    },
    Visits: {
        "visit": lambda c: (c.choice(USERS), c.random()),
        "block": lambda c: (c.choice(USERS), c.choice(USERS)),
        "seen": lambda c: (",".join(c.choices(USERS, k=c.choice([0, 1, 2, 5]))), c.random()),
        "state": lambda c: (c.choice(USERS),),
        "count_of": lambda c: (c.choice(USERS),),
        "known": lambda c: (c.choice(USERS),),
        "forget": lambda c: (c.choice(USERS),),
        "about": lambda c: (c.choice(USERS),),
    },
    Divided: {
        "two_elements": lambda c: (c.choice(INTS), c.choice(USERS)),
        "another_key": lambda c: (c.choice(INTS), c.choice(INTS)),
        "computed_key": lambda c: (c.choice(INTS),),
        "reassigned_key": lambda c: (c.choice(INTS),),
        "comprehension": lambda c: (c.choice(USERS),),
        "generator": lambda c: (c.choice(INTS),),
        "more_than_a_loop": lambda c: (_line(c),),
        "sees_what_the_items_set": lambda c: (_line(c),),
        "state_within_a_key": lambda c: (c.choice(INTS),),
        "several_in_a_loop": lambda c: (_line(c), c.choice([0, 1, 3])),
        "continues": lambda c: (_line(c),),
        "either": lambda c: (c.choice(INTS), c.choice(USERS), c.random() < 0.5),
        "both_or_none": lambda c: (c.choice(INTS), c.choice(USERS)),
        "of_state": lambda c: (c.choice(INTS),),
        "maybe_unbound": lambda c: (c.choice(INTS), c.choice(USERS)),
        "chained": lambda c: (c.choice(INTS), c.choice(USERS)),
        "best": lambda c: (_line(c),),
        "total": lambda c: (),
    },
}
DRAWN = {**CALLS, **forty_programs.CALLS, **own_elements.CALLS}
KEYS: dict[str, list[Any]] = {  # that any of the calls may have
    "int": [*INTS, *range(-1, 30), *(k // 2 for k in INTS)],
    "str": [*USERS, *forty_programs.STRINGS],
}  # fmt: skip


def plain_answer(target: Stateful, name: str, arguments: Sequence[Any]) -> Any:
    """What a call answers, or the type and text of what it raises."""
    try:
        return getattr(target, name)(*arguments)
    except Exception as error:
        line = first_line(error)  # the texts of calls are no longer
        return f"{type(error).__name__}: {line}" if str(error) else type(error).__name__


def same(answer: Any, expected: Any, name: str) -> bool:
    """Whether a loop's answer is that of a plain object; an error's text begins with a place."""
    if isinstance(answer, CallError):
        text = str(answer)
        return f".{name}: " in text and text.endswith(f".{name}: {expected}".rstrip())
    return type(answer) is type(expected) and bool(answer == expected)


def elements_of(cls: type[Stateful]) -> dict[str, TableSpec]:
    """The state elements of a class."""
    return {name: value.spec for name, value in vars(cls).items() if isinstance(value, Placement)}


def state_of(target: Stateful) -> dict[str, dict[Any, dict[str, Any]]]:
    """All rows of a plain object's state elements, as lookups show them."""
    state = {}
    for name in elements_of(type(target)):
        element = getattr(target, name)
        rows = element if isinstance(element, RowsState) else element.rows  # of a Value
        state[name] = {key: rows.describe(key) for key in rows.rows}
    return state


def state_of_loop(flow: StatefulLoop, plain: Stateful) -> dict[str, dict[Any, dict[str, Any]]]:
    """All rows of a loop's state elements, of keys that a plain object has or calls may have."""
    state = {}
    expected = state_of(plain)
    for name, spec in elements_of(flow.program.cls).items():
        keys = [*expected[name], *KEYS[spec.key]] if spec.size is None else [*range(spec.size)]
        state[name] = flow.lookup(keys, name)
    return state


class History:
    """Calls on a loop, and on a plain object.

    Args:
        cls: a class of `DRAWN`.
        flow: the loop.
        chance: what is drawn.
    """

    def __init__(self, cls: type[Stateful], flow: StatefulLoop, chance: random.Random) -> None:
        self.cls, self.flow, self.chance = cls, flow, chance
        self.plain = cls()
        self.raised = 0

    def step(self) -> None:
        """Make some calls, of one of the kinds."""
        self.chance.choice([self.single, self.several, self.bulk])()

    def drawn(self, name: str | None = None) -> tuple[str, tuple[Any, ...]]:
        name = name or self.chance.choice([*DRAWN[self.cls]])
        return name, DRAWN[self.cls][name](self.chance)

    def compare(self, answer: Any, name: str, arguments: Sequence[Any]) -> None:
        expected = plain_answer(self.plain, name, arguments)
        self.raised += isinstance(answer, CallError)
        assert same(answer, expected, name), (name, arguments, answer, expected)

    def single(self) -> None:
        name, arguments = self.drawn()
        try:
            answer: Any = getattr(self.flow, name)(*arguments)
        except CallError as error:
            answer = error
        self.compare(answer, name, arguments)

    def several(self) -> None:
        """Calls of several methods, of which a block may have many."""
        calls = [self.drawn() for _ in range(self.chance.choice([2, 10, 80]))]
        futures = [getattr(self.flow, name).submit(*arguments) for name, arguments in calls]
        for (name, arguments), future in zip(calls, futures, strict=True):
            self.compare(future.exception() or future.result(), name, arguments)

    def bulk(self) -> None:
        names = [
            n
            for n in DRAWN[self.cls]
            if len(inspect.signature(getattr(self.cls, n)).parameters) > 1
        ]
        name = self.chance.choice(names)
        calls = [self.drawn(name)[1] for _ in range(self.chance.choice([0, 1, 5, 200]))]
        columns = [*map(list, zip(*calls, strict=True))] or [[]]
        form = self.chance.choice(["lists", "tuples", "numpy", "arrow"])
        given: Sequence[Any] = columns
        if form == "tuples" and len(columns) > 1:
            given = [calls]
        elif form == "numpy" and calls:
            given = [self._array(c) for c in columns]
        elif form == "arrow" and calls and "\ud800" not in "".join(map(str, sum(calls, ()))):
            given = [pa.array(c) for c in columns]
        answers = getattr(self.flow, name).map(*given, return_exceptions=True)
        assert len(answers) == len(calls)
        for answer, arguments in zip(answers, calls, strict=True):
            self.compare(answer, name, arguments)

    def _array(self, values: list[Any]) -> Any:
        if isinstance(values[0], bytes):
            return pack_bytes(values)
        return values if isinstance(values[0], str) else np.array(values)

    def fork(self, name: str | None = None) -> History:
        """Fork the loop, and make calls on both in turns; the fork is for the caller to close."""
        fork = History(self.cls, self.flow.fork(name), self.chance)
        fork.plain = copy.deepcopy(self.plain)
        with ExitStack() as undo:
            undo.callback(fork.flow.close)
            for _ in range(3):
                self.chance.choice([self, fork]).step()
            fork.check()
            undo.pop_all()
        return fork

    def check(self) -> None:
        """Compare the whole state."""
        assert state_of_loop(self.flow, self.plain) == state_of(self.plain)


__all__ = ["CALLS", "History", "InputError", "state_of", "state_of_loop"]
