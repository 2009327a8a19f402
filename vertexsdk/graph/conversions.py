"""A graph of whatever a user has: a DataFrame, a table, a NetworkX graph, a matrix, or files."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

from vertexsdk.errors import InputError
from vertexsdk.graph.graph import Graph

# By the package that defines an object's class, or one of its bases.
_CONVERTERS: dict[str, Callable[[Any], Graph]] = {
    "graphframes": Graph.from_graphframe,
    "networkx": Graph.from_networkx,
    "pandas": Graph.from_pandas,
    "polars": Graph.from_polars,
    "pyarrow": Graph.from_arrow,
    "pyspark": Graph.from_dataframe,
    "scipy": Graph.from_scipy,
}


def as_graph(source: Any) -> Graph:
    """Return a graph of edges in any form that a `Graph` can be made of without options.

    Args:
        source: a `Graph`, which is returned as it is; a DataFrame of Spark, pandas or Polars, an
            Arrow table, a NetworkX graph, a SciPy sparse matrix, a GraphFrame; or a path of an
            edge file, or several.

    Raises:
        InputError: it is something else, or not the edges of a graph.

    >>> import networkx as nx
    >>> as_graph(nx.path_graph(4)).undirected
    True
    """
    if isinstance(source, Graph):
        return source
    if isinstance(source, os.PathLike):
        source = os.fspath(source)
    texts = isinstance(source, Sequence) and all(isinstance(x, str) for x in source)
    if isinstance(source, str) or (texts and len(source)):
        return Graph.read(source)
    for base in type(source).__mro__:
        converter = _CONVERTERS.get(base.__module__.split(".")[0])
        if converter is not None:
            return converter(source)
    if hasattr(source, "__arrow_c_stream__"):
        return Graph.from_arrow(source)
    raise InputError(
        f"{type(source).__name__} is no graph; give a vertexsdk.Graph, a DataFrame with columns "
        "source and target, an Arrow table, a NetworkX graph, a SciPy matrix, or a path"
    )
