"""State elements of a user's, in classes: in all three places, at any number of partitions."""

from __future__ import annotations

import importlib
import inspect
import random
import sys
from pathlib import Path
from typing import Any

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
from vertexsdk.program.keyed_state import Journal, state_in_memory
from vertexsdk.stateful._analysis import program_of
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
        for _ in range(draws(5, 40)):
            history.step()
            if chance.random() < 0.3:
                history.flow.snapshot()
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
