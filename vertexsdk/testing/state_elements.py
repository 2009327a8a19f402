"""The conformance suite for state elements: a class of tests that a test file subclasses.

The tests hold an element to the contract of `vertexsdk.StateElement`, by random calls of its
methods. What is undone, stored or divided among partitions has to answer as rows in memory do on
which the same calls were made.

Example:
    >>> from vertexsdk import Map
    >>> class TestCounts(StateElementSuite):
    ...     def element(self, key):
    ...         return Map(key, int)
    ...
    ...     def arguments(self, method, chance):
    ...         return (chance.randrange(9),) if method in ("__setitem__", "setdefault") else ()
    >>> TestCounts().test_calls_that_raise_are_taken_back(random.Random(0))
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import cloudpickle
import pyarrow as pa
import pytest

from vertexsdk.engine.keyed.calls import owners_of_keys, stored_values
from vertexsdk.errors import InputError
from vertexsdk.program.keyed import ABSENT, KINDS, answered
from vertexsdk.program.keyed_state import (
    Journal,
    StateElement,
    as_seen,
    settled,
    state_in_memory,
)
from vertexsdk.stateful.placement import Partitioned, PerPartition

_KEYS: dict[type, list[Any]] = {
    int: [0, 1, 7, -1, (1 << 63) - 1, -(1 << 63)],
    str: ["", "a", "b", "ä", "\0", "\ud800"],
}
_IN_BRACKETS = {"__getitem__", "__setitem__", "__delitem__", "__contains__"}


class StateElementSuite:
    """Subclass it and define `element`, and `arguments` of methods that take more than the key.

    Values of `arguments` should be few and small, so that calls meet each other, and their sums
    exact, as those of whole numbers are.
    """

    key_types: ClassVar[Sequence[type]] = (int, str)
    """The types of keys that the element may have."""

    examples = 10
    """Random histories that each test draws."""

    combine: ClassVar[Callable[[Any, Any], Any] | None] = None
    """What `PerPartition(..., combine=)` is given."""

    any_order = True
    """Whether rows that are combined have the same results in whichever order they are."""

    def element(self, key: type) -> StateElement:
        """Return the element, with keys of a type."""
        raise NotImplementedError("define `element` in the subclass of StateElementSuite")

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        """Return arguments of a method, after the key; of a property the value that is set."""
        return ()

    @pytest.fixture
    def chance(self) -> random.Random:
        return random.Random(0)

    def test_it_is_declared(self) -> None:
        for key in self.key_types:
            element = self.element(key)
            Partitioned(element, key="key")
            PerPartition(element, combine=type(self).combine)
            assert repr(cloudpickle.loads(cloudpickle.dumps(element))) == repr(element)

    def test_keys_are_converted(self, chance: random.Random) -> None:
        for key in self.key_types:
            rows = _Rows(self, key)
            element, wrong = rows.element, "a" if rows.spec.key == "int" else 5
            methods = {*element.reads, *element.writes} - {*element.without_key}
            for method in methods if element.keyed else ():
                refused = False
                for _ in range(10):
                    try:
                        rows.call(method, wrong, self.arguments(method, chance))
                    except (InputError, IndexError):
                        refused = True
                    except Exception:  # of other arguments
                        continue
                    else:
                        refused = False
                        break
                assert refused, f"{rows}.{method} takes the key {wrong!r}: call convert_key first"

    def test_calls_that_raise_are_taken_back(self, chance: random.Random) -> None:
        for rows in self._histories():
            rows.journal.running = True
            for _ in range(20):
                method, key, arguments = rows.draw(chance)
                answers = rows.answers()
                first = rows.outcome(method, key, arguments)
                rows.journal.undo(0)
                assert rows.answers() == answers, (
                    f"{rows}.{method} changes a row that is not taken back: set it by put(), or "
                    "note() each dict before it is changed, and change no other object"
                )
                assert rows.outcome(method, key, arguments) == first
                rows.journal.clear()

    def test_batches_are_many_calls(self, chance: random.Random) -> None:
        for rows in self._histories() if self.element(self.key_types[0]).batches else ():
            other = _Rows(self, rows.key)
            for _ in range(20):
                method, key, arguments = rows.draw(chance)
                batch = rows.element.batches.get(method)
                if batch is None:
                    assert rows.outcome(method, key, arguments) == other.outcome(
                        method, key, arguments
                    )
                    continue
                keys = [key, *chance.choices(rows.keys, k=chance.randrange(5))]
                given = [arguments, *(self.arguments(method, chance) for _ in keys[1:])]
                earlier_answers = other.answers()
                expected = [rows.outcome(method, *call) for call in zip(keys, given, strict=True)]
                columns = [_column(values) for values in zip(*given, strict=True)]
                other.journal.running = True
                for taken_back in (True, False):
                    answers = getattr(other.state, batch)(list(keys), *columns)
                    answers = [None] * len(keys) if answers is None else list(answers)
                    assert answers == expected, f"{rows}.{batch} answers otherwise than {method}"
                    if taken_back:
                        other.journal.undo(0)
                        assert other.answers() == earlier_answers, (
                            f"{rows}.{batch} changes a row that is not taken back: set it by "
                            "put_all(), and change no other object"
                        )
                other.journal.clear()
                other.journal.running = False
                assert other.answers() == rows.answers(), f"{rows}.{batch} differs from {method}"
            assert rows.snapshot() == other.snapshot(), f"{rows}: a batch has other rows"

    def test_what_reads_changes_nothing(self, chance: random.Random) -> None:
        for rows in self._histories():
            for _ in range(20):
                rows.change(chance)
                rows.snapshot()
                for method in rows.element.reads:
                    rows.answer(method, chance.choice(rows.keys))
                    fields = {key: rows.state.stored(key) for key in rows.state.rows}
                    assert (fields, rows.state.changed) == (rows.stored, set()), (
                        f"{rows}.{method} is declared in reads, and changes a row"
                    )

    def test_answers_are_copies(self, chance: random.Random) -> None:
        for rows in self._histories():
            for _ in range(20):
                method, key, arguments = rows.draw(chance)
                answers = [(method, rows.outcome(method, key, arguments))]
                for method in rows.element.reads:
                    key, arguments = chance.choice(rows.keys), self.arguments(method, chance)
                    answers.append((method, rows.outcome(method, key, arguments, reads=True)))
                copies = copy.deepcopy(answers)
                rows.change(chance)
                answers_now = rows.answers()
                for (method, answer), (_, as_it_was) in zip(answers, copies, strict=True):
                    assert answer == as_it_was, f"{rows}.{method} returns what changes later: copy"
                    if isinstance(answer, list | dict | set):
                        answer.clear()
                        assert rows.answers() == answers_now, (
                            f"{rows}.{method} returns its row: copy it"
                        )

    def test_forks_are_copies(self, chance: random.Random) -> None:
        for rows in self._histories():
            for _ in range(5):
                fork = rows.fork()
                assert fork.answers() == rows.answers(), f"{rows}: a fork has other rows"
                for one, other in ((rows, fork), (fork, rows)):
                    answers = other.answers()
                    for _ in range(5):
                        one.change(chance)
                    assert other.answers() == answers, (
                        f"{rows}: a fork changes with what it was forked from: copy in copy_row() "
                        "what is changed in place"
                    )
                rows = fork

    def test_the_same_calls_have_the_same_results(self, chance: random.Random) -> None:
        for rows in self._histories():
            other = _Rows(self, rows.key)
            for _ in range(20):
                method, key, arguments = rows.draw(chance)
                assert rows.outcome(method, key, arguments) == other.outcome(method, key, arguments)
            assert rows.snapshot() == other.snapshot(), f"{rows}: draw nothing at random in it"

    def test_rows_are_stored(self, chance: random.Random) -> None:
        for rows in self._histories():
            for _ in range(20):
                rows.change(chance)
            again = _Rows(self, rows.key)
            for key, fields in rows.snapshot().items():
                again.state.restore(key, fields)
            assert again.answers() == rows.answers(), (
                f"{rows}: the rows that from_fields returns answer otherwise than those that "
                "to_fields was given"
            )

    @pytest.mark.parametrize("partitions", [(1, 1), (1, 2), (2, 1), (7, 2), (2, 7)])
    def test_snapshots_are_resumed(
        self, partitions: tuple[int, int], chance: random.Random
    ) -> None:
        for expected in self._histories():
            parts = [_Rows(self, expected.key) for _ in range(partitions[0])]
            for step in range(40):
                method, key, arguments = expected.draw(chance)
                outcome = expected.outcome(method, key, arguments)
                owners = [parts[expected.owner(key, len(parts))]]
                if method in expected.element.without_key:
                    owners = parts
                outcomes = [part.outcome(method, key, arguments) for part in owners]
                assert len(owners) > 1 or outcomes == [outcome]
                for part in parts if step % 4 == 3 else ():
                    part.snapshot()
            resumed = [_Rows(self, expected.key) for _ in range(partitions[1])]
            for part in parts:
                for key, fields in part.stored.items():
                    resumed[expected.owner(key, len(resumed))].state.restore(key, fields)
            for key in expected.keys:
                answers = resumed[expected.owner(key, len(resumed))].answers(key)
                assert answers == expected.answers(key), (
                    f"{expected}: rows of key {key!r} that were read from deltas differ: each "
                    "change has to come to put(), remove() or note()"
                )
            if len(resumed) == 1:
                assert resumed[0].answers() == expected.answers()

    def test_instances_are_combined(self, chance: random.Random) -> None:
        for key in self.key_types:
            seen = [False, False]  # whether the first row matters, and the second one
            for _ in range(4 * self.examples):
                parts = [_Rows(self, key) for _ in range(3)]
                shared_key = chance.choice(parts[0].keys)
                for rows in parts:
                    for _ in range(100):
                        rows.change(chance, shared_key)
                        if shared_key in rows.snapshot() and chance.random() < 0.5:
                            break
                one, other, third = parts
                both = one.merged(other)
                both.snapshot()  # checks the types of fields
                seen[0] |= both.answers() != other.answers()
                seen[1] |= both.answers() != one.answers()
                left, right = both.merged(third), one.merged(other.merged(third))
                assert left.answers() == right.answers(), (
                    f"{both}: combine has other results if other rows are combined first"
                )
                assert not self.any_order or both.answers() == other.merged(one).answers(), (
                    f"{both}: combine(a, b) and combine(b, a) differ: set any_order = False if "
                    "they may"
                )
            assert all(seen), f"{rows}: combine drops one of the two rows"

    def _histories(self) -> list[_Rows]:
        return [_Rows(self, key) for key in self.key_types for _ in range(self.examples)]


def _column(values: Sequence[Any]) -> Any:
    """Return the values of an argument as a batch takes them."""
    kinds = [kind for kind, of in KINDS.items() if {*map(type, values)} == {of}]
    if kinds == ["bytes"]:
        return pa.array(values, pa.large_binary())
    return list(values) if kinds in ([], ["str"]) else stored_values(kinds[0], values)


class _Rows:
    """An element's rows of one partition, and calls on them."""

    def __init__(self, suite: StateElementSuite, key: type) -> None:
        self.suite, self.key, self.element = suite, key, suite.element(key)
        self.spec = PerPartition(self.element, combine=type(suite).combine).spec
        self.journal = Journal()
        self.state = state_in_memory(self.spec, self.journal)
        self.stored: dict[Any, Any] = {}
        self.view = as_seen(self.spec, self.state)
        self.keys = _KEYS[KINDS[self.element.key]] if self.element.keyed else [0]
        if self.element.number_of_keys is not None:
            self.keys = list(range(min(self.element.number_of_keys, 6)))

    def __str__(self) -> str:
        return type(self.element).__name__

    # Calls

    def draw(self, chance: random.Random, key: Any = ABSENT) -> tuple[str, Any, tuple[Any, ...]]:
        """Draw a method that may change a row, a key and arguments."""
        method = chance.choice(list(self.element.writes))
        key = chance.choice(self.keys) if key is ABSENT else key
        return method, key, self.suite.arguments(method, chance)

    def change(self, chance: random.Random, key: Any = ABSENT) -> None:
        self.outcome(*self.draw(chance, key))

    def call(
        self, method: str, key: Any, arguments: tuple[Any, ...], *, reads: bool = False
    ) -> Any:
        element, arguments = self.element, copy.deepcopy(arguments)
        if isinstance(getattr(type(self.view), method, None), property):
            if method in element.writes and not reads:
                return setattr(self.view, method, *arguments)
            return getattr(self.view, method)
        if element.keyed and method not in element.without_key:
            others = len(element.brackets) - 1 if method in _IN_BRACKETS else 0
            at = [*arguments[:others]]
            at.insert(element.brackets.index("key") if others else 0, key)
            arguments = (tuple(at) if others else key, *arguments[others:])
        return getattr(self.view, method)(*arguments)

    def outcome(
        self, method: str, key: Any, arguments: tuple[Any, ...], *, reads: bool = False
    ) -> Any:
        """Return what a call answers, or the error that it raises, with its changes undone."""
        mark, running = self.journal.mark(), self.journal.running
        self.journal.running = True
        try:
            answer = self.call(method, key, arguments, reads=reads)
            all_rows = method in self.element.without_key or hasattr(answer, "__next__")
            return settled(answer) if all_rows else answered(answer)
        except Exception as error:
            self.journal.undo(mark)
            return f"{type(error).__name__}: {error}"
        finally:
            self.journal.running = running
            if not running:
                self.journal.clear()

    def answer(self, method: str, key: Any) -> Any:
        """Return what a method that reads answers to always the same arguments."""
        arguments = self.suite.arguments(method, random.Random(f"{method} {key!r}"))
        answer = copy.deepcopy(self.outcome(method, key, arguments, reads=True))
        if method in self.element.without_key and isinstance(answer, list):
            answer.sort(key=repr)  # rows have no order
        return answer

    def answers(self, key: Any = ABSENT) -> dict[Any, Any]:
        """Return what all methods that read answer, of all keys or of one."""
        keys, element = (self.keys if key is ABSENT else [key]), self.element
        result = {(m, k): self.answer(m, k) for m in element.reads for k in keys
                 if m not in element.without_key}  # fmt: skip
        if key is ABSENT:
            result |= {(m, None): self.answer(m, None) for m in element.without_key
                      if m in element.reads}  # fmt: skip
        return result

    # Storing

    def snapshot(self) -> dict[Any, Any]:
        """Bring `stored` up to date by the rows that have changed, and return it."""
        for key in self.state.changed:
            fields = self.state.stored(key)
            self.stored.pop(key, None)
            if fields is not ABSENT:
                self._check(fields)
                self.stored[key] = copy.deepcopy(fields)
        self.state.changed.clear()
        return self.stored

    def _check(self, stored: Any) -> None:
        """Refuse fields of other types than those that are declared."""
        fields = (stored,) if self.spec.single else stored
        assert len(fields) == len(self.spec.fields), (
            f"{self}.to_fields returns {stored!r}: return a tuple of {', '.join(self.spec.fields)}"
        )
        for (name, kind), value in zip(self.spec.fields.items(), fields, strict=True):
            assert type(value) is KINDS[kind], (
                f"{self}.to_fields returns {value!r} for the field {name}: return {kind}"
            )

    def owner(self, key: Any, partitions: int) -> int:
        return int(owners_of_keys(stored_values(self.spec.key, [key]), partitions)[0])

    def fork(self) -> _Rows:
        """Return a copy, on which calls are made apart from these rows."""
        fork = copy.copy(self)
        fork.journal, fork.stored = Journal(), dict(self.stored)
        fork.state = self.state.fork(fork.journal)
        fork.view = as_seen(self.spec, fork.state)
        return fork

    def merged(self, other: _Rows) -> _Rows:
        """Return the rows of one partition that takes those of two."""
        both = _Rows(self.suite, self.key)
        for rows in (self, other):
            for key, fields in rows.snapshot().items():
                both.state.restore(key, fields)
        return both
