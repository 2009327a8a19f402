"""Several typed attributes per edge: loaded, read by methods, changed, logged and stored."""

from __future__ import annotations

import heapq
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import networkx as nx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import vertexsdk
from tests.support.attributes import by_vertex, place_of
from tests.support.attributes import vertex_id as name
from vertexsdk import Graph, MainLoop, Min, ProgramError, Vertex, VertexId, inf, param, state
from vertexsdk.errors import InputError

NAMES = ("length", "lanes", "speed")
Edges = dict[tuple[int, int], tuple[float, int, float]]


class Fastest(Vertex):
    """Least time from `origin` along edges with two lanes or more."""

    origin: VertexId = param()
    time: float = state(inf)
    messages = Min(float)
    edge = {"length": float, "lanes": int, "speed": float}  # noqa: RUF012

    def init(self):
        self.time = 0.0 if self.id == self.origin else inf

    def gather(self, iteration, source, delta):
        self.time = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        for target in self.targets:
            if target.lanes // 2 > 0:
                self.emit(target, self.time + target.length / target.speed)


class Derived(Fastest):
    """The same; messages follow from state and edge alone."""

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.time + target.length / target.speed * (1 << 5 * target.lanes))


class Shortest(Fastest):
    """Least length from `origin`; a single attribute."""

    edge = {"length": float}  # noqa: RUF012

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.time + target.length)


PROGRAMS = [Fastest, Derived, Shortest]


def fastest(edges: Edges, program: type[Vertex], origin: int = 0) -> dict[int, float]:
    """Dijkstra."""
    rows: dict[int, list[tuple[int, float]]] = {origin: []}
    for (a, b), (length, lanes, speed) in edges.items():
        rows.setdefault(a, [])
        rows.setdefault(b, [])
        if program is Derived:
            rows[a].append((b, length / speed * (1 << 5 * lanes)))
        elif program is Shortest:
            rows[a].append((b, length))
        elif lanes >= 2:
            rows[a].append((b, length / speed))
    best, queue = dict.fromkeys(rows, inf), [(0.0, origin)]
    best[origin] = 0.0
    while queue:
        time, v = heapq.heappop(queue)
        for w, x in rows[v]:
            if time + x < best[w]:
                best[w] = time + x
                heapq.heappush(queue, (best[w], w))
    return best


def random_edges(seed: int, n: int = 40, m: int = 150) -> Edges:
    rng = random.Random(seed)
    return {(rng.randrange(n), rng.randrange(n)): random_values(rng) for _ in range(m)}


def random_values(rng: random.Random) -> tuple[float, int, float]:
    return rng.random(), rng.randrange(0, 4), rng.choice([0.5, 1.0, 2.0])


def table(edges: Edges, ids: str = "int") -> dict[str, list[Any]]:
    ends = [[name(ids, e[k]) for e in edges] for k in range(2)]
    return {"source": ends[0], "target": ends[1]} | {
        n: [x[k] for x in edges.values()] for k, n in enumerate(NAMES)
    }


def graph_of(spark: Any, edges: Edges, ids: str, partitions: int) -> Graph:
    columns = table(edges, ids)
    if spark is None:
        ends = columns.pop("source"), columns.pop("target")
        return Graph.from_arrays(*ends, columns, partitions=partitions)
    frame = spark.createDataFrame([*zip(*columns.values(), strict=True)], [*columns])
    return Graph.from_dataframe(frame, partitions=partitions)


CASES = [  # independent axes in turn
    ("local-1", "int", "require"), ("local-2", "string", False), ("local-7", "string", "require"),
    ("local-7", "int", False), ("spark-2", "string", "require"),
]  # fmt: skip


@pytest.fixture
def where(request) -> tuple[Any, int]:
    """A session or None, and a number of partitions."""
    return place_of(request)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("where", "ids", "compiled"), CASES, indirect=["where"])
@pytest.mark.sample(6)
def test_a_run_reads_the_attributes_of_edges(where, tmp_path, program, ids, compiled):
    spark, partitions = where
    edges = random_edges(1)
    graph = graph_of(spark, edges, ids, partitions)
    params, backend = {"origin": name(ids, 0)}, f"lmdb://{tmp_path}/state"
    options = {"params": params, "backend": backend, "compiled": compiled}
    with closing(vertexsdk.run(program, graph, **options)) as result:
        wanted = {name(ids, v): x for v, x in fastest(edges, program).items()}
        assert by_vertex(result, "time") == pytest.approx(wanted)


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("where", "ids", "compiled"), CASES, indirect=["where"])
@pytest.mark.sample(2)
def test_changes_bring_attributes_and_keep_those_they_leave_out(
    where, tmp_path, program, ids, compiled
):
    spark, partitions = where
    rng, edges = random.Random(7), random_edges(2)
    backend = f"lmdb://{tmp_path}/state"
    graph = graph_of(spark, edges, ids, partitions)
    options = {"backend": backend, "loop": "fastest", "compiled": compiled}
    main = MainLoop(program, graph, params={"origin": name(ids, 0)}, **options)

    def check() -> None:
        with closing(main.query()) as result:
            wanted = {name(ids, v): x for v, x in fastest(edges, program).items()}
            assert by_vertex(result, "time") == pytest.approx(wanted)

    for step in range(3):
        changes = []
        for _ in range(20):
            edge = rng.choice([rng.choice([*edges]), (rng.randrange(45), rng.randrange(45))])
            given = dict(zip(NAMES, random_values(rng), strict=True))
            left_out = rng.sample(NAMES, rng.randrange(3))
            some = {n: given[n] for n in program.edge if n not in left_out}
            sign = rng.choice("+++-~")
            ends = name(ids, edge[0]), name(ids, edge[1])
            changes.append((sign, *ends) if sign == "-" else (sign, *ends, some))
            if sign == "-":
                edges.pop(edge, None)
            elif sign == "+" or edge in edges:
                old = dict(zip(NAMES, edges.get(edge, (1.0, 1, 1.0)), strict=True)) | some
                edges[edge] = (old["length"], old["lanes"], old["speed"])
        main.ingest(changes)
        check()
        if step == 1:
            main.close()  # with a log of two batches
            main = MainLoop.resume(spark, program, **options, snapshot_every=1)
            check()
    main.close()  # with a checkpoint
    main = MainLoop.resume(spark, program, **options)
    check()
    with main.fork() as branch:
        values = (0.25, 2, 1.0)[: len(program.edge)]
        branch.apply([("+", name(ids, 0), name(ids, 30), values)])
        edges[0, 30] = (0.25, 2, 1.0)
        with closing(branch.result()) as result:
            wanted = {name(ids, v): x for v, x in fastest(edges, program).items()}
            assert by_vertex(result, "time") == pytest.approx(wanted)
    main.close()


def test_both_directions_of_an_undirected_edge_have_its_attributes(tmp_path):
    edges = {(0, 1): (2.0, 2, 1.0), (2, 1): (3.0, 2, 2.0)}
    columns = table(edges)
    graph = Graph.from_arrays(
        columns.pop("source"), columns.pop("target"), columns, undirected=True, partitions=2
    )
    backend = f"lmdb://{tmp_path}/state"
    with MainLoop(Fastest, graph, params={"origin": 0}, backend=backend) as main:
        assert by_vertex(main.query(), "time") == {0: 0.0, 1: 2.0, 2: 3.5}
        assert main.ingest([("~", 1, 0, {"speed": 4.0}), ("~", 1, 2, {"speed": 2.0})]) == {
            "added": 0, "removed": 0, "changed": 1, "unchanged": 1, "absent": 0
        }  # fmt: skip
        assert by_vertex(main.query(), "time") == {0: 0.0, 1: 0.5, 2: 2.0}


# Where attributes come from. -----------------------------------------------------------------


@pytest.mark.parametrize("kind", ["csv", "parquet"])
@pytest.mark.parametrize("session", [None, "spark"])
@pytest.mark.parametrize("ids", ["int", "string"])
def test_files_with_columns(request, tmp_path, kind, session, ids):
    edges = random_edges(1)
    columns = table(edges, ids)
    path = f"{tmp_path}/edges.{kind}"
    if kind == "parquet":
        pq.write_table(pa.table(columns), path)
    else:
        rows = [[*columns], *zip(*columns.values(), strict=True)]
        Path(path).write_text("".join(",".join(map(str, r)) + "\n" for r in rows))
    spark = session and request.getfixturevalue(session)
    params = {"origin": name(ids, 0)}
    result = vertexsdk.run(Fastest, Graph.read(spark, path), params=params,
                           backend=f"lmdb://{tmp_path}/state")  # fmt: skip
    wanted = {name(ids, v): x for v, x in fastest(edges, Fastest).items()}
    assert by_vertex(result, "time") == pytest.approx(wanted)


CHANGES = """\
+ 0 1 length=4 lanes=3 speed=2
+ 1 2 lanes=2, speed=0.5
# length and lanes stay
~ 0 1 speed=4
+ 2 3 width=1
+ 2 3 lanes=1.5
- 7 8
+ 3 4 7
~ 1 2
"""


def test_lines_of_a_change_file(tmp_path):
    (tmp_path / "changes.txt").write_text(CHANGES)
    graph = Graph.from_arrays([7], [8], {n: [2] for n in NAMES})
    backend = f"lmdb://{tmp_path}/state"
    with MainLoop(Fastest, graph, params={"origin": 0}, backend=backend) as main:
        stream = main.start(str(tmp_path / "changes.txt"), follow=False)
        stream.awaitTermination()
        assert by_vertex(main.query(), "time") == {0: 0.0, 1: 1.0, 2: 3.0}
        assert main.counts == {
            "added": 2, "removed": 1, "changed": 1, "unchanged": 1, "absent": 0
        }  # fmt: skip
        assert stream.progress().bad_lines == 3


def test_a_table_of_changes(spark, tmp_path):
    graph = Graph.from_arrays([0], [1], {"length": [4.0], "lanes": [3], "speed": [2.0]})
    rows = [("~", 0, 1, 4.0, None), ("+", 1, 2, None, 2)]
    frame = spark.createDataFrame(
        rows, "kind string, source int, target int, speed double, lanes int"
    )
    backend = f"lmdb://{tmp_path}/state"
    with MainLoop(Fastest, graph, params={"origin": 0}, backend=backend) as main:
        main.ingest(frame)
        assert by_vertex(main.query(), "time") == {0: 0.0, 1: 1.0, 2: 2.0}


def test_edge_data_of_a_networkx_graph(tmp_path):
    graph = nx.DiGraph()
    graph.add_edge(0, 1, length=3.0, lanes=2, color="red")
    made = Graph.from_networkx(graph, weight=NAMES)  # an edge without a speed has 1
    backend = f"lmdb://{tmp_path}/state"
    with closing(vertexsdk.run(Fastest, made, params={"origin": 0}, backend=backend)) as result:
        assert by_vertex(result, "time") == {0: 0.0, 1: 3.0}


# What is refused. ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("+", 0, 1, {"width": 1}), r"width of change 1: edges have the attributes length, lanes"),
        (("+", 0, 1, {"lanes": 1.5}), r"1.5, lanes of change 1: give an int64 integer"),
        (("+", 0, 1, {"speed": float("nan")}), r"speed of change 1: give a number"),
        (("+", 0, 1, {"speed": "fast"}), r"'fast', speed of change 1: give a number"),
        (("+", 0, 1, (1.0, 2)), r"give a dict of them, or all in this order"),
        (("+", 0, 1, 7.0), r"single value 7.0; edges have the attributes length, lanes, speed"),
    ],
)
def test_changes_that_do_not_fit_are_refused(tmp_path, change, message):
    graph = Graph.from_arrays([0], [1], {n: [1] for n in NAMES})
    backend = f"lmdb://{tmp_path}/state"
    main = MainLoop(Fastest, graph, params={"origin": 0}, backend=backend)
    with main, pytest.raises(InputError, match=message):
        main.ingest([change])


def test_attributes_for_a_program_with_a_single_value_are_refused(tmp_path):
    from vertexsdk.algorithms import ShortestPaths

    main = MainLoop(ShortestPaths, Graph.from_arrays([0], [1]), params={"origin": 0},
                    backend=f"lmdb://{tmp_path}/state")  # fmt: skip
    with main, pytest.raises(InputError, match="reads one value per edge; give a number"):
        main.ingest([("+", 0, 1, {"length": 2})])


def test_edges_without_the_columns_are_refused(tmp_path):
    graph = Graph.from_arrays([0], [1], {"length": [1.0], "lanes": [2]})
    with pytest.raises(InputError, match=r"columns are .*lanes; the program reads speed too"):
        vertexsdk.run(Fastest, graph, params={"origin": 0}, backend=f"lmdb://{tmp_path}/s")
    (tmp_path / "edges.txt").write_text("0 1 5\n")
    with pytest.raises(InputError, match="reads the edge attributes length, lanes, speed, which"):
        vertexsdk.run(
            Fastest,
            Graph.read(None, f"{tmp_path}/edges.txt"),
            params={"origin": 0},
            backend=f"lmdb://{tmp_path}/s",
        )
    graph = Graph.from_arrays([0], [1], {"length": [1.0], "lanes": [2.5], "speed": [1]})
    with pytest.raises(InputError, match="column lanes: a value is not an int64 integer"):
        vertexsdk.run(Fastest, graph, params={"origin": 0}, backend=f"lmdb://{tmp_path}/s")


def test_what_a_class_may_not_declare():
    with pytest.raises(ProgramError, match=r"edge = {'value': float}: an attribute is"):
        type("Named", (Fastest,), {"edge": {"value": float}})
    with pytest.raises(ProgramError, match=r"edge = {'name': str}: an attribute is int or float"):
        type("Typed", (Fastest,), {"edge": {"name": str}})
    with pytest.raises(ProgramError, match="several edge attributes need declared messages"):

        class Events(Vertex):
            seen: int = state(0)
            edge = {"length": float}  # noqa: RUF012

            def scatter(self, iteration):
                pass


def test_attributes_need_a_class_whose_source_can_be_read() -> None:
    source = """
from vertexsdk import Min, Vertex, state

class Typed(Vertex):
    far: float = state(0.0)
    messages = Min(float)
    edge = {"length": float, "lanes": int}

    def gather(self, iteration, source, delta):
        pass

    def scatter(self, iteration):
        pass
"""
    with pytest.raises(ProgramError, match="the source of gather cannot be read: define the cl"):
        exec(source, {"__name__": "typed"})
