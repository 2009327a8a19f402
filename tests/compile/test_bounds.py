"""Indexes beyond the ends of an array raise, compiled as interpreted, and name where."""

from __future__ import annotations

import inspect
import operator
import random
import re
from contextlib import closing
from typing import Any

import numpy as np
import pytest

import vertexsdk
from tests.support.inprocess import InProcess
from tests.support.seeds import seed
from vertexsdk import Graph, Latest, MainLoop, Max, Min, RunError, Sum, Vertex, param, state
from vertexsdk.compile import plan
from vertexsdk.compile._delivery_kernels import deliver_source
from vertexsdk.program.program import Program

EDGES = [(1, 2), (3, 2), (2, 4)]  # 4 has one producer, 2 has two
TABLE = np.array([1.0, 2.0, 4.0])


def looked_up(k):
    return TABLE[k]  # here 8


class Fails(Vertex):
    """Vertex 4 fails, each case in another way."""

    case: int = param()
    table: Any = param((1.0, 2.0, 4.0))
    x: float = state(0.0)
    row: int = state(0, size=3)
    count: int = state(1)
    messages = Latest(float)

    def init(self):
        self.x = float(self.id)
        if self.case == 1:
            self.x = float(self.row[self.id - 1])  # here 1

    def gather(self, iteration, source, delta):
        last = len(delta.values) - 1  # here 23
        k = self.id - 1 if self.id == 4 else 0  # 3 for vertex 4
        counts = np.zeros(3)
        cells = np.zeros((2, 3))
        if self.case == 2 and self.id == 4:
            self.x = delta.values[last + 1]  # here 2
        elif self.case == 3 and self.id == 4:
            self.x = delta.values[-last - 2]  # here 3
        elif self.case == 4:
            self.x = float(self.row[k])  # here 4
        elif self.case == 5:
            self.row[k] = 7  # here 5
        elif self.case == 6:
            self.row[-k - 1] += 7  # here 6
        elif self.case == 7:
            self.x = self.table[k]  # here 7
        elif self.case == 8:
            self.x = looked_up(k)
        elif self.case == 9:
            counts[k] += 1.0  # here 9
        elif self.case == 10:
            cells[1, k] = 1.0  # here 10
        elif self.case == 11:
            self.x = TABLE[np.array([0, k])].sum()  # here 11
        elif self.case == 12:
            self.x = [1.0, 2.0, 3.0][k]  # here 12
        elif self.case == 13:
            self.x = counts[counts[: 5 - k] == 0.0].sum()  # here 13
        elif self.case == 14:  # fields that are set before do not hide it
            self.count += k
            self.x = float(self.row[self.count - 1])  # here 14
        elif self.case == 15:
            cells[0][k] = 1.0  # here 15
        elif self.case == 20 and self.id == 4:
            raise ValueError("four")  # here 20
        elif self.case == 21:
            self.x = 1.0 / (k - 3)  # here 21
        elif self.case == 22:
            self.x = float(int(1e300 * k))  # here 22
        elif self.case == 23:  # it does not fail again: the first line of the method is named
            self.count -= k // 3
            self.x = 1.0 / self.count
        self.x += cells[1, 0] + counts[0]

    def scatter(self, iteration):
        for target in self.targets:
            if self.case == 16:
                self.emit(target, float(self.row[2 + target.id // 4]))  # here 16
            else:
                self.emit(target, self.x)


CASES = [(k, "IndexError", 4, 1) for k in range(2, 16)]
CASES += [(1, "IndexError", 4, 0), (16, "IndexError", 2, 0), (20, "ValueError", 4, 1)]
CASES += [(21, "ZeroDivisionError", 4, 1), (22, "OverflowError", 4, 1)]


def line_of(cls: type[Vertex], case: int = 0) -> int:
    """The line that is marked in a class, or in the function that it calls."""
    for place in (cls, looked_up):
        lines, first = inspect.getsourcelines(place)
        for k, line in enumerate(lines):
            if line.rstrip().endswith(f"# here {case}"):
                return first + k
    raise AssertionError(cls)


def message(line: int, name: str, error: str, vertex: Any, iteration: int) -> str:
    """What the message of an error matches."""
    place = rf"{re.escape(__file__)}:{line}: {name}\.\w+: {error}: "
    return rf"{place}.*\(vertex {vertex!r}, iteration {iteration}\)$"


@pytest.mark.parametrize("compiled", ["require", False])
@pytest.mark.parametrize(("case", "error", "vertex", "iteration"), CASES)
def test_an_error_names_line_vertex_and_iteration(case, error, vertex, iteration, compiled):
    partitions = random.Random(seed()).choice([1, 2, 7])
    wanted = message(line_of(Fails, case), "Fails", error, vertex, iteration)
    with pytest.raises(RunError, match=wanted):
        InProcess(Program(Fails), EDGES).run(
            {"case": case}, partitions=partitions, compiled=compiled
        )


def test_an_error_that_does_not_come_again_names_the_method():
    wanted = message(line_of(Fails, 23), "Fails", "ZeroDivisionError", 4, 1)
    with pytest.raises(RunError, match=wanted):
        InProcess(Program(Fails), EDGES).run({"case": 23}, compiled="require")


class Along(Vertex):
    """Messages that follow from a field and an edge alone."""

    x: float = state(0.0)
    table: Any = param((1.0, 2.0, 4.0))
    messages = Min(float)

    def init(self):
        self.x = 0.0

    def gather(self, iteration, source, delta):
        self.x = min(self.x, delta.value)

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.x + self.table[int(target.value)])  # here 0


@pytest.mark.parametrize("compiled", ["require", False])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_string_ids_are_named_in_runs_and_main_loops(compiled, partitions):
    options: Any = {"backend": f"memory://bounds-{partitions}-{compiled}", "compiled": compiled}
    wrong = Graph.from_arrays(["a", "b"], ["b", "c"], [1.0, 3.0], partitions=partitions)
    wanted = message(line_of(Along), "Along", "IndexError", "b", 0)
    with pytest.raises(RunError, match=wanted):
        vertexsdk.run(Along, wrong, loop="run", **options)
    right = Graph.from_arrays(["a", "b"], ["b", "c"], [1.0, 2.0], partitions=partitions)
    with MainLoop(Along, right, loop="main", **options) as main:
        main.query().close()
        main.ingest([("+", "c", "d", 5.0)])
        with pytest.raises(RunError, match=r"IndexError: .*\(vertex 'c', iteration \d+\)$"):
            main.query()


class Indexes(Vertex):
    """Everything that indexes and slices can be, of arrays of each kind."""

    out: float = state(0.0, size=12)
    row: float = state(0.0, size=4)
    low: int = param(0)
    high: int = param(0)
    step: int = param(1)
    messages = Max(float)

    def init(self):
        self.out[:] = 0.0
        for k in range(len(self.row)):
            self.row[k] = k + 1.0
        self.row[self.low] += 10.0
        taken = self.row[self.low : self.high]
        self.out[0] = taken.sum()
        self.out[1] = float(len(self.row[self.low :: self.step]))
        self.out[2] = self.row[: self.high].sum()
        self.out[-1] = self.row[self.low]
        cells = np.arange(12.0).reshape(3, 4)
        self.out[3] = cells[self.low % 3, -1]
        self.out[4] = cells[-1, self.low : self.high].sum()
        self.out[5] = cells[1][self.low]
        self.out[6] = cells[:, self.low].sum()
        cells[self.low % 3][-2] = 50.0
        self.out[7] = cells.sum()
        self.out[8] = self.row[np.array([0, -1, self.low])].sum()
        self.out[9] = self.row[self.row > 2.0].sum()
        pair = (1.0, 2)
        self.out[10] = pair[0] + pair[-1]
        cells[self.low % 3, 1:3] = self.row[1:3]
        self.out[3] += cells[self.low % 3][2]

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        pass


def test_indexes_and_slices_mean_the_same_compiled_and_interpreted():
    rng = random.Random(seed())
    program = InProcess(Program(Indexes), [(1, 2)])
    for _ in range(8):
        low, high = rng.randint(-4, 3), rng.randint(-9, 9)
        params = {"low": low, "high": high, "step": rng.choice([1, 2, 3])}
        got, wanted = (program.run(params, compiled=how)[0] for how in ("require", False))
        for v in wanted:
            np.testing.assert_array_equal(got[v]["out"], wanted[v]["out"])
            np.testing.assert_array_equal(got[v]["row"], wanted[v]["row"])


class Histogram(Vertex):
    """What was reported: a class beyond the histogram's size overwrote memory."""

    counts: int = state(0, size=4)
    of: int = state(0)
    messages = Sum(int, size=4)

    def init(self):
        self.of = self.id % 6

    def gather(self, iteration, source, delta):
        self.counts = delta.value

    def scatter(self, iteration):
        ones = np.zeros(4, np.int64)
        ones[self.of] = 1  # here 0
        self.emitAll(ones)


@pytest.mark.parametrize("compiled", ["require", False])
def test_a_class_beyond_the_size_of_a_histogram(compiled):
    with pytest.raises(
        RunError, match=message(line_of(Histogram), "Histogram", "IndexError", 10, 0)
    ):
        InProcess(Program(Histogram), [(1, 2), (10, 2)]).run({}, compiled=compiled)
    with closing(
        vertexsdk.run(Histogram, Graph.from_arrays([1, 2], [2, 3]), backend="memory://histogram",
                      compiled=compiled)
    ) as result:  # fmt: skip
        assert result.columns()["counts"].tolist() == [[0] * 4, [0, 1, 0, 0], [0, 0, 1, 0]]


@pytest.mark.parametrize("declared", [Min(int), Max(int)])
def test_a_pull_reads_ahead_within_its_arrays(declared):
    """A compiled kernel does not test its indexes, so its text runs as Python here."""
    source = deliver_source(declared, python=True)
    kernels = {"_jit": plan._no_jit, "_combine": declared.combine, "_equal": operator.eq}
    exec(compile(source, "<kernels>", "exec"), kernels)
    slots = 60
    start = np.arange(slots + 1)
    messages = np.arange(slots) if declared.kind == "max" else -np.arange(slots)
    aggregates = np.full(slots, declared.identity)
    changed = np.zeros(slots, np.uint8)
    best = np.array([declared.combine(messages[0], messages[-1])])
    kernels["pull_better"](
        0, slots, start[:-1], start[1:], np.arange(slots), messages, aggregates, changed, best, 31
    )
    assert aggregates.tolist() == messages.tolist()
    assert changed.all()
