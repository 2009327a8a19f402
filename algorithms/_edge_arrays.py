"""The edges of a graph as arrays, for algorithms that make another graph of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Array = NDArray[Any]


def edge_arrays(graph: Any) -> tuple[Array, Array, Array]:
    """Return the sources and targets (int64[m] or str[m]) of a graph's edges, and their values."""
    table = graph.to_arrow()
    ends = [table[name].to_numpy() for name in ("source", "target")]
    source, target = (x if x.dtype.kind == "i" else x.astype(str) for x in ends)
    return source, target, np.asarray(table["value"].to_numpy())


def local_graph(
    graph: Any, source: Array, target: Array, value: Array | None = None, **options: Any
) -> Any:
    """Return a graph of these edges, without direction, in this process; of the same class.

    What was taken out of a graph for that is in the driver already, and one partition with all of
    its threads is the fastest there.
    """
    local = type(graph).from_arrays(source, target, value, undirected=True, partitions=1, **options)
    local.may_be_empty = True  # where all edges are self-loops
    return local


def numbered_ends(source: Array, target: Array) -> tuple[Array, Array, Array]:
    """Return the ids among the ends of edges, ascending, and the ends as places among them.

    >>> [x.tolist() for x in numbered_ends(np.array([5, 9]), np.array([9, 7]))]
    [[5, 7, 9], [0, 2], [2, 1]]
    """
    ids, places = np.unique(np.concatenate([source, target]), return_inverse=True)
    return ids, *places.reshape(2, -1)


def edge_table(ids: Array, parent: Array, **columns: Array) -> pa.Table:
    """Return the edges to those vertices that are not their own parents, as a table.

    Args:
        ids: the ids of vertices, ascending.
        parent: the place of each one's parent among the ids.
        columns: further ones, by vertex.

    >>> edge_table(np.array([4, 7]), np.array([0, 0])).to_pylist()
    [{'source': 4, 'target': 7}]
    """
    below = parent != np.arange(len(ids))
    more = {name: column[below] for name, column in columns.items()}
    return pa.table({"source": ids[parent[below]], "target": ids[below], **more})
