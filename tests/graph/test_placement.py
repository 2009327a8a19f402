"""Where vertices are placed: tables, partitioners that follow the structure, the same answers."""

from __future__ import annotations

import math
import pickle
import sys
import types
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.inprocess import InProcess
from vertexsdk.algorithms import (
    BreadthFirstSearch,
    ConnectedComponents,
    Coreness,
    PageRank,
    ShortestPaths,
)
from vertexsdk.arrays.id_hash import KEY_GROUPS, hash_partition, key_groups
from vertexsdk.arrays.packed_strings import pack_strings
from vertexsdk.engine.event_changes import places
from vertexsdk.errors import InputError
from vertexsdk.graph import partitioner as by_metis
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.partitioner import Partitioner, Structure, fennel, ldg
from vertexsdk.graph.topology.placement import Placement
from vertexsdk.loops.main_loop import MainLoop
from vertexsdk.loops.run import run
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex, state
from vertexsdk.state.reading import name_groups

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

SLACK = 0.05


def grid(width: int, height: int) -> list[tuple[int, int]]:
    """The edges of a grid, whose vertices are 0, 3, 6, ..."""
    ids = 3 * np.arange(width * height).reshape(height, width)
    right = np.stack([ids[:, :-1].ravel(), ids[:, 1:].ravel()], 1)
    down = np.stack([ids[:-1].ravel(), ids[1:].ravel()], 1)
    return [tuple(e) for e in np.concatenate([right, down]).tolist()]


def structure(edges: list[tuple[int, int]]) -> Structure:
    joined = {(a, b) for a, b in edges if a != b} | {(b, a) for a, b in edges if a != b}
    pairs = np.array(sorted(joined), np.int64).reshape(-1, 2)
    ids = np.unique(np.array(edges, np.int64))
    start = np.searchsorted(pairs[:, 0], np.append(ids, ids[-1] + 1))
    target = np.searchsorted(ids, pairs[:, 1])
    return Structure(ids, start.astype(np.int64), target.astype(np.int32))


def cut(graph: Structure, partition: Any) -> float:
    source = np.repeat(np.arange(graph.n), np.diff(graph.start))
    return float((partition[source] != partition[graph.target]).mean())


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_a_table_says_where_and_the_rest_goes_by_the_hash(data: st.DataObject) -> None:
    wide = st.integers(-(2**63), 2**63 - 1)
    ids = data.draw(st.dictionaries(st.one_of(st.integers(0, 99), wide), st.integers(0, 6)))
    asked = np.array(data.draw(st.lists(st.one_of(st.integers(0, 99), wide))), np.int64)
    placed = Placement.of_table(np.array([*ids], np.int64), np.array([*ids.values()], np.int32), 7)
    hashed = hash_partition(asked, 7).tolist()
    want = [ids.get(i, h) for i, h in zip(asked.tolist(), hashed, strict=True)]
    assert placed.of(asked).tolist() == want
    assert pickle.loads(pickle.dumps(placed)).of(asked).tolist() == want


@pytest.mark.parametrize("partitions", [1, 2, 7, 1000, KEY_GROUPS])
def test_a_partition_owns_a_range_of_key_groups(partitions: int) -> None:
    ids = np.arange(100_000) - 50_000
    names = [f"v{k}" for k in range(20_000)]
    for groups, owners in (
        (key_groups(ids), Placement(partitions).of(ids)),
        (key_groups(ids), np.array(places(ids.tolist(), partitions))),
        (name_groups(*pack_strings(names)), np.array(places(names, partitions))),
    ):
        cuts = [-(-KEY_GROUPS * p // partitions) for p in range(partitions + 1)]
        assert (np.searchsorted(cuts, groups, "right") - 1 == owners).all()


def test_more_partitions_than_key_groups_are_refused() -> None:
    with pytest.raises(InputError, match="partitions is 4097; it must be from 1 to 4,096, the num"):
        Graph.from_arrays([1], [2], partitions=KEY_GROUPS + 1)


@pytest.mark.parametrize(("rule", "factor"), [(ldg, 3), (fennel, 8)])
@pytest.mark.parametrize("partitions", [2, 7])
def test_a_grid_is_cut_far_less_than_by_the_hash(rule: Any, factor: int, partitions: int) -> None:
    graph = structure(grid(120, 90))
    found = rule(graph, partitions, SLACK)
    assert cut(graph, found) * factor < cut(graph, hash_partition(graph.ids, partitions))
    share = graph.weight.sum() / partitions
    assert graph.load(found, partitions).max() <= (1 + SLACK) * share


@given(
    edges=st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), min_size=1, max_size=200),
    partitions=st.integers(1, 9),
    slack=st.sampled_from([0.0, 0.05, 1.0]),
)
@settings(max_examples=80, deadline=None)
def test_every_vertex_is_placed_within_the_slack(
    edges: list[tuple[int, int]], partitions: int, slack: float
) -> None:
    graph = structure(edges)
    share = graph.weight.sum() / partitions
    most = max((1 + slack) * share, share + graph.weight.max())  # or over it by one vertex
    assert sorted(graph.order().tolist()) == list(range(graph.n))
    for rule in (ldg, fennel):
        found = rule(graph, partitions, slack)
        assert found.dtype == np.int32
        assert found.min() >= 0
        assert found.max() < partitions
        assert graph.load(found, partitions).max() <= most


def test_vertices_come_breadth_first_from_the_rim() -> None:
    path = structure([(k, k + 1) for k in range(9)] + [(20, 21)])
    order = path.ids[path.order()].tolist()
    assert order == [21, 20, *range(9, -1, -1)]
    assert ldg(path, 3, 0.2).max() == 2


def test_metis_is_given_the_graph_and_the_slack(monkeypatch: pytest.MonkeyPatch) -> None:
    graph, seen = structure(grid(4, 3)), {}
    fake = types.ModuleType("pymetis")

    def part_graph(partitions: int, **given: Any) -> tuple[int, list[int]]:
        seen.update(given, partitions=partitions)
        return 0, [k % partitions for k in range(len(given["xadj"]) - 1)]

    fake.part_graph, fake.Options = part_graph, lambda **o: o  # type: ignore[attr-defined]
    fake.__spec__ = ModuleSpec("pymetis", None)
    monkeypatch.setitem(sys.modules, "pymetis", fake)
    assert by_metis.metis(graph, 3, SLACK).tolist() == [k % 3 for k in range(12)]
    assert seen["options"] == {"ufactor": 50}
    assert seen["vweights"].tolist() == graph.weight.tolist()
    assert Partitioner.of("metis", SLACK).name == "metis"
    monkeypatch.setitem(sys.modules, "pymetis", None)
    with pytest.raises(InputError, match=r"METIS is not installed: pip install 'vertexsdk"):
        Partitioner.of("metis", SLACK)


EDGES = [(a, b, 1.0 + (a * 7 + b) % 5) for a, b in [*grid(9, 8), (300, 303), (0, 213), (213, 6)]]
PROGRAMS: dict[str, tuple[Any, dict[str, Any]]] = {
    "sssp": (ShortestPaths, {"origin": 0}),
    "wcc": (ConnectedComponents, {}),
    "pagerank": (PageRank, {"iterations": 12}),
    "kcore": (Coreness, {}),
}


@pytest.mark.sample(5)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("compiled", [False, True])
def test_answers_are_the_same_wherever_vertices_are(name: str, compiled: bool) -> None:
    program, params = PROGRAMS[name]
    runs = InProcess(Program(program), EDGES)
    graph = structure([(a, b) for a, b, _ in EDGES])
    want, _, iterations = runs.run(params, partitions=1, compiled=compiled)
    for partitions in (2, 7):
        for rule in (ldg, fennel):
            found = rule(graph, partitions, SLACK)
            placement = Placement.of_table(graph.ids, found, partitions)
            some = Placement.of_table(graph.ids[::2], found[::2], partitions)
            for where in (placement, some):
                got = runs.run(params, partitions=partitions, placement=where, compiled=compiled)
                assert got[0].keys() == want.keys()
                assert 0 <= got[2] - iterations <= 1  # a last one takes in what was sent
                for v, row in want.items():
                    for field, x in row.items():
                        assert math.isclose(got[0][v][field], x, rel_tol=1e-12), (v, field)


BAD: dict[str, tuple[Any, str]] = {
    "a name": ("louvain", "no partitioner 'louvain'; there are: hash, ldg, fennel, metis"),
    "a shape": (np.zeros((3, 3), int), r"shape \(n, 2\), not \(3, 3\)"),
    "lengths": (([1, 2], [0]), "each id needs a partition"),
    "a fraction": ({1: 0.5}, "partitions are integers from 0 on"),
    "twice": (([1, 2, 1], [0, 1, 1]), "vertex 1 is placed twice"),
    "a partition": ({3: 0, 6: 2}, "vertex 6 is placed in partition 2; with 2 partitions"),
    "a string": ({"a": 0}, "ids are integers; give the table integer ids"),
}


@pytest.mark.parametrize("bad", BAD)
def test_bad_tables_are_refused_in_one_line(spark: SparkSession, bad: str) -> None:
    partitioner, said = BAD[bad]
    with pytest.raises(InputError, match=said) as raised:
        Graph.from_arrays(
            [0, 3], [3, 6], spark=spark, partitions=2, partitioner=partitioner
        ).materialise()
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("partitioner", "said"), [
    ((["a", "b", "a"], [0, 1, 1]), "vertex a is placed twice"),
    ({"b": 0, "c": 2}, "vertex c is placed in partition 2"),
])  # fmt: skip
def test_a_bad_table_of_names_is_refused_by_name(partitioner: Any, said: str) -> None:
    graph = Graph.from_arrays(["a", "b"], ["b", "c"], partitions=2, partitioner=partitioner)
    with pytest.raises(InputError, match=said):
        graph.materialise()


class Silent(Vertex):
    """Has no messages."""

    heard: int = state(0)

    def gather(self, iteration: Any, source: Any, delta: Any) -> None:
        self.heard += 1

    def scatter(self, iteration: Any) -> None:
        pass


def by_thirds(graph: Structure, partitions: int) -> Any:
    return np.arange(graph.n) * partitions // graph.n


def too_short(graph: Structure, partitions: int) -> Any:
    return np.zeros(graph.n - 1, int)


def test_on_spark(spark: SparkSession, tmp_path: Path) -> None:
    edges = grid(40, 30)
    path = tmp_path / "grid.txt"
    path.write_text("".join(f"{a} {b}\n" for a, b in edges))
    backend, answers, infos = f"lmdb://{tmp_path}/state", [], {}
    pairs = spark.createDataFrame([(0, 2), (3, 1)], "id long, partition int")
    for how in ("hash", "fennel", by_thirds, pairs):
        graph = Graph.read(
            spark, str(path), undirected=True, partitions=3, partitioner=how, slack=SLACK
        )
        if how is by_thirds:
            assert graph.materialise().sizes[0][0] == 400
            graph.unpersist()
            continue
        result = run(ShortestPaths, graph, params={"origin": 0}, backend=backend)
        name = result.statistics["partitioner"]
        infos[name] = info = graph.materialise()
        answers.append({i: row["length"] for i, row in result.rows()})
        assert result.lookup([0, 87])[87] == {"length": answers[-1][87]}
        assert result.statistics["boundary_share"] == info.boundary_share
        assert result.statistics["cut"] == info.cut
        if how is pairs:
            assert (graph.topology(("out", None, "combined"), 2).ids == 0).any()
        graph.unpersist()
    assert all(a == answers[0] for a in answers)
    assert answers[0][87] == 29
    assert infos["fennel"].cut * 5 < infos["hash"].cut
    assert infos["fennel"].boundary_share < infos["hash"].boundary_share / 5
    assert infos["fennel"].imbalance <= 1 + SLACK
    with pytest.raises(InputError, match="must return an integer for each of 1200 vertices"):
        Graph.read(spark, str(path), partitions=2, partitioner=too_short).materialise()
    with pytest.raises(InputError, match=r"partitioner ldg: .* main loop places vertices by hash"):
        MainLoop(
            Silent, Graph.read(spark, str(path), partitions=2, partitioner="ldg"), backend=backend
        )


@pytest.mark.parametrize("ids", ["int", "str"])
def test_a_main_loop_keeps_vertices_where_they_were_put(spark: SparkSession, ids: str) -> None:
    names: list[Any] = [v if ids == "int" else f"v{v:03}" for v in range(40)]
    source, target = names[:20], [*names[1:20], names[0]]
    where = {names[v]: v // 10 for v in range(20)}
    far = names[30] if ids == "int" else "a"  # codes of the other strings become others
    answers = []
    for how in ("hash", where):
        graph = Graph.from_arrays(source, target, spark=spark, partitions=2, partitioner=how)
        backend = f"memory://main-{ids}-{how == 'hash'}"
        given = {"origin": names[0]}
        with MainLoop(BreadthFirstSearch, graph, params=given, backend=backend) as main:
            first = main.query()
            main.ingest([("+", names[3], far), ("+", far, names[9]), ("-", names[12], names[13])])
            second = main.query()
            answers.append([dict(r.rows()) for r in (first, second)])
            cut = second.statistics["cut"]
        assert cut > 0.3 if how == "hash" else cut < 0.25
    assert answers[0] == answers[1]
    assert answers[0][1][names[9]] != answers[0][0][names[9]]


def test_string_ids_on_spark(spark: SparkSession) -> None:
    ends = ["abcdef"[k] for k in range(6)]
    table = {"a": 1, "b": 1, "f": 0, "nobody": 0}
    for how in (table, "fennel"):
        graph = Graph.from_arrays(
            ends, ends[1:] + ends[:1], spark=spark, partitions=2, partitioner=how
        )
        info = graph.materialise()
        assert info.num_vertices == 6
        if how is table:
            assert {0, 1} <= set(graph.topology(info.variant, 1).ids.tolist())
            assert 5 in graph.topology(info.variant, 0).ids
        graph.unpersist()
