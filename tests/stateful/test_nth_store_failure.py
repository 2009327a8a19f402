"""A fault at any call to the store: what was answered is there, and nothing is done by half."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable
from typing import Any

import pytest

from tests.stateful.forty_programs import Recommender
from tests.stateful.histories import state_of, state_of_loop
from tests.stateful.programs import Visits, WordCount
from tests.support.seeds import draws, seed
from tests.support.store_faults import KINDS, DriverKilled, NthFault
from vertexsdk import CallError, RunError, StateError, Stateful, StatefulLoop, StateInputError

SNAPSHOTS = ("synchronous", "asynchronous")
CALLS, COMMITS = 120, 24  # more than the steps have of any kind


class Driver:
    """A program that calls a loop, and begins again when it or its store fails.

    Args:
        cls: the class.
        url: of an empty store.
        faults: of the store.
        partitions: the first one's; later ones have another number.
        snapshots: their kind.
    """

    def __init__(
        self, cls: type[Stateful], url: str, faults: NthFault, partitions: int, snapshots: str
    ) -> None:
        self.cls, self.url, self.faults, self.partitions = cls, url, faults, partitions
        self.snapshots = snapshots
        self.number = self.fired = 0
        self.plain = cls()
        self.flow: StatefulLoop | None = None

    def open(self) -> StatefulLoop:
        """Begin or resume the loop, as often as it takes."""
        while self.flow is None:
            self.number += 1
            assert self.number < 20
            options: dict[str, Any] = {
                "backend": self.url, "partitions": self.partitions, "snapshot_every": 3,
                "snapshots": self.snapshots,
            }  # fmt: skip
            self.fired = len(self.faults.fired)  # before this driver
            try:
                with self.faults.driver(self.number):
                    try:
                        self.flow = StatefulLoop.resume(self.cls, **options)
                    except StateInputError:  # there is no loop yet
                        self.flow = StatefulLoop(self.cls, **options)
            except (StateError, DriverKilled):
                self.partitions = self.partitions % 3 + 1
        return self.flow

    def drop(self) -> None:
        """Leave the loop as a driver that has ended does."""
        if self.flow is not None:
            self.flow._end(ValueError("the driver ended"))
            self.flow = None

    def do(self, work: Callable[[Any], Any]) -> None:
        """Make calls on the loop; if they fail, they have been done or not."""
        flow, done = self.open(), copy.deepcopy(self.plain)
        fired = len(self.faults.fired)
        with self.faults.driver(self.number):
            answer, expected = _answer(flow, work), _answer(done, work)
        if not isinstance(answer, (StateError, DriverKilled)) and not _failed(answer):
            assert repr(answer) == repr(expected)
            self.plain = done
            return
        if isinstance(answer, DriverKilled):  # perhaps by the thread of a snapshot, before
            fired = self.fired
        assert len(self.faults.fired) > fired, answer
        if isinstance(answer, DriverKilled):
            self.drop()
        state = self.state()
        assert state in (state_of(self.plain), state_of(done))
        if state == state_of(done):
            self.plain = done

    def state(self) -> dict[str, dict[Any, dict[str, Any]]]:
        """All rows, with nothing failing."""
        with self.faults.paused():
            return state_of_loop(self.open(), self.plain)

    def check(self) -> None:
        """Compare the state, and that which is in the store."""
        assert self.state() == state_of(self.plain)
        with self.faults.paused():
            self.drop()
            assert self.state() == state_of(self.plain)


def _failed(answer: Any) -> bool:
    return isinstance(answer, RunError) and not isinstance(answer, CallError)


def _answer(target: Any, work: Callable[[Any], Any]) -> Any:
    try:
        return work(target)
    except (CallError, PermissionError):
        return "it raised"
    except (StateError, RunError, DriverKilled) as error:
        return error


def one(name: str, *values: Any) -> Callable[[Any], Any]:
    """A call."""
    return lambda target: getattr(target, name)(*values)


def each(name: str, *columns: list[Any]) -> Callable[[Any], Any]:
    """Many calls, in bulk on a loop."""

    def work(target: Any) -> Any:
        if isinstance(target, StatefulLoop):
            answers = getattr(target, name).map(*columns, return_exceptions=True)
            return ["it raised" if isinstance(a, CallError) else a for a in answers]
        return [_answer(target, one(name, *values)) for values in zip(*columns, strict=True)]

    return work


STEPS: dict[type[Stateful], list[Callable[[Any], Any]]] = {
    WordCount: [
        lambda t: t.add("a b a 1 2 3"),
        lambda t: t.count("a"),
        each("add", ["1 1", "2 ä", "", "7"]),
        each("count", ["1", "ä", "zz"]),
        lambda t: t.add("b"),
        lambda t: t.count("b"),
    ],
    Visits: [
        lambda t: t.visit("a", 0.5),
        lambda t: t.block("b", "late"),
        each("seen", ["a,1", "a,b,2", "2,3", "b"], [1.0, 2.0, 3.0, 4.0]),
        lambda t: t.visit("b", 1.0),
        lambda t: t.forget("a"),
        lambda t: t.state("2"),
    ],
    Recommender: [
        each("add_rating", [1, 1, 2, 2], [10, 11, 10, 12], [5.0, 3.0, 4.0, 1.0]),
        lambda t: t.recommend(1),
        lambda t: t.add_rating(3, 11, 2.0),
        lambda t: t.recommend(3),
        each("add_rating", [3, 2, 1], [12, 13, 14], [1.0, 0.0, 1.0]),
        each("recommend", [1, 2, 3]),
    ],
}


def nth_failure(
    cls: type[Stateful], url: str, kind: str, number: int, methods: set[str] | None = None,
    snapshots: str = "synchronous",
) -> NthFault:  # fmt: skip
    """Call a loop, close it and resume it, with one fault."""
    faults = NthFault(kind, number, methods)
    with faults.installed():
        driver = Driver(cls, url, faults, 1 + number % 3, snapshots)
        for step in STEPS[cls]:
            driver.do(step)
        flow, driver.flow = driver.open(), None
        try:
            with faults.driver(driver.number):
                flow.close()
        except DriverKilled:
            flow._end(ValueError("the driver ended"))
        for step in STEPS[cls][:3]:
            driver.do(step)
        driver.check()
        driver.drop()
    return faults


@pytest.mark.parametrize("cls", STEPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(3)
def test_drawn_calls_of_a_store(cls: type[Stateful], kind: str) -> None:
    chance = random.Random(seed())
    for k in range(draws(4, 6)):
        methods = {"swap_head"} if k % 2 else None
        number = chance.randint(1, COMMITS if methods else CALLS)
        print(number, methods)
        url = f"memory://nth-{cls.__name__}-{kind.replace(' ', '-')}-{k}"
        nth_failure(cls, url, kind, number, methods, SNAPSHOTS[k // 2 % 2])


@pytest.mark.full
@pytest.mark.parametrize("cls", STEPS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("snapshots", SNAPSHOTS)
def test_every_call_of_a_store(cls: type[Stateful], kind: str, snapshots: str) -> None:
    number, url = 1, f"memory://all-{cls.__name__}-{kind.replace(' ', '-')}-{snapshots}"
    while nth_failure(cls, f"{url}-{number}", kind, number, snapshots=snapshots).fired:
        number += 1
        assert number < 1000
    assert number > 5


@pytest.mark.parametrize("kind", ["before", "after"])
@pytest.mark.parametrize("snapshots", SNAPSHOTS)
def test_every_commit(kind: str, snapshots: str) -> None:
    number, url = 1, f"memory://commits-{kind}-{snapshots}"
    while nth_failure(WordCount, f"{url}-{number}", kind, number, {"swap_head"}, snapshots).fired:
        number += 1
    assert number > 10
