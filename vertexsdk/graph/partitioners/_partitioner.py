"""Partitioners: from a user's choice to a placement.

- "hash": by the hash of the id; nothing is read beforehand.
- "ldg", "fennel", "metis": by the graph's structure.
- a function `f(structure, partitions)` of a `Structure`; returns the partition of each vertex.
- a table: a DataFrame (of Spark or pandas) with columns `id` and `partition`, an array of shape
  (n, 2), a pair of arrays, or a mapping; a vertex which is not in it goes by the hash of its id.

Partitioners that use the structure read the whole graph in one task, once.
"""

from __future__ import annotations

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
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.table import is_text
from vertexsdk.graph.load.arrow import as_strings, id_array, id_column
from vertexsdk.graph.load.tables import arrow_table, is_table
from vertexsdk.graph.partitioners._ldg_fennel import fennel, ldg
from vertexsdk.graph.partitioners._metis import metis, require_metis
from vertexsdk.graph.partitioners._structure import Structure
from vertexsdk.graph.placement import Placement
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.graph.topology import Topology
from vertexsdk.transport.shipping import ship_function
from vertexsdk.transport.transport import is_dataframe

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
        """Whether a table has string ids, and so the graph must have such."""
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
        from vertexsdk.graph.load._dataframes import fetched

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
