"""What a program may rely on, one sentence per test, in the reference and in the engine."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from tests.support.inprocess import InProcess
from tests.support.reference import reference
from vertexsdk import (
    INT_MAX,
    Algebra,
    Graph,
    Latest,
    Max,
    Min,
    Sum,
    Vertex,
    VertexId,
    aggregate,
    inf,
    param,
    run,
    state,
)
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Delta


class EveryoneGathersOnce(Vertex):
    calls: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.calls += 1

    def scatter(self, iteration):
        self.emitAll(0)


def test_iteration_one_gathers_on_every_vertex_though_nothing_was_sent(execute: Any) -> None:
    calls, iterations = execute(EveryoneGathersOnce, [(1, 2)], "calls", [7])
    assert calls == {1: 1, 2: 1, 7: 1}
    assert iterations == 1


class Silence(Vertex):
    heard: float = state(0.0)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        if self.id == 1:
            self.emitAll(2.5)


def test_without_messages_delta_is_the_identity(execute: Any) -> None:
    assert execute(Silence, [(1, 2), (2, 3)], "heard")[0] == {1: inf, 2: 2.5, 3: inf}


class LastWord(Vertex):
    """1 speaks first 5, then 3; 2 always 4; 3 hears both."""

    heard: int = state(0)
    said: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard = delta.value
        if self.id == 1 and iteration == 1:
            self.said = 1

    def scatter(self, iteration):
        if self.id == 1:
            self.emitAll(5 if iteration == 0 else 3)
        elif self.id == 2 and iteration == 0:
            self.emitAll(4)


def test_the_latest_message_of_each_producer_counts(execute: Any) -> None:
    heard, iterations = execute(LastWord, [(1, 3), (2, 3)], "heard")
    assert heard[3] == 3 + 4
    assert iterations == 2


class Withdraw(Vertex):
    heard: float = state(0.0)
    old: bool = state(False)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.heard = delta.value
        self.old = True

    def scatter(self, iteration):
        if self.id == 1:
            self.emitAll(inf if self.old else 1.0)
        elif self.id == 2:
            self.emitAll(2.0)


def test_emitting_the_identity_withdraws(execute: Any) -> None:
    assert execute(Withdraw, [(1, 3), (2, 3)], "heard")[0][3] == 2.0


class Twice(Vertex):
    heard: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, 1)
            self.emit(target, 10)
        if self.id == 1:
            self.emit(self.id + 1, 100)


@pytest.mark.sample(2)
def test_emits_to_one_target_in_one_scatter_are_combined(execute: Any) -> None:
    assert execute(Twice, [(1, 2), (3, 2)], "heard")[0] == {1: 0, 2: 122, 3: 0}


class Once(Vertex):
    """1 sends to 9, which is no target; 9 notes what each iteration brings."""

    first: int = state(0)
    last: int = state(-1)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        if iteration == 1:
            self.first = delta.value
        self.last = delta.value

    def scatter(self, iteration):
        if self.id == 1 and iteration == 0:
            self.emit(9, 7)


@pytest.mark.sample(2)
def test_a_message_to_no_target_is_delivered_once(execute: Any) -> None:
    edges = [(1, 2)]
    assert execute(Once, edges, "first", [9])[0] == {1: 0, 2: 0, 9: 7}
    last, iterations = execute(Once, edges, "last", [9])
    assert last == {1: 0, 2: 0, 9: 0}
    assert iterations == 2


class Create(Vertex):
    born: int = state(0)
    heard: int = state(0)
    messages = Sum(int)

    def init(self):
        self.born = self.num_vertices

    def gather(self, iteration, source, delta):
        self.heard += delta.value

    def scatter(self, iteration):
        if self.id > 0 and iteration == 0:
            self.emit(-self.id, self.id)


def test_sending_creates_the_vertex(execute: Any) -> None:
    edges = [(1, 2), (2, 3)]
    assert execute(Create, edges, "heard")[0] == {-3: 3, -2: 2, -1: 1, 1: 0, 2: 0, 3: 0}
    born = execute(Create, edges, "born")[0]
    assert born == {-3: 3, -2: 3, -1: 3, 1: 3, 2: 3, 3: 3}


class Announced(Vertex):
    """`scatter` counts its calls; gathering changes the state of those that hear something."""

    heard: int = state(0)
    calls: int = state(0)
    messages = Sum(int)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        self.calls += 1
        if self.id > 0:
            self.emitAll(1)
            if len(self.targets) == 0:
                self.emit(-self.id, 0)  # the identity: there is nothing to hear


def test_a_field_that_only_scatter_changes_is_no_reason_to_scatter(execute: Any) -> None:
    calls, _ = execute(Announced, [(1, 2)], "calls", [7])
    assert calls[1] == calls[7] == 1
    assert calls[2] == 2


def test_a_vertex_that_was_created_scatters_once_it_has_gathered(execute: Any) -> None:
    assert execute(Announced, [(1, 2)], "calls")[0] == {-2: 1, 1: 1, 2: 2}


class Order(Vertex):
    heard: int = state(0)
    messages = Latest(int)

    def gather(self, iteration, source, delta):
        self.heard = 0
        for value in delta.values:
            self.heard = self.heard * 10 + value

    def scatter(self, iteration):
        if self.id == 4:
            self.emitAll(INT_MAX)
        else:
            self.emitAll(self.id)


def test_latest_values_come_ascending_by_producer(execute: Any) -> None:
    edges = [(v, 9) for v in (5, 3, 8, 1, 4, 7, 2)]
    assert execute(Order, edges, "heard")[0][9] == 123578


class Count(Vertex):
    """The sum of what all vertices contributed, an iteration later, and at the end."""

    seen: int = state(-1)
    messages = Sum(int)
    total = aggregate(Sum(int))
    top = aggregate(max, float)

    def init(self):
        self.total.contribute(self.id)

    def gather(self, iteration, source, delta):
        self.seen = self.total.value
        self.total.contribute(1 if iteration < 3 else 0)
        self.top.contribute(float(iteration))

    def scatter(self, iteration):
        self.emitAll(0)

    def converged(self, iteration, aggregates):
        return aggregates.top >= 2.0 and aggregates.total == 3


def test_aggregators_are_read_an_iteration_later(execute: Any) -> None:
    seen, iterations = execute(Count, [(1, 2), (2, 3)], "seen")
    assert seen == {1: 3, 2: 3, 3: 3}
    assert iterations == 2


class Settles(Vertex):
    """Gathers always, for it reads an aggregator; stops when nothing changes any more."""

    level: int = state(0)
    messages = Sum(int)
    total = aggregate(Sum(int))

    def gather(self, iteration, source, delta):
        self.level = min(self.level + 1, 4)
        self.total.contribute(self.level)

    def scatter(self, iteration):
        self.emitAll(0)


def test_a_program_with_aggregators_stops_when_nothing_changes(execute: Any) -> None:
    level, iterations = execute(Settles, [(1, 2)], "level")
    assert level == {1: 4, 2: 4}
    assert iterations == 5


class Tolerant(Vertex):
    """1 halves its way to 0; others hear only changes of more than the tolerance."""

    value: float = state(8.0)
    messages = Sum(float)
    tolerance = 1.0
    always = True
    max_iterations = 9

    def gather(self, iteration, source, delta):
        if self.id == 1:
            self.value = self.value / 2.0
        else:
            self.value = delta.value

    def scatter(self, iteration):
        self.emitAll(self.value)


def test_changes_within_the_tolerance_are_not_sent(execute: Any) -> None:
    value, _ = execute(Tolerant, [(1, 2)], "value")
    assert value[2] == 0.5  # after 8, 4, 2: 1 is within the tolerance of 2, 0.5 is not


class Zeros(Vertex):
    """Those of an even number send -0.0, the others 0.0."""

    sign: float = state(0.0)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.sign = math.copysign(1.0, delta.value)

    def scatter(self, iteration):
        self.emitAll(-0.0 if self.id % 2 == 0 else 0.0)


class VectorsOfZeros(Zeros):
    zeros: float = state(-0.0, size=2)
    messages = Max(float, size=2)

    def init(self):
        self.zeros[0] = -0.0 if self.id % 2 == 0 else 0.0

    def gather(self, iteration, source, delta):
        self.sign = math.copysign(1.0, delta.value[0]) + math.copysign(1.0, delta.value[1])

    def scatter(self, iteration):
        self.emitAll(self.zeros)


@pytest.mark.parametrize(("program", "sign"), [(Zeros, 1.0), (VectorsOfZeros, 2.0)])
def test_a_zero_has_no_sign_in_min_and_max(program: Any, sign: float, execute: Any) -> None:
    edges = [(1, 5), (2, 5), (1, 6), (3, 6), (2, 7), (4, 7)]
    signs, _ = execute(program, edges, "sign")
    assert [signs[v] for v in (5, 6, 7)] == [sign] * 3


class Vectors(Vertex):
    seen: int = state(0, size=3)
    messages = Max(int, size=3)

    def gather(self, iteration, source, delta):
        for k in range(3):
            self.seen[k] = max(delta.value[k], self.id)

    def scatter(self, iteration):
        self.emitAll(self.seen)


@pytest.mark.sample(1)
def test_vectors_are_combined_element_by_element(execute: Any) -> None:
    seen, _ = execute(Vectors, [(1, 2), (2, 3), (5, 3)], "seen")
    assert {v: row.tolist() for v, row in seen.items()} == {
        1: [1] * 3, 2: [2] * 3, 3: [5] * 3, 5: [5] * 3
    }  # fmt: skip


class TooLong(Vertex):
    seen: int = state(0, size=4)
    messages = Max(int, size=3)

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        self.emitAll(self.seen)


class TooLongToSome(TooLong):
    def scatter(self, iteration):
        for target in self.targets:
            if target.id > 0:
                self.emit(target, self.seen)


@pytest.mark.sample(1)
@pytest.mark.parametrize("program", [TooLong, TooLongToSome])
@pytest.mark.parametrize("compiled", ["require", False])
def test_a_vector_of_another_length_is_an_error(program: Any, compiled: Any) -> None:
    """And nothing is written beyond the row of the message."""
    with pytest.raises(Exception, match=r"another length|messages are Max"):
        InProcess(Program(program), [(1, 2)]).run(compiled=compiled)


def multiply(a, b):
    return a * b


class Product(Vertex):
    result_: float = state(1.0)
    messages = Algebra(float, combine=multiply, identity=1.0)

    def gather(self, iteration, source, delta):
        self.result_ = delta.value

    def scatter(self, iteration):
        self.emitAll(self.id + 0.5)


@pytest.mark.sample(2)
def test_an_algebra_of_ones_own(execute: Any) -> None:
    assert execute(Product, [(1, 3), (2, 3), (1, 2)], "result_")[0] == {1: 1.0, 2: 1.5, 3: 3.75}


class Falls(Vertex):
    """Vertex 0 sends 1e20, and then 1: of a difference between them little would be left."""

    heard: float = state(0.0)
    messages = Sum(float)

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        if self.id == 0 and iteration == 0:
            self.emitAll(1e20)
        else:
            self.emitAll(self.id + 1.0)


class FallsAlongEdges(Falls):
    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, 1e20 if self.id == 0 and iteration == 0 else self.id + 1.0)


class FallsByState(Vertex):
    """As `Falls`; what is sent along an edge follows from the state of its source."""

    heard: float = state(0.0)
    says: float = state(0.0)
    messages = Sum(float)

    def init(self):
        self.says = 1e20 if self.id == 0 else self.id + 1.0

    def gather(self, iteration, source, delta):
        self.heard = delta.value
        if self.id == 0:
            self.says = 1.0

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.says + target.id)


class FallsByInverse(Falls):
    messages = Algebra(
        float, combine=lambda a, b: a + b, identity=0.0, inverse=lambda a: -a,
        samples=[0.0, 1.0, 3.0],
    )  # fmt: skip


class FallsInVectors(Vertex):
    heard: float = state(0.0, size=2)
    says: float = state(0.0, size=2)
    messages = Sum(float, size=2)

    def gather(self, iteration, source, delta):
        for k in range(2):
            self.heard[k] = delta.value[k]

    def scatter(self, iteration):
        for k in range(2):
            self.says[k] = 1e20 if self.id == 0 and iteration == 0 else self.id + 1.0
        self.emitAll(self.says)


@pytest.mark.parametrize(
    "program", [Falls, FallsAlongEdges, FallsByState, FallsByInverse, FallsInVectors]
)
@pytest.mark.sample(5)
def test_a_float_that_is_replaced_leaves_no_trace(program: Any, execute: Any) -> None:
    edges = [(0, 1), (5, 1), *((k, k % 50 + 1) for k in range(1, 51))]
    heard = execute(program, edges, "heard")[0]
    more = 2.0 if program is FallsByState else 0.0
    assert np.all(heard[1] == 1.0 + 6.0 + 51.0 + 1.5 * more)


class Nearest(Vertex):
    """The least (steps, id) of a vertex that leads here."""

    nearest: tuple = state((9, 9))
    messages = Algebra(tuple, combine=min, identity=(9, 9), samples=[(1, 2), (1, 3), (2, 1)])

    def gather(self, iteration, source, delta):
        self.nearest = min((0, self.id), delta.value) if self.id < 3 else delta.value

    def scatter(self, iteration):
        if self.nearest < (9, 9):
            self.emitAll((self.nearest[0] + 1, self.nearest[1]))


@pytest.mark.parametrize("partitions", [1, 2])
def test_messages_may_be_tuples(partitions: int) -> None:
    runs = InProcess(Program(Nearest), [(1, 3), (2, 3), (3, 4)])
    got = runs.run({}, partitions=partitions, compiled=False)[0]
    nearest = {v: row["nearest"] for v, row in got.items()}
    assert nearest == {1: (0, 1), 2: (0, 2), 3: (1, 1), 4: (2, 1)}


class Ask(Vertex):
    """Users say 1 to items; items say 100 to users."""

    heard: int = state(0)
    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.heard = delta.value

    def scatter(self, iteration):
        self.emitAll(1)


class Answer(Vertex):
    told: int = state(0)
    extra: float = state(0.5)
    messages = Sum(int)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.told = delta.value * 2

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, 100 if target.reverse else 1000)


@pytest.mark.sample(3)
def test_each_class_has_its_own_state_and_methods(execute: Any) -> None:
    kinds = [(1, "Ask"), (2, "Ask"), (11, "Answer"), (12, "Answer")]
    edges = [(1, 11), (2, 11), (2, 12)]
    program = Program(Ask, Answer)
    assert execute(program, edges, "heard", kinds)[0] == {1: 100, 2: 200}
    assert execute(program, edges, "told", kinds)[0] == {11: 4, 12: 2}
    assert execute(program, edges, "extra", kinds)[0] == {11: 0.5, 12: 0.5}


class Both(Vertex):
    reverse: int = state(0)
    neighbours: VertexId = state()
    last: float = param(0.0)
    messages = Sum(float)
    direction = "both"

    def gather(self, iteration, source, delta):
        self.reverse = 0
        for target in self.targets:
            self.reverse += 10 if target.reverse else 1
        self.neighbours = len(self.targets)

    def scatter(self, iteration):
        self.emitAll(math.sqrt(2.0) + self.last)


def test_both_gives_two_entries_and_undirected_graphs_one(execute: Any) -> None:
    edges = [(1, 2), (2, 1), (2, 3), (3, 3)]
    assert execute(Both, edges, "reverse")[0] == {1: 11, 2: 12, 3: 21}
    assert execute(Both, edges, "reverse", undirected=True)[0] == {1: 1, 2: 2, 3: 2}


class Smooth(Vertex):
    """Arithmetic which rounds: any order of operations would show."""

    value: float = state(1.0)
    messages = Sum(float)
    max_iterations = 20

    def gather(self, iteration, source, delta):
        x = 0.3 + 0.7 * delta.value
        self.value = math.sqrt(x) + math.exp(-x / 3.0) / (1.1 + abs(math.sin(x)))

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.value * target.value / (len(self.targets) + 0.1))


@pytest.mark.sample(1)
@pytest.mark.parametrize("partitions", [1, 3])
def test_compiled_arithmetic_is_pythons_bit_by_bit(partitions: int) -> None:
    rng = np.random.default_rng(3)
    pairs = rng.integers(0, 60, (400, 2)).tolist()
    edges = [(s, t, x) for (s, t), x in zip(pairs, rng.random(400).tolist(), strict=True)]
    runs = InProcess(Program(Smooth), edges)
    one, _, _ = runs.run(partitions=partitions, compiled="require")
    two, _, _ = runs.run(partitions=partitions, compiled=False)
    assert one == two
    wanted = reference(Smooth, edges).values("value")
    assert all(abs(one[v]["value"] - x) < 1e-9 for v, x in wanted.items())


class NamesItself(Vertex):
    """Reads what its class has by the name of the class."""

    LIMIT = 3
    value: int = state(0)
    messages = Min(int)

    @staticmethod
    def half(x: int) -> int:
        return x // 2 if x > NamesItself.LIMIT else x

    def capped(self, x: int) -> int:
        return min(x, NamesItself.LIMIT)

    def init(self) -> None:
        self.value = self.capped(self.id) + NamesItself.half(9)

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        self.value = min(self.value, self.capped(delta.value))

    def scatter(self, iteration: int) -> None:
        self.emitAll(self.value)


def test_a_method_may_name_its_class() -> None:
    class Inner(NamesItself):
        LIMIT = 2

        def capped(self, x: int) -> int:
            return min(x, Inner.LIMIT)

    for cls, most in ((NamesItself, 3), (Inner, 2)):
        graph = Graph.from_arrays([1, 2, 9], [2, 1, 8])
        with run(cls, graph, backend=f"memory://named-{most}", compiled=False) as result:
            assert result.to_dict() == dict.fromkeys([1, 2, 8, 9], most)
