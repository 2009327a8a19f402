"""Partitioners: from a user's choice to a placement.

- "hash": by the hash of the id; nothing is read beforehand.
- "ldg", "fennel", "metis": by the graph's structure.
- a function `f(structure, partitions)` of a `Structure`; returns the partition of each vertex.
- a table: a DataFrame (of Spark or pandas) with columns `id` and `partition`, an array of shape
  (n, 2), a pair of arrays, or a mapping; a vertex which is not in it goes by the hash of its id.

Partitioners that use the structure read the whole graph in one task, once.
"""

from __future__ import annotations

import importlib
import importlib.util
import pickle
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays import shared_memory
from vertexsdk.arrays.jit import njit
from vertexsdk.arrays.packed_strings import is_text
from vertexsdk.errors import InputError
from vertexsdk.graph.load.arrow import as_strings, id_array, id_column
from vertexsdk.graph.load.tables import arrow_table, is_table
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.graph.topology.string_ids import StringIds
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.transport.shipping import ship_function
from vertexsdk.transport.transport import is_dataframe


@dataclass(frozen=True, slots=True)
class Structure:
    """The undirected adjacency of a graph, without loops and parallel edges.

    The neighbours of vertex v are `target[start[v]:start[v + 1]]`; v is an index of `ids`.
    """

    ids: NDArray[Any]  # [n] ascending; int64, or strings as objects
    start: NDArray[np.int64]  # [n + 1]
    target: NDArray[np.int32]  # [2 m]

    @property
    def n(self) -> int:
        """The number of vertices."""
        return len(self.ids)

    @property
    def weight(self) -> NDArray[np.int64]:
        """The weight that a vertex adds to its partition (int64[n]): itself and its edges."""
        return 1 + np.diff(self.start)

    def order(self) -> NDArray[np.int32]:
        """All vertices (int32[n]), breadth first: component by component, each from its rim.

        A first search finds the vertex of each component that is last reached; the second begins
        there, so that its levels, which are put in partitions one after the other, are narrow.
        """
        search: Any = _search
        first = search(self.start, self.target, np.arange(self.n, dtype=np.int32))
        last: NDArray[np.int32] = search(self.start, self.target, first[::-1].copy())
        return last

    def load(self, partition: NDArray[np.int32], partitions: int) -> NDArray[np.int64]:
        """The weight in each partition (int64[P]) if vertex v is in `partition[v]`."""
        return np.bincount(partition, self.weight, partitions).astype(np.int64)


@njit
def _search(start, target, roots):  # type: ignore[no-untyped-def]
    """Return the vertices in breadth-first order, begun anew from the next root not reached."""
    n = len(roots)
    seen = np.zeros(n, np.bool_)
    order = np.empty(n, np.int32)
    done = reached = 0
    for root in roots:
        if seen[root]:
            continue
        seen[root] = True
        order[reached] = root
        reached += 1
        while done < reached:
            v = order[done]
            done += 1
            for e in range(start[v], start[v + 1]):
                u = target[e]
                if not seen[u]:
                    seen[u] = True
                    order[reached] = u
                    reached += 1
    return order


_MISSING = (
    "partitioner metis: METIS is not installed: pip install 'vertexsdk[metis]', or use fennel"
)


def require_metis() -> None:
    """Find out that METIS can be used.

    Raises:
        InputError: `pymetis` is not installed.
    """
    if importlib.util.find_spec("pymetis") is None:
        raise InputError(_MISSING)


def metis(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]) by multilevel k-way partitioning.

    Args:
        graph: a graph of n vertices.
        partitions: how many.
        slack: how much fuller than its share a partition may be, as 0.05.

    Raises:
        InputError: `pymetis` is not installed.
    """
    require_metis()
    more = max(1, round(slack * 1000))  # in thousandths
    pymetis: Any = importlib.import_module("pymetis")
    _, partition = pymetis.part_graph(
        partitions,
        xadj=graph.start,
        adjncy=graph.target,
        vweights=graph.weight,
        options=pymetis.Options(ufactor=more),
        recursive=False,
    )
    return np.asarray(partition, np.int32)


# Streaming partitioners: vertices come one by one and stay where most of their neighbours are.
#
# Two rules say how much a full partition puts off: LDG, linear deterministic greedy (Stanton and
# Kliot, Streaming Graph Partitioning for Large Distributed Graphs, KDD 2012), and Fennel
# (Tsourakakis, Gkantsidis, Radunovic and Vojnovic, WSDM 2014). Vertices come breadth first. With
# LDG they come a few times over: neighbours which are yet to come are known by where they were
# the time before (Nishimura and Ugander, Restreaming Graph Partitioning, KDD 2013), and the first
# time by the chunk of the breadth-first order in which they are: on a grid those alone are near
# the best, and without them LDG, which puts what it knows nothing of where there is most room, is
# far from it.
#
# A partition takes no vertex beyond (1 + slack) times its share of vertices and edges. Only where
# a single vertex is heavier than the slack may one be over that, by this vertex.

_PASSES = 4  # of LDG; Fennel gets no better by more
_GAMMA = 1.5  # Fennel's exponent, as the paper recommends


def ldg(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]): most neighbours, times the room left.

    Args:
        graph: a graph of n vertices.
        partitions: how many.
        slack: how much fuller than its share a partition may be, as 0.05.
    """
    return _streamed(graph, partitions, slack, fennels=False)


def fennel(graph: Structure, partitions: int, slack: float) -> NDArray[np.int32]:
    """Return the partition of each vertex (int32[n]): most neighbours, less the cost of its size.

    The size of a partition is its share of vertices and edges, in vertices. Arguments as `ldg`.
    """
    return _streamed(graph, partitions, slack, fennels=True)


def _streamed(
    graph: Structure, partitions: int, slack: float, *, fennels: bool
) -> NDArray[np.int32]:
    weight = graph.weight
    total = float(weight.sum())
    partition = np.full(graph.n, -1, np.int32)
    if graph.n == 0:
        return partition
    room = (1 + slack) * total / partitions
    edges = len(graph.target) / 2
    alpha = edges * partitions ** (_GAMMA - 1) / graph.n**_GAMMA if fennels else -1.0
    order, unit = graph.order(), graph.n / total
    if not fennels:
        preceding_weight = np.cumsum(weight[order]) - weight[order]
        partition[order] = np.minimum(preceding_weight * partitions // int(total), partitions - 1)
    stream: Any = _stream
    for _ in range(1 if fennels else _PASSES):
        stream(graph.start, graph.target, order, weight, partition, partitions, room, alpha, unit)
    return partition


@njit
def _stream(start, target, order, weight, partition, partitions, room, alpha, unit):  # type: ignore[no-untyped-def]
    """Place all vertices in order; `partition` has their last places (-1: none)."""
    load = np.zeros(partitions, np.float64)
    joined = np.zeros(partitions, np.float64)
    for v in order:
        for e in range(start[v], start[v + 1]):
            p = partition[target[e]]
            if p >= 0:
                joined[p] += 1
        best, most = -1, 0.0
        for p in range(partitions):
            if load[p] + weight[v] > room:
                continue
            if alpha >= 0:
                score = joined[p] - alpha * _GAMMA * np.sqrt(load[p] * unit)
            else:
                score = joined[p] * (1 - load[p] / room)
            if best < 0 or score > most or (score == most and load[p] < load[best]):
                best, most = p, score
        if best < 0:  # it fits nowhere
            best = int(np.argmin(load))
        partition[v] = best
        load[best] += weight[v]
        for e in range(start[v], start[v + 1]):
            p = partition[target[e]]
            if p >= 0:
                joined[p] = 0


Assign = Callable[[Structure, int, float], Any]

_PLACE = "the partitioner"
_BY_STRUCTURE: dict[str, Assign] = {"ldg": ldg, "fennel": fennel, "metis": metis}

NAMES = ("hash", *_BY_STRUCTURE)


@dataclass(frozen=True)
class Partitioner:
    """A checked choice of partitioner.

    Attributes:
        name: "hash", "ldg", "fennel", "metis", the name of a function, or "table".
        slack: by how much a partition may exceed its share of vertices and edges.
        function: pickled, takes a `Structure`, the number of partitions and the slack.
        table: columns of ids and of partitions.
    """

    name: str
    slack: float
    function: bytes | None = None
    table: tuple[pa.Array, pa.Array] | None = None

    @classmethod
    def of(cls, given: Any, slack: float) -> Partitioner:
        """Check a user's choice.

        Raises:
            InputError: it is none of the above, or METIS is not installed.
        """
        if not 0 <= slack < float("inf"):
            raise InputError(f"slack is {slack}; it must be zero or more, as 0.05")
        if isinstance(given, str):
            if given not in NAMES:
                raise InputError(f"no partitioner {given!r}; there are: {', '.join(NAMES)}")
            if given == "metis":
                require_metis()
            function = _BY_STRUCTURE.get(given)
            return cls(given, slack, None if function is None else cloudpickle.dumps(function))
        if callable(given):
            return cls(getattr(given, "__name__", "function"), slack, _shipped(given))
        return cls("table", slack, table=_table(given))

    def of_table(self, partitions: int, names: StringIds | None) -> Placement:
        """Return the placement that a table says.

        Raises:
            InputError: ids of another kind than the graph's, or twice, or a wrong partition.
        """
        assert self.table is not None
        ids, places = self.table
        partition = np.asarray(pc.cast(places, pa.int64()))
        if names is None:
            return Placement.of_table(id_array(ids, _PLACE), partition, partitions)
        codes = names.find(as_strings(ids, _PLACE).to_pylist())
        known = codes >= 0
        return Placement.of_table(codes[known], partition[known], partitions, names)

    @property
    def strings(self) -> bool:
        """True if a table has string ids, so that the graph must have them too."""
        return self.table is not None and is_text(self.table[0].type)


def _shipped(function: Callable[[Structure, int], Any]) -> bytes:
    ship_function(function)

    def call(graph: Structure, partitions: int, slack: float) -> Any:
        return function(graph, partitions)

    pickled: bytes = cloudpickle.dumps(call)
    return pickled


def _table(given: Any) -> tuple[pa.Array, pa.Array]:
    columns: tuple[Any, Any]
    if is_dataframe(given):
        from vertexsdk.graph.load.dataframes import fetched

        _check_columns(given.columns)
        ids, places = fetched(given, ["id", "partition"], _PLACE)
        columns = ids, places
    elif is_table(given):
        table = arrow_table(given, _PLACE)
        _check_columns(table.column_names)
        columns = tuple(table[n].combine_chunks() for n in ("id", "partition"))
    elif isinstance(given, Mapping):
        columns = list(given), list(given.values())
    elif isinstance(given, tuple) and len(given) == 2:
        columns = given
    else:
        pairs = np.asarray(given)
        if pairs.ndim != 2 or pairs.shape[1] != 2:
            raise InputError(
                f"partitioner: an array of (id, partition) has shape (n, 2), not {pairs.shape}"
            )
        columns = pairs[:, 0], pairs[:, 1]
    ids = columns[0] if isinstance(columns[0], pa.Array) else id_column(columns[0])
    try:
        places = pc.cast(pa.array(columns[1]), pa.int64())
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        raise InputError("partitioner: partitions are integers from 0 on") from None
    if len(ids) != len(places) or ids.null_count or places.null_count:
        raise InputError("partitioner: each id needs a partition")
    return (pc.cast(ids, pa.large_string()) if pa.types.is_string(ids.type) else ids), places


def _check_columns(columns: list[str]) -> None:
    if not {"id", "partition"} <= set(columns):
        raise InputError(
            f"partitioner: columns are {', '.join(map(str, columns))}; name them id and partition"
        )


def assign(
    function: bytes, key: str, partitions: int, slack: float, names: Any, partition: int
) -> tuple[NDArray[np.int64], NDArray[np.int32]] | InputError:
    """Run in a task where the whole graph is resident under `key`, undirected, as one partition.

    Returns:
        ids (int64[n]) and the partition of each (int32[n]); or what was wrong with it.
    """
    stored = shared_memory.load(key)
    if stored is None:
        return InputError("the graph to partition is gone; run again")
    t = Topology.from_columns(*stored)
    ids: NDArray[Any] = t.ids
    if names is not None:
        ids = np.array(names.value.sorted.take(pa.array(t.ids)).to_pylist(), object)
    partitioner: Assign = pickle.loads(function)
    try:
        assigned = np.asarray(partitioner(Structure(ids, t.start, t.target), partitions, slack))
    except InputError as error:
        return error
    except Exception as error:
        return InputError(f"the partitioner raised {type(error).__name__}: {error}")
    if assigned.shape != (t.n,) or assigned.dtype.kind not in "iu":
        return InputError(
            f"the partitioner returned {assigned.dtype} of shape {assigned.shape}; it must return "
            f"an integer for each of {t.n} vertices"
        )
    return np.asarray(t.ids), assigned.astype(np.int64).clip(-1, 2**31 - 1).astype(np.int32)
