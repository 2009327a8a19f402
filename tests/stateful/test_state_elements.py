"""State elements, the built-in ones and two of a user's, keep the contract; the conformance suite
finds those that do not."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from typing import Any, ClassVar

import pytest

from tests.stateful.own_elements import Intervals, TopK
from tests.support.seeds import seed
from vertexsdk import Array, Map, Matrix, RowsState, SparseVector, StateElement, Value
from vertexsdk.program.keyed_state import Journal
from vertexsdk.testing.state_elements import StateElementSuite


class Seeded(StateElementSuite):
    """Draws what the tests of this repository draw."""

    examples = 3

    @pytest.fixture
    def chance(self) -> random.Random:
        return random.Random(seed())


class TestMap(Seeded):
    def element(self, key: type) -> StateElement:
        return Map(key, int)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return (chance.randrange(4),) if method in ("__setitem__", "setdefault", "pop") else ()


class TestMapOfTexts(TestMap):
    combine: ClassVar[Callable[[Any, Any], Any]] = staticmethod(max)

    def element(self, key: type) -> StateElement:
        return Map(key, str)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return tuple(map(str, super().arguments(method, chance)))


class TestValue(Seeded):
    key_types = (int,)

    def element(self, key: type) -> StateElement:
        return Value(float)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return (float(chance.randrange(4)),)


class TestArray(Seeded):
    key_types = (int,)

    def element(self, key: type) -> StateElement:
        return Array(int, size=3)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return (chance.randrange(4),) if method == "__setitem__" else ()


class TestMatrix(Seeded):
    def element(self, key: type) -> StateElement:
        return Matrix(key, str)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        other = chance.choice(["a", "b", "ä"])
        if method == "multiply":
            return (SparseVector({other: 2.0}),)
        if method in ("row", "clear", "items", "__len__"):
            return ()
        return (other, float(chance.randrange(4))) if method == "__setitem__" else (other,)


class TestMatrixByColumn(TestMatrix):
    def element(self, key: type) -> StateElement:
        return Matrix(str, key, by="column")

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        if method == "multiply":
            return (SparseVector(),)
        others = {"row": "column", "column": "row"}
        return super().arguments(others.get(method, method), chance)


class TestTopK(Seeded):
    def element(self, key: type) -> StateElement:
        return TopK(key, size=3)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        name = chance.choice("abcde")
        return {"add": (name, float(chance.randrange(9))), "drop": (name,)}.get(method, ())


class TestIntervals(Seeded):
    def element(self, key: type) -> StateElement:
        return Intervals(key)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        begin, end = chance.randrange(12), chance.randrange(12)
        return {"add": (begin, end), "length": ()}.get(method, (begin,))


class MarksState(RowsState):
    """The newest numbers of each key; the classes below have a mistake each."""

    def add(self, key: Any, number: int) -> int:
        self.put(key, (*self.row_of(key, ()), number)[-3:])
        return len(self.row_of(key))

    def numbers(self, key: Any) -> list[int]:
        return list(self.row_of(key, ()))

    def to_fields(self, row: Any) -> Any:
        return json.dumps(row)

    def from_fields(self, fields: Any) -> Any:
        return tuple(json.loads(fields))

    def combine(self, one: Any, other: Any) -> Any:
        return tuple(sorted({*one, *other})[-3:])


class Marks(StateElement):
    state, reads, writes = MarksState, ("numbers",), ("add",)

    def __init__(self, key: type) -> None:
        super().__init__(key, numbers=str)


class TestMarks(Seeded):
    marks: ClassVar[type[RowsState]] = MarksState

    def element(self, key: type) -> StateElement:
        made = Marks(key)
        made.state = self.marks  # type: ignore[misc]
        return made

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        return (chance.randrange(9),) if method == "add" else ()


class WithoutNote(MarksState):
    def add(self, key: Any, number: int) -> int:
        key = self.spec.convert_key(key)
        self.rows[key] = (*self.rows.get(key, ()), number)[-3:]
        return len(self.rows[key])


class InPlace(MarksState):
    def add(self, key: Any, number: int) -> int:
        row = self.row_of(key, [])
        row.append(number)
        self.put(key, row)
        return len(row)

    def from_fields(self, fields: Any) -> Any:
        return list(json.loads(fields))


class MarkedLate(MarksState):
    def add(self, key: Any, number: int) -> int:
        key = self.spec.convert_key(key)
        row = (*self.rows.get(key, ()), number)[-3:]
        self.journal.note(self.rows, key)  # and not in `changed`
        self.rows[key] = row
        return len(row)


class Holder:
    """A row that is an object with a dict."""

    def __init__(self, numbers: dict[int, int]) -> None:
        self.numbers = numbers


class HolderState(MarksState):
    """A dict within an object, which is changed in place."""

    def add(self, key: Any, number: int) -> int:
        key = self.spec.convert_key(key)
        if key not in self.rows:
            self.put(key, Holder({}))
        numbers = self.rows[key].numbers
        self.note(numbers, number % 3, key)
        numbers[number % 3] = number
        return len(numbers)

    def numbers(self, key: Any) -> list[int]:
        row = self.row_of(key)
        return [] if row is None else sorted(row.numbers.values())

    def to_fields(self, row: Any) -> Any:
        return json.dumps(sorted(row.numbers.values()))

    def from_fields(self, fields: Any) -> Any:
        return Holder({number % 3: number for number in json.loads(fields)})

    def combine(self, one: Any, other: Any) -> Any:
        numbers = sorted({*one.numbers.values(), *other.numbers.values()})
        return Holder({number % 3: number for number in numbers})


class TestHolder(TestMarks):
    marks = HolderState


class NestedState(HolderState):
    """Its dict is within a tuple and a dict."""

    def copy_row(self, row: Any) -> Any:
        (copied,) = super().copy_row(({"numbers": row.numbers},))
        return Holder(copied["numbers"])


class TestNested(TestMarks):
    marks = NestedState


class SharedByForks(HolderState):
    def copy_row(self, row: Any) -> Any:
        return row


class ForksWithoutRows(MarksState):
    def fork(self, journal: Journal) -> RowsState:
        return type(self)(self.spec, journal)


class LosesTheLast(MarksState):
    def to_fields(self, row: Any) -> Any:
        return json.dumps(row[:2])


class OfAnotherType(MarksState):
    def to_fields(self, row: Any) -> Any:
        return json.dumps(row).encode()


class DropsASide(MarksState):
    def combine(self, one: Any, other: Any) -> Any:
        return one


class DropsTheOtherSide(MarksState):
    def combine(self, one: Any, other: Any) -> Any:
        return other


class Appends(MarksState):
    def combine(self, one: Any, other: Any) -> Any:
        return (one + other)[-3:]


class AnyKey(MarksState):
    def numbers(self, key: Any) -> list[int]:
        return list(self.rows.get(key, ()))


class Random(MarksState):
    def add(self, key: Any, number: int) -> int:
        return super().add(key, number + random.randrange(1 << 30))


class ReadsAndWrites(MarksState):
    def numbers(self, key: Any) -> list[int]:
        self.put(key, self.row_of(key, ()))
        return list(self.row_of(key))


class ReturnsItsRow(MarksState):
    def add(self, key: Any, number: int) -> int:
        self.put(key, [*self.row_of(key, ()), number][-3:])
        return len(self.row_of(key))

    def from_fields(self, fields: Any) -> Any:
        return list(json.loads(fields))

    def numbers(self, key: Any) -> Any:
        return self.row_of(key, [])


@pytest.mark.parametrize(
    ("mutant", "test", "message"),
    [
        (
            WithoutNote,
            "calls_that_raise_are_taken_back",
            "Marks.add changes a row",
        ),
        (InPlace, "calls_that_raise_are_taken_back", "Marks.add changes a row"),
        (WithoutNote, "snapshots_are_resumed", "each change has to come to put"),
        (MarkedLate, "snapshots_are_resumed", "each change has to come to put"),
        (LosesTheLast, "rows_are_stored", "answer otherwise than those that to_fields was given"),
        (LosesTheLast, "snapshots_are_resumed", "Marks: rows of key .* differ"),
        (OfAnotherType, "rows_are_stored", "for the field numbers: return str"),
        (DropsASide, "instances_are_combined", "combine"),
        (DropsTheOtherSide, "instances_are_combined", "combine"),
        (Appends, "instances_are_combined", r"combine\(a, b\) and combine\(b, a\) differ"),
        (AnyKey, "keys_are_converted", "Marks.numbers takes the key 'a': call convert_key first"),
        (Random, "the_same_calls_have_the_same_results", "draw nothing at random"),
        (ReadsAndWrites, "what_reads_changes_nothing", "Marks.numbers is declared in reads, and"),
        (SharedByForks, "forks_are_copies", "Marks: a fork changes with what it was forked from"),
        (ForksWithoutRows, "forks_are_copies", "Marks: a fork has other rows"),
        (ReturnsItsRow, "answers_are_copies", "Marks.numbers returns its row: copy it"),
    ],
)
def test_mutants_are_found(mutant: type[RowsState], test: str, message: str) -> None:
    suite = TestMarks()
    suite.marks = mutant  # type: ignore[misc]
    given = {"partitions": (2, 1)} if test == "snapshots_are_resumed" else {}
    with pytest.raises(AssertionError, match=message):
        getattr(suite, f"test_{test}")(chance=random.Random(seed()), **given)


def test_a_dropped_side_is_found_where_the_order_may_matter() -> None:
    for mutant in (DropsASide, DropsTheOtherSide):
        suite = TestMarks()
        suite.marks, suite.any_order = mutant, False  # type: ignore[misc]
        with pytest.raises(AssertionError, match="combine drops one of the two rows"):
            suite.test_instances_are_combined(random.Random(seed()))
