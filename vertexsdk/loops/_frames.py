"""Results as tables and graphs of other libraries, which are imported when they are asked for."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from vertexsdk.errors import InputError
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.output import column


def arrow_table(columns: Mapping[str, Any]) -> pa.Table:
    """Return columns, as `Result.columns` has them, as an Arrow table."""
    return pa.table({name: column(values) for name, values in columns.items()})


def pandas_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a pandas DataFrame; a vertex without a value has NaN or None there."""
    pandas = _library("pandas", "to_pandas()")
    return pandas.DataFrame(arrow_table(columns).to_pandas())


def polars_frame(columns: Mapping[str, Any]) -> Any:
    """Return columns as a Polars DataFrame."""
    return _library("polars", "to_polars()").from_arrow(arrow_table(columns))


def networkx_graph(columns: Mapping[str, Any], edges: Any) -> Any:
    """Return a NetworkX graph whose nodes have the columns' values as data.

    Args:
        columns: the columns of all vertices, as `Result.columns` has them.
        edges: a NetworkX graph, which is copied; or a `Graph`, whose edges have the attribute
            "weight".

    Raises:
        InputError: `edges` is not a graph, or NetworkX is not installed.
    """
    networkx = _library("networkx", "to_networkx()")
    if isinstance(edges, Graph):
        graph = networkx.Graph() if edges.undirected else networkx.DiGraph()
        rows = edges.to_arrow()
        ends = (rows["source"].to_pylist(), rows["target"].to_pylist())
        graph.add_weighted_edges_from(zip(*ends, rows["value"].to_pylist(), strict=True))
    elif isinstance(edges, networkx.Graph):
        graph = edges.copy()
    else:
        raise InputError(
            f"to_networkx() takes the edges from a Graph or a NetworkX graph, not from "
            f"{type(edges).__name__}"
        )
    table = arrow_table(columns)
    names = [name for name in table.column_names if name != "id"]
    rows_of = zip(*(table[name].to_pylist() for name in names), strict=True)
    data = [dict(zip(names, row, strict=True)) for row in rows_of]
    ids = table["id"].to_pylist()
    known = {str(node): node for node in graph}  # nodes that are not strings may be ids as strings
    graph.add_nodes_from((known.get(str(i), i), row) for i, row in zip(ids, data, strict=True))
    return graph


def _library(name: str, caller: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise InputError(f"{caller} needs {name}: pip install {name}, or use to_arrow()") from None
