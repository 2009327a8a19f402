"""Ids that are no text in UTF-8: refused in one line wherever they come from."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vertexsdk
from vertexsdk import Graph
from vertexsdk.algorithms import BreadthFirstSearch, ConnectedComponents
from vertexsdk.errors import InputError, StateInputError
from vertexsdk.graph.changes.changes import Changes

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONE = "x\ud800"
BYTES = b"\xed\xa0\x80"  # the same, as some writers encode it


def array(*ids: str) -> Any:
    return np.array(ids, object)


def nodes(first: str, second: str) -> Any:
    graph = nx.DiGraph()
    graph.add_edge(first, second)
    return graph


def parquet(path: Path, name: str) -> str:
    """A table of edges, one id of which is no UTF-8; writers do not look."""
    offsets = pa.py_buffer(np.array([0, 1, 4], np.int32).tobytes())
    bad = pa.StringArray.from_buffers(2, offsets, pa.py_buffer(b"a" + BYTES))
    good = pa.array(["b", "c"])
    ends = {"source": good, "target": good, name: bad}
    pq.write_table(pa.table(ends), path / "edges.parquet")
    return str(path / "edges.parquet")


def text(path: Path, data: bytes) -> str:
    (path / "edges.txt").write_bytes(data)
    return str(path / "edges.txt")


MADE: dict[str, Callable[[Any, Path], Any]] = {
    "arrays": lambda s, _: Graph.from_arrays(array("a", LONE), array("b", "c"), spark=s),
    "unicode arrays": lambda s, _: Graph.from_arrays(np.array(["a"]), np.array([LONE]), spark=s),
    "vertices": lambda s, _: Graph.from_arrays(array("a"), array("b"), vertices=[LONE], spark=s),
    "networkx": lambda s, _: Graph.from_networkx(nodes("a", LONE), spark=s),
    "parquet source": lambda s, path: Graph.read(s, parquet(path, "source")),
    "parquet target": lambda s, path: Graph.read(s, parquet(path, "target")),
    "text": lambda s, path: Graph.read(s, text(path, b"a b\nb " + BYTES)),
    "changes": lambda s, _: Changes.of([("+", "a", LONE)]),
}


@pytest.mark.parametrize("source", MADE)
def test_edges(spark: SparkSession, tmp_path: Path, source: str) -> None:
    with pytest.raises(
        InputError, match=r"not valid in UTF-8|no text in UTF-8|not UTF-8 text"
    ) as caught:
        vertexsdk.run(
            ConnectedComponents, MADE[source](spark, tmp_path), backend="memory://surrogates"
        )
    assert "\n" not in str(caught.value)
    str(caught.value).encode()  # it can be printed


def test_what_is_not_there(spark: SparkSession) -> None:
    graph = Graph.from_arrays(array("a", "b"), array("b", "c"), spark=spark)
    with pytest.raises(InputError, match=r"origin='x\\ud800' is not a vertex of the graph"):
        vertexsdk.run(
            BreadthFirstSearch, graph, params={"origin": LONE}, backend="memory://surrogates"
        )
    result = vertexsdk.run(ConnectedComponents, graph, backend="memory://surrogates")
    assert result.lookup([LONE, "a"]).keys() == {"a"}
    with pytest.raises(StateInputError, match=r"'x\\ud800' cannot name a loop"):
        vertexsdk.read(result.backend, LONE)
    with pytest.raises(StateInputError, match=r"'x\\ud800' cannot name a loop"):
        vertexsdk.run(ConnectedComponents, graph, backend="memory://surrogates", loop=LONE)
    graph.unpersist()
