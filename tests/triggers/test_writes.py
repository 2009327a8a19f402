"""What is visible of writes, what `old` is then, and what comes back of what accumulators set."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from vertexsdk import (
    Array,
    CallError,
    Family,
    InputError,
    Latest,
    Mean,
    Min,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    combine,
    on_change,
)
from vertexsdk.program.keyed_state import Journal
from vertexsdk.program.table_columns import Column
from vertexsdk.program.trigger_program import CellElement, CellRows, TableSpec


class Derived(Triggers):
    """A table whose rows come and go by a column that its trigger does not watch."""

    rows = Table(id=int, value=int)
    out = Table(id=int, a=int, b=int)
    totals = Table(name=str, rows=int, runs=int)

    @on_change(rows, "value")
    def copy(self, row, old):
        self.out[row.id].b = row.value

    @on_change(out, "a")
    def count(self, row, old):
        self.totals["all"].rows += bool(row) - bool(old)
        self.totals["all"].runs += 1


class Queue(Triggers):
    """A row that its own trigger deletes."""

    queue = Table(id=int, depth=int)
    totals = Table(name=str, rows=int, runs=int)

    @on_change(queue)
    def take(self, row, old):
        self.totals["all"].rows += bool(row) - bool(old)
        self.totals["all"].runs += 1
        if row:
            del self.queue[row.id]


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_trigger_runs_for_rows_that_come_and_go(partitions: int, tmp_path: Any) -> None:
    """By columns that it does not watch, and by its own writes."""
    url = f"memory://{tmp_path}"
    with TriggerLoop(Derived, backend=url, partitions=partitions) as loop:
        loop.upsert("rows", id=[1, 2], value=[5, 6])
        assert loop.lookup("totals", "all")["all"] == {"rows": 2, "runs": 2}
        loop.upsert("rows", id=1, value=0)
        assert loop.lookup("totals", "all")["all"] == {"rows": 1, "runs": 3}
    for depth in (0, 5):
        with TriggerLoop(Queue, backend=url, partitions=partitions, replace=True) as loop:
            loop.upsert("queue", id=1, depth=depth)
            assert loop.read("queue").num_rows == 0
            assert loop.lookup("totals", "all")["all"] == {"rows": 0, "runs": 2}


class Elections(Triggers):
    """An accumulator that sets columns, cells of a family, and rows."""

    ballots = Table(id=int, choice=str)
    options = Table(choice=str, votes=int, by=Family(str, int))
    seen = Table(choice=str)

    @on_change(ballots, "choice")
    def vote(self, ballot, old):
        self.sums[old.choice].discard(ballot.id)
        if ballot:
            self.sums[ballot.choice][ballot.id] = 1

    @accumulate(Sum(int))
    def sums(self, choice, votes):
        self.options[choice].votes = votes
        self.options[choice].by["ballots"] = votes
        self.seen.add(choice)


@pytest.mark.parametrize("partitions", [1, 2])
def test_what_accumulators_set_comes_back(partitions: int, tmp_path: Any) -> None:
    """Also where the value was there already, cells of families, and rows; after a resume too."""
    url = f"lmdb://{tmp_path}/store"
    loop = TriggerLoop(Elections, backend=url, partitions=partitions)
    loop.upsert("options", choice="a", votes=1)
    loop.upsert("ballots", id=1, choice="a")
    expected = {"a": {"votes": 1, "by": {"ballots": 1}}}
    for resumed in (False, True):
        if resumed:
            loop.close()
            loop = TriggerLoop.resume(Elections, backend=url, partitions=3 - partitions)
        loop.upsert("options", choice="a", votes=7)
        assert loop.lookup("options", "a") == expected
        loop.upsert("options", choice="a", by={})
        assert loop.lookup("options", "a") == expected
        loop.delete("options", "a")
        loop.delete("seen", "a")
        assert loop.lookup("options", "a") == expected
        assert loop.read("seen")["choice"].to_pylist() == ["a"]
    loop.close()


class Orders(Triggers):
    """What is seen of the order of cells."""

    rows = Table(id=int, cells=Family(str, float), seen=str)
    latest = Table(name=str, order=str)

    @on_change(rows, "cells")
    def see(self, row, old):
        row.seen = ",".join(old.cells)
        for name in row.cells:
            self.all["x"][name] = row.cells[name]

    @accumulate(Latest(float))
    def all(self, name, values):
        self.latest[name].order = ",".join(values)


def test_cells_are_in_the_order_of_their_names(tmp_path: Any) -> None:
    """Whatever the order of writes, and after a resume."""
    url = f"lmdb://{tmp_path}/store"
    loop = TriggerLoop(Orders, backend=url)
    loop.upsert("rows", id=1, cells={"z": 1.0})
    loop.upsert("rows", id=1, cells={"z": 1.0, "b": 2.0})
    loop.upsert("rows", id=1, cells={"z": 1.0, "c": 3.0, "b": 2.0})
    assert loop.lookup("rows", 1)[1]["seen"] == "b,z"
    assert loop.lookup("latest", "x")["x"]["order"] == "b,c,z"
    loop.close()
    with TriggerLoop.resume(Orders, backend=url) as resumed:
        resumed.upsert("rows", id=1, cells={})
        assert resumed.lookup("rows", 1)[1]["seen"] == "b,c,z"


class Numbers(Triggers):
    """Writes a NaN each time it runs, and numbers by keys of an accumulator."""

    rows = Table(id=int, value=float)
    out = Table(id=int, value=float, runs=int, last=int)

    @on_change(rows, "value")
    def put(self, row, old):
        self.out[row.id + 1].value = math.nan
        self.numbers[row.id][row.id] = 1

    @on_change(out, "value")
    def run(self, row, old):
        self.out[row.id].runs += 1

    @accumulate(Sum(int))
    def numbers(self, id, total):
        self.out[0].last = id


def test_numbers_do_not_depend_on_partitions(tmp_path: Any) -> None:
    """NaN is as before when it is written again, wherever; keys are in the order of numbers."""
    results = []
    for partitions in (1, 2, 7):
        url = f"memory://{tmp_path}"
        with TriggerLoop(Numbers, backend=url, partitions=partitions, replace=True) as loop:
            for value in (1.0, 2.0, 3.0):
                loop.upsert("rows", id=[9, 10, 11, 12, 13], value=[value] * 5)
            results.append([(r["id"], r["runs"], r["last"]) for r in loop.read("out").to_pylist()])
    assert results[0] == results[1] == results[2]
    assert results[0] == [(0, 1, 13), *((id, 1, 0) for id in range(10, 15))]


class Both(Triggers):
    """A trigger that adds to its own row, and sets what another one sets as well."""

    rows = Table(id=int, watched=int, count=int, cluster=int)
    log = Table(id=int, added=int, old=int)

    @on_change(rows, "watched")
    def earlier(self, row, old):
        self.rows[row.id].count += 10
        self.rows[row.id].cluster = 2

    @on_change(rows, "watched")
    def own(self, row, old):
        self.log[row.id].added += row.count - old.count
        self.log[row.id].old = old.cluster
        self.rows[row.id].count += 1
        self.rows[row.id].cluster = 2

    @on_change(rows, "watched")
    def later(self, row, old):
        self.rows[row.id].count += 100


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_trigger_has_seen_what_it_has_set_itself(partitions: int, tmp_path: Any) -> None:
    """And no additions of others, whether these come before or after; also what was so already."""
    url = f"memory://{tmp_path}"
    with TriggerLoop(Both, backend=url, partitions=partitions) as loop:
        for watched in (1, 2, 3):
            loop.upsert("rows", id=1, watched=watched)
        row = loop.lookup("rows", 1)[1]
        assert row["count"] == 333
        assert loop.lookup("log", 1)[1] == {"added": 220, "old": 2}


class Combined(Triggers):
    rows = Table(id=int, value=int)
    out = Table(name=str, total=int, extra=int)

    @on_change(rows, "value")
    def put(self, row, old):
        if row.value < 0:
            del self.out["x"]
        self.out["x"].total = abs(row.value)
        self.out["x"].extra += 1

    @combine(out, "total")
    def add(self, one, other):
        if 99 in (one, other):
            self.out["y"].total = 1
        return one + other


@pytest.mark.parametrize("partitions", [1, 2])
def test_combiners_do_not_go_past_other_writes(partitions: int, tmp_path: Any) -> None:
    url = f"memory://{tmp_path}"
    with TriggerLoop(Combined, backend=url, partitions=partitions) as loop:
        loop.upsert("rows", id=[1, 2, 3, 4], value=[1, 2, -4, 8])
        assert loop.lookup("out", "x")["x"] == {"total": 12, "extra": 2}
        loop.upsert("rows", id=[1, 2], value=[99, 1])  # refused together, and written one by one
        assert loop.lookup("out", ["x", "y"])["x"]["total"] == 1
        assert loop.read("out").num_rows == 1


class Vectors(Triggers):
    rows = Table(id=int, at=Array(int, size=1), number=float)
    low = Table(name=str, value=float)

    @on_change(rows, "number")
    def put(self, row, old):
        self.lowest["x"][row.id] = row.number

    @accumulate(Min(float))
    def lowest(self, name, value):
        self.low[name].value = value


def test_numbers_that_do_not_fit_and_nan(tmp_path: Any) -> None:
    with TriggerLoop(Vectors, backend=f"memory://{tmp_path}") as loop:
        with pytest.raises(InputError, match=re.escape("is not a vector of 1 numbers of type int")):
            loop.upsert("rows", id=1, at=np.array([1 << 63], np.uint64))
        for values in ([math.nan, 1.0], [1.0, math.nan]):
            loop.upsert("rows", id=[1, 2], number=values)
            assert math.isnan(loop.lookup("low", "x")["x"]["value"])
        loop.upsert("rows", id=[1, 2], number=[3.0, 1.0])
        assert loop.lookup("low", "x")["x"]["value"] == 1.0


def test_totals_keep_nothing_of_small_rows() -> None:
    value = Column("value", "int", 0)
    rows = CellRows(TableSpec("cells", CellElement(Sum(int), value)), Journal())
    for column in range(40):
        rows.put_cell("row", column, 1)
    assert rows.total("row") == 40
    for column in range(35):
        rows.discard_cell("row", column)
    assert rows.total("row") == 5
    rows.put_cell("row", 39, 2)
    assert not rows._running


def test_a_refused_row_leaves_no_writes(tmp_path: Any) -> None:
    """What an action wrote before it raised is not taken for that of the next one."""

    class Raises(Triggers):
        rows = Table(id=int, value=int)
        out = Table(id=int, value=int)

        @on_change(rows, "value")
        def act(self, row, old):
            self.out[row.id].value = row.value
            if row.value == 13:
                raise ValueError("unlucky")

    with TriggerLoop(Raises, backend=f"memory://{tmp_path}") as loop:
        with pytest.raises(CallError, match="unlucky"):
            loop.upsert("rows", id=[1, 2, 3], value=[1, 13, 3])
        assert loop.read("out")["id"].to_pylist() == [1, 3]


class Centre(Triggers):
    """The mean of vectors."""

    points = Table(id=int, at=Array(float, size=2))
    centres = Table(name=str, at=Array(float, size=2))

    @on_change(points, "at")
    def put(self, point, old):
        self.all["all"][point.id] = point.at

    @accumulate(Mean(float, size=2))
    def all(self, name, mean):
        self.centres[name].at = mean


def test_rows_with_vectors_are_one_batch(tmp_path: Any) -> None:
    """Their size is known, so that as many rows are taken together as without them."""
    points = np.arange(6000.0).reshape(3000, 2)
    with TriggerLoop(Centre, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("points", id=range(3000), at=points)
        assert loop.lookup("centres", "all")["all"]["at"].tolist() == points.mean(axis=0).tolist()
        assert loop.statistics()["Centre.all"]["runs"] == 1
