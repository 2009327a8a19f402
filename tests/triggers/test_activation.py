"""All-Activate: a trigger runs for all rows, from outside and in an action; combiners; counts."""

from __future__ import annotations

import random
import re
from typing import Any

import numpy as np
import pytest

from tests.support.seeds import seed
from tests.triggers.histories import crash
from tests.triggers.programs import KMeans, Words
from vertexsdk import (
    CallError,
    InputError,
    ProgramError,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    combine,
    on_change,
)


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("schedule", ["rounds", "eager"])
def test_clusters_are_a_fixed_point(partitions: int, schedule: Any, tmp_path: Any) -> None:
    """After any order of writes and deletions each centre is the mean of what is nearest to it."""
    generator, chance = np.random.default_rng(seed()), random.Random(seed())
    url = f"lmdb://{tmp_path}/store"
    options: dict[str, Any] = {"backend": url, "schedule": schedule}
    loop = TriggerLoop(KMeans, partitions=partitions, **options)
    points: dict[int, Any] = {}
    loop.upsert("centres", id=range(4), point=generator.normal(size=(4, 2)))
    left = {0, 1, 2, 3}
    for step in range(8):
        if step in (3, 6):
            gone = chance.sample(sorted(points), 5)
            loop.delete("items", gone)
            points = {id: point for id, point in points.items() if id not in gone}
        elif step == 5 and schedule == "rounds":  # else a mean brings it back on the way
            loop.delete("centres", 2)
            left.discard(2)
        else:
            ids = chance.sample(range(40), 10)
            new = generator.normal(size=(10, 2)) + chance.choice([-4, 0, 4])
            loop.upsert("items", id=ids, point=new)
            points |= dict(zip(ids, new, strict=True))
        if step == 4:
            loop.close()
            loop = TriggerLoop.resume(KMeans, partitions=4 - partitions, **options)
        items = {row["id"]: row for row in loop.read("items").to_pylist()}
        centres = {row["id"]: np.array(row["point"]) for row in loop.read("centres").to_pylist()}
        assert items.keys() == points.keys()
        assert centres.keys() == left
        for id, item in items.items():
            distances = {c: ((centre - points[id]) ** 2).sum() for c, centre in centres.items()}
            assert item["cluster"] == min(distances, key=lambda c: (distances[c], c))
        for c, centre in centres.items():
            own = [points[id] for id, item in items.items() if item["cluster"] == c]
            if own:
                assert np.allclose(np.mean(own, axis=0), centre, rtol=1e-12)
    loop.close()


class Passes(Triggers):
    """Counts how often it is run for each row, and what that writes."""

    rows = Table(id=int, value=int, runs=int, fired=int)
    totals = Table(name=str, total=int)

    @on_change(rows, "value", when="never")
    def visit(self, row, old):
        self.rows[row.id].runs += 1
        self.sums["all"][row.id] = row.value

    def never(self, row, old):
        return False

    def even(self, row):
        return row.value % 2 == 0

    @on_change(rows, "runs")
    def see(self, row, old):
        self.rows[row.id].fired += 1

    @on_change(totals, "total")
    def again(self, row, old):
        if row.total == 3:
            self.activate(self.visit, where=self.even)

    @accumulate(Sum(int))
    def sums(self, name, total):
        self.totals[name].total = total


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_trigger_is_activated_for_rows_that_a_filter_chooses(
    partitions: int, tmp_path: Any
) -> None:
    """What a pass writes is an event once it has run for all rows; it is in the log."""
    url = f"lmdb://{tmp_path}/store"
    loop = TriggerLoop(Passes, backend=url, partitions=partitions)
    loop.upsert("rows", id=range(5), value=[0, 1, 2, 3, 4])
    assert loop.read("rows")["runs"].to_pylist() == [0] * 5
    loop.activate("Passes.visit", where=Passes.even)
    assert loop.read("rows")["runs"].to_pylist() == [1, 0, 1, 0, 1]
    assert loop.read("rows")["fired"].to_pylist() == [2, 1, 2, 1, 2]  # once when it was inserted
    assert loop.lookup("totals", "all")["all"]["total"] == 6
    loop.upsert("rows", id=[0, 2, 4], value=[0, 0, 0])
    loop.activate("visit")  # sum 0 + 1 + 0 + 3 + 0
    assert loop.read("rows")["runs"].to_pylist() == [2, 1, 2, 1, 2]
    loop.upsert("rows", id=1, value=0)
    loop.activate(Passes.visit)  # sum 3, and so the even ones are visited again
    before = loop.read("rows").to_pylist()
    assert [row["runs"] for row in before] == [4, 3, 4, 2, 4]
    crash(loop)
    with TriggerLoop.resume(Passes, backend=url, partitions=3 - partitions) as resumed:
        assert resumed.read("rows").to_pylist() == before


class Refused(Triggers):
    rows = Table(id=int, value=str)

    @on_change(rows, "value")
    def act(self, row, old):
        if row.value == "lambda":
            self.activate(lambda row: row)
        elif row.value == "method":
            self.activate(self.act, where="nowhere")
        elif row.value == "raise":
            self.activate(self.fail)
        elif row.value:
            self.activate(row.value)

    @on_change(rows)
    def fail(self, row, old):
        if row.value == "raise":
            raise ValueError("in a pass")


def test_activations_that_are_refused(tmp_path: Any) -> None:
    with TriggerLoop(Refused, backend=f"memory://{tmp_path}") as loop:
        for value, line in [
            ("lambda", "is not a method of the class: give one, or its name"),
            ("method", "where='nowhere': Refused has no such method"),
            ("gone", "trigger 'gone': there is none; the triggers of tables are Refused.act"),
            ("raise", "Refused.fail, row 1: ValueError: in a pass"),
        ]:
            with pytest.raises(CallError, match=re.escape(line)):
                loop.upsert("rows", id=1, value=value)
        with pytest.raises(InputError, match="trigger 'gone': there is none"):
            loop.activate("gone")
        with pytest.raises(InputError, match="where='gone': Refused has no such method"):
            loop.activate("act", where="gone")
        assert loop.read("rows").num_rows == 0
    with pytest.raises(InputError, match=r"from outside use TriggerLoop\.activate"):
        Refused().activate("act")


class Longest(Triggers):
    """The longest text of each site in one round; ties are won by the earlier page."""

    pages = Table(url=str, text=str)
    sites = Table(site=str, longest=str, writes=int)

    @on_change(pages, "text")
    def look(self, page, old):
        site = page.url.partition("/")[0]
        self.sites[site].longest = page.text
        self.sites[site].writes += 1

    @combine(sites, "longest")
    def longer(self, one, other):
        if "unlucky" in (one, other):
            raise ValueError("unlucky")
        return max(one, other, key=len)


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_writes_of_a_round_are_combined(partitions: int, tmp_path: Any) -> None:
    url = f"memory://{tmp_path}"
    with TriggerLoop(Longest, backend=url, partitions=partitions) as loop:
        pages = {f"{site}/{k}": "x" * (3 - abs(k - 3)) + str(k) for site in "ab" for k in range(6)}
        loop.upsert("pages", url=list(pages), text=list(pages.values()))
        assert loop.read("sites").to_pylist() == [
            {"site": site, "longest": "xxx3", "writes": 6} for site in "ab"
        ]
        loop.upsert("pages", url="a/7", text="y")  # of another round
        assert loop.lookup("sites", "a")["a"]["longest"] == "y"
        loop.upsert("pages", url=["c/0", "c/1"], text=["z", "unlucky"])  # not of one round, so
        assert loop.lookup("sites", "c")["c"]["longest"] == "unlucky"


def test_combiners_that_are_refused() -> None:
    with pytest.raises(ProgramError, match="combine: the table has no column 'x'; it has text"):
        combine(Longest.pages, "x")
    with pytest.raises(ProgramError, match=re.escape("give a Table of the class")):
        combine("pages", "text")
    with pytest.raises(ProgramError, match="<lambda> takes self, the earlier and the later value"):
        combine(Longest.pages, "text")(lambda self: 1)


def test_later_events_make_earlier_ones_redundant(tmp_path: Any) -> None:
    """An accumulator of many partial results runs once in a round, and for each with "every"."""

    class Totals(Triggers):
        rows = Table(id=int, value=int)
        totals = Table(name=str, total=int)

        @on_change(rows, "value")
        def put(self, row, old):
            self.sums["all"][row.id] = row.value

        @accumulate(Sum(int))
        def sums(self, name, total):
            self.totals[name].total = total

    runs = {}
    for schedule in ("rounds", "every"):
        url = f"memory://{tmp_path}-{schedule}"
        with TriggerLoop(Totals, backend=url, schedule=schedule) as loop:  # type: ignore[arg-type]
            loop.upsert("rows", id=range(50), value=range(1, 51))
            runs[schedule] = loop.statistics()["Totals.sums"]
            assert loop.lookup("totals", "all")["all"]["total"] == 1275
    assert runs == {"rounds": {"events": 50, "runs": 1}, "every": {"events": 50, "runs": 50}}


def test_statistics_are_of_all_partitions(tmp_path: Any) -> None:
    with TriggerLoop(Words, backend=f"memory://{tmp_path}", partitions=3) as loop:
        loop.upsert("pages", url=list("abcdef"), text=["x"] * 6)
        assert loop.statistics() == {"Words.split": {"events": 6, "runs": 6}}
