"""Bad input has one clear line, and changes nothing."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from vertexsdk import (
    Array,
    CallError,
    Family,
    InputError,
    Latest,
    Map,
    Max,
    Mean,
    Min,
    ProgramError,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    combine,
    on_change,
    param,
)


class Checked(Triggers):
    """Raises where it is told to."""

    rows = Table(id=int, does=str, value=float, links=list[str], at=Array(float, size=2))
    totals = Table(name=str, total=float, count=int, tags=Family(str, int), names=list[str])
    small = Table(name=str, value=int, broadcast=True)
    factor: float = param(2.0)

    @on_change(rows, when="passes")
    def act(self, row, old):
        if row:
            ACTIONS[row.does](self, row, old)

    def passes(self, row, old):
        if row.does == "filter":
            raise ValueError("not this one")
        if row.does == "filter that writes":
            self.totals["a"].count = 1
        return row.does != "ignored"

    @on_change(rows, "value")
    def count(self, row, old):
        self.totals["all"].total += row.value - old.value

    @accumulate(Sum(int))
    def sums(self, name, total):
        self.totals[name].count = total

    @accumulate(Mean(float, size=2))
    def means(self, name, mean):
        self.totals[name].total = float(mean[0])


def _set(name: str, value: Any) -> Callable[..., None]:
    return lambda self, row, old: setattr(row, name, value)


ACTIONS: dict[str, Callable[..., Any]] = {
    "": lambda self, row, old: None,
    "zero": lambda self, row, old: 1 / 0,
    "wrong type": lambda self, row, old: setattr(self.totals["a"], "count", "x"),
    "half": lambda self, row, old: exec("self.totals['a'].count += 0.5", {"self": self}),
    "too large": lambda self, row, old: exec("self.totals['a'].count += 1 << 62", {"self": self}),
    "unknown column": lambda self, row, old: setattr(self.totals["a"], "sum", 1),
    "unknown column read": lambda self, row, old: row.title,
    "read": lambda self, row, old: float(self.totals["a"].total),
    "list": lambda self, row, old: self.totals["a"].names.append("x"),
    "write and raise": lambda self, row, old: exec(
        "self.totals['a'].count += 1; 1 / 0", {"self": self}
    ),
    "compare": lambda self, row, old: self.totals["a"].total > 3,
    "copy": lambda self, row, old: setattr(self.totals["a"], "total", self.totals["b"].total),
    "iterate": lambda self, row, old: list(self.totals),
    "old": lambda self, row, old: setattr(old, "value", 1.0),
    "key": _set("id", 3),
    "in place": lambda self, row, old: row.links.append("x"),
    "vector": _set("at", [1.0, 2.0, 3.0]),
    "vector in place": lambda self, row, old: row.at.__setitem__(0, 1.0),
    "cell": lambda self, row, old: self.sums["a"].__setitem__("b", "x"),
    "cell read": lambda self, row, old: self.sums["a"]["b"],
    "column of a cell": lambda self, row, old: self.sums["a"].__setitem__(1.5, 1),
    "key of a cell": lambda self, row, old: self.sums[1.5].__setitem__("b", 1),
    "state": lambda self, row, old: setattr(self, "seen", 1),
    "row": lambda self, row, old: self.totals.__setitem__("a", 1),
    "never ends": lambda self, row, old: setattr(row, "value", row.value + 1),
    "family": lambda self, row, old: self.totals["a"].tags.__setitem__(1, 1),
    "row as bool": lambda self, row, old: not self.totals["a"],
    "row as str": lambda self, row, old: f"{self.totals['a']}",
    "row as operand": lambda self, row, old: self.totals["a"] == 3,
    "family cell read": lambda self, row, old: self.totals["a"].tags["x"],
    "family in": lambda self, row, old: "x" in self.totals["a"].tags,
    "family get": lambda self, row, old: self.totals["a"].tags.get("x"),
    "family as bool": lambda self, row, old: not self.totals["a"].tags,
    "cells deleted": lambda self, row, old: self.sums.__delitem__("a"),
    "cells as bool": lambda self, row, old: not self.sums["a"],
    "cells in": lambda self, row, old: "b" in self.sums["a"],
    "accumulator in": lambda self, row, old: "a" in self.sums,
    "accumulator iterate": lambda self, row, old: list(self.sums),
}
LINES = {
    "zero": "Checked.act, row 0: ZeroDivisionError: division by zero",
    "filter": "Checked.act, row 0: ValueError: not this one",
    "filter that writes": "when= writes to a table or an accumulator: only the trigger may",
    "wrong type": "column count: 'x' is not an int; convert it, or declare the type",
    "half": "column count: 0.5 is not an int; convert it, or declare the type",
    "too large": "does not fit into 64 bits",
    "unknown column": "totals has no column 'sum'; it has name, total, count, tags, names",
    "unknown column read": "rows has no column 'title'; it has id, does, value, links, at",
    "read": "totals['a'].total is read, and its row may be on another processor: write to it",
    "list": "totals['a'].names is read, and its row may be on another processor",
    "write and raise": "ZeroDivisionError",
    "compare": "totals['a'].total is read, and its row may be on another processor",
    "copy": "totals['b'].total is read, and its row may be on another processor",
    "iterate": "totals cannot be read here: its rows are on other processors; declare it with",
    "old": "value of the old row cannot be set: set it of the row itself",
    "key": "rows.id is the key of the row: write to another row",
    "in place": "rows.links was changed in place, which changes nothing: set it, as row.links = [",
    "vector": "column at: [1.0, 2.0, 3.0] is not a vector of 2 numbers of type float",
    "vector in place": "assignment destination is read-only",
    "cell": "sums: 'x' is not an int",
    "cell read": "sums[key]['b'] is read, and it may be on another processor: what sums comes to",
    "column of a cell": "1.5 is not an int",
    "key of a cell": "1.5 is not an int",
    "state": "Checked.seen: keep state in a column of a Table",
    "row": "totals[key] has the columns total, count, tags, names: set them one by one",
    "never ends": "Checked.act, row 0: InputError: it has run in 40 rounds that follow from one",
    "family": "column tags: 1 is not a str",
    **dict.fromkeys(
        ["row as bool", "row as str", "row as operand"],
        "totals['a'] is read, and its row may be on another processor: set its columns, read it",
    ),
    **dict.fromkeys(
        ["family cell read", "family in", "family get", "family as bool"],
        "totals['a'].tags is read, and its row may be on another processor: set its cells, read",
    ),
    "cells deleted": "sums['a'] cannot be deleted, as others may have cells in it: remove your own",
    **dict.fromkeys(
        ["cells as bool", "cells in"], "sums[key] is read, and it may be on another processor"
    ),
    **dict.fromkeys(
        ["accumulator in", "accumulator iterate"],
        "sums is read, and its rows may be on other processors: what sums comes to is the",
    ),
}


@pytest.fixture(params=[1, 2])
def loop(request: pytest.FixtureRequest, tmp_path: Any) -> Iterator[TriggerLoop]:
    url = f"memory://{tmp_path}"
    with TriggerLoop(Checked, backend=url, partitions=request.param, max_rounds=40) as loop:
        loop.upsert("rows", id=[5, 6], does=["", "ignored"], value=[1.0, 2.0])
        yield loop


def state(loop: TriggerLoop) -> list[Any]:
    return [loop.read(name).to_pylist() for name in ("rows", "totals", "small")]


@pytest.mark.parametrize("does", LINES)
def test_a_trigger_that_raises_changes_nothing(does: str, loop: TriggerLoop) -> None:
    """The line of the user's file is named; what is wrong in many rows is told once."""
    before = state(loop)
    if does == "too large":  # of which two together are
        loop.upsert("rows", id=9, does=does)
        before = state(loop)
    with pytest.raises(CallError, match=re.escape(LINES[does])) as caught:
        loop.upsert("rows", id=0, does=does, value=5.0)
    assert str(caught.value).startswith(f"{__file__}:")
    assert state(loop) == before


def test_other_rows_of_the_same_call_are_written(loop: TriggerLoop) -> None:
    ids = list(range(10, 60))
    does = ["zero" if id % 20 == 7 else "" for id in ids]
    with pytest.raises(CallError, match=r"row 27: ZeroDivisionError.*\(and 1 more of 50 rows\)"):
        loop.upsert("rows", id=ids, does=does, value=[1.0] * 50)
    good = [id for id in ids if id % 20 != 7]
    assert loop.read("rows")["id"].to_pylist() == [5, 6, *good]
    assert loop.lookup("totals", "all")["all"]["total"] == 3 + len(good)


def test_a_row_that_was_refused_can_be_written_later(loop: TriggerLoop) -> None:
    with pytest.raises(CallError):
        loop.upsert("rows", id=1, does="filter", value=3.0)
    loop.upsert("rows", id=1, does="", value=4.0)
    assert loop.lookup("totals", "all")["all"]["total"] == 7.0


@pytest.mark.parametrize(
    ("write", "line"),
    [
        (lambda loop: loop.upsert("row", id=1), "there is no table 'row'; there are rows, totals"),
        (lambda loop: loop.delete("row", 1), "there is no table 'row'"),
        (lambda loop: loop.lookup("Checked_sums", 1), "there is no table 'Checked_sums'"),
        (lambda loop: loop.read(7), "there is no table 7"),
        (
            lambda loop: loop.upsert("rows", value=1.0),
            "the key is missing: give id=",
        ),
        (
            lambda loop: loop.upsert("rows", id=1, title="a"),
            "rows has no column 'title'; it has id, does, value, links, at",
        ),
        (lambda loop: loop.upsert("rows", id="a"), "rows, column id: 'a' is not an int"),
        (lambda loop: loop.upsert("rows", id=[1, 2], value=[1.0]), "different numbers of values"),
        (lambda loop: loop.upsert("rows", id=1, links="a"), "'a' is not JSON of a list[str]"),
        (lambda loop: loop.upsert("rows", id=1, links=[1]), "1 is not a str"),
        (lambda loop: loop.upsert("rows", id=1, at=[1.0]), "[1.0] is not a vector of 2 numbers"),
        (
            lambda loop: loop.upsert("rows", id=[1], at=np.zeros((1, 3))),
            "is not a vector of 2 numbers of type float",
        ),
        (lambda loop: loop.upsert("rows", [{"id": 1}]), "is not a table: give an Arrow table"),
        (
            lambda loop: loop.upsert("rows", pa.table({"id": [1]}), value=[1.0]),
            "give a table, or columns by name, and not both",
        ),
        (
            lambda loop: loop.upsert("rows", pa.table({"id": [1, None]})),
            "rows, column id: there are nulls",
        ),
        (lambda loop: loop.upsert("totals", name="a", tags=[1, 2]), "is not a dict of cells"),
        (lambda loop: loop.delete("rows", ["a"]), "rows, column id: 'a' is not an int"),
        (lambda loop: loop.lookup("rows", "a"), "'a' is not an int"),
        (lambda loop: loop.upsert("rows", id=1 << 63), "does not fit into 64 bits"),
    ],
)
def test_writes(write: Callable[[TriggerLoop], None], line: str, loop: TriggerLoop) -> None:
    before = state(loop)
    with pytest.raises(InputError, match=re.escape(line)):
        write(loop)
    assert state(loop) == before


@pytest.mark.parametrize(
    ("declare", "line"),
    [
        (lambda: Table(), "Table: give its columns, the key first"),
        (lambda: Table(id=float), "Table: the key id of type float is not supported"),
        (
            lambda: Table(id=int, x=complex),
            "Table.x: <class 'complex'> is not the type",
        ),
        (lambda: Table(id=int, x=list[bytes]), "Table.x: a list of bytes is not supported"),
        (lambda: Table(id=int, _x=int), "a column cannot be called '_x'"),
        (
            lambda: Table(id=int, **{f"c{k}": int for k in range(63)}),
            "there are 64 columns",
        ),
        (lambda: Family(float, int), "Family: a name of type float is not supported"),
        (lambda: on_change(Map(int, int)), "give a Table of the class and the names of columns"),
        (lambda: on_change(Table(id=int, x=int), "y"), "the table has no column 'y'; it has x"),
        (
            lambda: on_change(Table(id=int), "id"),
            "'id' (the key never changes)",
        ),
        (lambda: on_change(Table(id=int))(later_on), "later_on is a coroutine or a generator"),
        (lambda: accumulate(sum), "give an algebra, as @accumulate(Sum(float))"),
        (lambda: Mean(str), "Mean(str): takes int or float"),
        (lambda: on_change(Table(id=int))(7), "on_change decorates a method, and not 7"),
        (lambda: accumulate(Sum(int))(lambda self: 1), "<lambda> takes self, a key and a value"),
        (
            lambda: on_change(Table(id=int))(lambda self, row: 1),
            "<lambda> takes self, the row and the old row, and is declared as <lambda>(self, row)",
        ),
        (
            lambda: on_change(Table(id=int))(lambda self, row, old, *, more: 1),
            "takes self, the row and the old row, and is declared as <lambda>(self, row, old, *, m",
        ),
        (
            lambda: on_change(Table(id=int), when=lambda row: True),
            f"{__file__}:{inspect.currentframe().f_lineno - 1}: <lambda> takes self, the row and",
        ),
        (
            lambda: combine(Table(id=int, x=int), "x")(lambda one, other: one),
            "<lambda> takes self, the earlier and the later value, and is declared as <lambda>(one",
        ),
    ],
)
def test_declarations(declare: Callable[[], Any], line: str) -> None:
    with pytest.raises(ProgramError, match=re.escape(line)):
        declare()


async def later_on(self, row, old): ...


class Plain(Triggers):
    rows = Table(id=int, value=float)


class OtherType(Triggers):
    rows = Table(id=int, value=int)


class OtherKey(Triggers):
    rows = Table(key=int, value=float)


class NoTable(Triggers):
    pass


class OtherTable(Triggers):
    mine = Table(id=int)

    @on_change(Plain.rows)
    def act(self, row, old): ...


class NoFilter(Triggers):
    mine = Table(id=int)

    @on_change(mine, when="missing")
    def act(self, row, old): ...


class FilterOfRow(Triggers):
    mine = Table(id=int)

    @on_change(mine, when="new")
    def act(self, row, old): ...

    def new(self, row):
        return True


class Objects(Triggers):
    mine = Table(id=int)

    @accumulate(Latest(list))
    def all(self, key, values): ...


class Bounded(Triggers):
    mine = Table(id=int)
    rate: float = param(bounds="(0, 1)")


@pytest.mark.parametrize(
    ("applications", "options", "error", "line"),
    [
        ([Plain, OtherType], {}, ProgramError, "the column value is float, by default 0.0 in"),
        ([Plain, OtherKey], {}, ProgramError, "differ in their first column or in broadcast="),
        ([Plain, Plain], {}, InputError, "there are several classes Plain"),
        ([], {}, InputError, "give the classes of triggers to run"),
        ([Map], {}, InputError, "is not a class of triggers: give a subclass of Triggers"),
        (NoTable, {}, ProgramError, "NoTable has no Table: declare one"),
        (OtherTable, {}, ProgramError, "OtherTable.act: the table that it watches is not one of"),
        (NoFilter, {}, ProgramError, "NoFilter.act: when='missing': no such method"),
        (
            FilterOfRow,
            {},
            ProgramError,
            f"{__file__}:{FilterOfRow.new.__code__.co_firstlineno}: new takes self, the row and",
        ),
        (Objects, {}, ProgramError, "an accumulator is of int, float, bool or str"),
        (Bounded, {}, InputError, "Bounded needs a value for rate: give Bounded(rate=...)"),
        (Plain, {"max_rounds": 0}, InputError, "max_rounds is 0; give a number from 1 on"),
        (
            Plain,
            {"schedule": "soon"},
            InputError,
            "schedule is 'soon'; it must be 'rounds'",
        ),
        (Plain, {"partitions": 0}, InputError, "partitions"),
    ],
)
def test_loops(
    applications: Any, options: dict[str, Any], error: type[Exception], line: str
) -> None:
    with pytest.raises(error, match=re.escape(line)):
        TriggerLoop(applications, backend="memory://refusals", **options)


def test_parameters() -> None:
    with pytest.raises(InputError, match="Bounded has no parameter 'speed'; it has: rate"):
        Bounded(speed=1)
    with pytest.raises(InputError, match=re.escape("Bounded(rate=...): 'a' is not a float")):
        Bounded(rate="a")
    with pytest.raises(InputError, match=re.escape("it has to be in (0, 1)")):
        Bounded(rate=1)
    with pytest.raises(ProgramError, match="keep state in a column of a Table"):
        Plain().value = 3


class Chased(Triggers):
    """Cycles without a trigger of a table, and by deletions."""

    rows = Table(name=str, value=int)
    results = Table(name=str, value=int)

    @on_change(rows, "value")
    def put(self, row, old):
        self.one[row.name]["x"] = row.value

    @accumulate(Sum(int))
    def one(self, name, total):
        if name == "chase":
            self.other[name]["x"] = total + 1
        self.results[name].value = total

    @accumulate(Sum(int))
    def other(self, name, total):
        self.one[name]["x"] = total + 1

    @on_change(results, "value")
    def delete(self, row, old):
        if row.name == "delete" and row:
            del self.results[row.name]


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("schedule", ["rounds", "eager", "every"])
@pytest.mark.parametrize("name", ["chase", "delete"])
def test_every_cycle_ends(name: str, schedule: Any, partitions: int, tmp_path: Any) -> None:
    options: dict[str, Any] = {"max_rounds": 25, "schedule": schedule, "partitions": partitions}
    with TriggerLoop(Chased, backend=f"memory://{tmp_path}", **options) as loop:
        loop.upsert("rows", name="fine", value=2)
        before = [loop.read("rows"), loop.read("results")]
        with pytest.raises(CallError, match="in 25 rounds that follow from one change"):
            loop.upsert("rows", name=name, value=1)
        assert [loop.read("rows"), loop.read("results")] == before


def test_algebras_of_nothing(tmp_path: Any) -> None:
    """Without cells an accumulator has the identity of its algebra, and a mean does not run."""

    class Totals(Triggers):
        rows = Table(id=int, value=float)
        totals = Table(name=str, low=0.0, high=0.0, mean=-1.0)

        @on_change(rows)
        def put(self, row, old):
            for cells in (self.low, self.high, self.mean):
                if row:
                    cells["all"][row.id] = row.value
                else:
                    cells["all"].discard(row.id)

        @accumulate(Min(float))
        def low(self, name, value):
            self.totals[name].low = value

        @accumulate(Max(float))
        def high(self, name, value):
            self.totals[name].high = value

        @accumulate(Mean(float))
        def mean(self, name, value):
            self.totals[name].mean = value

    with TriggerLoop(Totals, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("rows", id=[1, 2], value=[1.0, 4.0])
        assert loop.lookup("totals", "all")["all"] == {"low": 1.0, "high": 4.0, "mean": 2.5}
        loop.delete("rows", [1, 2])
        assert loop.lookup("totals", "all")["all"] == {
            "low": math.inf,
            "high": -math.inf,
            "mean": 2.5,
        }
