"""A client of the store itself, whose calls fail; the model is a dictionary of versions.

After a failed commit the client claims the loop again, which ends what may still be on its way, and
looks: the newest version is either the one before or the new one, whole.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import suppress
from random import Random
from typing import Any

import numpy as np

from tests.support.store_faults import DrawnFaults, DriverKilled, NthFault, StoreFaults
from vertexsdk.errors import StateError
from vertexsdk.state import (
    FencedError,
    Manifest,
    MissingError,
    SegmentRef,
    StateInputError,
    Store,
    open_store,
)
from vertexsdk.state.manifests import EncodedSegment

__all__ = ["StoreClient", "nth_store_failure", "random_steps", "simulate_session", "store_steps"]

ROWS = 12
_TRIES = 60
_LEASE = 3600.0  # seconds
_LATE = 1e6  # seconds, more than a clock jumps and a lease lasts
Content = dict[int, float]


class StoreClient:
    """Commits, forks, merges and deletes versions in one store.

    Args:
        url: of an empty store.
        faults: of it; installed by the caller.
        seed: what it draws.

    Attributes:
        wide: each row is a partition of its own, so a manifest does not list all segments.
        newest: the content of each loop's newest version, and its iteration.
        allowed: the contents that a version of a loop and iteration may have.
    """

    def __init__(self, url: str, faults: StoreFaults, seed: int) -> None:
        self.url, self.faults, self.chance = url, faults, Random(seed)
        self.newest: dict[str, tuple[int, Content]] = {}
        self.allowed: dict[tuple[str, int], list[Content]] = defaultdict(list)
        self.wide = self.chance.random() < 0.3
        self._driver, self._value = 0, 0.0
        self._store: Store | None = None

    @property
    def store(self) -> Store:
        """The store; opened anew after the client was killed."""
        while self._store is None:
            with suppress(StateError), self.faults.driver(self._driver):
                self._store = open_store(self.url)
        return self._store

    def _attempt(self, work: Callable[[], object]) -> bool:
        before = len(self.faults.fired)
        try:
            work()
        except DriverKilled:
            self._driver, self._store = self._driver + 1, None
            return False
        except StateError as error:
            late = any(fault.startswith("late") for fault in self.faults.fired)
            collected = isinstance(error, MissingError) and "collected before" in str(error)
            if len(self.faults.fired) == before and not late and not collected:
                raise
            return False
        return True

    def _until(self, work: Callable[[], object]) -> None:
        assert any(self._attempt(work) for _ in range(_TRIES)), "it goes on failing"

    def commit(
        self,
        loop: str,
        kind: Any = "delta",
        *,
        step: int = 1,
        deferred: bool = False,
        collected: bool = False,
    ) -> None:
        """Commit the next version.

        Args:
            kind: of the segment.
            step: the iterations since the version before.
            deferred: the segment is stored with the commit.
            collected: garbage is collected between the two, once, as if no run was in progress.
        """
        at, before = self.newest.get(loop, (-1, {}))
        ids = range(ROWS) if kind == "base" else self.chance.sample(range(ROWS), 2)
        self._value += 1.0
        new = {i: self._value + i / 16 for i in ids}
        content = before | new
        collects = [collected]

        def segments() -> Any:
            put = self._put(loop, at + step, kind, new, deferred)
            if collects.pop() if collects else False:
                with self.faults.paused(), open_store(self.url) as other:
                    other.collect(0, alone=True)
            return put

        self._commit(loop, at + step, content, segments)

    def _put(
        self, loop: str, at: int, kind: Any, rows: Content, deferred: bool
    ) -> tuple[list[SegmentRef], list[EncodedSegment]]:
        put: list[EncodedSegment] = []
        defer = put.append if deferred else None
        parts = [(i, [i]) for i in sorted(rows)] if self.wide else [(0, sorted(rows))]
        refs = [
            self.store.put_segment(
                loop, partition, at, kind,
                {"id": np.array(ids), "value": np.array([rows[i] for i in ids])}, defer=defer,
            )
            for partition, ids in parts
        ]  # fmt: skip
        return refs, put

    def _commit(self, loop: str, at: int, content: Content, segments: Callable[[], Any]) -> None:
        self.allowed[loop, at].append(content)

        def work() -> None:
            refs, put = segments()
            parent = self.store.head(loop) if loop in self.newest else None
            self.store.commit(loop, iteration=at, segments=refs, parent=parent, put=put)

        self._conclude(loop, at, content, work)

    def _conclude(self, loop: str, at: int, content: Content, work: Callable[[], object]) -> None:
        """Try until the version is there, once."""
        for _ in range(_TRIES):
            if self._attempt(work):
                break
            self._until(lambda: self.store.claim(loop))
            with self.faults.paused():
                newest = self.store.head(loop)
                if newest is not None and newest.iteration == at:
                    if read(self.store, loop, newest) == content:
                        break
        else:
            raise AssertionError("it goes on failing")
        self.newest[loop] = at, content

    def fork(self, loop: str, name: str) -> str:
        """Fork a loop under this name; under another one if it is not known whether it is there."""
        at, content = self.newest[loop]
        number = 0
        while True:
            new = f"{name}{number}"
            self.allowed[new, at].append(content)
            if self._attempt(lambda new=new: self.store.fork(loop, new)):  # type: ignore[misc]
                self.newest[new] = at, content
                return new
            number += 1

    def merge(self, branch: str, into: str) -> None:
        """Merge a branch."""
        at = self.newest[branch][0]
        at, content = max(self.newest[into][0] + 1, at), self.newest[branch][1]
        self.allowed[into, at].append(content)
        self._conclude(into, at, content, lambda: self.store.merge(branch, into))

    def pinned_while_pruned(self, loop: str) -> None:
        """Read a version that is dropped meanwhile."""

        def work() -> None:
            at = self.store.versions(loop)[0]
            with self.store.pin(loop, at, seconds=_LEASE) as manifest:
                self.store.prune(loop, 2)
                assert read(self.store, loop, manifest) in self.allowed[loop, manifest.iteration]

        self._until(work)

    def maintain(self, what: str, loop: str) -> None:
        """Compact, prune, delete or collect."""

        def work() -> None:
            if what == "compact":
                self.store.compact(loop)
            elif what == "prune":
                self.store.prune(loop, 2)
            elif what == "collect":
                self.store.collect(0, alone=True)
            elif self.store.backend.get_head(loop) is not None:
                self.store.delete(loop)

        if what == "delete":
            del self.newest[loop]
        self._until(work)

    def copy(self, loop: str, name: str) -> None:
        """Copy a loop within the store; a copy that failed is deleted first."""

        def work() -> None:
            if self.store.backend.get_head(name) is not None:
                self.store.delete(name)
            self.store.copy(loop, self.store, name)

        for (some, at), contents in list(self.allowed.items()):
            if some == loop:
                self.allowed[name, at] = contents
        self._until(work)
        self.newest[name] = self.newest[loop]

    def second_driver(self, loop: str) -> None:
        """Have another driver claim a loop; the first one can commit no more."""
        at, _ = self.newest[loop]
        self._until(lambda: self.store.claim(loop))
        with self.faults.paused(), open_store(self.url) as other:
            parent = self.store.head(loop)
            assert parent is not None
            other.claim(loop)
            refs, _ = self._put(loop, at + 1, "delta", {0: -1.0}, False)
            try:
                self.store.commit(loop, iteration=at + 1, segments=refs, parent=parent)
            except FencedError:
                pass
            else:
                raise AssertionError("a driver that was fenced wrote to the store")
        self._until(lambda: self.store.claim(loop))

    def stranger(self, loop: str) -> None:
        """Try to merge a branch into a loop that has changed since."""
        with self.faults.paused(), open_store(self.url) as other:
            other.fork(loop, "stranger")
            self.commit(loop)
            refused = True
            with suppress(StateInputError):
                other.merge("stranger", loop)
                refused = False
            assert refused, "what came meanwhile was lost"
            other.delete("stranger")
        self._until(lambda: self.store.claim(loop))

    def check(self, *, collected: bool = False) -> None:
        """Compare the store with the model."""
        with self.faults.paused(), open_store(self.url) as store:
            for loop, (at, content) in self.newest.items():
                newest = store.head(loop)
                assert newest is not None
                assert newest.iteration == at, (loop, newest.iteration, at)
                assert read(store, loop, newest) == content, (loop, at)
            for loop in store.loops():
                versions = store.versions(loop)
                assert versions == sorted(set(versions))
                for at in versions:
                    got = read(store, loop, store.version(loop, at))
                    assert got in self.allowed[loop, at], (loop, at, got, self.allowed[loop, at])
            audit = store.audit()
            assert (audit.missing, audit.corrupt) == ([], [])
            if collected:
                store.collect(0, alone=True)
                assert store.audit().unreferenced == []

    def close(self) -> None:
        """Check everything; delete everything, which leaves nothing."""
        with self.faults.paused():
            self.faults.deliver()
            self.faults.ahead = _LATE  # leases of clients that were killed have ended
            self.check(collected=True)
            store = self.store
            for loop in store.backend.list_heads():
                store.delete(loop)
            store.collect(0, alone=True)
            assert list(store.backend.list_segments()) == []
            assert [name for name in store.backend.list_manifests() if "." not in name] == []
            store.close()


def read(store: Store, loop: str, at: Manifest) -> Content:
    """The content of a version."""
    content: Content = {}
    for _, columns in store.read(loop, at):
        content |= dict(zip(columns["id"].tolist(), columns["value"].tolist(), strict=True))
    return content


def store_steps(client: StoreClient) -> Iterator[None]:
    """Everything that a store does, a step each."""
    yield client.commit("a", "base")
    yield client.commit("a")
    yield client.commit("a", deferred=True)
    branch = client.fork("a", "b")
    yield
    yield client.commit(branch, step=2)
    yield client.commit(branch, "base", deferred=True)
    yield client.merge(branch, "a")
    yield client.commit("a", step=0)
    yield client.maintain("compact", "a")
    yield client.commit("a")
    yield client.pinned_while_pruned("a")
    yield client.copy("a", "c")
    yield client.maintain("delete", branch)
    yield client.maintain("collect", "a")
    yield client.maintain("prune", "c")
    yield client.second_driver("a")


def random_steps(client: StoreClient, steps: int) -> Iterator[None]:
    """Draw what to do."""
    chance = client.chance
    yield client.commit("a", "base")
    forked: dict[str, str] = {}  # of loops that did not go on since
    for _ in range(steps):
        loop = chance.choice(sorted(client.newest))
        what = chance.choice(_STEPS)
        if what == "commit":
            kind = chance.choice(["base", "delta", "delta"])
            deferred = chance.random() < 0.5
            step, collected = chance.choice([0, 1, 1, 3]), chance.random() < 0.2
            client.commit(loop, kind, step=step, deferred=deferred, collected=collected)
            forked = {branch: of for branch, of in forked.items() if of != loop}
        elif what == "fork" and len(client.newest) < 4:
            forked[client.fork(loop, f"f{len(client.allowed)}-")] = loop
        elif what == "merge" and forked:
            branch = chance.choice(sorted(forked))
            into = forked[branch]
            client.merge(branch, into)
            forked = {some: of for some, of in forked.items() if of != into and some != into}
        elif what == "copy" and len(client.newest) < 4:
            client.copy(loop, f"c{len(client.allowed)}")
        elif what == "delete" and len(client.newest) > 1:
            client.maintain(what, loop)
            forked = {some: of for some, of in forked.items() if loop not in (some, of)}
        elif what in ("compact", "prune", "collect"):
            client.maintain(what, loop)
            if what != "collect":
                forked = {some: of for some, of in forked.items() if loop not in (some, of)}
        elif what == "pin":
            client.pinned_while_pruned(loop)
            forked = {branch: of for branch, of in forked.items() if of != loop}
        elif what == "second_driver":
            client.second_driver(loop)
        elif what == "stranger":
            client.stranger(loop)
            forked = {branch: of for branch, of in forked.items() if of != loop}
        elif what == "clock":
            client.faults.ahead += chance.choice([-7200.0, -60.0, 60.0, 7200.0])
        yield


_STEPS = ["commit"] * 6 + ["fork"] * 3 + ["merge"] * 2 + ["compact", "prune", "collect"] * 2
_STEPS += ["copy", "delete", "pin", "second_driver", "stranger", "clock"]
RATES = {
    "before": 0.01, "after": 0.02, "late": 0.02, "torn": 0.02, "full": 0.01,
    "killed before": 0.004, "killed after": 0.01, "killed torn": 0.01,
}  # fmt: skip


def simulate_session(seed: int, url: str, steps: int = 12) -> StoreFaults:
    """Have what a seed stands for happen in an empty store, which is empty again afterwards.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    faults = DrawnFaults(seed, RATES)
    with faults.installed():
        client = StoreClient(url, faults, seed)
        for _ in random_steps(client, steps):
            client.check()
        client.close()
    return faults


def nth_store_failure(
    url: str, kind: str, number: int, methods: set[str] | None = None
) -> NthFault:
    """Take the steps with a fault at one call; see `store_scenarios.nth_failure`.

    Raises:
        AssertionError: something was lost, doubled or wrong.
    """
    faults = NthFault(kind, number, methods)
    with faults.installed():
        client = StoreClient(url, faults, number)
        seen = 0
        for _ in store_steps(client):
            if len(faults.fired) > seen:
                client.check()
                seen = len(faults.fired)
        client.close()
    return faults
