"""Actions that are rewritten, and writes that are merged: they do what the statements say."""

from __future__ import annotations

import linecache
import random
from typing import Any

import pytest

from tests.support.seeds import draws, seed
from vertexsdk import (
    Array,
    CallError,
    Family,
    Latest,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    on_change,
)
from vertexsdk.engine.keyed.trigger_partition import TriggerPartition
from vertexsdk.program.trigger_program import direct_method
from vertexsdk.triggers.program import trigger_program


def state(loop: TriggerLoop, *tables: str) -> list[Any]:
    """What some tables have, in the order of keys."""
    return [loop.read(name).to_pylist() for name in tables]


class Mixed(Triggers):
    """Two triggers that add to, set and delete rows of one table; what they do is data."""

    orders = Table(id=int, key=str, what=str, amount=int)
    sums = Table(key=str, n=int, m=7)

    @on_change(orders)
    def first(self, order, old):
        if order.what == "add":
            self.sums[order.key].n += order.amount
            self.sums[order.key].m -= order.amount
        elif order.what == "set":
            self.sums[order.key].n = order.amount
        elif order.what == "delete":
            del self.sums[order.key]
        elif order.what == "insert":
            self.sums.add(order.key)

    @on_change(orders)
    def second(self, order, old):
        self.sums[order.key].n += 1


def expected_sums(orders: list[tuple[int, str, str, int]]) -> list[Any]:
    """What `Mixed` has when all orders came at once: each trigger runs in the order of rows."""
    sums: dict[str, Any] = {}
    for part in ("first", "second"):
        for _, key, what, amount in sorted(orders):
            row = sums.setdefault(key, {"n": 0, "m": 7, "inserted": False})
            if part == "second":
                row["n"] += 1
            elif what == "add":
                row["n"], row["m"] = row["n"] + amount, row["m"] - amount
            elif what == "set":
                row["n"] = amount
            elif what == "delete":
                del sums[key]
            elif what == "insert":
                row["inserted"] = True
    return [
        {"key": key, "n": row["n"], "m": row["m"]}
        for key, row in sorted(sums.items())
        if row["inserted"] or (row["n"], row["m"]) != (0, 7)
    ]


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_additions_beside_writes_whose_order_counts(partitions: int) -> None:
    """They are as if all were made one after the other; drawn."""
    chance = random.Random(seed())
    for turn in range(draws(8, 50)):
        kinds = chance.choice([["add"], ["add", "insert"], ["add", "set", "delete", "insert"]])
        orders = [
            (id, chance.choice("abcd"), chance.choice(kinds), chance.randint(-2, 2))
            for id in range(chance.randint(1, 12))
        ]
        url = f"memory://mixed-{partitions}-{turn}"
        with TriggerLoop(Mixed, backend=url, partitions=partitions) as loop:
            ids, keys, what, amounts = zip(*orders, strict=True)
            loop.upsert("orders", id=ids, key=keys, what=what, amount=amounts)
            assert state(loop, "sums") == [expected_sums(orders)], orders
            runs = {name: counts["runs"] for name, counts in loop.statistics().items()}
            assert runs == {"Mixed.first": len(orders), "Mixed.second": len(orders)}


class Cells(Triggers):
    """Rows that write to cells of the same name: the last one of them, in order, counts."""

    rows = Table(id=int, cell=str, value=float)
    results = Table(key=str, names=str, total=float)

    @on_change(rows)
    def put(self, row, old):
        if row.value < 0:
            self.latest["x"].discard(row.cell)
        else:
            self.latest["x"][row.cell] = row.value

    @accumulate(Latest(float))
    def latest(self, key, values):
        self.results[key].names = ",".join(values)
        self.results[key].total = sum(values.values())


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_cells_that_several_rows_write(partitions: int) -> None:
    chance = random.Random(seed())
    for turn in range(draws(8, 50)):
        rows = [
            (id, chance.choice(["a", "b", f"own {id}"]), float(chance.randint(-2, 3)) or 0.5)
            for id in range(chance.randint(1, 10))
        ]
        cells = {}
        for _, cell, value in rows:
            cells.pop(cell, None)
            if value >= 0:
                cells[cell] = value
        with TriggerLoop(Cells, backend=f"memory://cells-{partitions}-{turn}",
                         partitions=partitions) as loop:  # fmt: skip
            ids, names, values = zip(*rows, strict=True)
            loop.upsert("rows", id=ids, cell=names, value=values)
            expected = [
                {"key": "x", "names": ",".join(sorted(cells)), "total": sum(cells.values())}
            ]
            assert state(loop, "results") == [expected if cells else []], rows


@pytest.mark.parametrize("partitions", [1, 2])
def test_a_sum_that_does_not_fit_names_its_row(partitions: int) -> None:
    """The row that leads to it is refused alone, and no other addition is lost."""
    url = f"memory://not-fit-{partitions}"
    with TriggerLoop(Mixed, backend=url, partitions=partitions) as loop:
        with pytest.raises(CallError, match=r"Mixed\.first, row 2: .*9223372036854775908"):
            loop.upsert(
                "orders", id=[1, 2, 3], key=["a", "a", "b"], what=["add"] * 3,
                amount=[100, (1 << 63) - 1, 5],
            )  # fmt: skip
        assert [row["n"] for row in state(loop, "sums")[0]] == [101, 6]


class Everything(Triggers):
    """Each statement that is rewritten, and others that look like it."""

    rows = Table(id=int, name=str, links=list[str], weight=0.5, point=Array(float, size=2))
    ints = Table(name=str, n=int, m=int, x=float, text=str)
    by_id = Table(id=int, n=int)
    shared = Table(id=int, n=int, broadcast=True)
    families = Table(name=str, cells=Family(str, int))

    @on_change(rows)
    def act(self, row, old):
        """Rewritten."""
        for link in old.links:
            self.ints[link].n -= 1
            self.totals[link].discard(row.id)
            del self.totals[link][row.name]
        k = 0
        while k < len(row.links):
            link = row.links[k]
            self.ints[link].n += 1
            self.ints[link].x += row.weight
            self.by_id[len(link)].n += True
            self.totals[link][row.id] = row.weight
            self.totals[link][row.name] = k
            self.totals[k]["seven"] = 7.0
            k += 1
        names = [link + row.name for link in row.links if row.name not in old.links]
        pairs = dict.fromkeys(row.links, row.name)
        self.ints[row.name].text = "|".join(names + sorted(pairs.values()))
        self.ints["sum"].m += sum(len(row.name) for _ in row.links)
        self.ints[f"{row.name}!"].m, other = 5, 6
        self.families[row.name].cells["links"] = len(row.links) + other
        self.shared[row.id].n = int(row.point.sum())
        row.weight = row.weight / 2 if row.weight > 0.1 else row.weight

    @accumulate(Sum(float))
    def totals(self, key, total):
        """Rewritten."""
        self.ints[str(key)].x = total
        self.by_id[-1].n += 1
        self.more[key]["a"] = total

    @accumulate(Sum(float))
    def more(self, key, total):
        self.ints[f"more {key}"].x = total


TABLES = ("rows", "ints", "by_id", "shared", "families")


def history(loop: TriggerLoop) -> list[Any]:
    """What there is after each of some steps."""
    states = []
    loop.upsert("rows", id=[1, 2], name=["a", "b"], links=[["a", "b"], ["7", "a", "a"]],
                point=[[1.0, 2.5], [3.0, 0.0]])  # fmt: skip
    states.append(state(loop, *TABLES))
    loop.upsert("rows", id=[2, 3], name=["b", "7"], links=[["c"], []])
    states.append(state(loop, *TABLES))
    loop.delete("rows", 1)
    states.append(state(loop, *TABLES))
    return states


@pytest.mark.parametrize("partitions", [1, 2])
@pytest.mark.parametrize("schedule", ["rounds", "eager"])
def test_rewritten_actions_do_the_same(
    partitions: int, schedule: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As those without a source, which stay as they are."""
    results = []
    for source in (True, False):
        with monkeypatch.context() as patch:
            if not source:
                patch.setattr("vertexsdk.triggers._rewrite.function_tree", lambda function: None)
                patch.setattr(TriggerPartition, "_merge_writes", lambda self: None)
            url = f"memory://rewritten-{partitions}-{schedule}-{source}"
            with TriggerLoop(
                Everything, backend=url, partitions=partitions, schedule=schedule
            ) as loop:
                act = loop.program.triggers[0].function
                assert (direct_method("add", "ints", "n") in act.__code__.co_names) == source
                assert (
                    "row.links" in act.__code__.co_varnames + act.__code__.co_cellvars
                ) == source
                results.append(history(loop))
    assert results[0] == results[1]


def test_what_is_read_before_a_loop(tmp_path: Any) -> None:
    """Not what the action sets, or what something else may set."""

    def half(row: Any) -> None:
        row.value /= 2

    class Sets(Triggers):
        rows = Table(id=int, value=float, seen=float, other=int)
        totals = Table(name=str, total=float)

        @on_change(rows, "value")
        def see(self, row, old):
            for _ in range(2):
                row.seen = row.seen + row.value
                if row.value > 1:
                    half(row)

        @on_change(rows, "other")
        def again(self, row, old):
            for _ in range(2):
                self.done["x"][row.other] = 1.0
                row = old

        @accumulate(Sum(float))
        def done(self, key, total):
            self.totals[key].total = total

    with TriggerLoop(Sets, backend=f"memory://{tmp_path}") as loop:
        loop.upsert("rows", id=1, value=8.0, other=3)
        assert state(loop, "rows") == [[{"id": 1, "value": 1.0, "seen": 17.0, "other": 3}]]
        assert state(loop, "totals") == [[{"name": "x", "total": 2.0}]]


def test_errors_are_at_the_line_of_the_statement(tmp_path: Any) -> None:
    lines = {
        "self.out[row.id].n += 'a'": "'a'",
        "self.out[row.id].n -= 'a'": "'a'",
        "self.out['a'].n += 1": "'a'",
        "self.out[row.id].n = 1.5": "1.5",
        "self.sums[row.id]['a'] = 'b'": "'b'",
        "self.sums[1.5]['a'] = 1": "1.5",
        "self.sums[row.id].discard(1.5)": "1.5",
        "self.out[row.id].n = self.out[2].n + 1": "another processor",
        "self.out[row.id].n += self.out[row.id].n": "another processor",
    }
    for number, (line, message) in enumerate(lines.items()):
        source = (
            "from vertexsdk import *\n"
            "class Wrong(Triggers):\n"
            "    rows = Table(id=int, value=int)\n"
            "    out = Table(id=int, n=int)\n"
            "    @on_change(rows)\n"
            "    def act(self, row, old):\n"
            "        row.value\n"
            f"        {line}\n"
            "    @accumulate(Sum(float))\n"
            "    def sums(self, key, total): ...\n"
        )
        file = tmp_path / f"wrong_{number}.py"
        file.write_text(source)
        names: dict[str, Any] = {"__name__": "wrong"}
        linecache.checkcache(str(file))
        exec(compile(source, str(file), "exec"), names)
        with TriggerLoop(names["Wrong"], backend=f"memory://{tmp_path}-{number}") as loop:
            with pytest.raises(CallError, match=rf"wrong_{number}\.py:8: Wrong\.act, row 1: ") as e:
                loop.upsert("rows", id=1, value=1)
            assert message in str(e.value)


def test_another_source_is_not_used(tmp_path: Any) -> None:
    """A file that was changed since it was imported."""
    file = tmp_path / "changed.py"
    text = (
        "from vertexsdk import *\n"
        "class Counts(Triggers):\n"
        "    rows = Table(id=int, value=int)\n"
        "    out = Table(id=int, n=int)\n"
        "    @on_change(rows)\n"
        "    def act(self, row, old):\n"
        "        self.out[1].n += {}\n"
    )
    names: dict[str, Any] = {"__name__": "changed"}
    file.write_text(text.format(2))
    linecache.checkcache(str(file))
    exec(compile(text.format(1), str(file), "exec"), names)
    with TriggerLoop(names["Counts"], backend=f"memory://{tmp_path}") as loop:
        loop.upsert("rows", id=1, value=1)
        assert state(loop, "out") == [[{"id": 1, "n": 1}]]


class Olds(Triggers):
    """Ways to use the old row."""

    rows = Table(id=int, a=int, b=int, c=int, d=int)

    @on_change(rows, "a")
    def none(self, row, old):
        pass

    @on_change(rows, "a")
    def one(self, row, old):
        return old.b + old.id

    @on_change(rows, "a")
    def passed(self, row, old):
        return repr(old)

    @on_change(rows, "a")
    def inside(self, row, old):
        return [old.b for _ in range(3)]

    @on_change(rows, "a")
    def closure(self, row, old):
        return lambda: old.b

    @on_change(rows, "a")
    def all(self, row, old):
        return locals()

    @on_change(rows, "a", when=lambda self, row, old: row.d != old.d)
    def filtered(self, row, old):
        pass


def test_which_columns_of_the_old_row_are_read() -> None:
    program = trigger_program(Olds, max_rounds=10, schedule="rounds")
    reads = {trigger.name: sorted(trigger.reads) for trigger in program.triggers}
    everything = [0, 1, 2, 3]
    assert reads == {
        "none": [0], "one": [0, 1], "passed": everything, "inside": reads["inside"],
        "closure": everything, "all": everything, "filtered": [0, 3],
    }  # fmt: skip
    assert {0, 1} <= set(reads["inside"])


@pytest.mark.parametrize("partitions", [1, 2])
def test_old_is_what_was_seen_last_also_of_columns_that_are_not_watched(partitions: int) -> None:
    """In later batches, and where the filter refused the row meanwhile."""

    class Last(Triggers):
        rows = Table(id=int, a=int, b=int, c=int, seen=str)

        @on_change(rows, "a", when="large")
        def see(self, row, old):
            row.seen = f"{old.a} {old.b}"

        def large(self, row, old):
            return row.a - old.a > 1

    url = f"memory://last-{partitions}"
    with TriggerLoop(Last, backend=url, partitions=partitions) as loop:
        for change, seen in [
            ({"a": 2, "b": 1}, "0 0"), ({"b": 2}, "0 0"), ({"c": 9}, "0 0"), ({"a": 3}, "0 0"),
            ({"b": 3}, "0 0"), ({"a": 4}, "2 1"), ({"a": 9}, "4 3"), ({"a": 2, "b": 7}, "4 3"),
            ({"a": 9, "b": 3}, "4 3"), ({"a": 11}, "9 3"),
        ]:  # fmt: skip
            loop.upsert("rows", id=1, **change)
            assert loop.lookup("rows", 1)[1]["seen"] == seen, change


class Chained(Triggers):
    """An accumulator that does not wait for the end of the round, and writes to one that does."""

    rows = Table(id=int, value=int)
    totals = Table(name=str, total=int)

    @on_change(rows)
    def put(self, row, old):
        self.parts["all"][row.id] = row.value

    @accumulate(Sum(int), synchronous=False)
    def parts(self, name, total):
        self.sums["all"][name] = total

    @accumulate(Sum(int))
    def sums(self, name, total):
        self.totals[name].total = total


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_what_a_synchronous_accumulator_gets_at_once_is_not_lost(
    partitions: int, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nothing else is written in the round."""
    if not merged:
        monkeypatch.setattr(TriggerPartition, "_merge_writes", lambda self: None)
    url = f"memory://chained-{partitions}-{merged}"
    with TriggerLoop(Chained, backend=url, partitions=partitions) as loop:
        for id in range(5):
            loop.upsert("rows", id=id, value=10**id)
            assert loop.lookup("totals", "all")["all"] == {"total": int("1" * (id + 1))}


class Runs(Triggers):
    """An accumulator that counts how often it runs."""

    rows = Table(id=int, value=int)
    runs = Table(name=str, count=int)

    @on_change(rows)
    def put(self, row, old):
        self.parts["all"]["newest"] = row.value % 10

    @accumulate(Sum(int))
    def parts(self, name, total):
        self.runs[name].count += 1


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_an_accumulator_runs_once_where_a_round_has_changed_its_cells(
    partitions: int, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where a cell ends as it was before, whatever it was in between."""
    if not merged:
        monkeypatch.setattr(TriggerPartition, "_merge_writes", lambda self: None)
    url = f"memory://runs-{partitions}-{merged}"
    with TriggerLoop(Runs, backend=url, partitions=partitions) as loop:
        for values, count in (([1, 2, 3, 4], 1), ([7, 8, 9, 14], 1), ([1, 1, 1, 5], 2)):
            loop.upsert("rows", id=[1, 2, 3, 4], value=values)
            assert loop.lookup("runs", "all")["all"] == {"count": count}
        loop.upsert("rows", id=[3, 4], value=[5, 6])
        assert loop.lookup("runs", "all")["all"] == {"count": 3}


class Newest(Triggers):
    """Accumulations of several rows write to one cell of another accumulator."""

    rows = Table(id=int, number=int, text=str)
    results = Table(name=str, value=int)

    @on_change(rows)
    def put(self, row, old):
        self.parts[row.text or row.number][row.id] = row.id

    @accumulate(Sum(int))
    def parts(self, key, total):
        self.newest["all"]["value"] = total

    @accumulate(Latest(int))
    def newest(self, name, values):
        self.results[name].value = values["value"]


@pytest.mark.parametrize("merged", [True, False])
@pytest.mark.parametrize("partitions", [1, 2, 3, 7])
def test_accumulations_write_in_the_order_of_their_keys(
    partitions: int, merged: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ints as numbers, and strings after them, also those that look like numbers."""
    if not merged:
        monkeypatch.setattr(TriggerPartition, "_merge_writes", lambda self: None)
    keys: list[tuple[int, str]] = [(9, ""), (10, ""), (-2, ""), (-10, ""), (0, "1"), (0, "a")]
    for last, (number, text) in enumerate(keys):
        first = [k for k in keys if (k[1] != "", k[1], k[0]) < (text != "", text, number)]
        if not first:
            continue
        url = f"memory://newest-{partitions}-{merged}-{last}"
        with TriggerLoop(Newest, backend=url, partitions=partitions) as loop:
            numbers, texts = zip((number, text), *first, strict=True)
            ids = range(100, 100 + len(numbers))
            loop.upsert("rows", id=list(ids), number=numbers, text=texts)
            assert state(loop, "results") == [[{"name": "all", "value": 100}]], (number, text)


class Parameters(Triggers):
    """Methods whose parameters are declared in other ways."""

    rows = Table(id=int, value=int)
    sums = Table(name=str, n=int)

    @on_change(rows)
    def keyword(self, row, old, *, by=3):
        self.sums["keyword"].n += by

    @on_change(rows)
    def positional(self, row, old, /):
        for _ in range(2):
            self.sums["positional"].n += row.value

    @on_change(rows)
    def own(self, /, row, old):
        for _ in range(2):
            self.sums["own"].n += row.value

    @on_change(rows)
    def several(self, *rows):
        self.sums["several"].n += rows[0].value


def test_parameters_that_are_declared_in_other_ways() -> None:
    with TriggerLoop(Parameters, backend="memory://parameters") as loop:
        loop.upsert("rows", id=1, value=5)
        sums = {row["name"]: row["n"] for row in state(loop, "sums")[0]}
        assert sums == {"keyword": 3, "positional": 10, "own": 10, "several": 5}
        names = {t.name: t.function.__code__.co_names for t in loop.program.triggers}
        add = direct_method("add", "sums", "n")
        assert [add in names[name] for name in ("keyword", "positional", "own")] == [True] * 3


class Value(Exception):
    def __init__(self, value: int) -> None:
        self.value = value


class Rebound(Triggers):
    """Names of parameters that statements without an assignment give to something else."""

    rows = Table(id=int, value=int)
    sums = Table(name=str, n=int)

    @on_change(rows)
    def handler(self, row, old):
        for _ in range(2):
            try:
                raise Value(100)
            except Value as old:
                self.sums["handler"].n += old.value

    @on_change(rows)
    def case(self, row, old):
        for one in (Value(7), Value(8)):
            match one:
                case Value(value=7):
                    pass
                case row:
                    pass
            self.sums["case"].n += row.value

    @on_change(rows)
    def function(self, row, old):
        for _ in range(2):
            self.sums["function"].n += row.value

            def row():
                pass

            row.value = 30

    @on_change(rows)
    def itself(self, row, old):
        sums = self.sums
        match Value(0):
            case self:
                self.sums = {"itself": Value(0)}
        self.sums["itself"].n = 4
        sums["itself"].n += self.sums["itself"].n


def test_names_that_statements_bind_again() -> None:
    with TriggerLoop(Rebound, backend="memory://rebound") as loop:
        loop.upsert("rows", id=1, value=5)
        sums = {row["name"]: row["n"] for row in state(loop, "sums")[0]}
        assert sums == {"handler": 200, "case": 13, "function": 35, "itself": 4}


class Described(Triggers):
    """The old row by a method of its own."""

    rows = Table(id=int, a=int, b=int)
    texts = Table(id=int, text=str)

    @on_change(rows, "a", when=lambda self, row, old: row.a % 2 == 0)
    def describe(self, row, old):
        self.texts[row.id].text = old.__repr__()


def test_methods_of_the_old_row_read_all_columns() -> None:
    with TriggerLoop(Described, backend="memory://described") as loop:
        loop.upsert("rows", id=1, a=2, b=5)
        loop.upsert("rows", id=1, b=6)
        loop.upsert("rows", id=1, a=4)
        assert state(loop, "texts") == [[{"id": 1, "text": "Row(id=1, a=2, b=5)"}]]


class Lines(Triggers):
    """Text in several lines."""

    rows = Table(id=int, value=int)
    sums = Table(name=str, n=int)

    @on_change(rows)
    def documented(self, row, old):
        """Count.

        In several lines.
        """
        self.sums["documented"].n += 1

    @on_change(rows)
    def text(self, row, old):
        name = """
text
    in lines"""
        self.sums[name.strip()].n += 1


def test_actions_with_text_in_several_lines_are_rewritten() -> None:
    with TriggerLoop(Lines, backend="memory://lines") as loop:
        add = direct_method("add", "sums", "n")
        assert [add in t.function.__code__.co_names for t in loop.program.triggers] == [True] * 2
        loop.upsert("rows", id=1, value=5)
        sums = {row["name"]: row["n"] for row in state(loop, "sums")[0]}
        assert sums == {"documented": 1, "text\n    in lines": 1}


@pytest.mark.parametrize("line", ["@on_change((rows", "'''", "# nothing"])
def test_a_source_that_is_no_python_any_more_is_not_used(tmp_path: Any, line: str) -> None:
    file = tmp_path / "broken.py"
    text = (
        "from vertexsdk import *\n"
        "class Counts(Triggers):\n"
        "    rows = Table(id=int, value=int)\n"
        "    out = Table(id=int, n=int)\n"
        "    @on_change(rows)\n"
        "    def act(self, row, old):\n"
        "        self.out[1].n += 1\n"
    )
    names: dict[str, Any] = {"__name__": "broken"}
    file.write_text(text.replace("    @on_change(rows)\n", f"    {line}\n"))
    linecache.checkcache(str(file))
    exec(compile(text, str(file), "exec"), names)
    with TriggerLoop(names["Counts"], backend=f"memory://{tmp_path}") as loop:
        loop.upsert("rows", id=1, value=1)
        assert state(loop, "out") == [[{"id": 1, "n": 1}]]
