"""NetworkX graphs, GraphML files and SciPy matrices as arrays of edges."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.changes.table import is_text
from vertexsdk.graph.load.arrow import text_column, text_ids


def arrays_of_networkx(
    graph: Any, weight: str | Sequence[str] = "weight"
) -> tuple[list[Any], dict[str, Any]]:
    """Return [source, target, value or None], and the options of `Graph.from_arrays`.

    An edge without the attribute `weight` has value 1; several names give several attributes.
    """
    nodes, data = list(graph.nodes), [node for _, node in graph.nodes(data=True)]
    integers = all(isinstance(n, (int, np.integer)) for n in nodes)
    convert = int if integers else str
    if len({convert(n) for n in nodes}) < len(nodes):
        raise InputError("two nodes of the graph have the same str(); relabel the nodes")
    names = [weight] if isinstance(weight, str) else list(weight)
    edges = list(graph.edges(data=True))
    dtype = np.int64 if integers else None
    try:
        ends = [np.array([convert(e[k]) for e in edges], dtype) for k in range(2)]
        vertices = np.array([convert(n) for n in nodes], dtype)
    except OverflowError:
        raise InputError("a node is beyond int64; relabel the nodes") from None
    columns: dict[str, list[Any]] = {n: [e[2].get(n) for e in edges] for n in names}
    value: Any = columns
    if isinstance(weight, str):
        value = None
        if any(x is not None for x in columns[weight]):
            value = np.array([1 if x is None else x for x in columns[weight]])
    fields = dict.fromkeys(name for node in data for name in node if name != "id")
    attributes = {str(name): [node.get(name) for node in data] for name in fields}
    options = {
        "vertices": {"id": vertices, **attributes} if attributes else vertices,
        "undirected": not graph.is_directed(),
        "multi": graph.is_multigraph(),
    }
    return [*ends, value], options


def arrays_of_scipy(matrix: Any) -> tuple[list[Any], dict[str, Any]]:
    """Return [source, target, value], and the options of `Graph.from_arrays`.

    Raises:
        InputError: the matrix is not square, or its entries are no real numbers.
    """
    if len(matrix.shape) != 2 or matrix.shape[0] != matrix.shape[1]:
        raise InputError(f"the matrix has shape {matrix.shape}; an adjacency matrix is square")
    rows = matrix.tocoo().tocsr().tocoo()  # sums the entries of a place, whatever the format
    ends = [np.asarray(a, np.int64) for a in (rows.row, rows.col)]
    data = rows.data.astype(np.int64) if rows.data.dtype.kind == "b" else rows.data
    return [*ends, data], {"vertices": np.arange(matrix.shape[0])}


def read_graphml(path: str) -> Any:
    """Return the NetworkX graph in a GraphML file.

    Raises:
        InputError: no such file, it is not GraphML, or NetworkX is not installed.
    """
    try:
        import networkx as nx
    except ImportError:
        raise InputError(
            f"{path}: GraphML needs NetworkX: pip install 'vertexsdk[networkx]'"
        ) from None
    try:
        graph = nx.read_graphml(path)
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or first_line(error)}") from None
    except Exception as error:  # of the XML parser, of NetworkX, or of a type that it does not know
        raise InputError(f"{path}: not readable as GraphML ({first_line(error)})") from None
    ids = text_ids(text_column(graph), path)  # its types are those of attributes, ids are text
    if is_text(ids.type):
        return graph
    return nx.relabel_nodes(graph, dict(zip(graph, ids.to_pylist(), strict=True)))
