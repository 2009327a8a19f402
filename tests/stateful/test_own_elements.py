"""State elements of a user's, in classes: in all three places, at any number of partitions."""

from __future__ import annotations

import importlib
import inspect
import random
import sys
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar

import cloudpickle
import pytest

from tests.stateful.histories import History
from tests.stateful.own_elements import Board, Intervals, TopK, TopKState
from tests.support.seeds import draws, seed
from vertexsdk import (
    Broadcast,
    CallError,
    InputError,
    Map,
    Partitioned,
    PerPartition,
    ProgramError,
    RowsState,
    StateElement,
    Stateful,
    StatefulLoop,
    Value,
    gather_all,
    on_all,
)
from vertexsdk.cli import main
from vertexsdk.program.keyed import ABSENT
from vertexsdk.program.keyed_state import Journal, state_in_memory
from vertexsdk.stateful.analysis import program_of
from vertexsdk.testing.state_elements import StateElementSuite
from vertexsdk.transport.shipping import ship_by_value

PARTITIONS = (1, 2, 7)


@pytest.mark.parametrize("partitions", PARTITIONS)
@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_answers_are_those_of_a_plain_object(partitions: int, backend: str, tmp_path: Path) -> None:
    chance = random.Random(seed())
    url = f"lmdb://{tmp_path}/store" if backend == "lmdb" else f"memory://board-{partitions}"
    flow = StatefulLoop(Board, backend=url, partitions=partitions)
    history = History(Board, flow, chance)
    for count in (*PARTITIONS, 1):
        for _ in range(draws(5, 15)):
            history.step()
            if chance.random() < 0.3:
                history.flow.snapshot()
        with history.fork().flow:
            history.check()
        if chance.random() < 0.7:
            history.flow.close()
        else:  # as if the driver had ended: what is in the log is not in a snapshot
            history.flow._end(ValueError("the driver ended"))
        history.flow = StatefulLoop.resume(Board, backend=url, partitions=count)
        history.check()
    history.flow.close()
    assert history.raised


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_calls_that_raise_lookups_and_stored_rows(
    partitions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"lmdb://{tmp_path}/store"
    with StatefulLoop(Board, backend=url, partitions=partitions) as flow:
        assert flow.score.map(["a", "a", "b"], ["ada", "bob", "eve"], [1, 5, 9]) == [True] * 3
        with pytest.raises(CallError, match=r"own_elements.py.*: Board.finish: ValueError: 9"):
            flow.finish("a", 1, "joe", 9)
        with pytest.raises(CallError, match=r"Board.leave: KeyError: 'joe'"):
            flow.leave("a", "joe")
        assert (flow.first("a"), flow.top(1), flow.players()) == (
            ["bob", "ada"], [], [("a", "bob"), ("b", "eve")],
        )  # fmt: skip
        assert flow.book(-1, 2, 5) == 3
        expected = {"scores": '[[5.0, "bob"], [1.0, "ada"]]', "count": 2}
        assert flow.lookup(["a", "z"], "best") == {"a": expected}
        assert flow.lookup(-1, "hours") == {-1: {"intervals": "[[2, 5]]"}}
    assert main(["query", "Board", "--backend", url, "--element", "hours", "--key", "-1"]) == 0
    assert capsys.readouterr().out == "-1 intervals=[[2, 5]]\n"


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_rows_that_are_changed_in_place_are_copied_for_a_fork(partitions: int) -> None:
    url = f"memory://board-fork-{partitions}"
    with StatefulLoop(Board, backend=url, partitions=partitions) as flow:
        flow.book(-1, 0, 5)
        flow.shut("a", 0, 2)
        with flow.fork() as fork:
            fork.free(-1, 2)
            fork.shut("a", 3, 4)
            assert flow.book(1, 2, 3) == 1
            assert [flow.is_booked(-1, 2), fork.is_booked(-1, 2)] == [True, False]
            assert [flow.play_all("a", 3, 1.0), fork.play_all("a", 3, 1.0)] == [["a"], []]
            flow.free(-1, 4)
            assert fork.book(-1, 1, 3) == 2
        assert not flow.is_booked(-1, 2)


def test_explain_shows_them_as_they_are_declared() -> None:
    with StatefulLoop(Board, backend="memory://explained-board") as flow:
        text = str(flow.explain())
        drawn = flow.explain().to_mermaid()
    for shown in (
        "best    Partitioned(TopK(str, size=3))", "hours   Partitioned(Intervals(int))",
        "levels  PerPartition(TopK(int, size=2))", "closed  Broadcast(Intervals(str))",
    ):  # fmt: skip
        assert shown in text
    assert '  best[("best: Partitioned(TopK(str, size=3))")]' in drawn
    assert "finish by key" in text
    writes = {name for name, method in program_of(Board).methods.items() if method.writes}
    assert writes == {"score", "leave", "book", "free", "finish", "shut", "play_all"}


class Used(Stateful):
    """Every method ends its refused line with what the message says."""

    best = Partitioned(TopK(str, size=3), key="game")
    hours = Partitioned(Intervals(int), key="room")
    levels = PerPartition(TopK(int, size=2))
    total = Partitioned(Value(int))
    counts = Partitioned(Map(str, int), key="game")

    def undeclared(self, game: str) -> object:
        return self.best.worst(game)  # TopK does not declare worst: self.best is accessed by

    def undeclared_here(self, level: int) -> object:
        return self.levels.combine(level, level)  # TopK does not declare combine: self.levels is

    def undeclared_everywhere(self, level: int) -> object:
        return gather_all(on_all(self.levels).worst(level))  # does not declare worst among what

    def changed_everywhere(self, level: int) -> object:
        return gather_all(on_all(self.levels).add(level, "a", 1.0))  # changes the state element

    def of_all_rows(self, game: str) -> object:
        return self.best.leaders()  # .drop; all rows: on_all(self.best).leaders()

    def without_a_key(self, game: str) -> object:
        return self.best.best()  # is accessed by its key alone: .best, .scores, in, .add, .drop

    def by_the_name_of_the_key(self, game: str) -> object:
        return self.best.best(key=game)  # is accessed by its key alone

    def by_several(self, game: str) -> object:
        return self.best.best(*game)  # is accessed by its key alone

    def not_called(self, game: str) -> object:
        return self.best.best  # is accessed by its key alone

    def in_brackets(self, game: str) -> object:
        return self.best[game]  # is accessed by its key alone

    def one_in_brackets(self, room: int) -> object:
        return self.hours[room]  # self.hours is accessed by its key alone: self.hours[key, place]

    def set_in_brackets(self, room: int) -> None:
        self.hours[room, 3] = True  # self.hours is accessed by its key alone

    def slice_of_a_map(self, game: str) -> object:
        return self.counts[game:]  # self.counts is accessed by its key alone: self.counts[key]

    def another_property(self, by: int) -> object:
        return self.total.amount  # Value does not declare amount: self.total is accessed in these


USED = [name for name in vars(Used) if inspect.isfunction(vars(Used)[name])]


@pytest.mark.parametrize("name", USED)
def test_what_is_not_declared_is_refused_by_its_line(name: str) -> None:
    lines, first = inspect.getsourcelines(inspect.unwrap(vars(Used)[name]))
    at, expected = next(
        (first + k, line.rpartition("  # ")[2].strip())
        for k, line in enumerate(lines)
        if "  # " in line
    )
    elements = {n: vars(Used)[n] for n in ("best", "hours", "levels", "total", "counts")}
    with pytest.raises(ProgramError) as error:
        program_of(type("Used", (Stateful,), {name: vars(Used)[name], **elements}))
    message = str(error.value)
    assert message.startswith(f"{__file__}:{at}: Used.{name}: "), message
    assert expected in message
    assert "\n" not in message


def declared(**changes: Any) -> StateElement:
    """A TopK with another declaration."""
    own = type("Mine", (TopK,), changes)
    made: StateElement = own(str, size=3)
    return made


class NotBegun(StateElement):
    state = TopKState

    def __init__(self) -> None:
        pass


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: declared(state=None), "Mine: give the class state = ..., a subclass of RowsState"),
        (lambda: declared(state=dict), "Mine: give the class state = ..., a subclass of RowsState"),
        (lambda: declared(reads="best"), r"Mine: 'best' is a str; give a tuple of names"),
        (lambda: declared(writes=("ad",)), "Mine declares ad, which TopKState does not have"),
        (lambda: declared(without_key=("all",)), "all is in without_key alone: add it to reads"),
        (lambda: declared(batches={"add": "ad"}), "Mine declares ad, which TopKState does not"),
        (lambda: declared(batches={"best": "drop"}), "best is in batches and takes no key in"),
        (NotBegun, r"NotBegun: give its fields, as super\(\).__init__\(key, total=int\)"),
        (lambda: TopK(float, size=1), "TopK: a key of type float is not supported: use int, str"),
        (lambda: TopK, "give a Map, as Map"),
    ],
)
def test_elements_that_are_not_declared_as_they_have_to_be(make: Any, message: str) -> None:
    for place in (lambda e: Partitioned(e, key="k"), PerPartition, Broadcast):
        with pytest.raises(ProgramError, match=message) as error:
            place(make())
        assert "\n" not in str(error.value)


def test_fields_have_names_of_columns() -> None:
    class Named(StateElement):
        state = RowsState

    with pytest.raises(ProgramError, match="Named: a field cannot be called 'id'; rename it"):
        Named(str, id=int)
    with pytest.raises(ProgramError, match="Named: a value of type list is not supported"):
        Named(str, total=list)  # type: ignore[arg-type]
    with pytest.raises(ProgramError, match="give combine="):
        PerPartition(Named(str, text=str))
    assert repr(PerPartition(Named(str, total=int))) == "PerPartition(Named(str))"


THEIRS = """
from vertexsdk import RowsState, StateElement

class NewestState(RowsState):
    def add(self, key, text):
        self.put(key, text)

class Newest(StateElement):
    state, writes = NewestState, ("add",)
"""


def test_processors_need_no_module_of_an_element(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "their_elements.py").write_text(THEIRS)
    with monkeypatch.context() as patch:
        patch.syspath_prepend(tmp_path)
        theirs = importlib.import_module("their_elements")

    class Logs(Stateful):
        lines = Partitioned(theirs.Newest(str, text=str), key="host")

        def log(self, host: str, line: str) -> None:
            self.lines.add(host, line)

    program = program_of(Logs)
    assert program.classes == [Logs, theirs.Newest, theirs.NewestState]
    ship_by_value(program.classes[1:])
    pickled = cloudpickle.dumps(program.tables["lines"])
    cloudpickle.unregister_pickle_by_value(theirs)
    monkeypatch.delitem(sys.modules, "their_elements")
    spec = cloudpickle.loads(pickled)
    state = state_in_memory(spec, Journal())
    state.add("a", "begin")  # type: ignore[attr-defined]
    assert (repr(spec.element), state.stored("a")) == ("Newest(str)", "begin")


class LastState(RowsState):
    fields: Any = bytearray

    def set(self, key: Any, value: bytes) -> None:
        self.put(key, value)

    def get(self, key: Any) -> bytes:
        return bytes(self.row_of(key, b""))

    def to_fields(self, row: Any) -> Any:
        return type(self).fields(row)


class Last(StateElement):
    state, reads, writes = LastState, ("get",), ("set",)

    def __init__(self, key: type) -> None:
        super().__init__(key, data=bytes)


class Lasts(Stateful):
    last = Partitioned(Last(int), key="key")

    def set(self, key: int, value: bytes) -> None:
        self.last.set(key, value)

    def get(self, key: int) -> bytes:
        return self.last.get(key)


def test_fields_of_another_type_are_not_stored(monkeypatch: pytest.MonkeyPatch) -> None:
    """They would be pickles, which nobody reads: the calls stay in the log until it is mended."""
    url = "memory://own-fields"
    with StatefulLoop(Lasts, backend=url, partitions=2, replace=True) as flow:
        flow.set(1, b"\xff\0")  # stored as a bytearray
    flow = StatefulLoop.resume(Lasts, backend=url)
    assert flow.get(1) == b"\xff\0"
    flow.set(2, b"b")
    monkeypatch.setattr(LastState, "fields", lambda row: 5)
    for _ in range(2):
        said = r"last: LastState.to_fields returns 5, and the fields are data: bytes \(5 is not"
        with pytest.raises(InputError, match=said):
            flow.snapshot()
    flow._end(ValueError("the driver ended"))
    monkeypatch.setattr(LastState, "fields", bytearray)
    with StatefulLoop.resume(Lasts, backend=url) as flow:
        assert flow.get.map([1, 2]) == [b"\xff\0", b"b"]


class NewestState(RowsState):
    batches: ClassVar[list[int]] = []  # how many calls each had

    def see(self, key: Any, number: int, of: float, name: str, data: bytes) -> int:
        if number < 0:
            raise ValueError(f"{number} is negative")
        self.put(key, (number, of, name, data))
        return number

    def see_all(self, keys: Any, numbers: Any, of: Any, names: Any, data: Any) -> list[int]:
        NewestState.batches.append(len(keys))
        rows = zip(numbers.tolist(), of.tolist(), names, data.to_pylist(), strict=True)
        self.put_all(keys, list(rows))
        if (numbers < 0).any():
            raise ValueError("one is negative")
        return numbers.tolist()  # type: ignore[no-any-return]

    def drop(self, key: Any) -> bool:
        there = self.row_of(key) is not None
        self.remove(key)
        return there

    def drop_all(self, keys: Any) -> list[bool]:
        NewestState.batches.append(len(keys))
        there = dict.fromkeys(key for key in keys if key in self.rows)
        self.remove_all(list(there))
        return [there.pop(key, ABSENT) is None for key in keys]

    def newest(self, key: Any) -> list[Any]:
        return list(self.row_of(key, ()))


class Newest(StateElement):
    state, reads, writes = NewestState, ("newest",), ("see", "drop")
    batches = MappingProxyType({"see": "see_all", "drop": "drop_all"})

    def __init__(self, key: type) -> None:
        super().__init__(key, number=int, of=float, text=str, data=bytes)


class TestNewest(StateElementSuite):
    combine = max

    def element(self, key: type) -> StateElement:
        return Newest(key)

    def arguments(self, method: str, chance: random.Random) -> tuple[Any, ...]:
        number = chance.randrange(9)
        return (number, number / 2, "ab"[number % 2], b"x" * number) if method == "see" else ()


class Seen(Stateful):
    """What a batch takes and what it does not take."""

    newest = Partitioned(Newest(int), key="key")
    named = Partitioned(Newest(str), key="key")
    own = PerPartition(Newest(int), combine=max)

    def see(self, key: int, data: bytes, of: float, number: int, name: str) -> int:
        """Arguments in another order."""
        return self.newest.see(key, number, of, name, data)

    def drop(self, key: int) -> bool:
        return self.newest.drop(key)

    def see_without_answer(self, key: int, number: int, of: float, name: str, data: bytes) -> None:
        self.newest.see(key, number, of, name, data)

    def see_named(self, key: str, number: int, of: float, name: str, data: bytes) -> int:
        return self.named.see(key, number, of, name, data)

    def see_twice(self, key: int, number: int, of: float, name: str, data: bytes) -> int:
        return self.newest.see(key, 2 * number, of, name, data)

    def see_of_another_type(self, key: str, number: int) -> int:
        return self.own.see(key, number, 0.5, "", b"")

    def see_own(self, key: int, number: int, of: float, name: str, data: bytes) -> int:
        return self.own.see(key, number, of, name, data)

    def read(self, key: int) -> list[Any]:
        return self.newest.newest(key)

    def read_named(self, key: str) -> list[Any]:
        return self.named.newest(key)


def test_methods_that_have_a_batch() -> None:
    methods = program_of(Seen).methods
    has = {name for name, method in methods.items() if method.elements[0].batch is not None}
    assert has == {"see", "drop", "see_without_answer", "see_named", "see_own"}


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_batches_are_calls_one_after_the_other(partitions: int) -> None:
    """With calls that raise, keys that come twice, and a log that others repeat."""
    chance, plain = random.Random(seed()), Seen()
    NewestState.batches.clear()
    url = f"memory://batches-{seed()}"
    flow = StatefulLoop(Seen, backend=url, partitions=partitions)
    known = 0
    for step in range(draws(20, 60)):
        calls = []
        for _ in range(chance.choice([1, 5, 40])):
            number = chance.randrange(-1 if step % 3 == 0 else 0, 50)
            calls.append((chance.randrange(20), number, number / 2, str(number), bytes(number % 5)))
        name = chance.choice(["see", "see_without_answer", "see_named", "drop"])
        if name == "see":
            calls = [(key, data, of, number, text) for key, number, of, text, data in calls]
        elif name == "see_named":
            calls = [(str(key), *rest) for key, *rest in calls]  # type: ignore[misc]
        elif name == "drop":
            calls = [call[:1] for call in calls]  # type: ignore[misc]
        expected: list[Any] = []
        for call in calls:
            try:
                expected.append(getattr(plain, name)(*call))
            except ValueError as error:
                expected.append(str(error))
        columns = list(map(list, zip(*calls, strict=True)))
        answers = getattr(flow, name).map(*columns, return_exceptions=True)
        for answer, one in zip(answers, expected, strict=True):
            assert one in str(answer) if isinstance(answer, CallError) else answer == one
        if chance.random() < 0.2:
            if chance.random() < 0.5:
                flow.close()
            else:  # the log is repeated
                flow._end(ValueError("the driver ended"))
            known += len(NewestState.batches)
            flow = StatefulLoop.resume(Seen, backend=url, partitions=chance.choice(PARTITIONS))
        assert flow.read.map(range(20)) == [plain.read(key) for key in range(20)]
        assert flow.read_named.map(map(str, range(20))) == [
            plain.read_named(str(key)) for key in range(20)
        ]
    flow.close()
    assert known
    assert max(NewestState.batches) >= 40 // partitions // 2
