"""A graph without vertices has an answer without rows, wherever a graph or an answer can be."""

from __future__ import annotations

import random
from collections import Counter
from contextlib import closing
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow.parquet as parquet
import pytest

from tests.support.seeds import seed
from vertexsdk import (
    UPDATE,
    Graph,
    InputError,
    MainLoop,
    MainLoops,
    Result,
    Vertex,
    producers,
    read,
    run,
    state,
)
from vertexsdk.algorithms import ALGORITHMS
from vertexsdk.cli import main as command
from vertexsdk.testing.oracles import disagreements, expected

_stores = count()
PARAMS: dict[str, dict[str, Any]] = {"pagerank": {"epsilon": 1e-13}, "sssp": {"origin": 1}}
NAMES = {1: "a", 2: "b", 3: "c"}


class Producers(Vertex):
    """An events program: how many producers a vertex has."""

    number: int = state(0)
    heard = producers(object)

    def gather(self, iteration, source, delta):
        super().gather(iteration, source, delta)
        if delta.kind == UPDATE:
            if delta.value is None:
                del self.heard[source]
            else:
                self.heard[source] = delta.value

    def scatter(self, iteration):
        self.number = len(self.heard)
        for target in self.removedTargets:
            self.emit(target, None)
        for target in self.addedTargets:
            self.emit(target, 1)


class History:
    """A main loop on three vertices, of whose graph often nothing is left, and its edges.

    Attributes:
        edges: pairs of 1 to 3, where ids are strings too.
    """

    def __init__(self, rng: random.Random, program: Any, ids: type, partitions: int) -> None:
        self.rng, self.program, self.ids = rng, program, ids
        self.params = {
            n: self.name(v) if n == "origin" else v for n, v in PARAMS.get(program, {}).items()
        }
        self.edges: set[tuple[int, int]] = set(rng.choice([[], [(1, 2)]]))
        self.options: dict[str, Any] = {
            "backend": f"memory://empty-{next(_stores)}", "loop": "main", "trusted": True,
            "compiled": rng.random() < 0.5 and program is not Producers,
            "snapshot_every": rng.choice([None, 1, 3]),
        }  # fmt: skip
        graph = Graph.empty(ids, partitions=partitions)
        if self.edges:
            graph = Graph.from_arrays(
                ["a" if ids is str else 1], [self.name(2)], partitions=partitions
            )
        print(program, ids, partitions, self.options)
        self.main = MainLoop(program, graph, params=self.params, **self.options)

    def name(self, vertex: int) -> Any:
        return NAMES[vertex] if self.ids is str else vertex

    def drawn(self, edges: set[tuple[int, int]]) -> list[tuple[Any, ...]]:
        """Draw changes, often such that no edge is left, and make them in `edges`."""
        if self.rng.random() < 0.5:
            gone, new = set(edges), set()
        else:
            pairs = [(a, b) for a in NAMES for b in NAMES]
            gone, new = set(), set(self.rng.sample(pairs, self.rng.randint(1, 3)))
        edges -= gone
        edges |= new
        signed = [("-", e) for e in sorted(gone)] + [("+", e) for e in sorted(new)]
        return [(sign, *map(self.name, edge)) for sign, edge in signed]

    def check(self, result: Result, edges: set[tuple[int, int]]) -> None:
        """Compare an answer, and close it."""
        pairs = [tuple(map(self.name, edge)) for edge in sorted(edges)]
        with closing(result):
            rows = dict(result.rows())
            if self.program is Producers:
                into = Counter(target for _, target in pairs)
                assert rows == {v: {"number": into[v]} for pair in pairs for v in pair}
                return
            named = [self.params["origin"]] if "origin" in self.params else []
            wanted = expected(self.program, pairs, named, self.params)
            assert not disagreements(wanted, rows, 1e-9)

    def step(self) -> None:
        """Do something, and compare answers."""
        what = self.rng.choice(["ingest", "ingest", "branch", "merge", "resume", "read", "at"])
        print(what, self.edges)
        if what == "ingest":
            self.main.ingest(self.drawn(self.edges))
        elif what in ("branch", "merge"):
            self.fork(merges=what == "merge")
        elif what == "resume":
            self.main.close()
            again = {**self.options, "partitions": self.rng.choice([None, 1, 2, 7])}
            self.main = MainLoop.resume(None, self.program, **again)
        elif what == "read":
            self.main.query().close()
            self.check(self.main.read(), self.edges)
            stored = read(self.options["backend"], "main", trusted=True)
            assert stored.statistics["num_edges"] == len(self.edges)
            self.check(stored, self.edges)
        else:
            self.check(self.main.at(self.main.iteration), self.edges)
        if self.rng.random() < 0.7:
            self.check(self.main.query(), self.edges)

    def fork(self, *, merges: bool) -> None:
        edges = set(self.edges)
        with self.main.fork() as branch:
            for _ in range(self.rng.randint(0, 2)):
                if self.rng.random() < 0.5:
                    self.check(branch.result(), edges)
                branch.apply(self.drawn(edges))
            self.check(branch.result(), edges)
            if merges:
                branch.merge()
                self.edges = edges


@pytest.mark.sample(3)
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("program", ["wcc", "pagerank", "degree", "kcore", "sssp", Producers])
def test_histories_in_which_the_graph_is_often_empty(program: Any, ids: type) -> None:
    rng = random.Random(seed())
    history = History(rng, program, ids, rng.choice((1, 2, 7)))
    for _ in range(12):
        history.step()
    history.main.close()


@pytest.fixture
def url() -> str:
    return f"memory://empty-{next(_stores)}"


@pytest.mark.parametrize("partitions", [1, 2, 7])
@pytest.mark.parametrize("ids", [int, str])
@pytest.mark.parametrize("program", ["wcc", "pagerank", "degree", "kcore", Producers])
def test_a_run(program: Any, ids: type, partitions: int, url: str, tmp_path: Path) -> None:
    graph = Graph.empty(ids, partitions=partitions)
    with run(
        program,
        graph,
        backend=url,
        compiled=program != "kcore" and program is not Producers,
        trusted=True,
    ) as result:
        assert result.to_dict() == {}
        assert result.string_ids == (ids is str)
        assert result.lookup(["a"] if ids is str else [1]) == {}
        assert (result.to_arrow().num_rows, len(result.to_pandas())) == (0, 0)
        result.write(tmp_path / "o.csv")
        assert (tmp_path / "o.csv").read_text() == "vertex,value\n"
        result.write(tmp_path / "o.parquet")
        assert parquet.read_table(tmp_path / "o.parquet").num_rows == 0
        assert "vertices: 0" in repr(result)


def test_frames_without_rows_are_empty_graphs(url: str) -> None:
    none: Any = []
    assert run("wcc", Graph.from_arrays(none, none), backend=url).to_dict() == {}


def test_an_estimate_and_every_algorithm(url: str) -> None:
    for name in ALGORITHMS.keys() - {"bfs", "sssp", "khop", "similarity"}:  # of given vertices
        with run(name, Graph.empty(), backend=url, compiled=False) as result:
            assert result.to_dict() == {}
    assert (estimate := Graph.empty().estimate("wcc")).edges == estimate.vertices == 0


def test_a_parameter_that_names_a_vertex(url: str) -> None:
    """A run refuses it; in a main loop the vertex is there as long as the loop."""
    with pytest.raises(InputError, match="sssp: origin=7 is not a vertex of the graph"):
        run("sssp", Graph.empty(), origin=7, backend=url)
    for ids, origin in ((int, 7), (str, "x")):
        options: dict[str, Any] = {"backend": url, "loop": ids.__name__}
        with MainLoop("sssp", Graph.empty(ids), origin=origin, **options) as main:
            assert main.query().to_dict() == {origin: 0.0}
        loaded = Graph.from_arrays(["a"], ["b"]) if ids is str else Graph.from_arrays([1], [2])
        assert loaded.num_vertices == 2
        with MainLoop("sssp", loaded, origin=origin, replace=True, **options) as main:
            edge = ("a", "b") if ids is str else (1, 2)
            assert main.query().to_dict() == {origin: 0.0, **dict.fromkeys(edge, float("inf"))}
            main.ingest([("-", *edge)])
            assert main.query().to_dict() == {origin: 0.0}


@pytest.mark.parametrize("ids", [int, str])
def test_windows_in_which_nothing_is_left(ids: type, url: str) -> None:
    edge = ("a", "b") if ids is str else (1, 2)
    options: dict[str, Any] = {"backend": url, "loop": "main"}
    with MainLoop("wcc", Graph.empty(ids), **options).window(2) as main:
        times = {}
        for time, answer in main.rolling(1, [("+", *edge), ("+", *edge)], time=[1, 6]):
            with closing(answer):
                times[time] = answer.to_dict()
        both = dict.fromkeys(edge, edge[0])
        assert times == {1.0: both, 2.0: both, 3.0: {}, 4.0: {}, 5.0: {}, 6.0: both}
        assert main.advance(20) == 1
        assert main.query().to_dict() == {}
        assert main.at(time=4).to_dict() == main.at(time=30).to_dict() == {}
        assert main.at(time=6).to_dict() == both
        graph = main.query().graph()
        with MainLoop("wcc", graph, backend=url, loop="again") as other:  # of the same ids
            other.ingest([("+", *edge)])
            assert other.query().to_dict() == both
    with MainLoop.resume(None, "wcc", **options) as main:
        assert main.query().to_dict() == {}


def test_several_programs_on_an_empty_graph(url: str) -> None:
    with MainLoops(["wcc", "degree"], Graph.empty(), backend=url) as main:
        assert [r.to_dict() for r in main.query().values()] == [{}, {}]
        main.ingest([("+", 1, 2)])
        main.query()
        main.ingest([("-", 1, 2)])
        assert [r.to_dict() for r in main.query().values()] == [{}, {}]


@pytest.fixture
def files(tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("VERTEXSDK_BACKEND", url)
    return ["--edges", "e.txt", "--changes", "c.txt", "--engine", "local", "--output", "o.csv"]


@pytest.mark.sample(4)
@pytest.mark.parametrize("partitions", ["1", "2"])
@pytest.mark.parametrize("edge", ["1 2", "a b"])
@pytest.mark.parametrize("program", ["wcc", "degree"])
def test_a_stream_goes_on(files: list[str], program: str, edge: str, partitions: str) -> None:
    Path("e.txt").write_text(f"{edge}\n")
    Path("c.txt").write_text(f"- {edge}\n")
    stream = ["stream", program, *files, "--query-every", "1", "--resume"]
    assert command([*stream, "--partitions", partitions]) == 0
    assert Path("o-1.csv").read_text() == "vertex,value\n"
    assert command(["query", program]) == 0
    for name in ("first", "second"):  # the same query is answered again
        assert command([*stream, "--output", f"{name}.csv"]) == 0
        assert Path(f"{name}-1.csv").read_text() == "vertex,value\n"
    Path("c.txt").write_text(f"- {edge}\n+ {edge}\n")
    assert command(stream) == 0
    assert len(Path("o-2.csv").read_text().splitlines()) == 3
