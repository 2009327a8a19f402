"""`Graph` on Spark: every kind of input, 1, 2 and 7 partitions, the same topologies."""

from __future__ import annotations

import gzip
import logging
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import networkx as nx
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import scipy.sparse as sp

from tests.support.topologies import Edge, check, expected
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.errors import InputError
from vertexsdk.graph.graph import NO_KIND, Graph, Variant

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

VALUED = Variant("out", "float64", "combined")


def random_edges(seed: int, m: int = 400, n: int = 60) -> list[Edge]:
    rng = np.random.default_rng(seed)
    ends = (rng.integers(0, n, (m, 2)) * 1_000_003 - 5_000_000).tolist()
    return [(a, b, float(v)) for (a, b), v in zip(ends, rng.integers(0, 99, m), strict=True)]


def write_text(path: Path, edges: Sequence[Edge]) -> str:
    separators = [" ", "\t", ",", ", ", "  "]
    with path.open("w", newline="") as file:
        file.write("# a comment\r\n\n")
        for k, (a, b, v) in enumerate(edges):
            s = separators[k % 5]
            file.write(f"{a}{s}{b}{s}{v}" + ("\r\n" if k % 3 else "\n\t# why\n"))
    return str(path)


def verify(
    graph: Graph, edges: Sequence[Edge], variant: Variant, vertices: Sequence[int] = ()
) -> None:
    want = expected(edges, variant, graph.undirected, graph.multi, vertices)
    info = graph.materialise(variant)
    parts = [graph.topology(variant, p) for p in range(graph.partitions)]
    check(parts, want, variant)
    assert info.given == len(edges)
    assert info.duplicates == want.duplicates
    assert info.self_loops == want.self_loops
    assert info.num_edges == len(edges) - want.duplicates
    assert info.num_vertices == len(want.vertices) == graph.num_vertices
    assert sum(s[1] for s in info.sizes) == sum(map(len, want.rows.values()))


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_text_file_in_every_variant(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    edges = random_edges(partitions)
    path = write_text(tmp_path / "edges.txt", edges)
    graph = Graph.read(spark, path, partitions=partitions)
    for direction in ("out", "in", "both", "undirected"):
        verify(graph, edges, Variant(direction, "int64", "combined"))
    verify(graph, edges, Variant("out", None, "each"))
    assert graph.contains([edges[0][0], 17]).tolist() == [True, False]
    assert graph.code_of([str(edges[0][1])]).tolist() == [edges[0][1]]
    with pytest.raises(InputError, match="vertex 17 is not in the graph"):
        graph.code_of([17])
    graph.unpersist()


@pytest.mark.parametrize("partitions", [1, 2])
def test_undirected_and_multi_graphs(spark: SparkSession, tmp_path: Path, partitions: int) -> None:
    edges = random_edges(11)
    path = write_text(tmp_path / "edges.txt", edges)
    verify(Graph.read(spark, path, undirected=True, partitions=partitions), edges, VALUED)
    verify(Graph.read(spark, path, multi=True, partitions=partitions), edges, VALUED)


def test_our_parser_and_spark_give_the_same(spark: SparkSession, tmp_path: Path) -> None:
    """The fast path for local files against what `spark.read` gives, for every format."""
    edges = random_edges(5)
    text = write_text(tmp_path / "edges.txt", edges)
    with gzip.open(tmp_path / "edges.txt.gz", "wb") as packed:
        packed.write(Path(text).read_bytes())
    source, target, value = zip(*edges, strict=True)
    table = pa.table({"source": source, "target": target, "value": value})
    pq.write_table(table, tmp_path / "edges.parquet", row_group_size=100)
    lines = "".join(f"{a},{b},{v}\n" for a, b, v in edges)
    (tmp_path / "plain.csv").write_text("source,target,value\n" + lines)
    turned = "".join(f'"{b}",{v},"{a}",x\n' for a, b, v in edges)
    (tmp_path / "quoted.csv").write_text('"dst","weight","src","note"\n' + turned)
    pieces = tmp_path / "pieces"
    pieces.mkdir()
    for k in range(4):
        write_text(pieces / f"part-{k}", edges[k * 100 : k * 100 + 100])
    (pieces / "_SUCCESS").write_text("")
    frame = spark.createDataFrame(edges, ["src", "dst", "weight"])
    inputs = {
        name: Graph.read(spark, str(tmp_path / name))
        for name in ("edges.txt", "edges.txt.gz", "edges.parquet", "plain.csv", "quoted.csv")
    }
    inputs["directory"] = Graph.read(spark, str(pieces))
    inputs["glob"] = Graph.read(spark, [f"{pieces}/part-[0-2]", f"file:{pieces}/part-3"])
    inputs["frame"] = Graph.from_dataframe(frame.coalesce(1))
    inputs["frame, 3 partitions"] = Graph.from_dataframe(frame.coalesce(1), partitions=3)
    inputs["parquet, 3 partitions"] = Graph.read(
        spark, str(tmp_path / "edges.parquet"), partitions=3
    )
    inputs["arrays"] = Graph.from_arrays(source, target, value, spark=spark, partitions=2)
    for name, graph in inputs.items():
        verify(graph, edges, VALUED)
        assert not graph.string_ids, name


def test_vertices_and_their_classes(spark: SparkSession, tmp_path: Path) -> None:
    edges = random_edges(6)
    path = write_text(tmp_path / "edges.txt", edges)
    a, b = edges[0][0], edges[1][0]
    (tmp_path / "vertices.txt").write_text(f"# who\n{a} User\n{b}\tItem\n-7\n{a} Item\n99 User\n")
    for partitions in (1, 3):
        graph = Graph.read(
            spark, path, vertices=str(tmp_path / "vertices.txt"), partitions=partitions
        )
        verify(graph, edges, Variant(), [a, b, -7, 99])
        assert graph.materialise().kinds == ("Item", "User")
        kinds: dict[int, int] = {}
        for p in range(partitions):
            t = graph.topology(Variant(), p)
            assert t.kind is not None
            kinds.update(zip(t.ids.tolist(), t.kind.tolist(), strict=True))
        assert (kinds.pop(a), kinds.pop(b), kinds.pop(-7), kinds.pop(99)) == (0, 0, NO_KIND, 1)
        assert set(kinds.values()) == {NO_KIND}


NAMED = "ann bob 2\nbob émile 0.5\nann  bob 3\n10 ann\n\t# none\nann ann,1e2\n"


@pytest.mark.parametrize("partitions", [1, 3])
@pytest.mark.parametrize("suffix", ["txt", "txt.gz", "parquet"])
def test_string_ids(
    spark: SparkSession,
    tmp_path: Path,
    partitions: int,
    suffix: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    path = tmp_path / f"edges.{suffix}"
    rows = [("ann", "bob", 2.0), ("bob", "émile", 0.5), ("ann", "bob", 3.0), ("10", "ann", 1.0)]
    rows.append(("ann", "ann", 100.0))
    if suffix == "parquet":
        columns = zip(("source", "target", "value"), zip(*rows, strict=True), strict=True)
        pq.write_table(pa.table(dict(columns)), path)
    elif suffix == "txt":
        path.write_text(NAMED)
    else:
        with gzip.open(path, "wt", encoding="utf-8") as packed:
            packed.write(NAMED)
    (tmp_path / "vertices").write_text("zoe\n")
    graph = Graph.read(spark, str(path), vertices=str(tmp_path / "vertices"), partitions=partitions)
    with caplog.at_level(logging.WARNING):
        info = graph.materialise(VALUED)
        graph.materialise(Variant("in"))
    said = [r for r in caplog.records if "taken as strings" in r.message]
    assert len(said) == (suffix != "parquet")  # whose ids have a type
    assert (info.string_ids, info.mixed_ids, info.valued) == (True, True, 5 - (suffix != "parquet"))
    names = sorted(["ann", "bob", "émile", "10", "zoe"])
    code = {name: k for k, name in enumerate(names)}
    verify(graph, [(code[a], code[b], v) for a, b, v in rows], VALUED, range(5))
    assert graph.code_of(["ann", 10]).tolist() == [code["ann"], code["10"]]
    assert graph.contains(["ann", "eve"]).tolist() == [True, False]
    with pytest.raises(InputError, match="'eve' is not in the graph"):
        graph.code_of(["ann", "eve"])
    for p in range(partitions):
        t = graph.topology(VALUED, p)
        assert t.names is not None
        assert unpack_strings(*t.names) == [names[k] for k in t.ids.tolist()]


def test_networkx_and_scipy(spark: SparkSession) -> None:
    g = nx.gnp_random_graph(30, 0.1, seed=2, directed=True)
    nx.set_edge_attributes(g, {e: k + 0.5 for k, e in enumerate(g.edges)}, "weight")
    edges = [(a, b, v) for a, b, v in g.edges(data="weight")]
    verify(Graph.from_networkx(g, spark=spark), edges, VALUED, range(30))
    verify(Graph.from_scipy(nx.to_scipy_sparse_array(g), spark=spark), edges, VALUED, range(30))
    words = Graph.from_networkx(nx.Graph([("a", "b"), ("b", 3)]), spark=spark)
    assert words.materialise().num_edges == 2
    assert words.undirected
    assert words.string_ids
    assert Graph.from_networkx(nx.MultiGraph([(0, 1)] * 2), spark=spark).materialise().given == 2
    with pytest.raises(InputError, match="adjacency matrix is square"):
        Graph.from_scipy(sp.csr_array((2, 3)), spark=spark)


def test_graphframe(spark: SparkSession) -> None:
    class Frames:  # what is read of a GraphFrame, whose jar is not needed for this
        edges = spark.createDataFrame([("a", "b"), ("b", "c")], ["src", "dst"])
        vertices = spark.createDataFrame([("a", 1, "x"), ("d", 2, "y")], ["id", "age", "kind"])

    info = Graph.from_graphframe(Frames).materialise()
    assert (info.num_vertices, info.num_edges, info.valued) == (4, 2, 0)
    assert info.kinds == ("x", "y")


def test_loading_is_lazy_and_cached(spark: SparkSession, tmp_path: Path) -> None:
    path = write_text(tmp_path / "edges.txt", random_edges(8))
    graph = Graph.read(spark, path)
    first = graph.materialise(("out", None, "combined"))
    Path(path).unlink()
    assert graph.materialise(Variant()) is first
    graph.unpersist()
    with pytest.raises(InputError, match=r"edges\.txt"):
        graph.materialise()
