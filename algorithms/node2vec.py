"""Second-order random walks, and how often vertices come close to each other on them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from vertexsdk import InputError, Sum, Vertex, param, state
from vertexsdk.algorithms._edge_arrays import edge_arrays, local_graph, numbered_ends
from vertexsdk.program.vertex import Delta

LONGEST = 64  # vertices of a walk


def leads_to(target: NDArray[np.int64], low: int, high: int, wanted: int) -> bool:
    """Return whether a number is among target[low:high], which ascend.

    >>> bool(leads_to(np.array([1, 4, 6]), 0, 3, 4)), bool(leads_to(np.array([1, 4, 6]), 0, 1, 4))
    (True, False)
    """
    end = high
    while low < high:
        middle = (low + high) // 2
        if target[middle] < wanted:
            low = middle + 1
        else:
            high = middle
    return low < end and target[low] == wanted


class BiasedWalk(Vertex):
    """A walk that begins at each vertex; ids are 0, 1, ...

    Converges to: that, after one iteration.
    Cost: some random numbers and a binary search for each step.
    Source: as of `NodeToVec`.
    """

    walk: NDArray[np.int64] = state(-1, size=64)  # -1 from where it has ended
    start: NDArray[np.int64] = param()  # where the row of each vertex begins in `target`
    target: NDArray[np.int64] = param()  # ascending in each row
    length: int = param()
    p: float = param()
    q: float = param()

    messages = Sum(int)
    max_iterations = 1

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        most = max(1.0, max(1.0 / self.p, 1.0 / self.q))
        previous, current = -1, int(self.id)
        self.walk[0] = current
        for k in range(1, self.length):
            low, high = self.start[current], self.start[current + 1]
            if low == high:
                return
            after = -1
            while after < 0:
                candidate = self.target[low + int(self.random() * (high - low))]
                weight = 1.0 / self.q
                if previous < 0:
                    weight = most
                elif candidate == previous:
                    weight = 1.0 / self.p
                elif leads_to(
                    self.target, self.start[previous], self.start[previous + 1], candidate
                ):
                    weight = 1.0
                if self.random() * most < weight:
                    after = candidate
            previous, current = current, int(after)
            self.walk[k] = current

    def scatter(self, iteration: int) -> None:
        pass


class NodeToVec(Vertex):
    """Number of visits of node2vec's walks to a vertex; and which vertices are close on them.

    Definition: `walks` walks begin at each vertex and have `length` vertices, fewer where one has
        no edges out. From v, where a walk came from t, it goes to x with a chance proportional to
        1/p if x is t, to 1 if an edge leads from t to x, and else to 1/q. `Result.edges` has every
        pair of vertices that are at most `window` steps from each other on a walk, from the earlier
        one to the later one, and how often: the pairs that a skip-gram model is trained with.
    Parameters: `walks`, `length` (at most 64), `window`, `p`, `q`.
    How: candidates are drawn alike, and accepted with a chance that makes up for it.
    Converges to: that; the walks follow from the run's seed.
    Cost: O(length) random numbers and binary searches for each walk, and the pairs, on the driver.
    Source: Grover and Leskovec, "node2vec: scalable feature learning for networks", KDD 2016;
        drawn as in Yang et al., "KnightKing: a fast distributed graph random walk engine", SOSP
        2019.

    Example:
        >>> from vertexsdk import Graph, run
        >>> path = Graph.from_arrays([1, 2], [2, 3])
        >>> with run("node2vec", path, walks=2, backend="memory://docs") as result:
        ...     result.to_dict(), result.edges().to_pylist()[0]
        ({1: 2, 2: 4, 3: 6}, {'source': 1, 'target': 2, 'count': 2})
    """

    walks: int = param(10)
    length: int = param(20)
    window: int = param(5)
    p: float = param(1.0)
    q: float = param(1.0)
    visits: int = state(0)

    messages = Sum(int)

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Walk on the driver, before the run."""
        length = params["length"]
        if not 1 <= length <= LONGEST or min(params["p"], params["q"]) <= 0:
            raise InputError(f"node2vec needs a length from 1 to {LONGEST}, and p and q above 0")
        if not graph.num_edges:
            return None
        ids, source, target = numbered_ends(*edge_arrays(graph)[:2])
        if graph.undirected:
            loop = source == target
            source, target = (
                np.concatenate([a, b[~loop]]) for a, b in ((source, target), (target, source))
            )
        order = np.lexsort((target, source))
        source, target = source[order], target[order]
        rows = {"start": np.searchsorted(source, np.arange(len(ids) + 1)), "target": target}
        vertices = local_graph(graph, source[:1], target[:1], vertices=np.arange(len(ids)))
        shared = {name: params[name] for name in ("length", "p", "q")}
        visits = np.zeros(len(ids), np.int64)
        pairs, counts = np.empty(0, np.int64), np.empty(0, np.int64)
        for number in range(params["walks"]):
            walk_seed = (seed + number + 2**63) % 2**64 - 2**63  # an int64
            with run(BiasedWalk, vertices, seed=walk_seed, **rows, **shared) as result:
                walk = result.values("walk")[1][:, :length]
            visits += np.bincount(walk[walk >= 0], minlength=len(ids))
            pair_keys = [pairs]
            for step in range(1, min(params["window"], length - 1) + 1):
                a, b = walk[:, :-step], walk[:, step:]
                pair_keys.append((a * len(ids) + b)[b >= 0])
            ones = np.ones(sum(map(len, pair_keys[1:])), np.int64)
            pairs, counts = _added(np.concatenate(pair_keys), np.concatenate([counts, ones]))
        ends = np.divmod(pairs, len(ids))
        table = {"source": ids[ends[0]], "target": ids[ends[1]], "count": counts}
        return {"id": ids, "visits": visits, "edges": pa.table(table)}

    def gather(self, iteration: int, source: int, delta: Delta) -> None:
        pass

    def scatter(self, iteration: int) -> None:
        pass


def _added(keys: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Any, Any]:
    """Return each key once, ascending, and its counts added up."""
    order = np.argsort(keys, kind="stable")
    keys, counts = keys[order], counts[order]
    first = np.flatnonzero(np.append(True, keys[1:] != keys[:-1])[: len(keys)])
    return keys[first], np.add.reduceat(counts, first) if len(first) else counts
