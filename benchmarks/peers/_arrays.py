"""What the systems on arrays share: reading an edge file, ids to 0..n-1, an undirected graph."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from benchmarks.peers import Later, Peer, require

IntArray = npt.NDArray[np.int64]


class OnArrays(Peer):
    """A system that is given columns of edges; it has its vertices in the order of ``ids``."""

    held: ClassVar[tuple[str, ...]] = ("loaded", "simple")
    """What it holds of a graph besides the ids."""
    ids: Any = None

    def release(self) -> None:
        for name in ("ids", *self.held):
            setattr(self, name, None)

    def load_text(self) -> Later:
        return self.build(*text(self.graph.text, self.settings.cores))

    def load_parquet(self) -> Later:
        return self.build(*parquet(self.graph.parquet, self.settings.cores))

    def build(self, source: Any, target: Any, value: Any) -> Later:
        """Load the edges; sets ``ids``."""
        raise NotImplementedError

    @property
    def origin(self) -> int:
        """The place of the vertex where paths start."""
        return int(np.flatnonzero(self.ids == self.graph.origin)[0])

    def answer(self, value: Any, **more: Any) -> Later:
        """Hand over values in the order of the ids."""
        return lambda: {"ids": self.ids, "value": np.asarray(value), **more}


def text(path: str, threads: int) -> tuple[IntArray, IntArray, IntArray]:
    """The columns source, target, value of an edge file, read by pyarrow."""
    csv = _with_threads(threads, "pyarrow.csv")
    return _columns(
        csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=["source", "target", "value"]),
            parse_options=csv.ParseOptions(delimiter=" "),
        )
    )


def parquet(path: str, threads: int) -> tuple[IntArray, IntArray, IntArray]:
    """The columns source, target, value of a Parquet file, read by pyarrow."""
    return _columns(_with_threads(threads, "pyarrow.parquet").read_table(path))


def _with_threads(threads: int, module: str) -> Any:
    require("pyarrow", "pyarrow").set_cpu_count(threads)
    return require(module, "pyarrow")


def _columns(table: Any) -> tuple[IntArray, IntArray, IntArray]:
    source, target, value = (table[name].to_numpy() for name in ("source", "target", "value"))
    return source, target, value


def compact(source: IntArray, target: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """The ids in order, and both columns as places in them.

    By a table of all ids where they lie close together, which takes a tenth of sorting them.

    >>> [each.tolist() for each in compact(np.array([5, 9]), np.array([9, 7]))]
    [[5, 7, 9], [0, 2], [2, 1]]
    """
    if not source.size:
        return source, source, target
    least, most = min(source.min(), target.min()), max(source.max(), target.max())
    if most - least > 16 * source.size:
        ids, place = np.unique(np.concatenate((source, target)), return_inverse=True)
        return ids, place[: source.size], place[source.size :]
    seen = np.zeros(most - least + 1, np.bool_)
    seen[source - least] = True
    seen[target - least] = True
    place = np.cumsum(seen) - 1
    return np.flatnonzero(seen) + least, place[source - least], place[target - least]


def simple_pairs(source: IntArray, target: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Every pair of vertices 0..n-1 that is joined in either direction, once; no self-loops."""
    other = source != target
    low, high = np.minimum(source, target)[other], np.maximum(source, target)[other]
    key = np.unique(low * n + high)
    return key // n, key % n
