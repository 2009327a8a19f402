"""Messages on their way to aggregates inside one partition: direct, by buckets, or by pull.

Few changes are applied as they come. Many are put into buckets by target range, which threads
then apply side by side. When most vertices send, every row is recomputed from the messages
instead, at once or, where the loop does not ask what changed, when the aggregates are next read.
All leave the same aggregates, to the last bit.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.threads import run_all, spread
from vertexsdk.compile.adjacency_kernels import edge_count, edge_index, marked
from vertexsdk.graph.load.transpose import order_rows
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.algebra import Algebra

ROUND = 1 << 18  # edges per thread between two barriers
LINE = 16  # counters of a thread apart from another's, or caches would fight for them
PARALLEL = 1 << 15  # edges below which one thread is quicker to pull
BUCKETS = 1 << 17  # and to push
PULL = 8  # a pull costs about an eighth per edge of a push

BLOCK = 8  # bits of a producer's place within its block, see `pull_better`
PARTS = 8  # of a pull, per thread: they differ in work, so threads take one after the other

Array = NDArray[Any]
ScatterChunk = Callable[[int, int, int, int], None]  # lo, hi, threads, me


def filled(count: int, algebra: Algebra) -> Array:
    """Return `count` messages, all the identity: (count,), or (count, size) for vectors."""
    shape = (count,) if algebra.size is None else (count, algebra.size)
    if algebra.dtype.kind == "i" and algebra.identity == 0:
        return np.zeros(shape, algebra.dtype)  # pages that are not written to take no memory
    array: Array = np.empty(shape, algebra.dtype)
    array.fill(algebra.identity)  # which may be a tuple
    return array


def message_count(t: Topology, shape: str) -> int:
    """Return the number of messages that a partition keeps: per vertex, per edge, or none."""
    return {"uniform": t.n, "derived": 0}.get(shape, t.m)


class Delivery:
    """The arrays and kernels with which one partition's messages reach its slots.

    Args:
        topology: the partition's; a slot is a local vertex or a ghost of a remote one.
        algebra: algebra of the messages.
        shape: the message layout (`shape_of`).
        module: the delivery kernels for the algebra.
        threads: number of threads that kernels may use.
    """

    def __init__(
        self, topology: Topology, algebra: Algebra, shape: str, module: ModuleType, threads: int
    ) -> None:
        self.topology, self.algebra, self.shape = topology, algebra, shape
        self.module = module
        self.threads = 1 if algebra.dtype == object else threads
        slots = topology.n + topology.ghosts
        self._entries = topology.m + len(topology.inbound)  # of in-rows, without their room
        self.ch: Array = np.zeros(slots, np.uint8)
        # a region per thread, then one for changes which are applied directly
        self.list: Array = np.empty(2 * slots, np.int32)
        self.counts: Array = np.zeros((self.threads + 1) * LINE, np.int64)[::LINE]
        self._in_index: Array | None = None
        if shape == "uniform":
            self._in_index = topology.in_source if topology.in_order is None else topology.in_order
        elif topology.producers is not None:
            self.order(topology.producers)
        none = self._buckets(1, 0)
        self._small, self._large = none, none
        self._capacity = 0
        self.pulled = False
        self.lazy = False  # a pull may wait for `settle`, as its changes are not read
        self.due = False  # a pull waits
        # Slots that wait until messages of other partitions have come too, since combining anew
        # costs the same for one changed message as for many; and those of them that a pull owes.
        self.local = 0
        self.owed = 0
        self.pulls = True  # whether many messages may become a pull
        self.worse = False  # whether any message has got worse, where one can; for who resets it
        self.derived: Callable[[Array], None] | None = None  # repair where no message is kept

    @property
    def base(self) -> int:
        """The place in the message array where inbound messages begin."""
        return message_count(self.topology, self.shape)

    @property
    def in_index(self) -> Array:
        """For each entry of the transposed adjacency, its place in the message array.

        That of edge e is e, and that of inbound message j is m + j, unless one is kept per vertex.
        """
        if self._in_index is None:
            t = self.topology
            self._in_index = edge_index(t.start, t.target, t.in_start, t.inbound)
            self._in_index.flags.writeable = False  # as in_source: kernels compile once
        return self._in_index

    def order(self, producers: Array) -> None:
        """Order rows by producer id; `producers` (int64) are the ids behind inbound ghosts."""
        t = self.topology
        uniform = self.shape == "uniform"
        index = (
            t.in_source.copy() if uniform else edge_index(t.start, t.target, t.in_start, t.inbound)
        )
        reorder: Any = order_rows
        reorder(t.in_start, t.in_source.copy(), index, t.ids, producers)
        index.flags.writeable = False
        self._in_index = index

    def degrees(self, vertices: Array) -> Array:
        """Out-degrees (int64) of the vertices."""
        t = self.topology
        if len(vertices) == t.n:  # all of them, for they are distinct and ascending
            return t.stop - t.start[: t.n]
        return t.stop[vertices] - t.start[vertices]

    def arguments(self, msg: Array, agg: Array, threads: int, me: int) -> tuple[Any, ...]:
        """The trailing arguments of every sending kernel (`EMIT_ARGS` after the target)."""
        buckets = self._large if threads > 1 else self._small
        return (msg, agg, self.ch, self.list, self.counts, threads, *buckets, me)

    def edges_of(self, vertices: Array) -> int:
        """The number of edges out of the vertices."""
        count: Any = edge_count
        t = self.topology
        return t.m if len(vertices) == t.n else int(count(t.start, t.stop, vertices))

    def push(self, parts: Sequence[tuple[Array, Array]], msg: Array, agg: Array) -> int:
        """Deliver changed messages, of (senders, what they replace) by thread; uniform shape."""
        counts: list[int] = run_all([partial(self.edges_of, senders) for senders, _ in parts])
        edges = sum(counts)
        many = edges * PULL > self._entries
        if self.pulls and many and self.algebra.kind != "latest":
            if not self._pull_better(parts, msg, agg):
                self.pull(msg, agg)
            return edges
        if self.pulls and many:  # nothing is combined
            t = self.topology
            run_all(
                [
                    partial(self.module.mark_targets, senders, t.start, t.stop, t.target, self.ch)
                    for senders, _ in parts
                ]
            )
            self.pulled = True
            return edges
        senders = np.concatenate([p[0] for p in parts])
        old = np.concatenate([p[1] for p in parts])
        degrees = self.degrees(senders)

        t = self.topology

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            self.module.push(
                senders, lo, hi, old, t.start, t.stop, t.target,
                *self.arguments(msg, agg, threads, me),
            )  # fmt: skip

        self.rounds(degrees, edges, chunk, agg)
        return edges

    def dense(self, edges: int) -> bool:
        """Return whether so many edges carry a new message that a pull is quicker."""
        return self.algebra.kind not in ("min", "max", "latest") and edges * 4 > self.topology.m

    def rounds(self, degrees: Array, edges: int, chunk: ScatterChunk, agg: Array) -> None:
        """Run `chunk` over all senders: at once, or in rounds of buckets side by side."""
        threads = self.threads
        if threads == 1 or edges < BUCKETS:
            chunk(0, len(degrees), 1, 0)
            return
        ends = np.cumsum(degrees)
        cuts = np.searchsorted(ends, np.arange(ROUND, edges + ROUND, ROUND), side="left") + 1
        cuts = np.unique(np.concatenate([[0], np.minimum(cuts, len(degrees)), [len(degrees)]]))
        capacity = ROUND + int(degrees.max()) + 1
        if capacity > self._capacity:
            self._capacity, self._large = capacity, self._buckets(threads, capacity)
        counts = self._large[3]
        for first in range(0, len(cuts) - 1, threads):
            mine = cuts[first : first + threads + 1]
            counts[...] = 0
            bounds = enumerate(itertools.pairwise(mine.tolist()))
            run_all([partial(chunk, lo, hi, threads, k) for k, (lo, hi) in bounds])
            given = (threads, agg, self.ch, self.list, self.counts, *self._large)
            run_all([partial(self.module.apply_buckets, r, *given) for r in range(threads)])

    def pull(self, msg: Array, agg: Array) -> None:
        """Recompute every slot's aggregate, or have `settle` do it."""
        if self.lazy:
            self.due = True
        else:
            self._pull(msg, agg, self.local)
            self.owed = self.local

    def settle(self, msg: Array, agg: Array) -> None:
        """Run a pull that waits, so that aggregates can be read."""
        if self.due:
            self._pull(msg, agg)
            self.ch[...] = self.counts[...] = 0
            self.pulled = False

    def _pull(self, msg: Array, agg: Array, lo: int = 0, hi: int | None = None) -> None:
        """Recompute the aggregates of slots lo..hi."""
        cuts = np.clip(self.topology.in_cuts(self._parts), lo, hi)
        self._read_rows(self.module.pull, cuts, msg, agg, self.algebra.identity)
        self.due = False

    @property
    def _parts(self) -> int:
        """Into how many parts a pull divides the slots."""
        return self.threads * PARTS if self._entries > PARALLEL else 1

    def _read_rows(self, kernel: Any, cuts: Array, msg: Array, agg: Array, *rest: Any) -> None:
        """Run a kernel of a pull on the slots between cuts."""
        t = self.topology
        given = (t.in_start, t.in_stop, self.in_index, msg, agg, self.ch, *rest)
        calls = [partial(kernel, lo, hi, *given) for lo, hi in itertools.pairwise(cuts.tolist())]
        spread(calls, self.threads)
        self.pulled = True

    def _pull_better(self, parts: Sequence[tuple[Array, Array]], msg: Array, agg: Array) -> bool:
        """Pull what got better by changed messages; return False if not all of them did.

        Aggregates must hold the previous messages.
        """
        algebra = self.algebra
        if not self.ordered or self.lazy:
            return False
        if self.counts.any():  # some may have lost their winner
            return False
        shift = BLOCK if isinstance(self.topology, Topology) else 31  # else rows may not ascend
        best = np.full((len(parts), (len(msg) >> shift) + 1), algebra.identity, algebra.dtype)
        calls = [
            partial(self.module.better, senders, old, msg, b, shift)
            for (senders, old), b in zip(parts, best, strict=True)
        ]
        if not all(run_all(calls)):
            self.worse = True
            return False
        rule = np.fmin if algebra.kind == "min" else np.fmax
        rest = rule.accumulate(rule.reduce(best)[::-1])[::-1].copy()
        self.read_better(rest, shift, msg, agg)
        return True

    @property
    def ordered(self) -> bool:
        """True if only the better of two messages to a slot counts."""
        return self.algebra.kind in ("min", "max") and self.algebra.size is None

    def read_better(self, rest: Array, shift: int, msg: Array, agg: Array) -> None:
        """Read the rows of slots that can get better.

        `rest` has the best changed message of the producers from each block of 2^shift on.
        """
        cuts = np.linspace(0, len(self.ch), self._parts + 1).astype(int)
        self._read_rows(self.module.pull_better, cuts, msg, agg, rest, shift)

    def finish(self, msg: Array, agg: Array) -> Array:
        """Return the slots (int32, ascending) whose aggregate changed since the last call."""
        if self.due:
            self._pull(msg, agg)
        if self.owed:
            self._pull(msg, agg, 0, self.owed)
            self.owed = 0
        changed = self._marked()
        self._combine_marked(changed, msg, agg)
        self.ch[... if self.pulled else changed] = 0
        self.pulled = False
        self.counts[...] = 0
        return changed

    def finish_ghosts(self, msg: Array, agg: Array) -> tuple[Array, int]:
        """Return the ghosts that changed, and how many of the others may have.

        Where these can wait for the messages of other partitions they do, until `finish`.

        Returns:
            Slots (int32, ascending), and a number of slots.
        """
        n = self.local
        changed = self._marked()
        cut = int(np.searchsorted(changed, n))
        ghosts = changed[cut:]
        self._combine_marked(ghosts, msg, agg)
        self.ch[ghosts] = 0
        self.counts[...] = 0
        if not self.pulled:
            first = len(self.ch)
            self.list[first : first + cut] = changed[:cut]
            self.counts[-1] = cut
        return ghosts, self.owed or cut

    def _marked(self) -> Array:
        """The slots (int32, ascending) that are marked."""
        slots = len(self.ch)
        starts = [-(-r * slots // self.threads) for r in range(self.threads)]  # of regions
        regions = [
            self.list[first : first + int(count)]
            for first, count in zip([*starts, slots], self.counts, strict=True)
            if count
        ]
        self.pulled |= sum(len(r) for r in regions) > slots // 16
        if self.pulled:
            return marked(self.ch)
        return np.sort(np.concatenate([*regions, np.empty(0, np.int32)]))

    def _combine_marked(self, changed: Array, msg: Array, agg: Array) -> None:
        """Combine the messages of those of `changed` slots whose row must be read for it."""
        if self.algebra.kind == "latest" or not len(changed):
            return
        dirty = changed[(self.ch[changed] & 2) != 0]
        if len(dirty):
            self.worse = True
            self._repair(dirty, msg, agg)

    def forget(self) -> None:
        """Discard what changed since the last `finish`, as a pull recomputes all of it."""
        self.ch[...] = self.counts[...] = 0

    def _repair(self, slots: Array, msg: Array, agg: Array) -> None:
        if self.derived is not None:
            self.derived(slots)
            return
        self.combine(slots, msg, agg)

    def combine(self, slots: Array, msg: Array, agg: Array) -> None:
        """Combine the messages of the producers of slots (int32), where messages are kept."""
        t = self.topology
        self.module.repair(
            slots, t.in_start, t.in_stop, self.in_index, msg, agg, self.algebra.identity
        )

    def mark(self, slots: Array) -> None:
        """Mark slots (int32) as changed by a message."""
        fresh = slots[self.ch[slots] == 0]
        self.ch[slots] |= 1
        last, first = len(self.counts) - 1, len(self.ch)
        at = first + int(self.counts[last])
        self.list[at : at + len(fresh)] = fresh
        self.counts[last] += len(fresh)

    def recompute(self, slots: Array, msg: Array, agg: Array) -> None:
        """Recompute slots that lost a producer, and mark those whose aggregate changed."""
        slots = np.unique(slots)
        if self.algebra.kind != "latest" and len(slots):
            previous = agg[slots]
            self._repair(slots, msg, agg)
            same = agg[slots] == previous
            slots = slots[~(same if same.ndim == 1 else same.all(axis=1))]
        self.mark(slots)

    def inbound(self, source: int, index: Array, values: Array, msg: Array, agg: Array) -> None:
        """Apply updates from partition `source`: values[k] from its ghost number index[k]."""
        t = self.topology
        offset = int(t.inbound_start[source])
        self.module.inbound(
            index, values, offset, self.base, t.inbound, msg, agg, self.ch, self.list, self.counts
        )

    def _buckets(self, threads: int, capacity: int) -> tuple[Array, Array, Array, Array]:
        algebra = self.algebra
        shape: tuple[int, ...] = (threads, threads, capacity)
        values = shape if algebra.size is None else (*shape, algebra.size)
        return (
            np.empty(shape, np.int32),
            np.empty(values, algebra.dtype),
            np.empty(values, algebra.dtype),
            np.zeros((threads, max(threads, LINE)), np.int64),
        )
