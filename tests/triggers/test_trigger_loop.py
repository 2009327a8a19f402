"""What a loop of triggers keeps: its log, snapshots, forks, streams, columns of every type."""

from __future__ import annotations

import json
import math
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.support.seeds import seed
from tests.triggers.histories import CASES, History, crash
from tests.triggers.programs import Words
from vertexsdk import (
    Array,
    CallError,
    Family,
    InputError,
    Map,
    Partitioned,
    Stateful,
    StatefulLoop,
    StateInputError,
    Table,
    TriggerLoop,
    Triggers,
    on_change,
)


class Counted(Triggers):
    """Counts how often its trigger runs: which depends on what is one batch."""

    rows = Table(id=int, value=int, runs=int)

    @on_change(rows, "value")
    def run(self, row, old):
        if row.value == 13:
            raise ValueError("unlucky")
        self.rows[row.id].runs += 1


def test_batches_are_repeated_as_they_were(tmp_path: Any) -> None:
    """A resumed loop runs triggers for the batches of before, though their log is joined; what was
    refused stays so.
    """
    url = f"lmdb://{tmp_path}/store"
    loop = TriggerLoop(Counted, backend=url)
    for value in (1, 2, 13, 3):
        if value == 13:
            with pytest.raises(CallError, match="unlucky"):
                loop.upsert("rows", id=1, value=value)
        else:
            loop.upsert("rows", id=1, value=value)
    loop.upsert("rows", id=[1, 2, 1], value=[4, 5, 6])
    before = loop.read("rows").to_pylist()
    assert before[0] == {"id": 1, "value": 6, "runs": 4}
    crash(loop)
    for partitions in (1, 2):
        with TriggerLoop.resume(Counted, backend=url, partitions=partitions) as resumed:
            assert resumed.read("rows").to_pylist() == before


def test_threads_write_beside_each_other(tmp_path: Any) -> None:
    with TriggerLoop(Words, backend=f"memory://{tmp_path}", partitions=2) as loop:

        def write(k: int) -> None:
            for n in range(10):
                loop.upsert("pages", url=f"{k} {n}", text="a b a")

        threads = [threading.Thread(target=write, args=(k,)) for k in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert loop.read("words").to_pylist() == [
            {"word": "a", "count": 80}, {"word": "b", "count": 40},
        ]  # fmt: skip


def test_a_fork_is_a_what_if(tmp_path: Any) -> None:
    with TriggerLoop(Words, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("pages", url="a", text="x")
        with loop.fork("kept") as fork:
            fork.upsert("pages", url="a", text="y")
        assert loop.read("words")["word"].to_pylist() == ["x"]
    with TriggerLoop.resume(Words, backend=f"memory://{tmp_path}", loop="kept") as kept:
        assert kept.read("words")["word"].to_pylist() == ["y"]


class Every(Triggers):
    """A table with every type of column, of which another one has a copy."""

    rows = Table(
        name=str, kind=int, id=3, ratio=0.5, on=True, title="x", raw=b"\0", ints=list[int],
        floats=list[float], bools=list[bool], texts=list[str], at=Array(float, size=2),
        counts=Array(int, size=1), cells=Family(str, float), by_id=Family(int, str),
    )  # fmt: skip
    copies = Table(
        name=str, kind=int, id=3, ratio=0.5, on=True, title="x", raw=b"\0", ints=list[int],
        floats=list[float], bools=list[bool], texts=list[str], at=Array(float, size=2),
        counts=Array(int, size=1), cells=Family(str, float), by_id=Family(int, str),
    )  # fmt: skip

    @on_change(rows)
    def copy(self, row, old):
        if not row:
            del self.copies[row.name]
            return
        self.copies.add(row.name)
        for column in VALUES:
            if column not in ("cells", "by_id"):
                setattr(self.copies[row.name], column, getattr(row, column))
        for column in ("cells", "by_id"):
            family = getattr(self.copies[row.name], column)
            for name in getattr(old, column).keys() - getattr(row, column).keys():
                family.discard(name)
            for name, cell in getattr(row, column).items():
                family[name] = cell


VALUES: dict[str, list[Any]] = {
    "kind": [0, -(1 << 63)],
    "id": [3, 4],
    "ratio": [0.5, math.inf, -0.0, 1],
    "on": [True, False],
    "title": ["x", "", "ä\0"],
    "raw": [b"\0", b"", b"\xff\0"],
    "ints": [[], [1, 2], [(1 << 63) - 1]],
    "floats": [[], [0.1, math.inf]],
    "bools": [[], [True, False]],
    "texts": [[], ["", "ä", '"']],
    "at": [[0.0, 0.0], [0.1, -math.inf]],
    "counts": [[0], [7]],
    "cells": [{}, {"": 0.5, "ä": math.inf}],
    "by_id": [{}, {-1: "a", 7: ""}],
}


def test_columns_of_every_type(tmp_path: Any) -> None:
    """They are the same after an action, a snapshot, the log, other partitions and a fork."""
    chance = random.Random(seed())
    url = f"lmdb://{tmp_path}/store"
    rows: dict[str, dict[str, Any]] = {}
    loop = TriggerLoop(Every, backend=url, partitions=2)
    for k in range(30):
        name = chance.choice("abcdef")
        if k and chance.random() < 0.2:
            loop.delete("rows", name)
            rows.pop(name, None)
            continue
        given = {c: chance.choice(v) for c, v in VALUES.items() if chance.random() < 0.5}
        loop.upsert("rows", name=name, **given)
        blank = {column: values[0] for column, values in VALUES.items()}
        rows[name] = rows.get(name, blank) | given
        if k == 15:
            loop.snapshot()

    def check(loop: TriggerLoop) -> None:
        for table in ("rows", "copies"):
            shown = {row.pop("name"): row for row in loop.read(table).to_pylist()}
            for row in shown.values():
                row["cells"], row["by_id"] = dict(row["cells"]), dict(row["by_id"])
            assert shown == rows
            for name, row in loop.lookup(table, list(rows)).items():
                assert row.keys() == VALUES.keys()
                for column, value in rows[name].items():
                    assert np.array_equal(row[column], value) or dict(row[column]) == value
                assert isinstance(row["at"], np.ndarray)
                assert row["at"].dtype == np.float64
                assert row["counts"].dtype == np.int64

    check(loop)
    with loop.fork() as fork:
        check(fork)
    crash(loop)
    for partitions in (1, 3):
        with TriggerLoop.resume(Every, backend=url, partitions=partitions) as resumed:
            check(resumed)


def test_tables_of_arrow_and_pandas(tmp_path: Any) -> None:
    table = pa.table({
        "name": ["a", "b"], "ints": [[1], []],
        "at": pa.array([[1.0, 2.0]] * 2, pa.list_(pa.float64(), 2)),
        "cells": pa.array([[("x", 1.0)], []], pa.map_(pa.string(), pa.float64())),
    })  # fmt: skip
    frame = pd.DataFrame({"name": ["c"], "texts": [["x"]], "counts": [np.array([3])]})
    with TriggerLoop(Every, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("rows", table)
        loop.upsert("rows", frame)
        loop.upsert("rows", name=np.array(["d"], object), at=np.ones((1, 2)))
        rows = loop.lookup("copies", list("abcd"))
    assert rows["a"]["ints"] == [1]
    assert rows["a"]["cells"] == {"x": 1.0}
    assert rows["a"]["at"].tolist() == [1.0, 2.0]
    assert rows["c"]["texts"] == ["x"]
    assert rows["c"]["counts"].tolist() == [3]
    assert rows["d"]["at"].tolist() == [1.0, 1.0]


def test_streams_of_files(tmp_path: Path) -> None:
    """Each row is written once, whatever ends between; columns that a file lacks are not set."""
    url = f"lmdb://{tmp_path}/store"
    (tmp_path / "csv").mkdir()
    (tmp_path / "csv" / "a.csv").write_text(
        'name,ints,by_id,ratio\na,"[1, 2]","{""7"": ""x""}",0.25\nb,[],{},inf\nc,x,{},1\n'
    )
    loop = TriggerLoop(Every, backend=url)
    loop.upsert("rows", name="a", title="kept")
    stream = loop.start("rows", str(tmp_path / "csv"))
    stream.awaitTermination()
    loop.process_all_available()
    assert stream.progress().bad_lines == 1
    rows = loop.lookup("copies", ["a", "b", "c"])
    assert list(rows) == ["a", "b"]
    assert (rows["a"]["ints"], rows["a"]["title"]) == ([1, 2], "kept")
    assert rows["a"]["by_id"] == {7: "x"}
    assert rows["b"]["ratio"] == math.inf
    crash(loop)
    parquet = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"name": ["d"], "texts": [["x"]], "other": [1]}), parquet)
    (tmp_path / "gone.csv").write_text("name\nb\n")
    with TriggerLoop.resume(Every, backend=url, partitions=2) as resumed:
        again = resumed.start("rows", str(tmp_path / "csv"))
        again.awaitTermination()
        assert again.progress().received == 0
        resumed.start("rows", parquet).awaitTermination()
        resumed.start("rows", tmp_path / "gone.csv", delete=True).awaitTermination()
        assert [row["name"] for row in resumed.read("copies").to_pylist()] == ["a", "d"]
        assert resumed.lookup("copies", "d")["d"]["texts"] == ["x"]
        with pytest.raises(InputError, match="rows has no column 'other'"):
            resumed.start("rows", parquet, columns=["other"])


def test_rows_of_a_stream_that_are_refused_are_counted(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("id,value\n1,1\n2,13\n3,3\n")
    with TriggerLoop(Counted, backend=f"memory://{tmp_path}") as loop:
        stream = loop.start("rows", tmp_path / "rows.csv")
        stream.awaitTermination()
        assert stream.progress().failed == 1
        assert loop.read("rows")["id"].to_pylist() == [1, 3]


class Count(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    def add(self, word: str) -> None:
        self.counts[word] += 1


def test_a_loop_is_continued_as_what_it_is(tmp_path: Any) -> None:
    url = f"lmdb://{tmp_path}/store"
    with pytest.raises(StateInputError, match="there is no store"):
        TriggerLoop.resume(Words, backend=url)
    with TriggerLoop(Words, backend=url, loop="mine") as loop:
        loop.upsert("pages", url="a", text="b")
    with pytest.raises(InputError, match=r"1 acknowledged .* continue with TriggerLoop.resume"):
        TriggerLoop(Words, backend=url, loop="mine")
    with pytest.raises((InputError, StateInputError)):
        StatefulLoop.resume(Count, backend=url, loop="mine")
    with StatefulLoop(Count, backend=url) as flow:
        flow.add("a")
    with pytest.raises((InputError, StateInputError)):
        TriggerLoop.resume(Words, backend=url, loop="Count")


def test_progress_and_explain(tmp_path: Any) -> None:
    with TriggerLoop(Words, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("pages", url=["a", "b"], text=["x", "y"])
        assert loop.progress()["calls"] == 2
        assert json.dumps(loop.progress())
        assert str(loop.explain()) == (
            "Words\n"
            "  table        pages  str → text str\n"
            "  table        words  str → count int\n"
            "  on change    Words.split  pages: text"
        )


def test_broadcast_tables_are_read_by_every_partition(tmp_path: Any) -> None:
    """They are written by actions too, and every partition has them after a resume."""

    class Prices(Triggers):
        rates = Table(currency=str, rate=1.0, broadcast=True)
        orders = Table(id=int, currency=str, amount=float, euros=float)
        total = Table(name=str, euros=float, broadcast=True)

        @on_change(orders, "currency", "amount")
        def convert(self, order, old):
            known = {rate.currency for rate in self.rates}
            assert [rate.currency for rate in self.rates] == self.rates.keys()
            assert [rate.rate for rate in self.rates] == self.rates.values("rate").tolist()
            assert (order.currency in self.rates) == (order.currency in known)
            order.euros = order.amount * self.rates[order.currency].rate
            self.total["all"].euros = order.euros

        @on_change(total)
        def see(self, row, old):
            self.rates["last"].rate += 0.0

    url = f"lmdb://{tmp_path}/store"
    with TriggerLoop(Prices, backend=url, partitions=3) as loop:
        loop.upsert("rates", currency=["usd", "gbp"], rate=[0.5, 2.0])
        loop.upsert("orders", id=range(20), currency=["usd", "gbp"] * 10, amount=[2.0] * 20)
        euros = loop.read("orders")["euros"].to_pylist()
        assert euros == [1.0, 4.0] * 10
    with TriggerLoop.resume(Prices, backend=url, partitions=2) as loop:
        loop.upsert("orders", id=[50, 51], currency=["usd", "gbp"], amount=[4.0, 4.0])
        assert loop.read("orders")["euros"].to_pylist() == [*euros, 2.0, 8.0]
        assert loop.lookup("total", "all") == {"all": {"euros": 8.0}}


@pytest.mark.full
@pytest.mark.parametrize("store", ["redis", "postgres"])
def test_stores_that_are_servers(store: str, request: pytest.FixtureRequest) -> None:
    chance = random.Random(seed())
    url = request.getfixturevalue(f"{store}_url")
    for name in ("words", "rank", "sensors"):
        history = History(CASES[name], TriggerLoop(CASES[name].cls, backend=url), chance)
        for _ in range(6):
            history.step()
        history.check()
        crash(history.loop)
        history.loop = TriggerLoop.resume(CASES[name].cls, backend=url, partitions=2)
        with history.loop:
            history.check()
            history.step()
            history.check()
