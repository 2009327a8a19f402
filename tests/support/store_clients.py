"""A client of a main loop whose store fails, and what it may then see.

The client does what the documentation says: it gives every batch an offset, sends a batch again or
resumes the loop when a call fails, and believes only what was acknowledged. `Acknowledged` is the
model: the states of the graph that the newest version may have, of which there is more than one as
long as the outcome of a call is unknown.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from tests.support.random_changes import Row, applied, random_rows
from tests.support.store_faults import DriverKilled, StoreFaults
from vertexsdk import Graph, InputError, MainLoop
from vertexsdk.algorithms import ShortestPaths
from vertexsdk.errors import RunError, StateError
from vertexsdk.loops.branch_loop import BranchLoop
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.paths import edges_of_version
from vertexsdk.loops.result import Result
from vertexsdk.state import FencedError, Manifest, Store, open_store
from vertexsdk.testing.oracles import expected

__all__ = ["LOOP", "Acknowledged", "Client", "GraphState", "lengths"]

LOOP = "m"
ORIGIN = 0
VERTICES = 9
_LATE = 1e6  # seconds, more than a clock jumps and a lease lasts
_TRIES = 12  # of a call that goes on failing
Rows = Sequence[Row]
EdgeSet = frozenset[tuple[int, int, float]]


@dataclass(frozen=True)
class GraphState:
    """The graph of a main loop after some of its batches.

    Attributes:
        received: changes until then.
        offset: of the newest batch that came with one.
    """

    received: int
    offset: int
    edges: EdgeSet

    def after(self, rows: Rows, offset: int | None = None) -> GraphState:
        """The graph after another batch."""
        before = {(a, b): x for a, b, x in self.edges}
        edges = applied(before, rows, undirected=False)
        return GraphState(
            self.received + len(rows),
            self.offset if offset is None else offset,
            frozenset((a, b, x) for (a, b), x in edges.items()),
        )


class Acknowledged:
    """Which graphs the newest version may have, and which an older one.

    Attributes:
        possible: of the newest version.
        ever: of all versions that there may be.
    """

    def __init__(self, first: GraphState) -> None:
        self.possible = [first]
        self.ever = {first}

    def acknowledge(self, rows: Rows) -> None:
        """A batch without an offset is there."""
        self.possible = self._after(rows, None)

    def doubt(self, rows: Rows, offset: int | None = None) -> None:
        """A batch is there, or it is not."""
        self.possible = [*dict.fromkeys([*self.possible, *self._after(rows, offset)])]

    def _after(self, rows: Rows, offset: int | None) -> list[GraphState]:
        before = [s for s in self.possible if offset is None or s.offset != offset]
        after = [state.after(rows, offset) for state in before]
        self.ever.update(after)
        return after

    def observe(self, received: int, offset: int) -> None:
        """The newest version has this."""
        seen = [s for s in self.possible if (s.received, s.offset) == (received, offset)]
        assert seen, (
            f"the newest version has {received} changes, the last of offset {offset}: that is none "
            f"of {[(s.received, s.offset) for s in self.possible]}"
        )
        self.possible = seen


@cache
def lengths(edges: EdgeSet) -> dict[int, float]:
    """The answer from scratch."""
    values = expected("sssp", sorted(edges), [ORIGIN], {"origin": ORIGIN})["length"]
    return {int(vertex): float(x) for vertex, x in values.items()}


class Client:
    """Drives one main loop; whatever it is told is right, or it raises `AssertionError`.

    Args:
        url: of a store which has no loop yet.
        faults: of the store; installed by the caller.
        seed: what it does when a call fails.
        partitions: of the graph.
        options: of the loop.

    Attributes:
        model: what it was told.
        main: the loop.
        newest: the iteration of the newest version that it has seen.
        failures: calls that failed.
    """

    def __init__(
        self,
        url: str,
        faults: StoreFaults,
        seed: int,
        *,
        partitions: int = 2,
        options: dict[str, Any] | None = None,
    ) -> None:
        self.url, self.faults, self.chance = url, faults, Random(seed)
        self.options: dict[str, Any] = {"compiled": False, "backend": url, "loop": LOOP}
        self.options |= options or {}
        self.partitions = partitions
        edges: dict[tuple[Any, Any], float] = {(0, 1): 1.0, (1, 2): 2.0}
        random_rows(self.chance, edges, 8, undirected=False, vertices=range(VERTICES))
        edges[0, 1] = 3.0
        first = GraphState(0, 0, frozenset((a, b, x) for (a, b), x in edges.items()))
        self.model = Acknowledged(first)
        self.main: MainLoop | None = None
        self.newest, self.offset, self.failures, self.drivers = -1, 0, 0, 0
        self._checked: set[str] = set()

    # What it does

    def open(self) -> None:
        """Open the loop."""
        (first,) = self.model.possible
        rows = sorted(first.edges)
        columns = [[row[k] for row in rows] for k in range(3)]

        def work() -> None:
            graph = Graph.from_arrays(*columns, vertices=[ORIGIN], partitions=self.partitions)
            params = {"origin": ORIGIN}
            self.main = MainLoop(ShortestPaths, graph, params=params, **self.options)

        self._until_it_succeeds(work)

    def resume(self) -> None:
        """Close the loop if it is open, and resume it."""
        self.leave()

        def work() -> None:
            self.main = MainLoop.resume(None, ShortestPaths, **self.options)

        self._until_it_succeeds(work)
        self.observe(durable=True)

    def leave(self) -> None:
        """Close the loop, or forget the one whose driver was killed."""
        main, self.main = self.main, None
        if main is not None and self._attempt(main.close) is not None:
            abandon(main)

    def rows(self, number: int) -> list[Row]:
        """Draw changes."""
        state = self.model.possible[-1]
        edges = {(a, b): x for a, b, x in state.edges}
        return random_rows(
            self.chance, edges, number, undirected=False, vertices=range(VERTICES + 2)
        )

    def ingest(self, rows: Rows) -> None:
        """Ingest a batch; if that fails, send it again, go on without knowing, or resume."""
        self.offset += 1
        offset = self.offset

        def work() -> None:
            assert self.main is not None
            self.model.doubt(rows, offset)
            self.main.ingest(rows, source="s", offset=offset)

        if self._attempt(work) is not None:
            if self.main is None or self.chance.random() < 0.3:
                self.resume()
                return
            self._until_it_succeeds(work)
        self.observe(durable=True)
        assert all(state.offset == offset for state in self.model.possible)

    def query(self, *, persist: bool = False) -> None:
        """Ask for the answer."""

        def work() -> None:
            assert self.main is not None
            answer = self.main.query(persist=persist)
            self.observe(durable=persist)
            self._compare(answer)

        self._until_it_succeeds(work)

    def lookup(self) -> None:
        """Ask for a vertex of the newest version."""

        def work() -> None:
            assert self.main is not None
            row = self.main.lookup([ORIGIN])[ORIGIN]
            assert row["length"] == 0.0

        self._until_it_succeeds(work)

    def branch(self, rows: Rows, then: str) -> None:
        """Fork a branch, apply changes to it, and merge, close or forget it."""

        def work() -> None:
            assert self.main is not None
            branch = self.main.fork()
            try:
                self.observe()
                branch.apply(rows)
                (state,) = {s.edges: s for s in self.model.possible}.values()
                self._compare(branch.result(), state.after(rows))
                if then == "merge":
                    try:
                        branch.merge()
                    except BaseException:
                        self.model.doubt(rows)
                        raise
                    self.model.acknowledge(rows)
                    self.observe(durable=True)
            except DriverKilled:
                abandon(branch)
                raise
            except BaseException:
                with contextlib.suppress(StateError):
                    branch.close()
                abandon(branch)
                raise
            try:
                branch.close(forget=then == "forget")
            except BaseException:
                abandon(branch)
                raise

        if self._attempt(work) is not None:
            self.resume() if self.main is None else self.query()

    def snapshot(self) -> None:
        """Take a snapshot."""
        self._until_it_succeeds(lambda: take_snapshot(self.main))
        self.observe(durable=True)

    def maintain(self, what: str) -> None:
        """Compact, prune or collect, by another store as another process would."""

        def work() -> None:
            with self.faults.driver(-1 - self.drivers), open_store(self.url, create=False) as store:
                if what == "compact":
                    store.compact(LOOP)
                elif what == "prune":
                    store.prune(LOOP, self.chance.randint(1, 4))
                else:
                    store.collect(0, alone=True)

        self._until_it_succeeds(work)

    def second_driver(self) -> None:
        """Have another driver resume the loop; what the first one still does has no effect."""
        old, self.main = self.main, None
        assert old is not None
        self.drivers += 1
        self.resume()
        rows = self.rows(2)
        newest = self.chance.choice(["ingest", "query", "snapshot"])
        with self.faults.paused():
            if newest == "ingest":
                _fenced(lambda: old.ingest(rows))
            elif newest == "query":
                _fenced(lambda: old.query(persist=True).close())
            elif newest == "snapshot":
                _fenced(lambda: take_snapshot(old))
            _fenced(lambda: old.ingest(rows))
            with contextlib.suppress(StateError, DriverKilled):
                old.close()
        abandon(old)
        self.query()

    # What it sees

    def observe(self, *, durable: bool = False) -> None:
        """Learn from the loop which batches it has.

        Args:
            durable: its newest version is in the store; an answer may not be.
        """
        assert self.main is not None
        self.model.observe(self.main.changes, self.main.offsets.get("s", 0))
        if durable:
            assert self.main.iteration >= self.newest
            self.newest = self.main.iteration

    def _compare(self, answer: Result, state: GraphState | None = None) -> None:
        with contextlib.closing(answer):
            got = {v: row["length"] for v, row in answer.rows()}
        states = self.model.possible if state is None else [state]
        assert got in [lengths(s.edges) for s in states], (got, states)

    def _attempt(self, work: Callable[[], object]) -> BaseException | None:
        """Call `work`; return what it raised, if a fault explains that."""
        before = len(self.faults.fired)
        try:
            with self.faults.driver(self.drivers):
                work()
        except DriverKilled as error:
            self.failures += 1
            if self.main is not None:
                abandon(self.main)
            self.main = None
            self.drivers += 1
            return error
        except (StateError, RunError, InputError) as error:
            injected = "injected" in str(error)  # of an answer that could not be written, before
            if len(self.faults.fired) == before and not injected:
                raise
            self.failures += 1
            return error
        return None

    def _until_it_succeeds(self, work: Callable[[], object]) -> None:
        for _ in range(_TRIES):
            if self._attempt(work) is None:
                return
            if self.main is None and self._resumable():
                self.resume()
        raise AssertionError("it goes on failing")

    def _resumable(self) -> bool:
        with self.faults.paused(), open_store(self.url) as store:
            return store.head(LOOP) is not None

    def check(self, *, collected: bool = False) -> None:
        """Look at the store without faults.

        Args:
            collected: also collect, and see that nothing is left that no version refers to.
        """
        with self.faults.paused(), open_store(self.url) as store:
            newest = store.head(LOOP)
            assert newest is not None
            ledger = Ledger.read(newest)
            possible = [(s.received, s.offset) for s in self.model.possible]
            seen = (ledger.received, newest.offsets.get("s", 0))
            assert seen in possible, f"the store has {seen}, not one of {possible}"
            assert newest.iteration >= self.newest, (newest.iteration, self.newest)
            for loop in store.loops():
                iterations = store.versions(loop)
                assert iterations == sorted(set(iterations))
                for iteration in iterations:
                    manifest = store.version(loop, iteration)
                    assert manifest.iteration == iteration
                    if manifest.name not in self._checked:
                        self._check_version(store, loop, manifest)
            audit = store.audit()
            assert audit.missing == []
            assert audit.corrupt == []
            if collected:
                store.collect(0, alone=True)
                assert store.audit().unreferenced == []

    def _check_version(self, store: Store, loop: str, manifest: Manifest) -> None:
        """A version's graph is one that was acknowledged, and its state the answer for it."""
        ledger = Ledger.read(manifest)
        columns = [column.tolist() for column in edges_of_version(store, manifest)]
        edges = frozenset(zip(*columns, strict=True))
        if loop == LOOP:
            state = GraphState(ledger.received, manifest.offsets.get("s", 0), edges)
            assert state in self.model.ever, (state, sorted(map(repr, self.model.ever)))
        if ledger.state and ledger.exact:
            got: dict[int, float] = {}
            for _, columns in store.read(loop, manifest):
                got |= dict(zip(columns["id"].tolist(), columns["length"].tolist(), strict=True))
            assert got == lengths(edges), (loop, manifest.iteration, got, lengths(edges))
        self._checked.add(manifest.name)

    def end(self) -> None:
        """Free what it has, after an error."""
        if self.main is not None:
            abandon(self.main)

    def close(self) -> None:
        """Close the loop; resumed once more, it has what was acknowledged; then all is deleted."""
        self.leave()
        with self.faults.paused():
            self.faults.deliver()
            self.faults.ahead = _LATE  # leases of drivers that were killed have ended
            self.check(collected=True)
            self.resume()
            self.query()
            self.leave()
            with open_store(self.url) as store:
                for loop in store.backend.list_heads():
                    store.delete(loop)
                store.collect(0, alone=True)
                assert list(store.backend.list_segments()) == []
                assert [n for n in store.backend.list_manifests() if "." not in n] == []


def take_snapshot(main: MainLoop | None) -> None:
    """Have a loop store its graph."""
    assert main is not None
    main.snapshot()


def abandon(loop: MainLoop | BranchLoop) -> None:
    """Free what the driver of a loop had, as the end of its process does."""
    history = loop._history
    with contextlib.suppress(Exception):
        history._close_engine()
    with contextlib.suppress(BaseException):
        history._writes.close()


def _fenced(work: Callable[[], object]) -> None:
    """Call what a driver that was fenced must not be able to do."""
    for _ in range(2):
        try:
            work()
        except (FencedError, DriverKilled):  # a write behind may have killed it
            return
        except StateError as error:
            if "injected" not in str(error):  # of an answer that could not be written, before
                raise
        else:
            break
    raise AssertionError("a driver that was fenced wrote to the store")
