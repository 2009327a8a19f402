"""What a stateful class cannot do on partitions is refused by the line that does it."""

from __future__ import annotations

import inspect

import pytest

from tests.stateful.programs import KeyValue, Names, Visits, WordCount
from vertexsdk import InputError, Map, Partitioned, ProgramError, Stateful, StatefulLoop
from vertexsdk.stateful._analysis import program_of

TOTAL = 0


class Refused(Stateful):
    """Every method ends its refused line with what the message says."""

    values = Partitioned(Map(int, float), key="key")
    counts = Partitioned(Map(str, int), key="word")
    SCALE = 2.0

    def two_elements(self, key: int, word: str) -> None:
        self.values[key] = 1.0
        self.counts[word] += 1  # access one state element

    def another_key(self, key: int, other: int) -> float:
        self.values[key] = 1.0
        return self.values[other]  # partitioned by key

    def no_key(self, user: int) -> float:
        return self.values[user]  # partitioned by key

    def computed_key(self, key: int) -> float:
        return self.values[key + 1]  # partitioned by key

    def reassigned_key(self, key: int) -> float:
        key = key % 10  # it changes key
        return self.values[key]

    def reassigned_in_except(self, key: int) -> float:
        try:
            return self.values[key]
        except KeyError as key:  # it changes key
            return 0.0

    def shadowed_key(self, key: int) -> list[float]:
        return [self.values[key] for key in range(3)]  # it changes key

    def all_keys(self, key: int) -> int:
        return len(self.values)  # accessed by its key alone

    def sum_of_all(self, key: int) -> float:
        return sum(self.values[k] for k in self.values)  # partitioned by key

    def late(self, key: int) -> float:
        read = lambda: self.values[key]  # noqa: E731  # a function, lambda or generator
        return read()

    def generator(self, key: int) -> float:
        return sum(self.values[key] for _ in range(3))  # a function, lambda or generator

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
        return self.value[key]  # has no value; its state elements are values, counts

    def more_than_a_loop(self, line: str) -> None:
        line = line.lower()
        for word in line.split():  # has to be the whole method
            self.counts[word] += 1

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

    def sees_what_the_items_set(self, line: str) -> None:
        for word in (words := line.split()):  # items do not see words
            self.counts[word] += len(words)

    def previous_in_else(self, line: str) -> None:
        for word in line.split(" "):
            for letter in word:
                last = letter
            else:
                self.counts[word] += len(last)  # the last of the item before

    def redefined_key(self, key: int) -> float:
        def key() -> None:  # it changes key
            pass

        return self.values[key]

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
        for word in line.split():  # set total to
            total += 1
            self.counts[word] += total

    def loop_over_state(self, key: int) -> None:
        for word in str(self.counts["a"]):  # partitioned by word
            self.counts[word] += 1

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
    for element in ("values", "counts"):
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

    method = program_of(Steps).methods["add"]
    assert method.items is not None
    assert list(method.items(None, "a b")) == ["a", "b"]
    steps = Steps()
    method.body(steps, "a b", "a")
    assert dict(steps.counts) == {"a": 3}
