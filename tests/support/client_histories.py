"""Clients in threads on one main loop, recorded with the begin and end of what they did.

Every batch adds edges to new vertices, so an answer's vertices say which batches are in it. What is
checked is what any order of the operations that fits the recorded times would give:

- batches and merges are seen whole, and answers are in a line: of two, one has all of the other;
- an answer has every batch that was acknowledged before it was asked for, and none that began
  after it was there;
- versions do not go back; a branch starts from a line of batches as an answer does, and sees its
  own changes and no later ones of others.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import Degree
from vertexsdk.loops.result import Result
from vertexsdk.state import MissingError, open_store

__all__ = ["History", "Operation", "record"]

PAIR = 2  # vertices that a batch adds


@dataclass(frozen=True)
class Operation:
    """What a client did.

    Attributes:
        kind: write (a batch, or a merge of several), or read.
        client: who.
        begin, end: when.
        batches: that were written, or are in the answer; of a read of a branch, without its own.
        version: of an answer of the main loop, or None.
        acknowledged: a write of which the client was told.
    """

    kind: str
    client: str
    begin: float
    end: float
    batches: frozenset[int]
    version: int | None = None
    acknowledged: bool = True


@dataclass
class History:
    """What all clients did."""

    operations: list[Operation] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def check(self) -> None:
        """See whether all of it is possible.

        Raises:
            AssertionError: it is not.
        """
        assert not self.errors, self.errors
        writes = [op for op in self.operations if op.kind == "write"]
        reads = [op for op in self.operations if op.kind == "read"]
        for read in reads:
            for write in writes:
                seen = write.batches & read.batches
                assert seen in (frozenset(), write.batches), f"{read} has a part of {write}"
                if write.acknowledged and write.end < read.begin:
                    assert seen, f"{read} lacks what was acknowledged before: {write}"
                if write.begin > read.end:
                    assert not seen, f"{read} has what began later: {write}"
            known = frozenset().union(*(write.batches for write in writes))
            assert read.batches <= known, f"{read} has what nobody wrote"
        line = sorted(reads, key=lambda op: len(op.batches))
        for first, second in itertools.pairwise(line):
            assert first.batches <= second.batches, f"{first} and {second} are in no order"
        for client in {op.client for op in writes}:
            own = [op for op in writes if op.client == client]
            for read in reads:
                has = [op.batches <= read.batches for op in own if op.acknowledged]
                assert has == sorted(has, reverse=True), f"{read} skips a write of {client}"
        versions = [op for op in reads if op.version is not None]
        for first, second in itertools.permutations(versions, 2):
            if first.end < second.begin:
                assert (first.version or 0) <= (second.version or 0), f"{second} after {first}"
            if first.version == second.version:
                assert first.batches == second.batches, f"{first} and {second} are one version"


def record(url: str, seed: int, steps: int, *, partitions: int = 1) -> History:
    """Have clients work on a loop at the same time.

    Args:
        url: of an empty store.
        seed: what they do.
        steps: of each of the clients that read and write.
        partitions: of the graph. Whether ids are strings, and edges have times, is drawn.
    """
    drawn = random.Random(f"{seed} ids")
    strings, window = drawn.random() < 0.5, drawn.choice([None, 1e6])
    graph = Graph.from_arrays(*([_id(k, strings)] for k in (0, 1)), partitions=partitions)
    history, numbers, lock = History(), itertools.count(1), threading.Lock()
    names = itertools.count()
    with MainLoop(
        Degree, graph, backend=url, loop="m", compiled=False, keep_answers=3, retain=8,
        snapshot_every=40,
    ) as main:  # fmt: skip
        if window is not None:  # which nothing leaves
            main.window(window)
        done = threading.Event()

        def write(client: str, chance: random.Random) -> None:
            number = next(numbers)
            rows = _rows([number], chance, strings)
            timed: Any = {} if window is None else {"time": chance.uniform(0, 1000)}
            noted(client, [number], lambda: main.ingest(rows, **timed))

        def noted(client: str, batches: list[int], work: Callable[[], object]) -> None:
            begin, fine = time.monotonic(), False
            try:
                work()
                fine = True
            finally:
                end = time.monotonic() if fine else float("inf")
                with lock:
                    done_op = Operation(
                        "write", client, begin, end, frozenset(batches), acknowledged=fine
                    )
                    history.operations.append(done_op)

        def read(client: str, ask: Callable[[], Result], without: Iterable[int] = ()) -> None:
            begin = time.monotonic()
            with contextlib.closing(ask()) as answer:
                end = time.monotonic()
                batches = _batches(answer)
                version = None if without else answer.statistics["version"]
            own = frozenset(without)
            assert own <= batches, f"a branch lacks its own changes {own}"
            with lock:
                history.operations.append(
                    Operation("read", client, begin, end, batches - own, version)
                )

        def branch(client: str, chance: random.Random, *, merge: bool) -> None:
            own = [next(numbers), next(numbers)]
            begin = time.monotonic()
            with main.fork(f"b{next(names)}") as fork:
                forked = time.monotonic()
                for number in own:
                    fork.apply(_rows([number], chance, strings))
                with contextlib.closing(fork.result()) as answer:
                    batches = _batches(answer)
                assert frozenset(own) <= batches
                with lock:
                    history.operations.append(
                        Operation("read", client, begin, forked, batches - frozenset(own))
                    )
                if merge:
                    with contextlib.suppress(_Refused):
                        noted(client, own, lambda: _merge(fork))

        def look(client: str) -> None:
            rows = main.lookup([_id(0, strings), _id(1, strings)])
            versions = {row["version"] for row in rows.values()}
            assert len(versions) == 1

        def work(client: str, number: int) -> None:
            chance = random.Random(f"{seed} {number}")
            for _ in range(steps):
                what = chance.choice(["write"] * 4 + ["read"] * 2 + ["branch", "merge", "look"])
                if what == "write":
                    write(client, chance)
                elif what == "read":
                    read(client, main.query)
                elif what == "look":
                    look(client)
                else:
                    branch(client, chance, merge=what == "merge")

        def maintain(client: str, number: int) -> None:
            chance = random.Random(f"{seed} {number}")
            while not done.wait(0.005):
                what = chance.choice(["collect", "compact", "prune", "snapshot", "verify"])
                if what == "snapshot":
                    main.snapshot()
                    continue
                with open_store(url, create=False) as store:
                    if what == "collect":
                        store.collect(120.0)
                    elif what == "compact":
                        store.compact("m")
                    elif what == "prune":
                        store.prune("m", 4)
                    else:
                        _verify(store)

        def guarded(do: Callable[[str, int], None], client: str, number: int) -> None:
            try:
                do(client, number)
            except BaseException as error:
                history.errors.append(f"{client}: {error!r}")

        threads = [
            threading.Thread(target=guarded, args=(work, f"client {k}", k)) for k in range(3)
        ]
        other = threading.Thread(target=guarded, args=(maintain, "maintenance", 99))
        for thread in [*threads, other]:
            thread.start()
        for thread in threads:
            thread.join()
        done.set()
        other.join()
        read("at the end", main.query)
    with MainLoop.resume(None, Degree, backend=url, loop="m", compiled=False) as again:
        begin = time.monotonic()
        with contextlib.closing(again.query()) as answer:
            last = Operation("read", "resumed", begin, time.monotonic(), _batches(answer))
        history.operations.append(last)
    return history


class _Refused(Exception):
    """Others wrote since the branch was forked."""


def _merge(fork: Any) -> None:
    try:
        fork.merge()
    except InputError as error:
        raise _Refused from error


def _verify(store: Any) -> None:
    """Read the newest version; an older one may be dropped meanwhile."""
    with contextlib.suppress(MissingError):
        list(store.read("m"))


def _id(number: int, strings: bool) -> Any:
    return f"v{number}" if strings else number


def _rows(batches: list[int], chance: random.Random, strings: bool) -> list[Any]:
    numbers = [PAIR * k + j for k in batches for j in range(PAIR)]
    rows = [("+", _id(0, strings), _id(number, strings)) for number in numbers]
    chance.shuffle(rows)
    return rows


def _batches(answer: Result) -> frozenset[int]:
    """The batches in an answer, each of which must be whole."""
    vertices = {int(str(vertex).removeprefix("v")) for vertex, _ in answer.rows()} - {0, 1}
    batches = {vertex // PAIR for vertex in vertices}
    whole = {PAIR * k + j for k in batches for j in range(PAIR)}
    assert vertices == whole, f"a part of a batch: {sorted(whole - vertices)} are not there"
    return frozenset(batches)
