"""Programs with `weight="value"`: runs and main loops against NetworkX, and what is refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import networkx as nx
import pytest

from tests.support.random_changes import Edges, key_of, random_rows
from tests.support.seeds import draws, seed
from vertexsdk import (
    Graph,
    InputError,
    MainLoop,
    MainLoops,
    Min,
    Program,
    ProgramError,
    Vertex,
    VertexError,
    explain,
    inf,
    param,
    run,
    state,
)  # fmt: skip
from vertexsdk.algorithms import ALGORITHMS, PageRank
from vertexsdk.cli import main as command_line
from vertexsdk.testing.oracles import expected, graph_of, near

WEIGHT = {"weight": "value"}
ROUNDS = {"rounds": 30_000}  # two eigenvalues of a graph that is drawn may be nearly the same
PROGRAMS: dict[str, dict[str, Any]] = {
    "pagerank": {},
    "ppr": {},
    "hits": ROUNDS,
    "eigenvector": ROUNDS,
    "katz": {"alpha": 0.004},
}
TOLERANCE = dict.fromkeys(PROGRAMS, 1e-8) | {"hits": 1e-5, "eigenvector": 1e-5}
URL = "memory://weights"


class Case:
    """A graph with values, in which a cycle joins all vertices, and how to run programs on it."""

    def __init__(self, rng: random.Random, name: str) -> None:
        self.rng, self.name = rng, name
        self.undirected = rng.random() < 0.5
        n = rng.choice([5, 9, 14])
        self.ids: list[Any] = rng.choice([[*range(n)], [f"v{v:02}" for v in range(n)]])
        self.edges: Edges = {}
        pairs = [(v, (v + 1) % n) for v in range(n)] + [(0, 2)]  # of odd and even cycles
        pairs += [(rng.randrange(n), rng.randrange(n)) for _ in range(2 * n)]
        for k, (a, b) in enumerate(pairs):
            key = key_of(self.ids[a], self.ids[b], undirected=self.undirected)
            self.edges.setdefault(key, rng.choice([0.0, 0.5, 1.0, 7.0] if k > n else [0.5, 3.0]))
        self.params = {**PROGRAMS[name], **WEIGHT}
        if name == "pagerank":
            self.params["personalise"] = rng.choice([None, self.ids[3]])
            self.params["iterations"] = rng.choice([0, 0, 7])
        self.options: dict[str, Any] = {
            "backend": f"{URL}-{seed()}", "compiled": rng.choice([False, "require"]),
        }  # fmt: skip

    def graph(self) -> Graph:
        source, target = zip(*self.edges, strict=True)
        graph = Graph.from_arrays(
            source, target, [*self.edges.values()], vertices=self.ids, undirected=self.undirected,
            partitions=self.rng.choice([1, 2, 7]),
        )  # fmt: skip
        if self.name == "ppr":
            graph = graph.with_attributes({"id": self.ids[:2], "jump": [0.25, 0.75]})
        return graph

    def wanted(self, params: Any = None) -> dict[str, dict[Any, Any]]:
        params = self.params if params is None else params
        rows = [(a, b, x) for (a, b), x in self.edges.items()]
        if self.name != "ppr":
            return expected(self.name, rows, self.ids, params, undirected=self.undirected)
        jump = dict(zip(self.ids, [0.25, 0.75], strict=False))
        graph, weight = graph_of(rows, self.ids, undirected=self.undirected), params.get("weight")
        ranks = nx.pagerank(
            graph, personalization=jump, dangling=jump, max_iter=9999, tol=1e-15,
            weight=weight and "weight",
        )  # fmt: skip
        return {"rank": ranks}

    def check(self, result: Any, params: Any = None) -> None:
        with result:
            for field, values in self.wanted(params).items():
                assert near(result.to_dict(field), values, TOLERANCE[self.name]), self.options


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_runs(name: str) -> None:
    for k in range(draws(4, 6)):
        case = Case(random.Random(seed() + k), name)
        case.check(run(name, case.graph(), **case.params, **case.options))
        del case.params["weight"]
        case.check(run(name, case.graph(), params=case.params, **case.options))


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_main_loops(name: str) -> None:
    for k in range(draws(1, 4)):
        case = Case(random.Random(seed() + k), name)
        rng, how, values = case.rng, case.options, [0.5, 1.0, 2.0, 5.0]
        if name in ("hits", "eigenvector"):
            ring = [*case.edges][: len(case.ids) + 1]  # which keeps one largest eigenvalue
        else:
            ring, values = [], [0.0, *values]

        def changed(
            case: Case = case, rng: Any = rng, ring: Any = ring, values: Any = values
        ) -> Any:
            rows = random_rows(
                rng, case.edges, 6, undirected=case.undirected, vertices=case.ids, values=values
            )
            again = [("+", a, b, 3.0) for a, b in ring]
            case.edges.update(dict.fromkeys(ring, 3.0))
            return rows + again

        with MainLoop(name, case.graph(), **case.params, **how, replace=True) as main:
            main.ingest(changed())
            case.check(main.query())
            before = dict(case.edges)
            with main.fork() as branch:
                branch.apply(changed())
                case.check(branch.result())
            case.edges = before
        for wrong in ({"weight": None}, {"weight": "cost"}):
            with pytest.raises(InputError, match="weight"):
                MainLoop.resume(None, name, **wrong, **how)
        with MainLoop.resume(None, name, **how) as main:
            assert main.params["weight"] == "value"
            main.ingest(changed())
            case.check(main.query())
        with MainLoop.resume(
            None, Program(ALGORITHMS[name], name=name), **case.params, **how
        ) as main:
            case.check(main.query())


def test_a_loop_without_weights_is_not_resumed_with_them() -> None:
    options: dict[str, Any] = {"backend": f"{URL}-none", "compiled": False}
    MainLoop("katz", Graph.from_arrays([1], [2], [5.0]), **options).close()
    with pytest.raises(InputError, match="opened with weight=None, not 'value'"):
        MainLoop.resume(None, "katz", **WEIGHT, **options)


def test_several_programs_of_one_log() -> None:
    for compiled in (False, True):
        options: dict[str, Any] = {
            "backend": f"{URL}-several-{compiled}", "compiled": compiled,
            "params": {"pagerank": WEIGHT, "katz": {"alpha": 0.01, **WEIGHT}},
        }  # fmt: skip
        graph = Graph.from_arrays([1, 1, 2], [2, 3, 1], [3.0, 1.0, 2.0])
        edges = {(1, 2): 3.0, (1, 3): 0.25, (2, 1): 2.0, (3, 2): 4.0}
        rows = [(a, b, x) for (a, b), x in edges.items()]
        with MainLoops(["wcc", "pagerank", "katz"], graph, **options) as loops:
            loops.ingest([("~", 1, 3, 0.25), ("+", 3, 2, 4.0)])
            answers = loops.query()
        given = options.pop("params")
        with MainLoops.resume(None, ["wcc", "pagerank", "katz"], **options) as loops:
            again = loops.query()
        with pytest.raises(InputError, match="opened with weight='value', not None"):
            MainLoops.resume(
                None, ["wcc", "pagerank", "katz"], params={"pagerank": {"weight": None}}, **options
            )
        options["params"] = given
        for got in (answers, again):
            for name, params in options["params"].items():
                for field, values in expected(name, rows, params=params).items():
                    assert near(got[name].to_dict(field), values, 1e-8)
            for answer in got.values():
                answer.close()


def test_without_values_and_with_equal_ones_it_is_as_without_weight() -> None:
    rng = random.Random(seed())
    for name in rng.sample([*PROGRAMS], draws(2, 5)):
        case = Case(rng, name)
        del case.params["weight"]
        case.edges = dict.fromkeys(case.edges, 1.0)
        wanted = case.wanted()
        for factor in [1.0] if name == "katz" else [1.0, rng.choice([1e-9, 1e12])]:
            case.edges = dict.fromkeys(case.edges, factor)
            with run(name, case.graph(), **WEIGHT, params=case.params, **case.options) as result:
                for field, values in wanted.items():
                    assert near(result.to_dict(field), values, TOLERANCE[name]), (name, factor)


# What is refused. -------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize("compiled", [False, "require"])
def test_values_that_mean_nothing(name: str, compiled: Any) -> None:
    case = Case(random.Random(seed()), name)
    case.options["compiled"] = compiled
    vertex = case.ids[4]
    edge = next(e for e in case.edges if vertex in e)
    ends = "|".join(f"vertex {v!r}" for v in (edge if case.undirected else edge[:1]))
    good = case.edges[edge]
    for value in (-1.0, float("inf")):
        case.edges[edge] = value
        with pytest.raises(VertexError, match=f"weight='value'.*[(]({ends}), iteration") as caught:
            run(name, case.graph(), params=case.params, **case.options)
        assert "\n" not in str(caught.value)
    case.edges[edge] = float("nan")
    with pytest.raises(InputError, match="a value is NaN"):
        case.graph().materialise(("out", "float64", "combined"))
    case.edges[edge] = good
    with MainLoop(name, case.graph(), params=case.params, **case.options) as main:
        main.ingest([("~", *edge, -1.0)])
        with pytest.raises(VertexError, match=f"weight='value'.*[(]({ends}), iteration"):
            main.query()
        main.ingest([("~", *edge, good)])
        case.check(main.query())


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_other_weights(name: str) -> None:
    graph = Graph.from_arrays([1, 2], [2, 1], [1.0, 2.0])
    for value in ("length", "", "Value", 1, True, ["value"]):
        say = rf"{name}: weight=.*: give 'value', or leave it out$"
        params: Any = {"weight": value}
        calls: list[Callable[[], Any]] = [
            lambda p=params: run(name, graph, **p, backend=URL),
            lambda p=params: run(Program(ALGORITHMS[name], name=name), graph, params=p),
            lambda p=params: MainLoop(name, graph, params=p, backend=URL),
            lambda p=params: MainLoops(["wcc", name], graph, params={name: p}, backend=URL),
            lambda p=params: graph.estimate(name, **p),
            lambda p=params: explain(name, p),
        ]
        for call in calls:
            with pytest.raises(InputError, match=say):
                call()


def test_other_programs_have_no_weight() -> None:
    graph = Graph.from_arrays([1, 2], [2, 1], [1.0, 2.0])
    for name in ALGORITHMS.keys() - PROGRAMS.keys():
        with pytest.raises(InputError, match="'weight' is neither an option nor a parameter"):
            run(name, graph, **WEIGHT, backend=URL)


# Where values are read. ------------------------------------------------------------------------


def test_values_are_loaded_with_a_weight_alone() -> None:
    graph = Graph.from_arrays([1, 2], [2, 1], [1.0, 2.0])
    for name, params in PROGRAMS.items():
        program = Program(ALGORITHMS[name])
        assert program.value_dtype is None
        assert program.variant(params) == program
        weighted = program.variant({**params, **WEIGHT})
        assert (weighted.name, weighted.value_dtype) == (program.name, "float64")
        assert weighted.variant(WEIGHT) == weighted
        text = str(explain(name, WEIGHT))
        assert "weight: str = None" in text
        assert "compiled       yes" in text
    assert graph.estimate("katz", **WEIGHT).edges == 2


def test_on_the_command_line(tmp_path: Any, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "edges.txt").write_text("1 2 3\n1 3 1\n2 1 1\n3 1 1\n")
    arguments = [
        "--edges", str(tmp_path / "edges.txt"), "--backend", "memory://weights-cli", "--engine",
        "local", "--output", str(tmp_path / "ranks.csv"),
    ]  # fmt: skip
    assert command_line(["run", "pagerank", "--param", "weight=value", *arguments]) == 0
    rows = dict(r.split(",") for r in (tmp_path / "ranks.csv").read_text().splitlines()[1:])
    edges = [(1, 2, 3.0), (1, 3, 1.0), (2, 1, 1.0), (3, 1, 1.0)]
    wanted = expected("pagerank", edges, params=WEIGHT)["rank"]
    assert near({int(v): float(x) for v, x in rows.items()}, wanted, 1e-9)
    assert "have values" not in capsys.readouterr().err
    assert command_line(["run", "hits", "--param", "weight=length", *arguments]) == 2
    assert "hits: weight='length': give 'value', or leave it out" in capsys.readouterr().err


# Variants of one's own. ------------------------------------------------------------------------


class Steps(Vertex):
    """The number of edges to a vertex, or of their lengths."""

    origin: int = param(0)
    by: str = param("edges")
    length: float = state(inf)
    messages = Min(float)

    def gather(self, iteration, source, delta):
        self.length = 0.0 if self.id == self.origin else delta.value

    def scatter(self, iteration):
        self.emitAll(self.length + 1.0)


class Lengths(Steps, when={"by": "length"}):
    """Of lengths."""

    def scatter(self, iteration):
        for target in self.targets:
            self.emit(target, self.length + target.value)


class OwnRank(PageRank):
    """One of a user, who did not think of weights."""


@pytest.mark.parametrize("compiled", [False, "require"])
def test_variants_of_a_class(compiled: Any) -> None:
    graph = Graph.from_arrays([0, 1], [1, 2], [5.0, 0.5])
    for params, wanted in (
        ({}, [0.0, 1.0, 2.0]),
        ({"by": "edges"}, [0.0, 1.0, 2.0]),
        ({"by": "length"}, [0.0, 5.0, 5.5]),
    ):
        with run(Steps, graph, params=params, compiled=compiled, backend=URL) as result:
            assert [*result.to_dict().values()] == wanted
    with pytest.raises(InputError, match="steps: by='miles': give 'length', or leave it out"):
        run(Steps, graph, by="miles", backend=URL)
    with pytest.raises(InputError, match="weight='value': give None, as OwnRank has no variant"):
        run(OwnRank, graph, weight="value", backend=URL)
    with pytest.raises(ProgramError, match="Wrong: when names 'rank', which is not a parameter"):
        type("Wrong", (PageRank,), {}, when={"rank": 1.0})
