"""A stateful class as a plain object: values have the declared types, a call that raises changes
nothing."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.stateful.programs import KeyValue, Names, Visits, WordCount
from vertexsdk import InputError, Map, Partitioned, ProgramError, Stateful
from vertexsdk.stateful.analysis import program_of


def test_the_classes_of_the_paper() -> None:
    values = KeyValue()
    values.put(7, 2)
    values.put(key=np.int64(-8), value=np.float32(0.5))
    assert [values.get(7), values.get(-8), values.get(9)] == [2.0, 0.5, 0.0]
    assert type(values.get(7)) is float
    words = WordCount()
    words.add("to be or not to be")
    assert [words.count("be"), words.count("question")] == [2, 0]
    assert dict(words.counts) == {"to": 2, "be": 2, "or": 1, "not": 1}
    assert len(WordCount().counts) == 0


def test_a_map_is_used_as_a_dict_is() -> None:
    names = Names()
    assert names.set_name(1, "Ada") is None
    assert names.set_name(1, "Grace") == "Ada"
    assert names.set_name(1, "Mary", keep=True) == "Grace"
    assert names.first(1, "Joan") == "Grace"
    assert names.first(2, "Joan") == "Joan"
    assert names.take(2, "") == "Joan"
    assert names.take(2, "?") == "?"
    names.forget(1)
    with pytest.raises(KeyError):
        names.forget(1)
    assert names.name_of(1) == ""
    assert repr(names.names) == "{}"


def test_a_call_that_raises_changes_nothing() -> None:
    names = Names()
    names.set_name(1, "Ada")
    for user in (1, 2):
        with pytest.raises(ValueError, match="empty"):
            names.set_name(user, "")
    assert dict(names.names) == {1: "Ada"}
    visits = Visits()
    visits.block("b", "late")
    with pytest.raises(PermissionError):
        visits.seen("a,b,c", 1.0)
    with pytest.raises(PermissionError):
        visits.visit("b", 1.0)
    assert {key: row._asdict() for key, row in visits.users.items()} == {
        "b": {"count": 0, "last": 0.0, "blocked": True, "note": "late"}
    }


class Shared:
    """Not a stateful class itself."""

    def put(self, key: int, value: int) -> None:
        self.counts[key] = value  # type: ignore[attr-defined]
        if value < 0:
            raise ValueError("negative")


class Mixed(Shared, Stateful):
    counts = Partitioned(Map(int, int), key="key")

    def get(self, key: int) -> int:
        return self.counts[key]


def test_methods_of_a_base_that_is_not_stateful() -> None:
    plain = Mixed()
    with pytest.raises(InputError, match="'1' is not an int"):
        plain.put("1", 2)
    with pytest.raises(ValueError, match="negative"):
        plain.put(1, -2)
    assert plain.get(1) == 0
    assert set(program_of(Mixed).methods) == {"put", "get"}


def test_rows_have_fields() -> None:
    visits = Visits()
    assert visits.visit("a", 2.5) == 1
    assert visits.count_of("z") is None
    assert not visits.known("z")
    row = visits.state("a")
    assert (row.count, row.last, row.note) == (1, 2.5, "")
    visits.visit("a", 1)
    assert row.count == 1, "an answer is a copy"
    assert repr(row) == "Row(count=1, last=2.5, blocked=False, note='')"
    with pytest.raises(AttributeError, match="has no field 'counts'; it has count, last"):
        _ = row.counts
    with pytest.raises(KeyError):
        visits.forget("z")


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("x", 1.0), "put\\(\\), parameter key: 'x' is not an int"),
        ((1.5, 1.0), "1.5 is not an int"),
        ((1 << 63, 1.0), "does not fit into 64 bits"),
        ((1, "2"), "parameter value: '2' is not a float"),
        ((1,), "missing a required argument: 'value'"),
    ],
)
def test_arguments_of_another_type_are_refused(args: tuple[object, ...], message: str) -> None:
    values = KeyValue()
    with pytest.raises(InputError, match=message):
        values.put(*args)
    assert not len(values.values)


def test_values_of_another_type_are_refused_where_they_are_set() -> None:
    class Wrong(Stateful):
        counts = Partitioned(Map(str, int), key="word")

        def add(self, word: str, by: float) -> None:
            self.counts[word] = by

    wrong = Wrong()
    with pytest.raises(InputError, match=r"0.5 is not an int"):
        wrong.add("a", 0.5)
    with pytest.raises(ProgramError, match="keep state in a state element"):
        wrong.total = 5
    assert not len(wrong.counts)
    values = KeyValue()
    values.put(1, 10**400)
    assert values.get(1) == math.inf


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Map(float, int), "a key of type float is not supported: use int, str"),
        (lambda: Map(int, list), "a value of type list is not supported: use int, float"),
        (lambda: Map(int), "the type of its values"),
        (lambda: Map(int, int, count=int), "the type of its values"),
        (lambda: Map(int, id=int), "a field cannot be called 'id'"),
        (lambda: Map(int, count=0), "a value of type 0 is not supported"),
        (lambda: Partitioned(int, key="k"), "give a Map"),
        (lambda: Partitioned(Map(int, int), key="a b"), "give the name of a parameter"),
    ],
)
def test_elements_that_are_not_there_are_refused(make: object, message: str) -> None:
    with pytest.raises(ProgramError, match=message):
        make()  # type: ignore[operator]
