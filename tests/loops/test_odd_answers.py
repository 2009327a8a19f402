"""Answers that are odd, and loops without an end, are said at the line of the class, once."""

from __future__ import annotations

import linecache
import logging
import random
import re
import time
import warnings
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support import seeds
from vertexsdk import (
    Graph,
    InputError,
    MainLoop,
    Max,
    Min,
    RunError,
    Sum,
    Vertex,
    inf,
    param,
    run,
    state,
)
from vertexsdk.algorithms import ConnectedComponents, ShortestPaths
from vertexsdk.engine import answer_checks, batch_run
from vertexsdk.program.warn import ProgramWarning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

EDGES = [1, 2, 3, 4], [2, 3, 4, 1]


class Overflow(Vertex):
    big: float = state(0.0)
    odd: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.big = 1e308 * (self.id + 1.0)
        self.odd = (self.big - self.big) if self.id > 1 else 0.0

    def scatter(self, iteration):
        self.emitAll(1.0)


class Named(Overflow):
    """The same, of a class that names inf, and NaN as the difference of two."""

    limit: float = param(inf)

    def init(self):
        self.odd = self.limit


class Silent(Vertex):
    heard: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        if self.id > 100:
            self.emitAll(1.0)


class Stranger(Vertex):
    origin: int = param()
    far: float = state(inf)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.far = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        self.emitAll(self.far + 1.0)


class Endless(Vertex):
    x: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.x += 1.0

    def scatter(self, iteration):
        self.emitAll(self.x)


@pytest.fixture
def answer() -> Any:
    """Run a program, or query a loop of it: which is drawn from a seed that is printed."""
    seed = seeds.seed()
    rng = random.Random(seed)

    def of(program: Any, edges: Any = EDGES, **options: Any) -> Any:
        graph = Graph.from_arrays(*edges, partitions=rng.choice([1, 2, 3]))
        compiled = rng.random() < 0.2  # which takes seconds the first time
        place = f"memory://odd-{rng.random()}"
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            if rng.random() < 0.5:
                run(program, graph, backend=place, compiled=compiled, **options).close()
            else:
                with MainLoop(program, graph, backend=place, compiled=compiled, **options) as main:
                    main.query().close()
        return [w for w in caught if issubclass(w.category, ProgramWarning)]

    return of


def line_of(text: str) -> int:
    lines = Path(__file__).read_text().splitlines()
    return lines.index(text) + 1


def test_values_that_are_no_numbers(answer: Any) -> None:
    big, odd = sorted(answer(Overflow), key=lambda w: w.lineno)
    assert big.filename == odd.filename == __file__
    assert big.lineno == line_of("    big: float = state(0.0)")
    assert "in the answer big is infinite at 4 vertices" in str(big.message)
    assert odd.lineno == big.lineno + 1
    assert "in the answer odd is NaN at 3 vertices" in str(odd.message)


def test_an_infinity_that_the_class_names_is_expected(answer: Any) -> None:
    (odd,) = answer(Named)
    assert "odd is NaN" in str(odd.message)
    assert not answer(ShortestPaths, ([1, 3], [2, 2]), params={"origin": 1})


def test_no_message_was_sent(answer: Any) -> None:
    (warning,) = answer(Silent)
    assert "no vertex sent a message, though the graph has 4 edges" in str(warning.message)
    assert warning.lineno == line_of("        if self.id > 100:") - 1
    assert not answer(ConnectedComponents)
    assert not answer(ConnectedComponents, ([1, 2], [1, 2]))  # along self-loops nothing goes


def test_a_parameter_that_is_no_vertex(answer: Any) -> None:
    (warning,) = answer(Stranger, params={"origin": 77})
    assert "origin=77 is compared with self.id and is not a vertex" in str(warning.message)
    assert warning.lineno == line_of("    origin: int = param()")
    assert not answer(Stranger, params={"origin": 3})


def test_no_end_in_sight(
    answer: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answer_checks, "MOST", 200)
    monkeypatch.setattr(answer_checks, "PATIENCE", 0.0)
    place = re.escape(f"{__file__}:{line_of('class Endless(Vertex):')}: Endless")
    said = rf"{place}: no fixed point after 204 iterations, .* 200 .*set tolerance, write conv"
    with caplog.at_level(logging.WARNING), pytest.raises(RunError, match=said):
        answer(Endless)
    (line,) = [r.getMessage() for r in caplog.records if "no fixed point" in r.getMessage()]
    assert re.search(r"no fixed point after [12]\d\d iterations and \d+ s; ends at 204", line)


def test_a_cycle_of_negative_length(answer: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_checks, "MOST", 100)
    edges = (*EDGES, [1.0, -1.0, 1.0, -1.5])
    for origin in (1, 3):
        with pytest.raises(RunError, match=r"ever smaller around a cycle .*negative length"):
            answer(ShortestPaths, edges, params={"origin": origin})
    answer(ShortestPaths, (*EDGES, [1.0, -1.0, 1.0, -1.0]), params={"origin": 1})


class Draws(Endless):
    def gather(self, iteration, source, delta):
        self.x = delta.value

    def scatter(self, iteration):
        self.emitAll(self.random())


class Grows(Endless):
    messages = Max(float)

    def gather(self, iteration, source, delta):
        self.x = max(self.x, delta.value)

    def scatter(self, iteration):
        self.emitAll(self.x + 1.0)


class Longest(Grows):
    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.x + target.value)


class NeverSo(Endless):
    def converged(self, iteration, aggregates):
        return False


@pytest.mark.parametrize(
    ("program", "said"),
    [
        (Draws, r"scatter calls self.random\(\), .* each time: write converged\(\)"),
        (Grows, r"ever larger around a cycle: see what scatter adds"),
        (Longest, r"ever larger around a cycle \(is there a cycle of positive length\?\)"),
        (NeverSo, r"converged\(\) never returned True"),
    ],
)
def test_a_loop_without_an_end_says_what_is_known(answer, monkeypatch, program, said):
    monkeypatch.setattr(answer_checks, "MOST", 50)
    monkeypatch.setattr(answer_checks, "MOST_WITH_RULE", 50)
    with pytest.raises(RunError, match=said) as caught:
        answer(program)
    assert "negative" not in str(caught.value)


def test_a_large_delay_bound_is_no_endless_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_checks, "MOST", 5)
    path = range(40)
    graph = Graph.from_arrays([*path], [x + 1 for x in path], partitions=3)
    given: dict[str, Any] = {"params": {"origin": 0}, "backend": "memory://large-bound"}
    with closing(run(ShortestPaths, graph, delay_bound=65536, **given)) as result:
        assert result.to_dict()[40] == 40.0
        assert result.statistics["iterations"] > 5 + 41


def test_a_loop_goes_on_once_the_cycle_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answer_checks, "MOST", 100)
    graph = Graph.from_arrays([1, 2, 3], [2, 3, 4], [-1.0, -1.0, 1.0])
    with MainLoop(ShortestPaths, graph, params={"origin": 1}, backend="memory://gone") as main:
        main.ingest([("+", 4, 2, -5.0)])
        with pytest.raises(RunError, match="no fixed point after 104 iterations"):
            main.query()
        main.ingest([("-", 4, 2)])
        assert main.query().to_dict() == {1: 0.0, 2: -1.0, 3: -2.0, 4: -1.0}


def test_acknowledged_changes_are_not_replaced_by_accident() -> None:
    place, graph = "memory://accident", Graph.from_arrays(*EDGES)
    MainLoop(ConnectedComponents, graph, backend=place).close()
    with MainLoop(ConnectedComponents, graph, backend=place) as main:  # there were no changes
        main.ingest([("+", 5, 6)])
    with pytest.raises(InputError, match=r"has 1 acknowledged change: .*resume.* replace=True"):
        MainLoop(ConnectedComponents, graph, backend=place)
    with MainLoop.resume(None, ConnectedComponents, backend=place) as main:
        assert main.query().to_dict()[6] == 5
    with MainLoop(ConnectedComponents, graph, backend=place, replace=True) as main:
        assert 6 not in main.query().to_dict()


CELL = """\
from vertexsdk import Sum, Vertex, state
class Edited(Vertex):
    x: float = state(0.0)
    {more}
    messages = Sum(float)
    def gather(self, iteration, source, delta):
        self.x = delta.value + {step}
    def scatter(self, iteration):
        self.emitAll(1.0)
"""


def cell(number: int, step: float, more: str = "") -> type[Vertex]:
    """Run a cell of a notebook, whose source is where IPython puts it; return its class."""
    name, text = f"<ipython-input-{number}>", CELL.format(step=step, more=more)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(text, name, "exec"), names)
    edited: type[Vertex] = names["Edited"]
    return edited


def test_a_class_that_is_edited_runs_again() -> None:
    """As in a notebook: the same name, another method, then other fields."""
    place, graph = "memory://edited", Graph.from_arrays(*EDGES)
    options: dict[str, Any] = {"backend": place, "compiled": False}
    assert run(cell(1, 1.0), graph, **options).to_dict()[1] == 2.0
    assert run(cell(2, 2.0), graph, **options).to_dict()[1] == 3.0
    again = run(cell(3, 3.0, "more: float = state(0.5)"), graph, **options)
    assert again.lookup(1)[1] == {"x": 4.0, "more": 0.5}
    with MainLoop(cell(4, 4.0, "other: float = state(0.5)"), graph, **options) as main:
        assert main.query().lookup(1)[1]["x"] == 5.0
    with pytest.warns(ProgramWarning, match=r"<ipython-input-5>:4: Edited: no method reads 'more'"):
        cell(5, 5.0, "more = 7")


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"compiled": "yes"}, "compiled is 'yes'; it must be True, False or 'require'"),
        ({"exchange": "spark"}, "exchange is 'spark'; it must be"),
        ({"threads": "two"}, "threads is 'two'; it must be an integer from 1"),
        ({"max_iterations": 2.5}, "max_iterations is 2.5; it must be an integer from 0"),
    ],
)
def test_options_of_the_wrong_type(option: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=re.escape(said)):
        run(ConnectedComponents, Graph.from_arrays(*EDGES), backend="memory://wrong", **option)


def test_compiling_ones_own_class_is_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def slow(plan: Any, *_: Any) -> Any:
        time.sleep(0.3)
        return plan

    monkeypatch.setattr(batch_run, "compiled_plan", slow)
    monkeypatch.setattr(batch_run, "SLOW", 0.1)
    graph = Graph.from_arrays(*EDGES)
    with caplog.at_level(logging.WARNING):
        run(Stranger, graph, params={"origin": 1}, backend="memory://slow").close()
        run(ConnectedComponents, graph, backend="memory://slow").close()
    assert [r.getMessage() for r in caplog.records] == [
        "stranger-run: compiling the methods of Stranger, once: the result is kept on disk"
    ]


def test_on_processors(spark: SparkSession) -> None:
    graph = Graph.from_arrays(*EDGES, spark=spark, partitions=2)
    options: Any = {"backend": "memory://odd-on-spark", "compiled": False}
    with pytest.warns(ProgramWarning) as caught:
        run(Overflow, graph, **options).close()
    main = MainLoop(Overflow, graph, loop="main", **options)
    with main, pytest.warns(ProgramWarning) as of_loop:
        main.query().close()
    first = line_of("class Overflow(Vertex):") + 1
    assert sorted(w.lineno for w in [*caught, *of_loop]) == [first, first, first + 1, first + 1]
    graph.unpersist()
