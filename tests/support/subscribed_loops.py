"""Drawn main loops, and subscriptions to them whose rows are added up."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import vertexsdk
from vertexsdk import Graph, MainLoop, subscribe
from vertexsdk.loops.subscription import Subscription
from vertexsdk.state import open_store


def frozen(value: Any) -> Any:
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def row_of(vertex: Any, fields: dict[str, Any]) -> Any:
    return (vertex, *((name, frozen(value)) for name, value in fields.items()))


class Model:
    """The rows of a subscription, added up, which are compared with what the store has."""

    def __init__(self, subscription: Subscription, rows: Counter[Any] | None = None) -> None:
        self.subscription, self.rows = subscription, Counter(rows or {})
        self.states: dict[int, Counter[Any]] = {}

    def read(self) -> None:
        """Take what there is, by rows."""
        for vertex, fields, diff, version in self.subscription:
            if fields is None:
                assert diff == 0
                self.states[version] = +self.rows
            else:
                self.rows[row_of(vertex, fields)] += diff
        assert set(self.rows.values()) <= {0, 1}

    def read_batches(self) -> None:
        """Take what there is, by Arrow batches."""
        for batch in self.subscription.batches():
            for row in batch.to_pylist():
                vertex, diff, version = (row.pop(name) for name in ("id", "diff", "version"))
                if diff:
                    self.rows[row_of(vertex, row)] += diff
                else:
                    assert set(row.values()) <= {None}
                    self.states[version] = +self.rows

    def check(self) -> None:
        """Compare the state of each version that is still in the store."""
        backend, loop = self.address
        with open_store(backend, create=False) as store:
            versions = [store.version(loop, k) for k in store.versions(loop)]
        exact = [v.iteration for v in versions if v.statistics["main"]["exact"]]
        exact = [v for v in exact if v >= min(self.states, default=0)]
        assert [v for v in sorted(self.states) if v in exact] == exact
        for version in exact:
            with vertexsdk.read(backend, loop, at=version) as result:
                assert result.iteration == version
                rows = Counter(row_of(vertex, fields) for vertex, fields in result.rows())
            assert self.states[version] == rows

    @property
    def address(self) -> tuple[Any, str]:
        subscription = self.subscription
        return subscription._store.backend.address, subscription.loop


class Drawn:
    """A main loop whose graph changes at random, with a window or without one."""

    def __init__(self, chance: random.Random, url: str) -> None:
        self.chance, self.url = chance, url
        self.names = chance.random() < 0.4
        self.program = chance.choice(["wcc", "pagerank", "degree", "kcore"])
        self.options: dict[str, Any] = {"backend": url, "loop": "drawn"}
        if chance.random() < 0.3:
            self.options["snapshot_every"] = chance.choice([1, 10])
        pairs = {self._pair() for _ in range(chance.choice([1, 10, 60]))}
        graph = Graph.from_arrays(*zip(*pairs, strict=True), partitions=chance.choice([1, 2, 3]))
        self.main = MainLoop(self.program, graph, **self.options)
        self.windowed = chance.random() < 0.3
        if self.windowed:
            self.main.window(8)
        self.now = 0.0

    def _pair(self) -> tuple[Any, Any]:
        ends = (self.chance.randrange(40) * 7 for _ in range(2))
        a, b = (f"v{x}" if self.names else x for x in ends)
        return a, b

    def changes(self) -> list[tuple[Any, ...]]:
        count = self.chance.choice([1, 1, 3, 30])
        return [(self.chance.choice("++-"), *self._pair()) for _ in range(count)]

    def ingest(self) -> None:
        self.now += self.chance.choice([0, 1, 5])
        changes = self.changes()
        self.main.ingest(changes, time=self.now if self.windowed else None)

    def merge(self) -> None:
        with self.main.fork() as branch:
            if not self.windowed:
                branch.apply(self.changes())
            branch.start().result().close()
            branch.merge()

    def step(self) -> None:
        """Do one thing."""
        act = self.chance.choice(["ingest"] * 4 + ["query"] * 6 + ["merge", "snapshot", "scale"])
        if act == "ingest":
            self.ingest()
        elif act == "query":
            self.main.query().close()
        elif act == "merge":
            self.merge()
        elif act == "snapshot":
            self.main.snapshot()
        else:
            self.main.rescale(self.chance.choice([1, 2, 3]))

    def settle(self) -> None:
        """Have all versions in the store, so that no snapshot adds one later."""
        self.main.snapshot()

    def resume(self) -> None:
        self.main.close()
        partitions = self.chance.choice([None, 1, 2])
        self.main = MainLoop.resume(None, self.program, partitions=partitions, **self.options)


def follow(number: int, url: str, happened: Counter[str]) -> None:
    """Have a drawn loop change, and be read by subscriptions of its own and of another client.

    Args:
        number: a seed.
        url: a store without a loop "drawn".
        happened: counts how often the loop was resumed, rows, and versions.
    """
    chance = random.Random(number)
    drawn = Drawn(chance, url)
    options: dict[str, Any] = {"progress": True, "timeout": 0}
    here = Model(drawn.main.subscribe(**options))
    elsewhere = Model(subscribe(drawn.url, "drawn", **options))
    for _ in range(chance.choice([5, 15])):
        drawn.step()
        if chance.random() < 0.5:
            here.read()
        if chance.random() < 0.5:
            elsewhere.read_batches()
        if chance.random() < 0.15 and here.subscription.version is not None:
            drawn.settle()
            here.read()
            here.check()
            drawn.resume()
            version, states = here.subscription.version, here.states
            here.subscription.close()
            again = drawn.main.subscribe(as_of=version, snapshot=False, **options)
            here = Model(again, here.rows)
            here.states = states
            happened["resume"] += 1
    drawn.main.query().close()
    drawn.settle()
    for model in (here, elsewhere):
        model.read()
        model.check()
        assert model.subscription.version == drawn.main.iteration
        model.subscription.close()
        happened["rows"] += len(+model.rows)
        happened["versions"] += len(model.states)
    drawn.main.close()
