"""What a stateful class cannot do on partitions is refused by the line that does it."""

from __future__ import annotations

import datetime
import inspect
import os
import time

import numpy as np
import pytest

from tests.stateful.programs import KeyValue, Names, Visits, WordCount
from vertexsdk import (
    InputError,
    Map,
    Partitioned,
    ProgramError,
    Stateful,
    StatefulLoop,
    gather_all,
    on_all,
)
from vertexsdk.stateful.analysis import program_of

TOTAL = 0
SEEN: list[int] = []


def of_today(key: int) -> float:
    return _seconds() + key


def _seconds() -> float:
    return time.time()


class Refused(Stateful):
    """Every method ends its refused line with what the message says."""

    values = Partitioned(Map(int, float), key="key")
    counts = Partitioned(Map(str, int), key="word")
    users = Partitioned(Map(str, count=int), key="user")
    SCALE = 2.0

    def reassigned_in_except(self, key: int) -> float:
        try:  # a try over several state elements or keys
            return self.values[key]
        except KeyError as key:
            return 0.0

    def all_keys(self, key: int) -> int:
        return len(self.values)  # accessed by its key alone

    def sum_of_all(self, key: int) -> float:
        return sum(self.values[k] for k in self.values)  # accessed by its key alone

    def late(self, key: int) -> float:
        read = lambda: self.values[key]  # noqa: E731  # a function, lambda or generator
        return read()

    def yields(self, key: int) -> object:
        yield self.values[key]  # use return

    def keeps(self, key: int) -> None:
        self.last = key  # state outside of state elements

    def keeps_total(self, key: int) -> None:
        global TOTAL  # state outside of state elements
        TOTAL += 1

    def calls_another(self, key: int) -> float:
        return self._private(key)  # a function of the module

    def passes_self(self, key: int) -> float:
        return print(self)  # it passes self on

    def misspelled(self, key: int) -> float:
        return self.value[key]  # has no value; its state elements are values, counts, users

    def set_after_another(self, key: int, user: str) -> None:
        row = self.users[user]
        self.values[key] = 1.0
        row.count = 5  # set its fields first

    def read_after_another(self, user: str, other: str) -> int:
        row = self.users[user]
        self.users[other].count += 1
        return row.count  # read its fields first

    def keeps_in_the_module(self, key: int) -> None:
        SEEN.append(key)  # SEEN would be state outside of state elements
        self.values[key] = 1.0

    def keeps_in_the_class(self, key: int) -> None:
        Refused.SCALE = 3.0  # Refused would be state outside of state elements
        self.values[key] = 1.0

    def two_rows_at_once(self, key: int, word: str) -> None:
        self.values[key], self.counts[word] = 1.0, 2  # set one after the other

    def nested(self, line: str) -> None:
        for word in line.split():
            for letter in word:  # over pairs
                self.counts[letter] += 1
                self.values[len(word)] += 1.0

    def late_else(self, line: str) -> None:
        for word in line.split():  # write it after the loop
            self.counts[word] += 1
        else:
            self.values[1] = 2.0

    def asks_all_for_each(self, line: str) -> None:
        for word in line.split():
            self.counts[word] += sum(gather_all(on_all(self.counts).values()))  # before the loop

    def sets_everywhere(self, key: int) -> None:
        on_all(self.counts).pop(str(key))  # changes the state element

    def lambda_everywhere(self, key: int) -> object:
        return gather_all(on_all(self.counts).get(str(key), lambda: 1))  # no function of its own

    def of_another(self, key: int) -> object:
        return on_all(key)  # on_all takes a state element

    def all_of_it(self, key: int) -> object:
        return on_all(self.counts)  # part of one expression

    def passed_on(self, key: int) -> object:
        return str(self.counts)  # accessed by its key alone

    def today(self, key: int) -> None:
        self.counts[str(datetime.datetime.now())] += 1  # differs in a replay

    def drawn(self, key: int) -> None:
        self.values[key] = np.random.default_rng().random()  # differs in a replay

    def by_a_function(self, key: int) -> None:
        self.values[key] = of_today(key)  # time.time() differs in a replay

    def environment(self, key: int) -> str:
        return os.getenv("HOME")  # runs on another machine

    def kept_function(self, key: int, word: str) -> int:
        shown = lambda: word  # noqa: E731  # cannot be sent
        self.values[key] += 1
        self.counts[word] += 1
        return len(shown())

    def ends_early(self, line: str) -> None:
        for word in line.split():
            if word == "stop":
                break  # cannot end early
            self.counts[word] += 1

    def ends_early_in_else(self, line: str) -> None:
        for word in line.split():
            for _ in word:
                pass
            else:
                break  # cannot end early
            self.counts[word] += 1

    def previous_in_else(self, line: str) -> None:
        for word in line.split(" "):
            for letter in word:
                last = letter
            else:
                self.counts[word] += len(last)  # the last of the item before

    def returns_early(self, line: str) -> None:
        for word in line.split():
            while True:
                return  # cannot end early
            self.counts[word] += 1

    def previous(self, line: str) -> None:
        for word in line.split():
            self.counts[word] += len(last)  # noqa: F821  # the last of the item before
            last = word  # noqa: F841

    def maybe_previous(self, line: str) -> None:
        for word in line.split():
            if word > "a":
                last = word
            self.counts[word] += len(last)  # the last of the item before

    def running_total(self, line: str, total: int) -> None:
        for word in line.split():
            total += 1
            self.counts[word] += total  # the total of the item before

    def unannotated(self, key: int, value) -> None:  # annotate it as int, float, bool, str
        self.values[key] = value

    def of_another_type(self, key: float) -> None:  # annotate the parameter as key: int
        self.values[key] = 1.0

    def starred(self, key: int, *values: float) -> None:  # without *
        self.values[key] = values[0]

    def bad_default(self, key: int, value: float = None) -> None:  # noqa: RUF013  # None is not a float
        self.values[key] = value

    def lookup(self, key: int) -> float:  # StatefulLoop has a lookup of its own
        return self.values[key]

    def fork(self, key: int) -> float:  # StatefulLoop has a fork of its own
        return self.values[key]


class Inner(Stateful):
    """Loops in a loop, as they may be."""

    counts = Partitioned(Map(str, int), key="word")

    def add(self, line: str) -> None:
        for word in [y for x in line.split() if (y := x.lower())]:
            for letter in word:
                if letter == "x":
                    break
            else:
                if word == "no":
                    continue
                self.counts[word] += 1
            self.counts[word] += 1

    def count(self, word: str) -> int:
        return self.counts[word]


class ByName(Stateful):
    users = Partitioned(Map(str, count=int), key="user")

    def visit(self, user: str) -> None:
        self.users[user].__setattr__("count", 5)


def test_a_field_that_is_set_by_its_name_is_kept() -> None:
    with StatefulLoop(ByName, backend="memory://by-name", replace=True) as flow:
        flow.visit.map(["a", "b"])
        assert flow.lookup(["a", "b"]) == {"a": {"count": 5}, "b": {"count": 5}}


def test_continue_in_the_else_of_an_inner_loop() -> None:
    plain, words = Inner(), ["box", "no", "yes", ""]
    plain.add("Box no yes no")
    with StatefulLoop(Inner, backend="memory://inner", replace=True) as flow:
        flow.add("Box no yes no")
        assert flow.count.map(words) == [plain.count(word) for word in words] == [1, 0, 2, 0]


METHODS = [name for name in vars(Refused) if inspect.isfunction(vars(Refused)[name])]


def only(name: str) -> type[Stateful]:
    """A class with one of the methods, and the elements."""
    made = type("Refused", (Stateful,), {name: vars(Refused)[name]})
    for element in ("values", "counts", "users"):
        setattr(made, element, vars(Refused)[element])
    if name == "calls_another":
        made._private = vars(Refused)["all_keys"]
    return made


@pytest.mark.parametrize("name", METHODS)
def test_the_line_is_named(name: str) -> None:
    lines, first = inspect.getsourcelines(inspect.unwrap(vars(Refused)[name]))
    at, expected = next(
        (first + k, line.rpartition("# ")[2].strip())
        for k, line in enumerate(lines)
        if "  # " in line
    )
    with pytest.raises(ProgramError) as error:
        program_of(only(name))
    message = str(error.value)
    assert message.startswith(f"{__file__}:{at}: Refused.{name}: "), message
    assert expected in message
    assert "\n" not in message


def test_what_is_not_a_stateful_class_is_refused() -> None:
    for value in (int, Stateful, 5, KeyValue(), []):
        with pytest.raises(InputError, match="give a subclass of Stateful"):
            program_of(value)  # type: ignore[arg-type]

    class Empty(Stateful):
        def get(self, key: int) -> int:
            return key

    with pytest.raises(ProgramError, match="Empty has no state element"):
        program_of(Empty)

    class Begins(Stateful):
        values = Partitioned(Map(int, int), key="key")

        def __init__(self) -> None:
            pass

    with pytest.raises(ProgramError, match="state begins empty"):
        program_of(Begins)


def test_a_class_without_a_source_is_refused() -> None:
    names: dict[str, type] = {}
    text = "class Typed(Stateful):\n values = V\n def get(self, key: int): return self.values[key]"
    exec(text, {"Stateful": Stateful, "V": KeyValue.values}, names)
    with pytest.raises(ProgramError, match="its source cannot be read"):
        program_of(names["Typed"])


@pytest.mark.parametrize("cls", [KeyValue, WordCount, Names, Visits])
def test_what_can_run_is_not_refused(cls: type) -> None:
    program = program_of(cls)
    assert list(program.methods) == [n for n in vars(cls) if inspect.isfunction(vars(cls)[n])]
    for method in program.methods.values():
        assert method.line == inspect.unwrap(vars(cls)[method.name]).__code__.co_firstlineno


def test_which_methods_write() -> None:
    writes = {
        f"{cls.__name__}.{method.name}"
        for cls in (KeyValue, WordCount, Names, Visits)
        for method in program_of(cls).methods.values()
        if method.writes
    }
    assert writes == {
        "KeyValue.put", "WordCount.add", "Names.set_name", "Names.forget", "Names.take",
        "Names.first", "Visits.visit", "Visits.block", "Visits.seen", "Visits.forget",
        "Visits.state", "Visits.named",
    }  # fmt: skip


def test_a_method_may_use_what_its_function_encloses() -> None:
    step = 3

    class Steps(Stateful):
        counts = Partitioned(Map(str, int), key="word")

        def add(self, line: str) -> None:
            for word in line.split():
                self.counts[word] += step

    begin, item = program_of(Steps).methods["add"].elements
    items = begin.body(None, "a b")
    assert (items.element, items.keys) == (1, ["a", "b"])
    steps = Steps()
    item.body(steps, "a")
    assert dict(steps.counts.items()) == {"a": 3}


class Entangled(Stateful):
    """Every method ends its refused line with what the message says."""

    cents = Partitioned(Map(str, int), key="account")
    other = Partitioned(Map(str, int), key="account")
    users = Partitioned(Map(str, count=int), key="user")

    def pays_on(self, line: str) -> None:
        for account in line.split():
            n = self.cents[account]
            self.cents[account] = 0
            self.cents[account + "'"] += n  # all items come to cents before any comes to it again

    def comes_back(self, line: str) -> None:
        for account in line.split():
            n = self.cents[account]
            self.other[account] = n
            self.cents["last"] += 1  # all items come to cents before any comes to it again

    def by_the_last_of_a_list(self, account: str) -> list[str]:
        path = [account]
        path.append(str(self.cents[path[-1]]))
        while self.cents[path[-1]]:  # a while over several state elements or keys
            path.append(path[-1] + "'")
        return path

    def added_and_taken(self, account: str, user: str) -> None:
        self.cents[account] += self.cents.pop(user)  # cents is changed by what is added to it

    def taken_from_a_list(self, account: str, user: str) -> list[object]:
        keys = [account, user]
        return [self.other[user], keys.pop(), self.cents[keys[-1]]]  # read after keys.pop(), which

    def taken_before_the_key(self, account: str, user: str) -> list[object]:
        keys = [account, user]
        return [keys.pop(), self.cents[keys[-1]]]  # cents is read after keys.pop(), which may

    def taken_before_a_list(self, account: str, user: str) -> list[object]:
        keys = [account, user]
        return [keys.pop(), [self.cents[key] for key in keys]]  # cents is read after keys.pop()

    def taken_before_all(self, account: str) -> list[object]:
        keys = [account, account]
        return [keys.pop(), gather_all(on_all(self.cents).get(keys[0]))]  # on_all is read after

    def changed_before_the_key(self, account: str) -> list[int]:
        return [
            self.cents.pop(account, 0),
            self.other[str(self.cents[account])],  # the key of other is read from cents after
        ]

    def bound_in_a_test(self, user: str, account: str) -> None:
        if (row := self.users[user]).count == 0:
            self.cents[account] += 1
            row.count = 7  # set its fields first

    def second_name(self, user: str, account: str) -> None:
        row = self.users[user]
        same = row
        self.cents[account] += 1
        same.count = 8  # set its fields first

    def unpacked(self, user: str, account: str) -> None:
        row, n = self.users[user], 9
        self.cents[account] += 1
        row.count = n  # set its fields first

    def unpacked_from_a_name(self, user: str, account: str) -> None:
        pair = (self.users[user], 9)
        self.cents[account] += 1
        row, n = pair
        row.count = n  # row may be a copy of its row: set the fields of row, where

    def annotated(self, user: str, account: str) -> None:
        row: object = self.users[user]
        self.cents[account] += 1
        row.count = 11  # set its fields first

    def one_or_the_other(self, user: str, other: str, first: bool) -> None:
        row = self.users[user] if first else self.users[other]  # as users is accessed again
        row.count = 10

    def one_or_the_other_by_if(self, user: str, other: str, first: bool) -> None:
        if first:
            row = self.users[user]
        else:
            row = self.users[other]
        row.count = 10  # row is a copy here, as users is accessed again before

    def rows_in_a_list(self, line: str) -> None:
        rows = [self.users["a"], self.cents[line]]
        for row in rows[:1]:
            row.count = 1  # row may be a copy of its row

    def kept_in_a_list(self, user: str, account: str) -> None:
        rows: list[object] = []
        rows.append(self.users[user])
        self.cents[account] += 1
        rows[0].count = 1  # rows[0] may be a copy of its row

    def read_late_in_a_list(self, user: str, other: str) -> int:
        rows = [self.users[user]]
        self.users[other].count += 1
        return rows[0].count  # rows is a copy here, as users is accessed again before

    def read_late(self, user: str, other: str) -> int:
        row = self.users[user]
        self.users[other].count += 1
        return row.count  # row is a copy here, as users is accessed again before

    def method_by_another_name(self, line: str) -> list[int]:
        counts: list[int] = []
        add = counts.append
        for user in line.split():
            add(self.cents[user])  # add is a variable, and may change what all items
        return counts

    def value_of_a_change(self, line: str) -> None:
        numbers = [1, 2, 3]
        for user in line.split():
            self.cents[user] += _taken(numbers)  # an item may see the numbers of the item before

    def list_by_another_name(self, line: str) -> None:
        numbers = [1, 2, 3]
        for user in line.split():
            same = numbers
            same.append(4)
            self.cents[user] += len(numbers)  # an item may see the numbers of the item before


def _taken(numbers: list[int]) -> int:
    return numbers.pop()


ENTANGLED = [name for name in vars(Entangled) if inspect.isfunction(vars(Entangled)[name])]


@pytest.mark.parametrize("name", ENTANGLED)
def test_the_line_is_named_where_results_could_differ(name: str) -> None:
    function = vars(Entangled)[name]
    elements = {n: vars(Entangled)[n] for n in ("cents", "other", "users")}
    lines, first = inspect.getsourcelines(function)
    at, expected = next(
        (first + k, line.rpartition("# ")[2].strip())
        for k, line in enumerate(lines)
        if "  # " in line
    )
    with pytest.raises(ProgramError) as error:
        program_of(type("Entangled", (Stateful,), {name: function, **elements}))
    message = str(error.value)
    assert message.startswith(f"{__file__}:{at}: Entangled.{name}: "), message
    assert expected in message
    assert "\n" not in message
