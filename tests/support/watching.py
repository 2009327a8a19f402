"""Watches asynchronous iterations of `InProcess`: every rule of the protocol, as they happen.

It keeps its own account of which vertex committed when and which update was gathered when, from
what passes through the engine, and believes none of the engine's own accounts of it.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import numpy as np

from tests.support.inprocess import InProcess
from vertexsdk.arrays.raw_columns import decode
from vertexsdk.compile.delivery import Delivery
from vertexsdk.engine.boundary import Boundary
from vertexsdk.engine.pace import Coordinator, Pace
from vertexsdk.engine.processor import Processor
from vertexsdk.engine.sweeps import Sweeps

__all__ = ["Broken", "Watch", "watched"]


class Broken(AssertionError):
    """A rule of the protocol was broken."""


def _must(holds: bool, rule: str, *where: Any) -> None:
    if not holds:
        raise Broken(f"{rule}: {', '.join(str(w) for w in where)}")


def _content(index: Any, values: Any) -> tuple[str, str]:
    return str(index.tolist()), str(_plain(values))


def _plain(value: Any) -> Any:
    if isinstance(value, tuple | list | np.ndarray):
        return [_plain(x) for x in value]
    if isinstance(value, frozenset):
        return sorted(map(_plain, value), key=str)
    return value.item() if isinstance(value, np.generic) else value


class Watch:
    """What happened in one run so far.

    Attributes:
        commits: (vertex id, iteration) of every commit, in order.
        last: by vertex id, the iteration of its last commit; 0 at first.
        frontier, allowed: what the coordinator knows: the first iteration that has not terminated,
            and the last one in which a vertex may commit.
    """

    def __init__(self, runs: InProcess, bound: int) -> None:
        self.runs, self.bound = runs, bound
        self.consumers = {u: [e.id for e in row] for u, row in runs.rows.items()}
        self.commits: list[tuple[int, int]] = []
        self.last: dict[int, int] = dict.fromkeys(runs.rows, 0)
        self.frontier, self.allowed = 1, bound
        self.sweeps: dict[int, Sweeps] = {}  # of each partition's last hop
        self.blocks = False
        # By partition, and vertex or ghost, or inbound ghost: the newest update's iteration.
        self.scattered: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.arrived: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        # By source, destination and content: updates that are under way or held, with their tags.
        self.way: dict[Any, deque[dict[int, int]]] = defaultdict(deque)
        # By partition and vertex: the first sweep in which it had something to do.
        self.since: dict[int, dict[int, int]] = defaultdict(dict)

    # What the engine does. ------------------------------------------------------------------

    def committed(self, s: Sweeps, vertices: Any, at: int) -> None:
        """Check a partition's commits in one iteration."""
        p, told = s.p.partition, s.frontier
        holds = s.b.holds[vertices]
        for k, held in zip(vertices.tolist(), holds.tolist(), strict=True):
            u = int(s.t.ids[k])
            where = (f"vertex {u} in iteration {at}", f"partition {p}, frontier {told}")
            _must(told <= at <= told + self.bound - 1, "commits are within the bound", *where)
            _must(
                self.blocks or at <= self.allowed,
                "commits are in iterations that are allowed",
                *where,
            )
            _must(at >= self.frontier, "an iteration that terminated is over", *where)
            _must(held == 0, "a vertex that is held does not commit", *where)
            for c in self.consumers[u]:
                _must(
                    at >= self.last[c], "no commit is before one of a consumer", *where,
                    f"consumer {c} in {self.last[c]}",
                )  # fmt: skip
            self._waited(p, k, at, where)
        for k in vertices.tolist():
            u = int(s.t.ids[k])
            self.last[u] = at
            self.commits.append((u, at))

    def _waited(self, p: int, k: int, at: int, where: Any) -> None:
        since = self.since[p].pop(k, at)
        _must(at - since < self.bound, "delays are below the bound", *where, f"since {since}")

    def gathering(self, s: Sweeps, todo: Any, at: int) -> None:
        """Check that what vertices are about to gather was committed before."""
        p, t = s.p.partition, s.t
        if not self.blocks:  # where all vertices gather in each sweep
            for k in [*todo.tolist(), *s.v.pending.tolist()]:
                self.since[p].setdefault(k, at)
        for k in todo.tolist():
            for source in t.in_source[t.in_start[k] : t.in_start[k + 1]].tolist():
                local = source < t.n
                tag = self.scattered[p][source] if local else self.arrived[p][source - t.n]
                _must(
                    tag < at, "an update is gathered after the iteration of its commit",
                    f"vertex {t.ids[k]} in iteration {at}", f"update of {tag}",
                )  # fmt: skip

    def gathered(self, s: Sweeps, todo: Any, senders: Any, at: int) -> None:
        """Note who has gathered, and is content with what it has."""
        sends = set(senders.tolist())
        for k in todo.tolist():
            if k not in sends and s.b.began[k] == 0:
                self._waited(s.p.partition, k, at, (f"vertex {s.t.ids[k]}",))

    def sent(self, p: Processor, q: int, index: Any, values: Any) -> None:
        """Note an update that leaves for partition q."""
        first, mine = p.v.topology.n + int(p.v.topology.ghost_start[q]), self.scattered[p.partition]
        tags = {j: mine[first + j] for j in index.tolist()}
        self.way[p.partition, q, *_content(index, values)].append(tags)

    def applied(self, d: Delivery, source: int, index: Any, values: Any) -> None:
        """Note an update that has come to be seen."""
        if not len(index):
            return  # a rehearsal
        q, first = d.topology.partition, int(d.topology.inbound_start[source])
        key = source, q, *_content(index, values)
        _must(bool(self.way[key]), "an update comes once, as it was sent", key)
        for j, tag in self.way[key].popleft().items():
            self.arrived[q][first + j] = max(self.arrived[q][first + j], tag)
        if not self.way[key]:
            del self.way[key]

    def moved(self, coordinator: Coordinator) -> None:
        """Check what is made of the reports."""
        if coordinator.reason == "quiet":
            _must(not self.left(), "quiet is when nothing is left", self.left())
        _must(coordinator.tau >= self.frontier, "the frontier moves on", self.frontier)
        self.frontier, self.allowed = coordinator.tau, coordinator.last

    def left(self) -> list[str]:
        """What is still to be done anywhere."""
        found = [f"update from {a} to {b}" for (a, b, *_) in self.way]
        for p, s in self.sweeps.items():
            b = s.b
            left = {
                "pending": len(s.v.pending), "preparing": len(b.preparing),
                "later": len(b.later), "held": len(b.queue),
            }  # fmt: skip
            found += [f"{name} in {p}" for name, count in left.items() if count]
        return found

    def end(self) -> None:
        """Check that nothing is left over, once what is under way has come."""
        _must(not self.left() or self.blocks, "nothing is left at the end", self.left())
        for p, blocks in enumerate(self.runs.inbox):
            s = self.sweeps[p]
            for source, data in blocks:
                columns, meta = decode(data, trusted=True)
                if not self.blocks:
                    _must("index" not in columns, "no update is left at the end", p)
                    _must("last.index" not in columns, "no update is left at the end", p)
                s.b.take(s.t, source, columns, meta.get("lamport", 0))
        for p, s in self.sweeps.items():
            for name in ("holds", "pended", "held_by", "asked", "granted", "covers", "began"):
                over = np.flatnonzero(getattr(s.b, name)).tolist()
                _must(not over, f"nothing is left of {name} at the end", f"partition {p}", over)


@contextmanager
def watched(runs: InProcess, bound: int) -> Iterator[Watch]:
    """Watch the next run, which has this delay bound.

    Raises:
        Broken: in the run, or at the end.
    """
    w = Watch(runs, bound)
    with ExitStack() as stack:

        def around(cls: type, name: str, make: Callable[[Any], Any]) -> None:
            stack.enter_context(mock.patch.object(cls, name, make(getattr(cls, name))))

        for cls, name, make in _hooks(w):
            around(cls, name, make)
        yield w
    if w.sweeps:
        w.end()


def _hooks(w: Watch) -> list[tuple[type, str, Callable[[Any], Any]]]:
    def begin(old: Any) -> Any:
        def new(s: Sweeps, processor: Processor, *given: Any) -> None:
            old(s, processor, *given)
            w.sweeps[processor.partition] = s

        return new

    def commit(old: Any) -> Any:
        def new(b: Boundary, vertices: Any, iteration: int) -> None:
            s = next(s for s in w.sweeps.values() if s.b is b)
            w.committed(s, vertices, iteration)
            old(b, vertices, iteration)

        return new

    def gather(old: Any) -> Any:
        def new(s: Sweeps, todo: Any, at: int, *into: Any) -> Any:
            w.gathering(s, todo, at)
            senders = old(s, todo, at, *into)
            w.gathered(s, todo, senders, at)
            return senders

        return new

    def scatter(old: Any) -> Any:
        def new(s: Sweeps, commits: Any, at: int, *given: Any) -> None:
            if w.blocks:
                w.committed(s, commits, at)
            for k in commits.tolist():
                w.scattered[s.p.partition][k] = at
            known = len(s._changed)
            old(s, commits, at, *given)
            for slot in (slot for part in s._changed[known:] for slot in part.tolist()):
                w.scattered[s.p.partition][slot] = at

        return new

    def block(old: Any) -> Any:
        def new(s: Sweeps, note: Any) -> Any:
            w.blocks = True
            return old(s, note)

        return new

    def values(old: Any) -> Any:
        def new(p: Processor, slots: Any) -> Iterator[Any]:
            for q, index, x in old(p, slots):
                w.sent(p, q, index, x)
                yield q, index, x

        return new

    def inbound(old: Any) -> Any:
        def new(d: Delivery, source: int, index: Any, x: Any, *given: Any) -> None:
            w.applied(d, source, index, x)
            old(d, source, index, x, *given)

        return new

    def enter(old: Any) -> Any:
        def new(pace: Pace, *given: Any, **options: Any) -> None:
            old(pace, *given, **options)
            w.allowed = max(w.allowed, pace.allowed)  # from the frontier that all have just heard

        return new

    def advance(old: Any) -> Any:
        def new(coordinator: Coordinator) -> bool:
            moved: bool = old(coordinator)
            w.moved(coordinator)
            return moved

        return new

    return [
        (Sweeps, "__init__", begin), (Sweeps, "_gather", gather), (Sweeps, "_scatter", scatter),
        (Sweeps, "run_block", block), (Boundary, "commit", commit),
        (Processor, "ghost_values", values), (Delivery, "inbound", inbound),
        (Pace, "__init__", enter), (Coordinator, "advance", advance),
    ]  # fmt: skip
