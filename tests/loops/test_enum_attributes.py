"""Edge attributes that are IntEnums: names or numbers in what is read, members in methods."""

from __future__ import annotations

import enum
import heapq
import random
from contextlib import closing
from typing import Any

import networkx as nx
import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import vertexsdk
from tests.support.attributes import by_vertex, place_of
from tests.support.attributes import vertex_id as name
from tests.support.seeds import seed
from vertexsdk import (
    Graph,
    MainLoop,
    MainLoops,
    Min,
    ProgramError,
    Vertex,
    VertexId,
    inf,
    param,
    state,
)
from vertexsdk.errors import InputError
from vertexsdk.graph.topology.edge_attributes import pack_rows, require_values
from vertexsdk.state.errors import CorruptError


class Relation(enum.IntEnum):
    """The first member is neither the least number nor 1, and no member is 0."""

    FRIEND = 3
    COLLEAGUE = 1
    BLOCKED = -2
    MATE = 3  # another name of FRIEND


NAMES = ["FRIEND", "COLLEAGUE", "BLOCKED"]
CHOICES = r"FRIEND \(3\), COLLEAGUE \(1\), BLOCKED \(-2\), MATE \(3\)"
COSTS = (0.0, 2.0, 0.0, 1.0)
BEST = Relation.FRIEND
KNOWN = (Relation.FRIEND, Relation.COLLEAGUE)


def cost(relation):
    return 1.0 if relation == Relation.MATE else 2.0


class Alone(Vertex):
    """Least cost from `origin`: 1 along friends, 2 along colleagues, others not at all."""

    origin: VertexId = param()
    far: float = state(inf)
    messages = Min(float)
    edge = {"relation": Relation}  # noqa: RUF012

    def init(self):
        self.far = 0.0 if self.id == self.origin else inf

    def gather(self, iteration, source, delta):
        self.far = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        for target in self.targets:
            if target.relation == Relation.FRIEND:
                self.emit(target, self.far + 1.0)
            elif target.relation is Relation.COLLEAGUE:
                self.emit(target, self.far + Relation.COLLEAGUE.value * 2.0)


class Beside(Alone):
    """The same, by other means, and times the length."""

    edge = {"length": float, "relation": Relation, "lanes": int}  # noqa: RUF012

    def scatter(self, iteration):
        for target in self.targets:
            if target.relation in KNOWN and target.relation != Relation.BLOCKED:
                x = cost(target.relation) if target.relation == BEST else COSTS[target.relation]
                self.emit(target, self.far + x * target.length)


Edges = dict[tuple[int, int], tuple[str, float]]  # relation, length


def least(edges: Edges, program: type[Vertex], origin: int = 0) -> dict[int, float]:
    """Dijkstra."""
    best = dict.fromkeys((v for e in edges for v in e), inf) | {origin: 0.0}
    queue = [(0.0, origin)]
    while queue:
        far, v = heapq.heappop(queue)
        for (a, b), (relation, length) in edges.items():
            times = length if program is Beside else 1.0
            there = far + {"FRIEND": 1.0, "COLLEAGUE": 2.0, "BLOCKED": inf}[relation] * times
            if a == v and there < best[b]:
                best[b] = there
                heapq.heappush(queue, (there, b))
    return best


def drawn_edges(rng: random.Random, n: int = 20, m: int = 50) -> Edges:
    return {(rng.randrange(n), rng.randrange(n)): drawn(rng) for _ in range(m)}


def drawn(rng: random.Random) -> tuple[str, float]:
    return rng.choice(NAMES), rng.choice([0.5, 1.0, 2.0])


def written(rng: random.Random, relation: str) -> Any:
    """A member as users give it."""
    member = Relation[relation]
    forms = [relation, member, int(member), float(member), np.int32(member), str(int(member))]
    return rng.choice([*forms, "MATE"] if relation == "FRIEND" else forms)


COLUMNS = {
    "names": lambda names: names,
    "members": lambda names: [None if n is None else Relation[n] for n in names],
    "numbers": lambda names: pa.array([None if n is None else int(Relation[n]) for n in names]),
    "floats": lambda names: pa.array([None if n is None else float(Relation[n]) for n in names]),
    "texts": lambda names: [None if n is None else str(int(Relation[n])) for n in names],
    "categories": lambda names: pd.Series(names, dtype=pd.CategoricalDtype([*NAMES, "unused"])),
    "dictionary": lambda names: pa.array(names).dictionary_encode(),
}


def check(main: Any, edges: Edges, ids: str, program: type[Vertex]) -> None:
    result = main.result() if hasattr(main, "result") else main.query()
    with closing(result):
        wanted = {name(ids, v): x for v, x in least(edges, program).items()}
        assert by_vertex(result, "far") == wanted


CASES = [
    ("local-1", "int", "require", Alone, "names"),
    ("local-2", "string", False, Beside, "categories"),
    ("local-7", "string", "require", Beside, "numbers"),
    ("local-2", "int", "require", Beside, "members"),
    ("local-7", "int", False, Alone, "dictionary"),
    ("spark-2", "string", "require", Beside, "names"),
]


@pytest.mark.parametrize(
    ("where", "ids", "compiled", "program", "column"), CASES, indirect=["where"]
)
@pytest.mark.sample(3)
def test_changes_forks_and_resumed_loops(where, tmp_path, ids, compiled, program, column):
    spark, partitions = where
    rng = random.Random(seed())
    edges = drawn_edges(rng)
    ends = [[name(ids, e[k]) for e in edges] for k in (0, 1)]
    relations = COLUMNS[column]([r for r, _ in edges.values()])
    lengths = [x for _, x in edges.values()]
    columns = {"relation": relations, "length": lengths, "lanes": [1] * len(lengths)}
    options: dict[str, Any] = {"backend": f"lmdb://{tmp_path}/state", "loop": "far"}
    options["compiled"] = compiled
    if spark is None:
        graph = Graph.from_arrays(*ends, columns, partitions=partitions)
    else:
        rows = [*zip(*ends, relations, lengths, columns["lanes"], strict=True)]
        frame = spark.createDataFrame(rows, ["source", "target", *columns])
        graph = Graph.from_dataframe(frame, partitions=partitions)
    main = MainLoop(program, graph, params={"origin": name(ids, 0)}, **options)
    check(main, edges, ids, program)

    def change() -> tuple[Any, ...]:
        edge = rng.choice([rng.choice([*edges]), (rng.randrange(24), rng.randrange(24))])
        a, b = (name(ids, v) for v in edge)
        sign, (relation, length) = rng.choice("+++-~"), drawn(rng)
        if sign == "-":
            edges.pop(edge, None)
            return sign, a, b
        given = {"relation": written(rng, relation), "length": length}
        old = edges.get(edge, ("FRIEND", 1.0))  # of a new edge the first member
        if rng.random() < 0.3:
            given.pop("relation")
            relation = old[0]
        if program is Alone or rng.random() < 0.3:
            given.pop("length")
            length = old[1]
        if sign == "+" or edge in edges:
            edges[edge] = relation, length
        return sign, a, b, given

    for _ in range(2 if spark is None else 1):
        main.ingest([change() for _ in range(15)])
        check(main, edges, ids, program)
    main.close()
    main = MainLoop.resume(spark, program, **options)
    check(main, edges, ids, program)
    kept = dict(edges)
    with main.fork() as branch:
        branch.apply([change() for _ in range(10)])
        check(branch, edges, ids, program)
    check(main, kept, ids, program)
    main.close()


@pytest.fixture
def where(request) -> tuple[Any, int]:
    """A session or None, and a number of partitions."""
    return place_of(request)


@pytest.mark.parametrize(("ids", "compiled"), [("int", "require"), ("string", False)])
def test_edges_of_a_window(ids, compiled):
    rng = random.Random(seed())
    graph = Graph.empty(str if ids == "string" else int)
    options = {"params": {"origin": name(ids, 0)}, "compiled": compiled}
    main = MainLoop(Alone, graph, backend=f"memory://enum-window-{ids}", **options).window(20)
    when: dict[tuple[int, int], tuple[int, str]] = {}
    for begin in (0, 15, 30):
        changes, times = [], []
        for time in range(begin, begin + 15):
            edge, relation = (rng.randrange(6), rng.randrange(6)), rng.choice(NAMES)
            changes.append(("+", *(name(ids, v) for v in edge), {"relation": relation}))
            times.append(time)
            when[edge] = time, relation
        main.ingest(changes, time=times)
        edges = {e: (r, 1.0) for e, (t, r) in when.items() if t > begin + 14 - 20}
        with closing(main.query()) as result:
            answer = by_vertex(result, "far")
        wanted = {name(ids, v): x for v, x in least(edges, Alone).items()}
        assert {v: x for v, x in answer.items() if x < inf} == {
            v: x for v, x in wanted.items() if x < inf and v in answer
        }
    main.close()


# Where they come from. -----------------------------------------------------------------------

GIVEN: list[str | None] = ["COLLEAGUE", None, "BLOCKED", "FRIEND"]
FAR = {0: 0.0, 1: 2.0, 2: 3.0, 3: inf, 4: 4.0}
SOURCE, TARGET = [0, 1, 2, 2], [1, 2, 3, 4]


def far(graph: Graph, program: type[Vertex] = Alone, **options: Any) -> dict[Any, float]:
    options = {"params": {"origin": 0}, "backend": "memory://enums", **options}
    with closing(vertexsdk.run(program, graph, **options)) as result:
        return by_vertex(result, "far")


def arrow(column: str) -> pa.Table:
    return pa.table({"source": SOURCE, "target": TARGET, "relation": COLUMNS[column](GIVEN)})


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.sample(3)
def test_columns_of_tables(tmp_path, column):
    table = arrow(column)
    assert far(Graph.from_arrays(SOURCE, TARGET, {"relation": COLUMNS[column](GIVEN)})) == FAR
    assert far(Graph.from_dataframe(table)) == FAR
    assert far(Graph.from_dataframe(table.to_pandas())) == FAR
    pq.write_table(table, f"{tmp_path}/edges.parquet")
    assert far(Graph.read(None, f"{tmp_path}/edges.parquet")) == FAR


CSV = "source,target,relation\n0,1,COLLEAGUE\n1,2,\n2,3, BLOCKED\n2,4,3\n"


def test_cells_of_csv_and_edge_data_of_networkx(tmp_path):
    (tmp_path / "edges.csv").write_text(CSV)
    graph = Graph.read(None, f"{tmp_path}/edges.csv")
    assert far(graph) == FAR
    assert far(graph.where(pc.field("relation") == "COLLEAGUE")) == {0: 0.0, 1: 2.0}
    made = nx.DiGraph()
    for a, b, relation in zip(SOURCE, TARGET, GIVEN, strict=True):
        made.add_edge(a, b, **({} if relation is None else {"relation": relation}))
    assert far(Graph.from_networkx(made, weight=["relation"])) == FAR


def test_what_spark_reads(spark, tmp_path):
    (tmp_path / "edges.csv").write_text(CSV)
    pq.write_table(arrow("names"), f"{tmp_path}/edges.parquet")
    for kind in ("csv", "parquet"):
        assert far(Graph.read(spark, f"{tmp_path}/edges.{kind}")) == FAR
    rows = [*zip(SOURCE, TARGET, ["COLLEAGUE", None, "FOE", "FRIEND"], strict=True)]
    frame = spark.createDataFrame(rows, ["source", "target", "relation"])
    with pytest.raises(InputError, match=rf"'FOE' of the edge 2 -> 3 is not one of {CHOICES}"):
        far(Graph.from_dataframe(frame))


CHANGES = """\
+ 0 1 relation=COLLEAGUE
+ 1 2
+ 2 3 relation=FOE
+ 2 3 relation=-2
+ 2 4 relation=0
~ 2 4 relation=friend
+ 2 4 relation=3
"""


@pytest.mark.parametrize("compiled", ["require", False])
def test_lines_of_change_files(tmp_path, compiled):
    (tmp_path / "changes.txt").write_text(CHANGES)
    cells = CHANGES.replace(" relation=", ",").replace(" ", ",").replace("1,2\n", "1,2,\n")
    (tmp_path / "changes.csv").write_text("kind,source,target,relation\n" + cells)
    options = {"params": {"origin": 0}, "backend": "memory://enum-files", "compiled": compiled}
    for kind in ("txt", "csv"):
        with MainLoop(Alone, Graph.empty(int), loop=kind, replace=True, **options) as main:
            stream = main.start(f"{tmp_path}/changes.{kind}", follow=False)
            stream.awaitTermination()
            assert by_vertex(main.query(), "far") == FAR
            assert stream.progress().bad_lines == 3


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.sample(3)
def test_tables_of_changes(column):
    table = arrow(column).append_column("kind", pa.array(["+"] * 4))
    options = {"params": {"origin": 0}, "backend": "memory://enum-tables", "replace": True}
    for changes in (table, table.to_pandas()):
        with MainLoop(Alone, Graph.empty(int), **options) as main:
            main.ingest(changes)
            assert by_vertex(main.query(), "far") == FAR
            wrong = pa.table({"kind": ["+"] * 2, "source": [0, 1], "target": [1, 2],
                              "relation": ["FRIEND", "FOE"]})  # fmt: skip
            with pytest.raises(InputError, match=f"row 2: relation 'FOE' is not one of {CHOICES}"):
                main.ingest(wrong)


# What is refused. ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("relations", "first"),
    [
        (["FRIEND", "FOE", "ENEMY"], r"'FOE' of the edge 1 -> 2"),
        ([3, 1, 0], r"0 of the edge 2 -> 3"),
        ([3.0, 1.5, 1.0], r"1\.5 of the edge 1 -> 2"),
        ([3.0, float("nan"), 1.0], r"nan of the edge 1 -> 2"),
        ([True, True, True], r"True of the edge 0 -> 1"),
        (["friend", "FRIEND", "FRIEND"], r"'friend' of the edge 0 -> 1"),
        (["FRIEND ", "FRIEND", "FRIEND"], r"'FRIEND ' of the edge 0 -> 1"),
        (["9" * 30, "FRIEND", "FRIEND"], r"'9+' of the edge 0 -> 1"),
        ([[3], [1], [1]], r"\[3\] of the edge 0 -> 1"),
    ],
)
def test_columns_with_what_is_not_a_member(relations, first):
    graph = Graph.from_arrays([0, 1, 2], [1, 2, 3], {"relation": pa.array(relations)})
    with pytest.raises(InputError, match=rf"relation: {first} is not one of {CHOICES}$"):
        far(graph)


def test_what_is_not_a_member_in_files(tmp_path):
    (tmp_path / "edges.csv").write_text(CSV + "5,6,FOE\n")
    with pytest.raises(InputError, match=rf"line 6, .*: 'FOE' of the edge .* of {CHOICES}"):
        far(Graph.read(None, f"{tmp_path}/edges.csv"))
    binary = pa.array([b"FRIEND", b"\xff", b"FRIEND", b"FRIEND"])
    text = pa.Array.from_buffers(pa.string(), 4, binary.buffers())
    table = arrow("names").set_column(2, "relation", text)
    pq.write_table(table, f"{tmp_path}/edges.parquet")
    with pytest.raises(InputError, match=rf"of the edge 1 -> 2 is not one of {CHOICES}"):
        far(Graph.read(None, f"{tmp_path}/edges.parquet"))


@pytest.mark.parametrize("x", ["FOE", 0, True, 1.5, float("nan"), [3], 2**70, "friend"])
def test_changes_with_what_is_not_a_member(x):
    graph = Graph.from_arrays([0], [1], {"relation": ["FRIEND"]})
    options = {"params": {"origin": 0}, "backend": "memory://enum-changes", "replace": True}
    with MainLoop(Alone, graph, **options) as main:
        with pytest.raises(InputError, match=f"relation of change 2: give one of {CHOICES}"):
            main.ingest([("+", 1, 2), ("+", 0, 1, {"relation": x})])
        with pytest.raises(InputError, match=r"as a dict|a dict of them"):
            main.ingest([("+", 0, 1, x)] if not isinstance(x, list) else [("+", 0, 1, 3)])


def test_a_resumed_loop_whose_enum_is_another():
    graph = Graph.from_arrays([0], [1], {"relation": ["FRIEND"]})
    options: dict[str, Any] = {"backend": "memory://enum-resume", "loop": "far"}
    MainLoop(Alone, graph, params={"origin": 0}, **options, replace=True).close()
    others = [
        {"FRIEND": 3, "COLLEAGUE": 1, "BLOCKED": -2},
        {"FRIEND": 3, "COLLEAGUE": 2, "BLOCKED": -2, "MATE": 3},
        {"FRIEND": 3, "COLLEAGUE": 1, "HIDDEN": -2, "MATE": 3},
        {"COLLEAGUE": 1, "FRIEND": 3, "BLOCKED": -2, "MATE": 3},
    ]
    for members in others:
        other = type("Alone", (Alone,), {"edge": {"relation": enum.IntEnum("Relation", members)}})
        message = r"^alone reads relation=int64{.*} edge values, and loop 'far' keeps relation=int"
        with pytest.raises(InputError, match=message):
            MainLoop.resume(None, other, **options)
    same = type("Alone", (Alone,), {"edge": {"relation": enum.IntEnum("R", {"FRIEND": 3,
                "COLLEAGUE": 1, "BLOCKED": -2, "MATE": 3})}})  # fmt: skip
    MainLoop.resume(None, same, **options).close()


def test_programs_of_one_log_have_the_same_members():
    other = enum.IntEnum("Relation", {"FRIEND": 0})
    another = type("Another", (Alone,), {"edge": {"relation": other}})
    with pytest.raises(InputError, match=r"alone reads edges as relation=int64{FRIEND:3.*{FRIE"):
        MainLoops([Alone, another], Graph.empty(int), params={"alone": {"origin": 0},
                  "another": {"origin": 0}}, backend="memory://enum-two")  # fmt: skip


def test_what_a_class_may_not_declare():
    for members in ({}, {"A": 2**63}, {"A": -(2**63)}, {"a b": 1}):
        kind = enum.IntEnum("Kind", members)
        with pytest.raises(ProgramError, match="the IntEnum needs members whose names"):
            type("Wrong", (Alone,), {"edge": {"relation": kind}})
    plain = enum.Enum("Plain", ["A"])
    with pytest.raises(ProgramError, match="an attribute is int or float, or an IntEnum"):
        type("Wrong", (Alone,), {"edge": {"relation": plain}})
    for kind in (plain, Relation):
        with pytest.raises(ProgramError, match=r"name the attribute, as in edge = {.relation.: "):
            type("Wrong", (Alone,), {"edge": kind})


def test_stored_numbers_are_those_of_members():
    value = "length=float64,relation=int64{A:0;B:7}"
    bits = pack_rows([(1.0, "A"), {"relation": "B"}, None], value)
    require_values(bits, value)
    bits[1, 1] = 5
    with pytest.raises(CorruptError, match=r"a stored relation is 5, .* A \(0\), B \(7\)"):
        require_values(bits, value)


def test_estimates_of_a_program_with_members():
    class Knows(Alone):
        edge = {"relation": enum.IntEnum("Knows", {"WELL": 5})}  # noqa: RUF012

    graph = Graph.from_arrays([0, 1], [1, 2], {"relation": [5, 5]})
    assert graph.estimate(Knows, params={"origin": 0}).edges == 2


class Named(Alone):
    """Interpreted methods have the members."""

    def scatter(self, iteration):
        for target in self.targets:
            if target.relation.name == "FRIEND" and isinstance(target.relation, Relation):
                self.emit(target, self.far + target.relation)


def test_interpreted_methods_have_members():
    graph = Graph.from_arrays([0, 1], [1, 2], {"relation": ["FRIEND", "BLOCKED"]})
    options = {"params": {"origin": 0}, "backend": "memory://enum-named", "compiled": False}
    with closing(vertexsdk.run(Named, graph, **options)) as result:
        assert by_vertex(result, "far") == {0: 0.0, 1: 3.0, 2: inf}


class Counts(Alone):
    """A method that takes the enum itself."""

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.far + len(Relation))


def test_only_members_compile():
    graph = Graph.from_arrays([0], [1], {"relation": ["FRIEND"]})
    with pytest.raises(ProgramError, match=r"of Relation only its members compile, as Relation\.N"):
        far(graph, compiled="require", backend="memory://enum-counts", program=Counts)
