"""Methods that are divided into task elements: their levels and order, what a call that raises
takes back, and state of which every partition has its own."""

from __future__ import annotations

import ast
import inspect
import itertools
import json
import linecache
import operator
import random
import signal
import sys
import threading
from collections import deque
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from tests.stateful.forty_programs import Accounts, Recommender, Reservations
from tests.stateful.histories import plain_answer, same, state_of, state_of_loop
from tests.stateful.programs import Divided
from tests.support.seeds import seed
from vertexsdk import (
    Array,
    Broadcast,
    CallError,
    InputError,
    Map,
    Matrix,
    Partitioned,
    PerPartition,
    ProgramError,
    SparseVector,
    Stateful,
    StatefulLoop,
    Value,
    gather_all,
    on_all,
)
from vertexsdk.state import open_store
from vertexsdk.stateful.analysis import program_of
from vertexsdk.stateful.stateful_loop import StoredState

PARTITIONS = (1, 2, 7)


def test_explain_shows_levels_and_how_rows_are_sent() -> None:
    with StatefulLoop(Recommender, backend="memory://explain", replace=True) as flow:
        explained = flow.explain()
    assert str(explained).splitlines() == [
        "Recommender",
        "  level 0  ratings   Partitioned(Matrix(int, int))   add_rating by key, recommend by key",
        "  level 1  together  PerPartition(Matrix(int, int))  "
        "add_rating one-to-any, recommend one-to-all",
        "  level 2                                            recommend all-to-one",
        "  order    as if calls ran one after another",
        "  interpreted: all methods",
    ]
    drawn = explained.to_mermaid().splitlines()
    assert drawn[0] == "flowchart LR"
    assert '  ratings[("ratings: Partitioned(Matrix(int, int))")]' in drawn
    assert "  recommend_0 -->|one-to-all| recommend_1" in drawn
    assert "  recommend_1 -.- together" in drawn
    assert "  add_rating_1 --- together" in drawn


def test_explain_names_the_line_that_has_calls_run_alone() -> None:
    with StatefulLoop(Accounts, backend="memory://alone", replace=True) as flow:
        shown = str(flow.explain())
    assert "transfer runs alone, one call at a time (cents, cents): forty_programs.py:" in shown
    assert "transfer accesses cents again, after another key" in shown
    assert "pay_in runs alone" not in shown


def test_methods_that_come_to_elements_the_other_way_round_run_alone() -> None:
    methods = program_of(Divided).methods
    assert not methods["two_elements"].serial
    assert "of_state accesses values after counts, and two_elements the other way round" in (
        methods["of_state"].serial
    )
    levels = [(e.table, e.level) for e in methods["two_elements"].elements]
    assert levels == [("values", 1), ("counts", 2)]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_call_that_raises_takes_back_what_it_did_on_all_levels(partitions: int) -> None:
    """Also where hundreds do, and calls after them come to the same rows."""
    plain = Reservations()
    url = f"memory://levels-{partitions}"
    with StatefulLoop(Reservations, backend=url, partitions=partitions, replace=True) as flow:
        for target in (plain, flow):
            for item in "abc":
                target.deliver(item, 20)
        orders, items = [k // 2 for k in range(200)], ["abc"[k % 3] for k in range(200)]
        counts = [k % 4 for k in range(200)]
        answers = flow.reserve.map(orders, items, counts, return_exceptions=True)
        raised = 0
        for answer, arguments in zip(answers, zip(orders, items, counts, strict=True), strict=True):
            assert same(answer, plain_answer(plain, "reserve", arguments), "reserve"), arguments
            raised += isinstance(answer, CallError)
        assert raised > 50
        assert state_of_loop(flow, plain) == state_of(plain)


class Sums(Stateful):
    """Partial state of every form, and a table that all partitions have."""

    words = PerPartition(Map(str, int))
    last = PerPartition(Map(str, str), combine=max)
    users = PerPartition(Map(int, count=int, total=float))
    places = PerPartition(Array(float, size=3))
    number = PerPartition(Value(int))
    least = Broadcast(Map(str, int))
    turn = Partitioned(Value(int))

    def add(self, word: str, user: int, by: float) -> int:
        if by < self.least["by"]:
            raise ValueError("too little")
        self.words[word] += 1
        self.last[word] = max(self.last[word], f"{user}")
        self.users[user].count += 1
        self.users[user].total += by
        self.places[user % 3] += by
        self.number.value += 1
        self.turn.value += 1
        if by > 90:
            raise ValueError("too much, after all was added")
        return self.turn.value

    def at_least(self, by: int) -> None:
        self.least["by"] = by

    def totals(self) -> list[Any]:
        words: dict[str, int] = {}
        for part in gather_all(on_all(self.words).items()):
            for word, count in part:
                words[word] = words.get(word, 0) + count
        number = sum(gather_all(on_all(self.number).value))
        places = [sum(column) for column in zip(*gather_all(on_all(self.places).values()),
                                                 strict=True)]  # fmt: skip
        counts = sum(row.count for part in gather_all(on_all(self.users).values()) for row in part)
        last = max(gather_all(on_all(self.last).get("a", "")))
        return [sorted(words.items()), number, places, counts, last]

    def beyond(self, place: int) -> None:
        self.places[place] += 1.0


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_partial_state_is_equal_after_the_merge(partitions: int) -> None:
    """Also when it is read again on other numbers of partitions, and changed there."""
    plain = Sums()
    url = f"memory://partial-{partitions}"
    flow = StatefulLoop(Sums, backend=url, partitions=partitions, replace=True)
    for p in (1, 7, 2, partitions):
        words = [f"{'abc'[k % 3]}" for k in range(30)]
        by = [float(99 if k % 9 == 8 else k % 5) for k in range(30)]
        for target in (plain, flow):
            target.at_least(p % 3)
        answers = flow.add.map(words, range(30), by, return_exceptions=True)
        for k, answer in enumerate(answers):
            assert same(answer, plain_answer(plain, "add", (words[k], k, by[k])), "add")
        assert flow.totals() == plain.totals()
        with pytest.raises(CallError, match="IndexError: places has the places 0 to 2, and not 3"):
            flow.beyond(3)
        assert state_of_loop(flow, plain) == state_of(plain)
        flow.close()
        flow = StatefulLoop.resume(Sums, backend=url, partitions=p)
        assert state_of_loop(flow, plain) == state_of(plain)
    flow.close()


def test_partial_state_of_strings_needs_a_way_to_combine() -> None:
    with pytest.raises(ProgramError, match=r"give combine=, a function of two values"):
        PerPartition(Map(str, str))


class Unsendable(Stateful):
    words = Partitioned(Map(str, int), key="word")
    numbers = Partitioned(Map(int, int), key="number")

    def add(self, word: str, number: int, plain: bool) -> int:
        self.words[word] += 1
        lock = None if plain else threading.Lock()
        self.numbers[number] += 1
        return self.numbers[number] + (lock is None)


def test_a_variable_that_cannot_be_sent_fails_its_call_alone() -> None:
    with StatefulLoop(Unsendable, backend="memory://unsendable", partitions=7) as flow:
        words = [str(k) for k in range(40)]
        flags = [k % 2 == 0 for k in range(40)]
        answers = flow.add.map(words, range(40), flags, return_exceptions=True)
        failed = [k for k, answer in enumerate(answers) if isinstance(answer, CallError)]
        assert len(failed) > 10
        assert all("cannot be sent to another processor" in str(answers[k]) for k in failed)
        assert all(k % 2 for k in failed)
        assert len(flow.lookup(words, "words")) == 40 - len(failed)


def test_gather_all_takes_a_partial_value() -> None:
    with pytest.raises(InputError, match=r"give the value of on_all\(self.x\)"):
        gather_all([1, 2])  # type: ignore[arg-type]


class Links(Stateful):
    """A matrix by column."""

    links = Partitioned(Matrix(str, int, by="column"), key="target")

    def link(self, source: str, target: int, weight: float) -> bool:
        known = (source, target) in self.links
        self.links[source, target] += weight
        return known

    def into(self, target: int) -> list[tuple[str, float]]:
        return self.links.column(target).items()

    def unlink(self, source: str, target: int) -> None:
        del self.links[source, target]

    def forget(self, target: int) -> None:
        self.links.clear(target)

    def product(self) -> list[tuple[str, float]]:
        parts = gather_all(on_all(self.links).multiply(SparseVector({1: 1.0, 2: 10.0})))
        return sum(parts, SparseVector()).items()


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_matrix_by_column(partitions: int) -> None:
    plain = Links()
    url = f"memory://columns-{partitions}"
    with StatefulLoop(Links, backend=url, partitions=partitions, replace=True) as flow:
        for target in (plain, flow):
            links = [("a", 1, 0.5), ("b", 1, 2.0), ("a", 2, 1.0), ("a", 1, 1.0), ("c", 3, 1.0)]
            assert [target.link(*one) for one in links] == [False, False, False, True, False]
            target.unlink("b", 1)
            target.forget(3)
            assert target.into(1) == [("a", 1.5)]
            assert target.product() == [("a", 11.5)]
        with pytest.raises(CallError, match="KeyError"):
            flow.unlink("b", 1)
        assert state_of_loop(flow, plain) == state_of(plain)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_all_rows_of_a_matrix_are_read_among_calls_by_key(partitions: int) -> None:
    url = f"memory://columns-among-{partitions}"
    with StatefulLoop(Links, backend=url, partitions=partitions, replace=True) as flow:
        futures = [(flow.link.submit("a", k % 3, 1.0), flow.product.submit()) for k in range(1, 60)]
        answers = [product.result() for _, product in futures]
    plain = Links()
    for k, answer in enumerate(answers, 1):
        plain.link("a", k % 3, 1.0)
        assert answer == plain.product()


def test_stored_rows_of_matrices_and_of_every_partition(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store"
    with StatefulLoop(Recommender, backend=url, partitions=2) as flow:
        flow.add_rating.map([1, 2, 3, 4], [10, 10, 10, 10], [5.0, 3.0, 4.0, 1.0])
    with open_store(url) as store:
        manifest = store.version("Recommender")
        ratings = StoredState(store, manifest, "ratings")
        assert dict(ratings.rows([1, 9])) == {1: {"cells": "[[10, 5.0]]"}}
        together = list(StoredState(store, manifest, "together").rows())
    counts = [json.loads(row["cells"]) for key, row in together if key == 10]
    assert sum(count for ((_, count),) in counts) == 8
    assert len(counts) == 2  # of each partition its own


class Evaluated(Stateful):
    """Expressions of which parts are evaluated or not, and in their order."""

    a = Partitioned(Map(int, int), key="k")
    b = Partitioned(Map(int, int), key="j")
    words = Partitioned(Map(str, int), key="word")
    fee = Partitioned(Value(int))
    users = Partitioned(Map(int, x=int, y=int), key="k")

    def put(self, k: int, j: int) -> None:
        self.a[k] = k + 5
        self.b[j] = k + 2
        self.fee.value += 1

    def ternary(self, k: int, j: int) -> list[Any]:
        x = 50
        return [x, [x if self.a[k] else x + self.fee.value + j for x in range(3)]]

    def tests(self, k: int, j: int) -> list[int]:
        return [x for x in range(3) if x > j and self.a[k] > 0 and self.fee.value > 0]

    def either(self, k: int, j: int) -> int:
        return sum(x or self.a[k] or self.fee.value + j for x in range(3))

    def default(self, k: int, j: int) -> list[int]:
        return [self.a.get(k, x) + self.b.get(j, -x) for x in range(3)]

    def nested(self, k: int, j: int) -> list[list[int]]:
        return [[x + y for y in range(self.a[k] + 2)] + [self.b[j]] for x in range(2)]

    def chained(self, k: int, j: int) -> bool:
        return 3 < self.a[k] < self.b.pop(j, 7) < 20

    def divided(self, k: int, j: int) -> bool:
        return 0 < j < self.b[10 // j] + self.a[k]

    def around(self, k: int, j: int) -> list[int]:
        return [self.a[k], self.a.pop(j, 0), self.a[k]]

    def in_text(self, k: int, j: int) -> str:
        return f"{self.a[k]} {self.a.setdefault(j, 9)} {self.a[k]}"

    def reversed_keys(self, k: int, j: int) -> int:
        keys = [k, j]
        n = self.a[keys[0]]
        keys.reverse()
        return n * 100 + self.a[keys[0]]

    def long_keys(self, k: int, j: int) -> list[int]:
        keys = [k]
        n = self.a[len(keys)]
        keys.append(j)
        return [n, self.a[len(keys)], self.words[f"{len(keys)}"]]

    def bound_in_a_test(self, k: int, j: int) -> int:
        if (row := self.users[k]).x < 5:
            row.x += 1
            self.a[j] += 1
        return row.x

    def second_name(self, k: int, j: int) -> int:
        row = self.users[k]
        same = row
        same.y += 1
        self.a[j] += 1
        return row.y + same.x

    def unpacked(self, k: int, j: int) -> list[int]:
        row, n = self.users[k], 9
        row.x = n
        return [self.a[j], row.x]

    def one_or_none(self, k: int, j: int) -> int:
        row = self.users[k] if j else None
        if row is not None:
            row.y += 2
        self.a[j] += 1
        return row.y if row is not None else -1

    def results_of_changes(self, k: int, j: int) -> list[Any]:
        best: list[Any] = []
        kept: list[list[int]] = [[], []]
        sizes = []
        for n in range(k, k + 3):
            size = _note(best, n, self.a[n])
            cell = kept[n % 2]
            cell.append(n)
            sizes.append(size)
        return [best, kept, sizes, self.b[j]]

    def with_a_default(self, k: int, j: int) -> int:
        other = k * 2
        for n in range(j):
            self.words[str(n)] += self.a.get(n, other)
        return other

    def shadowed(self, k: int, j: int) -> list[list[int]]:
        return [
            sorted(range(2), key=lambda w: -w) + [w * 2 for w in [k, j]] + [self.words[w]]
            for w in str(k)
        ]


def _note(best: list[Any], n: int, count: int) -> int:
    best.append((n, count))
    return len(best)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_an_expression_has_the_value_that_it_has_in_a_plain_object(partitions: int) -> None:
    plain, chance = Evaluated(), random.Random(seed())
    methods = [name for name in vars(Evaluated) if inspect.isfunction(vars(Evaluated)[name])]
    url = f"memory://evaluated-{partitions}"
    with StatefulLoop(Evaluated, backend=url, partitions=partitions) as flow:
        for k, name in enumerate(methods * 6):
            arguments = (chance.randrange(3), chance.randrange(3))
            answer = getattr(flow, name).map(*([x] for x in arguments), return_exceptions=True)
            assert same(answer[0], plain_answer(plain, name, arguments), name), (k, name, arguments)


class Announced(Stateful):
    """State that all partitions have is written, and then rows of keys."""

    flags = Broadcast(Map(str, int))
    texts = Broadcast(Map(str, x=int))
    counts = Partitioned(Map(int, int), key="key")
    own = PerPartition(Map(str, int))

    def go(self, key: int) -> int:
        self.flags["n"] += 1
        n = self.flags["n"]
        self.counts[key] += n
        return self.counts[key]

    def row(self, key: int, text: str) -> int:
        text_row = self.texts[text]
        x = text_row.x
        self.counts[key] += x + 1
        return x

    def listed(self, keys: str) -> list[int]:
        before = self.flags.setdefault("first", len(keys))
        return [self.counts[int(k)] + before for k in keys.split()]

    def items(self, keys: str) -> int:
        for k in keys.split():
            self.flags[k] += 1
            self.counts[int(k)] += 1
        return len(keys)

    def parts(self, word: str) -> int:
        self.flags["n"] += 1
        self.own[word] += 1
        return sum(gather_all(on_all(self.own).get(word, 0)))


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_call_goes_on_once_after_it_wrote_on_all_partitions(partitions: int) -> None:
    plain = Announced()
    url = f"memory://announced-{partitions}"
    with StatefulLoop(Announced, backend=url, partitions=partitions, replace=True) as flow:
        for target in (plain, flow):
            assert [target.go(1), target.go(1), target.row(5, "q")] == [1, 3, 0]
            target.items("1 2 3 1")
            assert target.parts("a") == 1
        assert flow.listed("1 2 9") == plain.listed("1 2 9")
        assert state_of_loop(flow, plain) == state_of(plain)


class Exits(BaseException):
    """Neither an Exception nor an interrupt."""


class Ends(Stateful):
    counts = Partitioned(Map(int, int), key="key")
    own = PerPartition(Map(int, int))
    users = Partitioned(Map(int, visits=int), key="key")

    def go(self, key: int) -> int:
        self.counts[key] += 1
        if key == 2:
            sys.exit("stop")
        return self.counts[key]

    def two(self, key: int) -> int:
        self.users[key].visits += 1
        self.own[key] += 1
        if key == 2:
            raise Exits("at once")
        return self.own[key]

    def interrupted(self, key: int) -> int:
        self.counts[key] += 1
        signal.raise_signal(signal.SIGINT)
        return self.counts[key]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_method_that_exits_fails_its_call_alone(partitions: int) -> None:
    url = f"memory://exits-{partitions}"
    flow = StatefulLoop(Ends, backend=url, partitions=partitions, replace=True)
    for _ in range(2):
        with pytest.raises(CallError, match=r"test_levels.py:\d+: Ends.go: SystemExit: stop"):
            flow.go(2)
        with pytest.raises(CallError, match=r"Ends.two: Exits: at once"):
            flow.two(2)
        assert flow.go(1) == flow.two(1)
        assert flow.lookup([2], "counts") == {}
        flow.close()
        flow = StatefulLoop.resume(Ends, backend=url)
    flow.close()


def test_control_c_within_a_method_interrupts() -> None:
    flow = StatefulLoop(Ends, backend="memory://control-c", partitions=1, replace=True)
    with pytest.raises(KeyboardInterrupt):
        flow.interrupted(1)
    with suppress(BaseException):
        flow.close()


def test_a_method_that_interrupts_is_refused() -> None:
    class Interrupts(Stateful):
        counts = Partitioned(Map(int, int), key="key")

        def go(self, key: int) -> None:
            self.counts[key] += 1
            raise KeyboardInterrupt

    with pytest.raises(ProgramError, match="KeyboardInterrupt ends the process: raise another"):
        program_of(Interrupts)


class Variables(Stateful):
    """Variables that task elements send on, with and without a value."""

    a = Partitioned(Map(int, int), key="k")
    b = Partitioned(Map(int, int), key="k")
    words = PerPartition(Map(str, int))

    def in_if(self, n: int) -> int:
        if n > 3:
            step = 2
        elif n > 1:
            step = 1
        for i in range(n):
            if i == 1:
                continue
            self.a[i] += step
        return n

    def in_try(self, n: int) -> int:
        text = "x" if n > 2 else str(n)
        try:
            step = int(text)
        except ValueError as error:
            step = len(str(error))
        for i in range(3):
            if i != step:
                self.b[i] += step
        return step

    def item_variable(self, n: int) -> int:
        last = 7
        for i in range(n):
            if i % 2:
                last = i * 2
                self.a[i] += last
        return n

    def counter_of_items(self, n: int) -> int:
        count = 0
        for i in range(n):
            self.a[i] += 1
            count += self.b[i]
        return n

    def counter(self, k: int, n: int) -> int:
        count = self.a[k]
        self.b[n] += 1
        count += 1
        return n

    def declared(self, k: int, n: int) -> int:
        x: int = self.a[k]
        y: int
        y = self.b[n]
        return x + y

    def deleted(self, k: int, n: int) -> int:
        x = self.a[k]
        del x
        self.b[n] += 1
        x = self.b[n]
        del k
        self.a[n] += x
        return x

    def deleted_later(self, k: int, n: int) -> int:
        x = self.a[k]
        self.b[n] += 1
        del x
        return n

    def deleted_and_read(self, k: int, n: int) -> int:
        x = self.a[k]
        del x
        self.b[n] += 1
        return x  # noqa: F821

    def of_except(self, k: int, n: int) -> int:
        error = n
        try:  # noqa: SIM105
            self.a[k] //= n
        except ZeroDivisionError as error:  # noqa: F841
            pass
        self.b[n] += 1
        return error

    def add(self, word: str) -> None:
        self.words[word] += 1

    def parts(self, word: str) -> list[int | None]:
        found = gather_all(on_all(self.words).get(word))
        return [sum(f or 0 for f in found), len(found) > 0]

    def skipped(self, n: int) -> list[int]:
        return [self.a[i] for i in range(n) if i % 2]


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_variables_without_a_value_are_as_in_a_plain_object(partitions: int) -> None:
    plain = Variables()
    url = f"memory://variables-{partitions}"
    calls = [(m, (n,)) for n in (0, 1, 3, 5) for m in ("in_if", "in_try", "item_variable",
                                                        "counter_of_items", "skipped")]  # fmt: skip
    pairs = ("counter", "declared", "deleted", "deleted_later", "deleted_and_read", "of_except")
    calls += [(m, (1, n)) for n in (0, 2) for m in pairs]
    calls += [("parts", ("x",)), ("add", ("x",)), ("parts", ("x",))]
    with StatefulLoop(Variables, backend=url, partitions=partitions, replace=True) as flow:
        for name, args in calls:
            (answer,) = getattr(flow, name).map(*[[a] for a in args], return_exceptions=True)
            assert same(answer, plain_answer(plain, name, args), name), (name, args)
        assert state_of_loop(flow, plain) == state_of(plain)


class WrongKeys(Stateful):
    """Keys that are computed, and may be of another type."""

    a = Partitioned(Map(int, int), key="k")
    users = Partitioned(Map(str, visits=int), key="user")
    places = Partitioned(Array(int, size=3), key="i")
    cells = Partitioned(Matrix(int, int), key="row")

    def line(self, k: int) -> int:
        n = self.a[k]
        m = n + 1

        return self.users[k * m].visits  # this line

    def within_try(self, k: int) -> int:
        j = k * 10
        try:
            return self.a[j]
        except Exception:
            return -1

    def goes_on(self, k: int) -> int:
        place = k * 2
        n = 1
        try:
            self.places[place] += 1
        except IndexError:
            n = 10
        self.a[k] += n
        return self.a[k]

    def not_reached(self, k: int) -> int:
        j = k << 62
        for _ in range(k - 4):
            self.a[j] += 1
        return k

    def of_items(self, k: int) -> list[int]:
        return [self.places[i] for i in range(k)]

    def of_matrix(self, k: int) -> float:
        j = k << 62
        try:
            self.cells[j, 1] += 1.0
        except Exception:
            return -1.0
        return self.cells[j, 1]

    def of_text(self, k: int) -> bool:
        user = chr(0xD800) if k else "a"
        try:
            self.users[user].visits += 1
        except Exception:
            return False
        return True


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_key_of_another_type_raises_where_it_is_used(partitions: int) -> None:
    plain = WrongKeys()
    url = f"memory://wrong-keys-{partitions}"
    names = [name for name in vars(WrongKeys) if not name.startswith("_")]
    methods = [name for name in names if callable(getattr(WrongKeys, name))]
    with StatefulLoop(WrongKeys, backend=url, partitions=partitions, replace=True) as flow:
        for name in methods:
            keys = [0, 2, 4, 0, 2]
            answers = getattr(flow, name).map(keys, return_exceptions=True)
            for answer, k in zip(answers, keys, strict=True):
                assert same(answer, plain_answer(plain, name, (k,)), name), (name, k, answer)
        assert state_of_loop(flow, plain) == state_of(plain)
        lines, first = inspect.getsourcelines(WrongKeys)
        at = first + next(k for k, line in enumerate(lines) if "# this line" in line)
        with pytest.raises(CallError, match=rf"test_levels.py:{at}: "):
            flow.line(1)


class Private(Stateful):
    __LIMIT = 3
    __counts = Partitioned(Map(int, int), key="k")
    b = Partitioned(Map(int, int), key="k")

    def __twice(self, number: int) -> int:
        return number * self.__LIMIT

    def go(self, k: int, j: int) -> int:
        __by = self.__twice(k)
        self.__counts[k] += self.__LIMIT
        self.b[j] += __by
        return self.b[j] + operator.add(self.__counts[k], 1)


def test_private_names_are_those_of_the_class() -> None:
    plain = Private()
    with StatefulLoop(Private, backend="memory://private", partitions=2, replace=True) as flow:
        for k in (1, 2, 1):
            assert flow.go(k, 2) == plain.go(k, 2)


TABLES: dict[int, int] = {}


def kept(key: int) -> int:
    TABLES[key] = 1
    return key


def counted(key: int) -> int:
    global TURN
    TURN = key
    return key


class Outside(Stateful):
    counts = Partitioned(Map(int, int), key="key")
    QUEUE = deque[int]()  # noqa: RUF012

    def hashed(self, word: str) -> None:
        self.counts[hash(word) % 8] += 1  # hash() differs in another process

    def numbered(self, key: int, word: str) -> None:
        self.counts[key] = id(word)  # id() differs in another process

    def passed(self, key: int, line: str) -> None:
        self.counts[key] += sum(map(hash, line.split()))  # hash() differs in another process

    def sorted_by(self, key: int, line: str) -> None:
        self.counts[key] += len(sorted(line, key=hash))  # hash() differs in another process

    def by_function(self, key: int) -> None:
        self.counts[key] += kept(key)  # kept() is not for methods: TABLES would be state

    def by_global(self, key: int) -> None:
        self.counts[key] += counted(key)  # counted() is not for methods: TURN would be state

    def by_alias(self, key: int) -> None:
        tables = TABLES
        tables[key] = 1  # tables would be state outside of state elements
        self.counts[key] += 1

    def of_class(self, key: int) -> None:
        self.QUEUE.append(key)  # self.QUEUE would be state outside of state elements
        self.counts[key] += 1

    def of_own_class(self, key: int) -> None:
        self.__class__.TOTAL += key  # self.__class__ would be state outside of state elements
        self.counts[key] += 1


@pytest.mark.parametrize("name", [n for n in vars(Outside) if inspect.isfunction(vars(Outside)[n])])
def test_what_differs_in_another_process_is_refused(name: str) -> None:
    made = {"counts": Outside.counts, "QUEUE": Outside.QUEUE, name: vars(Outside)[name]}
    lines, first = inspect.getsourcelines(inspect.unwrap(vars(Outside)[name]))
    at, expected = next(
        (first + k, line.rpartition("# ")[2].strip())
        for k, line in enumerate(lines)
        if "  # " in line
    )
    with pytest.raises(ProgramError) as error:
        program_of(type("Outside", (Stateful,), made))
    assert str(error.value).startswith(f"{__file__}:{at}: Outside.{name}: "), error.value
    assert expected in str(error.value)


def walks_of_a_method(lines: int, monkeypatch: pytest.MonkeyPatch) -> int:
    """How many trees the analysis of a method with so many accesses walks through."""
    text = "class Long(Stateful):\n    a = A\n    b = B\n    def go(self, k: int) -> int:\n"
    for k in range(lines):
        text += f"        x{k} = self.{'ab'[k % 2]}[k]\n"
    text += "        return " + " + ".join(f"x{k}" for k in range(lines))
    file, names = f"<long {lines}>", dict[str, Any]()
    linecache.cache[file] = len(text), None, text.splitlines(keepends=True), file
    tables = {"A": Variables.a, "B": Variables.b, "Stateful": Stateful}
    exec(compile(text, file, "exec"), {**tables, "__name__": __name__}, names)
    count, walk = itertools.count(), ast.walk
    with monkeypatch.context() as patch:
        patch.setattr(ast, "walk", lambda node: (next(count), walk(node))[1])
        method = program_of(names["Long"]).methods["go"]
    assert len(method.elements) == lines
    return next(count)


def test_the_analysis_of_a_long_method_is_quick(monkeypatch: pytest.MonkeyPatch) -> None:
    assert walks_of_a_method(24, monkeypatch) < 2.5 * walks_of_a_method(12, monkeypatch)


class OfItems(Stateful):
    """Comprehensions and loops over rows."""

    a = Partitioned(Map(int, int), key="k")
    b = Partitioned(Map(str, int), key="word")

    def previous(self, n: int) -> int:
        p = 0
        for i in range(n):
            c = self.a[i]
            if c != p:
                self.a[i] = c  # an item may see the p of the item before
            p = c
        return p

    def any_of(self, line: str) -> bool:
        return any(self.b.pop(w, 0) for w in line.split())  # give it a list, any([...])

    def all_of(self, line: str) -> bool:
        return all(10 // self.b[w] > 3 for w in line.split())  # give it a list, all([...])

    def put(self, word: str) -> None:
        self.b[word] += 1

    def taken(self, line: str) -> list[int]:
        return [self.b.pop(w, 0) for w in line.split() if w != "y"]

    def taken_by_word(self, line: str) -> dict[str, int]:
        return {w: self.b.pop(w, 0) for w in line.split()}

    def any_of_list(self, line: str) -> bool:
        return any([self.b.pop(w, 0) for w in line.split()])  # noqa: C419


REFUSED_OF_ITEMS = ("previous", "any_of", "all_of")


@pytest.mark.parametrize("name", REFUSED_OF_ITEMS)
def test_a_refusal_names_what_the_method_has(name: str) -> None:
    made = {"a": OfItems.a, "b": OfItems.b, name: vars(OfItems)[name]}
    lines, _ = inspect.getsourcelines(inspect.unwrap(vars(OfItems)[name]))
    expected = next(line.rpartition("  # ")[2].strip() for line in lines if "  # " in line)
    with pytest.raises(ProgramError) as error:
        program_of(type("OfItems", (Stateful,), made))
    assert expected in str(error.value)
    assert " _" not in str(error.value)


@pytest.mark.parametrize("partitions", PARTITIONS)
def test_a_comprehension_may_change_rows(partitions: int) -> None:
    own = {k: v for k, v in vars(OfItems).items() if k not in REFUSED_OF_ITEMS and k[0] != "_"}
    cls = type("OfItems", (Stateful,), own)
    plain, url = cls(), f"memory://of-items-{partitions}"
    with StatefulLoop(cls, backend=url, partitions=partitions, replace=True) as flow:
        for target in (plain, flow):
            for word in "xyzxa":
                target.put(word)
        for name in ("taken", "any_of_list", "taken_by_word"):
            for line in ("x y x", "z a q", ""):
                assert getattr(flow, name)(line) == getattr(plain, name)(line)
        assert state_of_loop(flow, plain) == state_of(plain)
