"""A driver of a stateful class that makes calls until it is killed; see `soak_kills`.

Calls that change state have numbers: what a call is follows from its number, and no number is used
twice. The driver appends to its log which calls it makes, what they answered, and how many the
loop has after a failure; `CallRecord` has the same calls made by a plain object. Lines of files
that grow are calls too; they touch other rows than those that the driver makes, so that whichever
comes first makes no difference.
"""

from __future__ import annotations

import base64
import pickle
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.stateful.forty_programs import Recommender
from tests.support.killed_driver import DriverLog, process_ids, started
from vertexsdk import (
    Broadcast,
    CallError,
    Map,
    Partitioned,
    PerPartition,
    Stateful,
    StatefulLoop,
    StateInputError,
    Value,
    gather_all,
    on_all,
)
from vertexsdk.errors import VertexError
from vertexsdk.loops.streams.intake import Stream

__all__ = ["FILES", "PROGRAMS", "CallProgram", "Sales", "packed", "unpacked"]

Draw = Callable[[random.Random], tuple[Any, ...]]
Outcome = tuple[Any] | None  # the answer, or the error that the method raised; None: not known
FILES = 2
_RUN = 20  # calls: in every second run of so many they are of one method
_PARTITIONS = (1, 2, 3)
_SNAPSHOT_EVERY = 40  # calls
_LINES = 20  # of each file, at most, before calls are made
_QUERY_SECONDS = 0.5  # between answers
_RETRY_SECONDS = 0.05
_ITEMS, _PAGES = [*"abcdefg", "", "ä"], [f"page{k}" for k in range(30)]


class Sales(Stateful):
    """Sales at prices that every partition has, by item and by buyer; and visits of pages."""

    prices = Broadcast(Map(str, int))
    items = Partitioned(Map(str, int), key="item")
    buyers = Partitioned(Map(str, count=int, cents=int), key="buyer")
    sold = PerPartition(Value(int))
    visits = Partitioned(Map(str, int), key="page")
    lines = PerPartition(Value(int))

    def set_price(self, item: str, cents: int) -> int:
        self.prices[item] = cents
        if cents < 0:
            raise ValueError(f"{item!r} cannot cost {cents}")
        return len(self.prices)

    def sell(self, item: str, buyer: str, count: int) -> int:
        if item not in self.prices:
            raise KeyError(item)
        cents = count * self.prices[item]
        self.items[item] += count
        self.sold.value += count
        self.buyers[buyer].count += 1
        self.buyers[buyer].cents += cents
        return self.buyers[buyer].cents

    def visit(self, line: str) -> None:
        self.lines.value += 1
        for page in line.split():
            self.visits[page] += 1

    def count(self, item: str) -> int:
        return self.items[item]

    def totals(self) -> list[int]:
        return [
            sum(gather_all(on_all(self.sold).value)),
            sum(gather_all(on_all(self.lines).value)),
        ]


@dataclass(frozen=True)
class CallProgram:
    """A stateful class, and the calls that are made of it.

    Attributes:
        cls: the class.
        changes: what calls that change state are drawn from, by method.
        asks: those that only read.
        fed: the method that files are fed to.
        line: draws a line of the file of a number, of which the first has the `header`.
        arguments: of the call that a line is.
        keys: that rows may have, by type.
    """

    cls: type[Stateful]
    changes: Mapping[str, Draw]
    asks: Mapping[str, Draw]
    fed: str
    line: Callable[[random.Random, int], str]
    arguments: Callable[[str], tuple[Any, ...]]
    header: str
    suffix: str
    keys: Mapping[str, Sequence[Any]]

    def call(self, number: int) -> tuple[str, tuple[Any, ...]]:
        """Return the method and the arguments of a call that changes state."""
        chance, run = random.Random(number), number // _RUN
        name = (random.Random(run) if run % 2 else chance).choice([*self.changes])
        return name, self.changes[name](chance)

    def files(self, place: Path) -> list[Path]:
        """Return the files that are fed."""
        name = self.cls.__name__
        return [place / f"{name}-{number}{self.suffix}" for number in range(FILES)]


def _rating(line: str) -> tuple[int, int, float]:
    user, item, rating = line.split(",")
    return int(user), int(item), float(rating)


PROGRAMS = {
    "Sales": CallProgram(
        Sales,
        {
            "set_price": lambda c: (c.choice(_ITEMS), c.randrange(-1, 9)),
            "sell": lambda c: (c.choice(_ITEMS), c.choice(_ITEMS), c.randrange(1, 9)),
        },
        {"count": lambda c: (c.choice(_ITEMS),), "totals": lambda _: ()},
        "visit",
        lambda chance, _: " ".join(chance.choices(_PAGES, k=chance.randrange(4))),
        lambda line: (line,),
        "",
        ".txt",
        {"str": [*_ITEMS, *_PAGES], "int": [0]},
    ),
    "Recommender": CallProgram(
        Recommender,
        {"add_rating": lambda c: (c.randrange(10), c.randrange(10), float(c.randrange(-1, 5)))},
        {"recommend": lambda c: (c.randrange(10),)},
        "add_rating",
        lambda c, file: f"{10 * file + c.randrange(10, 20)},{c.randrange(10)},{c.randrange(-1, 5)}",
        _rating,
        "user,item,rating\n",
        ".csv",
        {"int": range(10 * FILES + 10)},
    ),
}  # fmt: skip


def packed(*values: Any) -> str:
    """Return values as a word of the log."""
    return base64.b64encode(pickle.dumps(values)).decode()


def unpacked(word: str) -> tuple[Any, ...]:
    """Return the values of a word."""
    values: tuple[Any, ...] = pickle.loads(base64.b64decode(word))
    return values


class _Driver:
    """Makes calls, and says so.

    Args:
        number: of the first call.
        place: the directory of the files that are fed.
    """

    def __init__(
        self, flow: StatefulLoop, program: CallProgram, said: DriverLog, number: int, place: Path
    ) -> None:
        self.flow, self.program, self.said, self.number = flow, program, said, number
        self.chance = random.Random(number)
        self.files = program.files(place)
        self.stream: Stream | None = None
        self.doubt = True  # which calls the loop has is to be said
        self.engine: object = None
        self.asked = float("-inf")

    def turn(self) -> None:
        """Do one thing."""
        if self.doubt:
            self.said.say("resumed", packed(*self.state(self.flow)))
            self.doubt = False
        self.say_processors()
        if self.stream is None or not self.stream.isActive:
            self.stream = getattr(self.flow, self.program.fed).start(self.files, follow=True)
        for number, file in enumerate(self.files):
            count = self.chance.randrange(_LINES)
            lines = [f"{self.program.line(self.chance, number)}\n" for _ in range(count)]
            with file.open("ab", buffering=0) as end:
                end.write("".join(lines).encode())
        if self.asked + _QUERY_SECONDS < time.monotonic():
            self.answer()
        self.chance.choice([*[self.make_calls] * 20, self.fork, self.rescale])()

    def make_calls(self) -> None:
        how = self.chance.choice(["single", "submit", "map"])
        calls = list(self.next_calls(how))
        self.said.say("sent", self.number, len(calls), how)
        self.number += len(calls)
        sent = time.monotonic()
        outcomes = outcomes_of(self.flow, calls, how)
        if None in outcomes:
            self.said.say("uncertain", packed(*outcomes))
            self.doubt = True
            time.sleep(_RETRY_SECONDS)
        else:
            self.said.say("acknowledged", f"{sent:.3f}", packed(*outcomes))

    def next_calls(self, how: str) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """Yield the calls to be made; those of a bulk call are of one method."""
        first = self.program.call(self.number)
        for k in range(1 if how == "single" else self.chance.randint(1, 8)):
            call = self.program.call(self.number + k)
            if how == "map" and call[0] != first[0]:
                break
            yield call

    def answer(self) -> None:
        """Say the state, and answers to calls that only read."""
        self.asked = time.monotonic()
        assert self.stream is not None
        self.stream.processAllAvailable()
        reads = []
        with self.flow._lock:
            for name, draw in self.program.asks.items():
                arguments = draw(self.chance)
                reads.append((name, arguments, getattr(self.flow, name)(*arguments)))
            state = self.state(self.flow)
        self.said.say("answered", f"{self.asked:.3f}", packed(state, reads))

    def fork(self) -> None:
        """Say what a fork comes to on which the next calls are made."""
        with self.flow.fork() as fork:
            calls = list(self.next_calls("submit"))
            outcomes = outcomes_of(fork, calls, "submit")
            if None in outcomes:
                self.doubt = True
            else:
                self.said.say("forked", packed(self.state(fork), self.number, outcomes))

    def rescale(self) -> None:
        self.flow.rescale(self.chance.choice(_PARTITIONS))
        self.said.say("rescaled", self.flow.partitions)

    def state(self, flow: StatefulLoop) -> tuple[int, Mapping[str, int], Mapping[str, Any]]:
        """Return the number of calls, the offsets of the files, and the rows, of one instant."""
        with flow._lock:
            rows = {}
            for name, spec in flow.program.tables.items():
                keys = self.program.keys[spec.key] if spec.size is None else range(spec.size)
                rows[name] = flow.lookup(keys, name)
            return flow.progress()["calls"], dict(flow._history.manifest.offsets), rows

    def say_processors(self) -> None:
        with self.flow._lock:
            engine = self.flow._engine
            if engine is not None and engine is not self.engine:
                ids = process_ids(engine._processors.workers)
                if ids:  # else too few slots are left after a loss, until the next rescaling
                    self.said.say("processors", *ids)
                self.engine = engine


def outcomes_of(
    flow: StatefulLoop, calls: Sequence[tuple[str, tuple[Any, ...]]], how: str
) -> list[Outcome]:
    """Make calls, one after the other, together or in bulk, and return what becomes of each."""
    if how == "map":
        columns = map(list, zip(*(arguments for _, arguments in calls), strict=True))
        try:
            answers = getattr(flow, calls[0][0]).map(*columns, return_exceptions=True)
        except VertexError:
            return [None for _ in calls]
        return [(answer,) for answer in answers]
    if how == "single":
        ((name, arguments),) = calls
        return [_outcome(lambda: getattr(flow, name)(*arguments))]
    futures: list[Future[Any]] = []
    with suppress(VertexError):  # the loop was closed
        futures.extend(getattr(flow, name).submit(*arguments) for name, arguments in calls)
    outcomes = [_outcome(future.result) for future in futures]
    return outcomes + [None for _ in calls[len(futures) :]]


def _outcome(answer: Callable[[], Any]) -> Outcome:
    try:
        return (answer(),)
    except CallError as error:
        return (error,)
    except VertexError:
        return None


def main(url: str, name: str, master: str, log: str, place: str, number: str) -> None:
    """Go on from what is in the store, or begin, with the call of a number."""
    said, spark = started(master, log)
    program = PROGRAMS[name]
    options: dict[str, Any] = {
        "backend": url, "spark": spark, "snapshot_every": _SNAPSHOT_EVERY,
        "partitions": _PARTITIONS[int(number) % len(_PARTITIONS)],
    }  # fmt: skip
    try:
        flow = StatefulLoop.resume(program.cls, **options)
    except StateInputError:  # there is none yet
        flow = StatefulLoop(program.cls, **options)
    driver = _Driver(flow, program, said, int(number), Path(place))
    while True:
        try:
            driver.turn()
        except VertexError as error:
            said.say("failed", type(error).__name__, " ".join(str(error).split()))
            driver.doubt = True
            time.sleep(_RETRY_SECONDS)


if __name__ == "__main__":
    main(*sys.argv[1:])
