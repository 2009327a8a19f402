"""Compiled task elements answer as interpreted ones do, and as a plain object."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.stateful.histories import CALLS, History, plain_answer, state_of, state_of_loop
from tests.stateful.programs import KeyValue, WordCount
from tests.stateful.random_classes import RandomClass
from tests.stateful.test_oracle import run_history
from tests.support.seeds import draws, seed
from vertexsdk import (
    Array,
    CallError,
    InputError,
    Map,
    Partitioned,
    ProgramError,
    Stateful,
    StatefulLoop,
)
from vertexsdk.compile import element_kernels
from vertexsdk.compile.element_kernels import ElementKernel
from vertexsdk.engine.keyed import partition
from vertexsdk.stateful.analysis import program_of


@pytest.fixture
def kernels(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[set[int]]:
    """Have everything that compiles run compiled; the lengths of blocks that kernels ran."""
    ready, run, lengths = ElementKernel.ready, ElementKernel.run, set[int]()
    monkeypatch.setattr(partition, "_SMALL", 1)
    monkeypatch.setattr(partition, "_MANY", 0)
    monkeypatch.setattr(ElementKernel, "ready", lambda self, *, waits: ready(self, waits=True))

    def counted(self: ElementKernel, block: Any, low: int, high: int, *rest: Any) -> int:
        lengths.add(high - low)
        return run(self, block, low, high, *rest)

    monkeypatch.setattr(ElementKernel, "run", counted)
    yield lengths
    assert "was not compiled" not in caplog.text


def _shown(value: Any) -> str:
    """A value with its type and sign; of an error what follows the place."""
    if isinstance(value, CallError):
        return str(value).partition(": ")[2].partition(": ")[2]
    return repr(value)


@pytest.mark.parametrize("number", range(draws(2, 12)))
def test_random_classes(number: int, tmp_path: Path, kernels: set[int]) -> None:
    chance = random.Random(f"{seed()} {number}")
    cls = None
    while cls is None:
        made = RandomClass(chance, f"Random{number}")
        with suppress(ProgramError):
            cls = made.cls(tmp_path)
            program_of(cls)
    plain = cls()
    partitions = chance.choice([1, 2, 7])
    loops = [
        StatefulLoop(cls, backend=f"memory://random-{number}-{k}", partitions=partitions,
                     compiled=compiled)  # type: ignore[arg-type]
        for k, compiled in enumerate([True, False])
    ]  # fmt: skip
    methods = [*made.parameters]
    for own in (methods, methods[:1], methods[1:2], methods[2:], methods):
        names = chance.choices(own, k=80)
        calls = [(name, made.arguments(name)) for name in names]
        futures = [[getattr(flow, n).submit(*given) for n, given in calls] for flow in loops]
        expected = [plain_answer(plain, n, given) for n, given in calls]
        for (name, given), wanted, *own in zip(calls, expected, *futures, strict=True):
            answers = [future.exception() or future.result() for future in own]
            shown = wanted if isinstance(wanted, str) else repr(wanted)
            assert [_shown(answer) for answer in answers] == [shown] * 2, (name, given)
        for flow in loops:
            assert repr(state_of_loop(flow, plain)) == repr(state_of_loop(loops[0], plain))
            rows = state_of_loop(flow, plain)["rows"]
            assert {repr(x) for x in rows.items()} == {
                repr(x) for x in state_of(plain)["rows"].items()
            }
    for flow in loops:
        flow.close()
    texts = [m.elements[0].text for m in program_of(cls).methods.values()]
    assert kernels or not any(texts)


@pytest.mark.parametrize("cls", [cls for cls in CALLS if cls.__name__ != "Blobs"])
def test_histories_run_compiled(cls: type[Stateful], kernels: set[int]) -> None:
    run_history(cls, f"memory://compiled-{cls.__name__}", random.Random(seed()))
    assert kernels or cls.__name__ == "Names"


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_mixed_methods_keep_their_order(partitions: int, kernels: set[int]) -> None:
    url = f"memory://mixed-{partitions}"
    with StatefulLoop(KeyValue, backend=url, partitions=partitions, compiled="require") as flow:
        history = History(KeyValue, flow, random.Random(seed()))
        for _ in range(10):
            history.several()
        history.check()
    assert max(kernels) > 1


class Odd(Stateful):
    """Task elements at the edges of 64 bits."""

    counts = Partitioned(Map(int, int), key="key")

    def add(self, key: int, x: int) -> int:
        self.counts[key] += x
        return self.counts[key] * 2

    def drop(self, key: int) -> None:
        del self.counts[key]

    def ratio(self, key: int, x: int) -> float | None:
        if not x and key not in self.counts:
            return None
        return self.counts[key] / x

    def same(self, key: int, x: float) -> bool:
        return self.counts[key] == x

    def take(self, key: int) -> int | None:
        return self.counts.pop(key, None)

    def first(self, key: int, x: int) -> int:
        if x < 0:
            self.counts[key] = 77
            raise ValueError(f"{x} is less than 0, {self.counts[key]}")
        return self.counts.setdefault(key, x)


def test_calls_that_leave_64_bits_or_raise_are_told_as_by_python(kernels: set[int]) -> None:
    plain = Odd()
    calls: Sequence[tuple[str, tuple[float, ...]]] = [
        ("add", (1, 1 << 62)), ("add", (1, 1 << 62)), ("add", (1, (1 << 62) - 1)),
        ("ratio", (1, 3)),
        ("ratio", (1, 0)), ("ratio", (2, 0)), ("ratio", (2, 5)), ("drop", (2,)), ("first", (2, -1)),
        ("first", (2, 4)), ("first", (2, 5)), ("take", (2,)), ("take", (2,)), ("drop", (1,)),
        ("add", (1, -(1 << 63))), ("add", (1, -1)), ("add", (1, 5)),
        ("first", (4, (1 << 53) + 1)), ("ratio", (4, 3)), ("same", (4, 2.0**53)), ("take", (4,)),
        ("first", (4, 1 << 53)), ("ratio", (4, 3)), ("same", (4, 2.0**53)), ("take", (4,)),
    ] * 3  # fmt: skip
    with StatefulLoop(Odd, backend="memory://odd", compiled="require") as flow:
        futures = [getattr(flow, name).submit(*given) for name, given in calls]
        for (name, given), future in zip(calls, futures, strict=True):
            expected = plain_answer(plain, name, given)
            answer = _shown(future.exception() or future.result())
            assert answer == (expected if isinstance(expected, str) else repr(expected)), name
        assert flow.lookup([1, 2]) == state_of(plain)["counts"]
        error = futures[8].exception()
        assert str(error).endswith(
            f"{Path(__file__).name}:{_line('raise ValueError')}: Odd.first: "
            "ValueError: -1 is less than 0, 77"
        )
    assert kernels


def _line(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return next(k for k, line in enumerate(lines, 1) if text in line and "line(" not in line)


def test_a_block_of_calls_that_mostly_raise_is_run_by_python(kernels: set[int]) -> None:
    with StatefulLoop(Odd, backend="memory://mostly", compiled="require") as flow:
        x = np.where(np.arange(1000) % 10, -1, 1)
        answers = flow.first.map(np.arange(1000), x, return_exceptions=True)
        assert [type(a) is CallError for a in answers] == (x < 0).tolist()
        assert len(kernels) < 50
        assert set(flow.lookup(range(1000))) == set(range(0, 1000, 10))


LIMIT = 2


class Limited(Stateful):
    numbers = Partitioned(Map(str, int), key="name")
    sums = Partitioned(Array(float, size=3), key="place")

    def add(self, name: str) -> bool:
        self.numbers[name] += 1
        return self.numbers[name] <= LIMIT

    def vector(self, name: str, x: float) -> None:
        for place in range(3):
            self.sums[place] += x


def test_constants_are_read_when_calls_run(
    kernels: set[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    with StatefulLoop(Limited, backend="memory://limited") as flow:
        assert flow.add.map(["a"] * 3) == [True, True, False]
        for value, answers in ((6, [True, True, True]), (8.5, [True, True, False])):
            monkeypatch.setattr(sys.modules[__name__], "LIMIT", value)
            assert flow.add.map(["a"] * 3) == answers
        flow.vector("b", 0.5)
        assert flow.lookup(range(3), "sums") == {k: {"value": 0.5} for k in range(3)}


class Interpreted(Stateful):
    values = Partitioned(Map(int, float), key="key")

    def kinds(self, key: int, x: int) -> float:
        y = x if x > 0 else 0.5
        return y + self.values[key]

    def unbound(self, key: int, x: int) -> int:
        if x > 0:
            y = x
        return y + int(self.values[key])

    def power(self, key: int, x: float) -> float:
        return x ** self.values[key]

    def float_in_int(self, key: int, x: float) -> None:
        count = 1
        count = x
        self.values[key] = count

    def text(self, key: int, name: str) -> str:
        return name + str(self.values[key])

    def other_default(self, key: int) -> float:
        return self.values.get(key, 0)


@pytest.mark.parametrize(
    ("method", "text", "reason"),
    [
        ("kinds", "y = x if", "its value is float here and int there"),
        ("unbound", "return y + int", "y may have no value"),
        ("power", "return x **", "** of float and float does not compile"),
        ("float_in_int", "count = x", "count is int here and float there: give it one type"),
        ("text", "return name +", "name is a str"),
        (
            "other_default",
            "get(key, 0)",
            "its value is float here and int there: make the default a",
        ),
    ],
)
def test_explain_names_the_line_that_is_interpreted(method: str, text: str, reason: str) -> None:
    element = program_of(Interpreted).methods[method].elements[0]
    assert element.text is None
    line = next(
        k for k, one in enumerate(Path(__file__).read_text().splitlines(), 1)
        if text in one and '("' not in one
    )  # fmt: skip
    assert element.interpreted.startswith(f"line {line}, {reason}"), element.interpreted


def test_options() -> None:
    with pytest.raises(
        ProgramError, match=r"test_compiled.py:\d+: Interpreted.kinds: its value is"
    ):
        StatefulLoop(Interpreted, backend="memory://refused", compiled="require")
    with pytest.raises(InputError, match="compiled is 'yes'; it must be True, False or 'require'"):
        StatefulLoop(KeyValue, backend="memory://refused", compiled="yes")  # type: ignore[arg-type]
    with StatefulLoop(KeyValue, backend="memory://interpreted", compiled=False) as flow:
        assert "interpreted  put on values: compiled=False" in str(flow.explain())
    with StatefulLoop.resume(KeyValue, backend="memory://interpreted", compiled="require") as flow:
        assert str(flow.explain()).endswith("\n  compiled     put on values, get on values")


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_words_of_lines_are_counted(partitions: int, kernels: set[int]) -> None:
    chance = random.Random(seed())
    words = ["a", "ä", "b\u00a0c", "\ud800", "\x1f", "d" * 40]
    lines = [" ".join(chance.choices(words, k=chance.randint(0, 6))) for _ in range(300)]
    plain = WordCount()
    with StatefulLoop(WordCount, backend=f"memory://words-{partitions}", partitions=partitions,
                      compiled="require") as flow:  # fmt: skip
        assert flow.add.map(lines) == [plain.add(line) for line in lines]
        assert state_of_loop(flow, plain) == state_of(plain)


class Defaults(Stateful):
    counts = Partitioned(Map(int, int), key="key")

    def first(self, key: int, x: int) -> int:
        return self.counts.setdefault(key, 12 // x)

    def get(self, key: int, x: int) -> int:
        return self.counts.get(key, 12 // x)


def test_defaults_are_computed_where_they_are_not_needed(kernels: set[int]) -> None:
    with StatefulLoop(Defaults, backend="memory://defaults", compiled="require") as flow:
        assert flow.first.map([1, 1], [4, 3]) == [3, 3]
        for method in (flow.first, flow.get):
            (answer,) = method.map([1], [0], return_exceptions=True)
            assert "ZeroDivisionError" in str(answer)


def test_small_blocks_do_not_wait_for_the_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[Callable[[], None]] = []
    monkeypatch.setattr(element_kernels, "_compiled", {})
    monkeypatch.setattr(ElementKernel, "_start", lambda self: started.append(self._compile))
    monkeypatch.setattr(partition, "_MANY", 2000)
    with StatefulLoop(WordCount, backend="memory://small") as flow:
        keys = [str(k) for k in range(1000)]
        flow.count.map(keys)
        assert not started
        flow.count.map(keys)
        assert flow.count.map(keys) == [0] * 1000  # while it is compiled
        (compiles,) = started
        compiles()
        flow.add(" ".join(keys))
        assert flow.count.map(keys) == [1] * 1000
