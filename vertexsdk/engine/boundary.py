"""A partition's record of updates under way across its border: the three phases, in blocks.

The paper's protocol (section 4.2) between vertices of different partitions. A *ghost* stands for a
consumer elsewhere and speaks for all of its producers here: it asks (PREPARE) with the time of the
earliest that waits for it, and what it is told (ACKNOWLEDGE) holds for every producer whose time is
below `covers`. The consumer's owner *holds* it from then on, until the ghost lets it go: it
prepares and commits nothing, so that no update of it overtakes the producer's.

Lamport times are `clock * P + partition`, so no two partitions have equal ones.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.jit import njit
from vertexsdk.graph.topology.topology import Topology

Array = NDArray[Any]

Block = dict[str, Any]  # columns by name, and "meta"


@dataclass
class Boundary:
    """The protocol's state in one partition: n vertices, g ghosts, b inbound ghosts.

    Attributes:
        clock: the iteration of the last sweep.
        sealed: updates committed in it have been applied, so no vertex may gather in it any more.
        lamport: Lamport's clock.
        committed: int32[n], the iteration of each vertex's last commit.
        began: int64[n], the time of its update while it prepares; 0 where it does not.
        wish: int64[n], the time from which on it has wished to, where it is held; else 0. One that
            asks at a later time has to wait for it, so none starves.
        due: int32[n], the iteration it would have committed in, where it waits; else 0.
        holds: int32[n], how many ghosts elsewhere hold it (the size of its prepare list).
        preparing: int32, the vertices that prepare, by ascending time.
        asked, granted: int64[g], the time of the PREPARE that is not answered yet, and of the one
            that was answered last and is still made use of; 0 where there is none.
        covers, acked: int64[g], int32[g], with that answer: the time up to which it holds, and the
            iteration of the consumer's last commit.
        pended, held_by: int64[b], by inbound ghost the time of a PREPARE that is not answered yet,
            and of the one by which it holds its vertex.
        later: int32, vertices that committed at the bound, to scatter when the frontier moves.
    """

    clock: int
    sealed: bool
    lamport: int
    committed: Array
    began: Array
    wish: Array
    due: Array
    holds: Array
    preparing: Array
    asked: Array
    granted: Array
    covers: Array
    acked: Array
    pended: Array
    held_by: Array
    later: Array
    queue: list[tuple[int, Array, Array, int, int]] = field(default_factory=list)
    """Updates that are held until the frontier moves: source, index, values, first, last."""
    floor: int = 0
    """The latest iteration of an update that was taken in: no sweep before the one after it."""
    crosses: Array | None = None  # bool[n]: has a consumer elsewhere; from the topology

    @classmethod
    def fresh(cls, t: Topology, iteration: int) -> Boundary:
        """The state after a synchronous iteration, in which every vertex committed."""
        none = np.empty(0, np.int32)
        return cls(
            iteration, True, 0,
            np.full(t.n, iteration, np.int32), np.zeros(t.n, np.int64), np.zeros(t.n, np.int64),
            np.zeros(t.n, np.int32), np.zeros(t.n, np.int32), none,
            np.zeros(t.ghosts, np.int64), np.zeros(t.ghosts, np.int64),
            np.zeros(t.ghosts, np.int64), np.zeros(t.ghosts, np.int32),
            np.zeros(len(t.inbound), np.int64), np.zeros(len(t.inbound), np.int64), none,
        )  # fmt: skip

    def crossings(self, t: Topology) -> Array:
        """bool[n]: which vertices have a consumer in another partition."""
        if self.crosses is None:
            self.crosses = np.zeros(t.n, np.bool_)
            find: Any = crossing
            find(t.start, t.stop, t.target, t.n, self.crosses)
        return self.crosses

    # The paper's phases, as seen from here. -------------------------------------------------

    def prepare(self, vertices: Array, t: Topology) -> None:
        """Phase 2, a producer's side: the vertices begin to prepare."""
        if len(vertices):
            wish = self.wish[vertices]
            self.began[vertices] = np.where(wish != 0, wish, self._time(t))
            self.wish[vertices] = 0
            waiting = np.concatenate([self.preparing, vertices])
            self.preparing = waiting[np.argsort(self.began[waiting], kind="stable")]

    def wait(self, vertices: Array, iteration: int, t: Topology) -> None:
        """Vertices would commit in an iteration, but have to wait."""
        fresh = vertices[self.due[vertices] == 0]
        if len(fresh):
            self.due[fresh] = iteration
            self.wish[fresh[self.began[fresh] == 0]] = self._time(t)

    def content(self, vertices: Array) -> None:
        """Vertices that waited have nothing to commit after all."""
        self.due[vertices] = self.wish[vertices] = 0

    def _time(self, t: Topology) -> int:
        self.lamport += 1
        return self.lamport * t.partitions + t.partition

    def ready(self, t: Topology, bound: int) -> tuple[Array, int]:
        """Those of `preparing` that may commit, and the least iteration they may do so in."""
        waiting = self.preparing
        least = np.empty(len(waiting), np.int32)
        cover: Any = all_covered
        cover(waiting, self.began, t.start, t.stop, t.target, t.n, self.covers, self.acked, least)
        can = (least >= 0) & (least <= bound) & (self.holds[waiting] == 0)
        return waiting[can], int(least[can].max(initial=0))

    def commit(self, vertices: Array, iteration: int) -> None:
        """Phase 3: the vertices commit in an iteration, and prepare no more."""
        self.committed[vertices] = iteration
        if len(self.preparing):
            self.began[vertices] = 0
            self.preparing = self.preparing[self.began[self.preparing] != 0]
        self.due[vertices] = self.wish[vertices] = 0

    # Between partitions. --------------------------------------------------------------------

    def take(self, t: Topology, source: int, block: Block, lamport: int) -> None:
        """Take in what partition `source` says at its Lamport time, but for updates."""
        self.lamport = max(self.lamport, lamport) + 1
        first, ours = int(t.inbound_start[source]), int(t.ghost_start[source])
        if "free.index" in block:
            at, until = block["free.index"] + first, block["free.time"]
            self.pended[at[self.pended[at] <= until]] = 0
            released = at[(self.held_by[at] != 0) & (self.held_by[at] <= until)]
            self.held_by[released] = 0
            np.subtract.at(self.holds, t.inbound[released], 1)
        if "ask.index" in block:
            at = block["ask.index"] + first
            self.pended[at] = block["ask.time"]
            # An earlier time than before is in place of a PREPARE whose answer is discarded there.
            self.held_by[at] = np.minimum(self.held_by[at], self.pended[at])
        if "ack.index" in block:
            at = block["ack.index"] + ours
            fresh = self.asked[at] == block["ack.time"]  # not one that was taken back meanwhile
            at = at[fresh]
            self.granted[at], self.asked[at] = self.asked[at], 0
            self.covers[at] = block["ack.covers"][fresh]
            self.acked[at] = block["ack.iteration"][fresh]

    def say(self, t: Topology, ask: bool = True) -> tuple[dict[int, Block], int, int]:
        """Return blocks for the other partitions, and the numbers of PREPAREs and ACKNOWLEDGEs.

        Args:
            ask: send PREPAREs for the vertices that prepare.
        """
        blocks: dict[int, Block] = {}
        self._free(t, blocks)
        asks = self._ask(t, blocks) if ask else 0
        return blocks, asks, self._acknowledge(t, blocks)

    def _ask(self, t: Topology, blocks: dict[int, Block]) -> int:
        if not len(self.preparing):
            return 0
        ghosts = np.empty(t.ghosts, np.int32)
        ask: Any = ask_ghosts
        count = ask(
            self.preparing, self.began, t.start, t.stop, t.target, t.n, self.asked, self.covers,
            ghosts,
        )  # fmt: skip
        at = np.sort(ghosts[:count])
        _divide(blocks, t.ghost_start, at, "ask.index", {"ask.time": self.asked[at]})
        return int(count)

    def _free(self, t: Topology, blocks: dict[int, Block]) -> None:
        """Let go of consumers which no producer here waits for any more."""
        active = np.flatnonzero((self.covers != 0) | (self.asked != 0))
        if not len(active):
            return
        wanted = np.zeros(t.ghosts, np.uint8)
        if len(self.preparing):
            want: Any = still_wanted
            want(
                self.preparing, self.began, t.start, t.stop, t.target, t.n, self.covers, wanted
            )  # fmt: skip
        until = np.where((wanted & 1) == 0, self.granted, 0)
        let_go = until != 0
        self.covers[let_go] = self.granted[let_go] = 0
        # Of two PREPAREs the first is let go first: the consumer knows only how far.
        back = (self.asked != 0) & ((wanted & 2) == 0) & (self.granted == 0)
        until[back] = self.asked[back]
        self.asked[back] = 0
        at = np.flatnonzero(until)
        _divide(blocks, t.ghost_start, at, "free.index", {"free.time": until[at]})

    def _acknowledge(self, t: Topology, blocks: dict[int, Block]) -> int:
        """Answer each PREPARE but those of updates that happened after the consumer's own.

        An answer holds up to the consumer's own time, or to that of the answer: what the consumer
        wishes later is of a later time, so no producer that begins after it goes before it.
        """
        asks = np.flatnonzero(self.pended)
        if not len(asks):
            return 0
        update_times = self._update_times(t.inbound[asks])
        asks = asks[(update_times == 0) | (update_times > self.pended[asks])]
        consumers = t.inbound[asks]
        np.add.at(self.holds, consumers[self.held_by[asks] == 0], 1)
        self.held_by[asks] = self.pended[asks]
        update_times = self._update_times(consumers)
        said = {
            "ack.time": self.pended[asks],
            "ack.covers": np.where(update_times == 0, self._time(t), update_times),
            "ack.iteration": self.committed[consumers],
        }
        self.pended[asks] = 0
        _divide(blocks, t.inbound_start, asks, "ack.index", said)
        return len(asks)

    def _update_times(self, vertices: Array) -> Array:
        """The times of the vertices' own updates, 0 where they have none."""
        began = self.began[vertices]
        return np.where(began != 0, began, self.wish[vertices])


def _divide(
    blocks: dict[int, Block], starts: Array, at: Array, name: str, columns: dict[str, Array]
) -> None:
    """Put entries (ascending, numbered over all partitions) into the block of each partition."""
    cuts = np.searchsorted(at, starts)
    for p in range(len(starts) - 1):
        lo, hi = int(cuts[p]), int(cuts[p + 1])
        if lo < hi:
            block = blocks.setdefault(p, {})
            block[name] = (at[lo:hi] - starts[p]).astype(np.int32)
            block.update({key: column[lo:hi] for key, column in columns.items()})


@njit
def crossing(start, stop, target, n, out):  # type: ignore[no-untyped-def]
    """Set out[u] where vertex u has a consumer in another partition."""
    for u in range(n):
        for e in range(start[u], stop[u]):
            if target[e] >= n:
                out[u] = True
                break


@njit
def all_covered(vertices, began, start, stop, target, n, covers, acked, out):  # type: ignore[no-untyped-def]
    """Set out[k] to the least iteration in which vertices[k] may commit; -1: not yet.

    It may when every consumer elsewhere has acknowledged: `covers` says, for each ghost, up to
    which Lamport time, and `acked` in which iteration the consumer has committed last.
    """
    for k in range(vertices.shape[0]):
        u = vertices[k]
        least = 0
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g >= 0:
                if covers[g] <= began[u]:
                    least = -1
                    break
                if acked[g] > least:
                    least = acked[g]
        out[k] = least


@njit
def ask_ghosts(vertices, began, start, stop, target, n, asked, covers, out):  # type: ignore[no-untyped-def]
    """Ask, for vertices by ascending time, each ghost that has not acknowledged; return how many.

    A ghost is asked with the time of the earliest of its producers, so once more when an earlier
    one comes to prepare after others: its consumer must not put it off as it does those. `out` gets
    its number.
    """
    count = 0
    for k in range(vertices.shape[0]):
        u = vertices[k]
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g < 0 or covers[g] > began[u]:
                continue
            if asked[g] == 0 or asked[g] > began[u]:
                asked[g] = began[u]
                out[count] = g
                count += 1
    return count


@njit
def still_wanted(vertices, began, start, stop, target, n, covers, out):  # type: ignore[no-untyped-def]
    """Set bit 1 of out[g] where a producer waits with ghost g's word, bit 2 where without it."""
    for k in range(vertices.shape[0]):
        u = vertices[k]
        for e in range(start[u], stop[u]):
            g = target[e] - n
            if g >= 0:
                out[g] |= 1 if covers[g] > began[u] else 2
