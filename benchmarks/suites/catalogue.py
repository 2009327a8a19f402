"""Suite ``catalogue``: the built-in algorithms beside igraph, NetworKit and NetworkX.

All run on the graph's distinct pairs without self-loops and without direction, but for strongly
connected components. A function takes a `Loaded` and returns an array in the order of vertices
0, 1, ..., or a number. What a library lacks, or defines otherwise, is left out.
"""

from __future__ import annotations

import argparse
import math
import signal
import statistics
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks import cells, graphs
from benchmarks.document import Table
from benchmarks.options import cache_of, names, option, say
from benchmarks.peers import _arrays, require
from benchmarks.runner import SuiteResults
from benchmarks.suite import CaseSuite, Parts
from benchmarks.timing import timed
from vertexsdk import Graph, run

OURS = "ours"

Array = npt.NDArray[Any]


Function = Callable[["Loaded"], Any]


Check = Callable[["Loaded", Array, Any], str]  # graph, our answer, theirs: what is wrong, or ""


class Loaded:
    """One graph in the form of each library: n vertices 0, 1, ..., and edges with values.

    Args:
        source, target: int64[m], each pair once if `directed` is False.
        value: float64[m].
        cores: threads of those that have threads.
    """

    def __init__(
        self, n: int, source: Array, target: Array, value: Array, cores: int, *, directed: bool
    ) -> None:
        self.n, self.m, self.directed = n, len(source), directed
        self.source, self.target, self.value = source, target, value
        self.origin = int(np.bincount(source, minlength=n).argmax())
        self.ours, self.ours_weighted = (
            Graph.from_arrays(
                source, target, values, vertices=np.arange(n), undirected=not directed, partitions=1
            )
            for values in (None, value)
        )
        self.nk = require("networkit", "networkit")
        self.nk.setNumberOfThreads(cores)
        pairs = source.astype(np.uint64), target.astype(np.uint64)
        self.kit = self.nk.GraphFromCoo(pairs, n=n, directed=directed)
        self.weighted = self.nk.GraphFromCoo((value, pairs), n=n, weighted=True, directed=directed)
        self.kit.sortEdges()
        igraph = require("igraph", "igraph")
        self.igraph = igraph.Graph(n=n, edges=np.column_stack([source, target]), directed=directed)
        self.igraph.es["weight"] = value
        self.networkx = require("networkx", "networkx")
        kind = self.networkx.DiGraph if directed else self.networkx.Graph
        self.nx, self.nx_weighted = kind(), kind()
        rows = zip(source.tolist(), target.tolist(), value.tolist(), strict=True)
        for each in (self.nx, self.nx_weighted):
            each.add_nodes_from(range(n))
        self.nx.add_edges_from(zip(source.tolist(), target.tolist(), strict=True))
        self.nx_weighted.add_weighted_edges_from(rows)

    def modularity(self, community: Array) -> float:
        """The modularity of communities."""
        inside = np.asarray(community)[self.source] == np.asarray(community)[self.target]
        degree = np.bincount(self.source, minlength=self.n) + np.bincount(
            self.target, minlength=self.n
        )
        total = np.bincount(np.unique(community, return_inverse=True)[1], degree)
        return float(inside.sum() / self.m - np.square(total / (2 * self.m)).sum())


def equal(tolerance: float = 0.0) -> Check:
    """Whether numbers are equal, relative to the largest one; infinite where ours are."""

    def check(graph: Loaded, ours: Array, theirs: Any) -> str:
        a, b = np.asarray(ours, float), np.asarray(theirs, float)
        a, b = (np.where(np.abs(x) > 1e15, math.inf, x) for x in (a, b))
        finite = np.isfinite(a)
        if (finite != np.isfinite(b)).any():
            return "other vertices are reached"
        most = np.abs(a[finite]).max(initial=1e-300)
        wrong = int((np.abs(a[finite] - b[finite]) > tolerance * most).sum())
        return f"{wrong} values differ" if wrong else ""

    return check


def proportional(tolerance: float) -> Check:
    """As `equal`, of vectors whose lengths do not count."""

    def check(graph: Loaded, ours: Array, theirs: Any) -> str:
        a, b = (np.asarray(x, float) / np.linalg.norm(x) for x in (ours, theirs))
        return equal(tolerance)(graph, a, b)

    return check


def same_partition(graph: Loaded, ours: Array, theirs: Any) -> str:
    """Whether two namings divide the vertices alike."""
    pairs = np.unique(np.column_stack([ours, np.asarray(theirs)]), axis=0)
    alike = len(pairs) == len(np.unique(ours)) == len(np.unique(theirs))
    return "" if alike else "vertices are in other components"


def within(share: float, of: Callable[[Loaded, Any], float]) -> Check:
    """Whether our answer is as good as theirs but for a share of it."""

    def check(graph: Loaded, ours: Array, theirs: Any) -> str:
        a, b = of(graph, ours), of(graph, theirs)
        return "" if a >= (1 - share) * b else f"ours has {a:g}, theirs {b:g}"

    return check


def total(graph: Loaded, ours: Array, theirs: Any) -> str:
    """Whether ours add up to their number."""
    return equal(1e-9)(graph, np.array([np.sum(ours)]), [theirs])


@dataclass(frozen=True)
class Case:
    """One algorithm.

    Attributes:
        check: of our field `answer`, the result by default.
        others: by library.
        directed, weighted: the graph's edges have directions, or values.
        less: how much smaller the graph's scale is, as all are slow.
        note: what differs.
    """

    check: Check
    others: dict[str, Function]
    params: dict[str, Any] = field(default_factory=dict)
    answer: str | None = None
    directed: bool = False
    weighted: bool = False
    less: int = 0
    note: str = ""


def _values(found: dict[Any, Any]) -> Array:
    return np.array([found[v] for v in sorted(found)])


def _scores(algorithm: Any) -> Array:
    return np.array(algorithm.run().scores())


def _members(algorithm: Any) -> Array:
    return np.array(algorithm.run().getPartition().getVector())


def _reached(graph: Loaded, lengths: dict[int, float]) -> Array:
    found = np.full(graph.n, math.inf)
    found[[*lengths]] = [*lengths.values()]
    return found


def _groups(graph: Loaded, groups: Any) -> Array:
    found = np.zeros(graph.n, np.int64)
    for k, members in enumerate(groups):
        found[[*members]] = k
    return found


NK, IG, NX = "NetworKit", "igraph", "NetworkX"


CASES: dict[str, Case] = {
    "betweenness": Case(equal(1e-6), {
        NK: lambda g: _scores(g.nk.centrality.Betweenness(g.kit)),
        IG: lambda g: g.igraph.betweenness(),
        NX: lambda g: _values(g.networkx.betweenness_centrality(g.nx, normalized=False)),
    }, {"normalised": False}, less=6, note="NetworKit counts each pair in both directions"),
    "bfs": Case(equal(), {
        NK: lambda g: g.nk.distance.BFS(g.kit, g.origin, storePaths=False).run().getDistances(),
        IG: lambda g: g.igraph.distances(g.origin)[0],
        NX: lambda g: _reached(
            g, g.networkx.single_source_shortest_path_length(g.nx, g.origin)),
    }, {"origin": ...}),
    "bridges": Case(total, {
        IG: lambda g: len(g.igraph.bridges()),
        NX: lambda g: len(list(g.networkx.bridges(g.nx))),
    }),
    "closeness": Case(equal(1e-9), {
        NK: lambda g: _scores(g.nk.centrality.HarmonicCloseness(g.kit, False)),
        NX: lambda g: _values(g.networkx.harmonic_centrality(g.nx)),
    }, answer="harmonic", less=4, note="harmonic"),
    "colouring": Case(within(0.3, lambda g, x: 1 / (1 + np.max(x))), {
        IG: lambda g: np.array(g.igraph.vertex_coloring_greedy()),
        NX: lambda g: _values(g.networkx.greedy_color(g.nx)),
    }, note="ours may have up to 30 % more colours"),
    "eigenvector": Case(proportional(1e-4), {
        NK: lambda g: _scores(g.nk.centrality.EigenvectorCentrality(g.kit, 1e-9)),
        IG: lambda g: g.igraph.eigenvector_centrality(),
        NX: lambda g: _values(g.networkx.eigenvector_centrality(g.nx, 1000, 1e-9)),
    }),
    "forest": Case(total, {
        IG: lambda g: sum(g.igraph.spanning_tree(weights="weight").es["weight"]),
        NX: lambda g: sum(
            x for *_, x in g.networkx.minimum_spanning_tree(g.nx_weighted).edges(data="weight")),
    }, answer="value", weighted=True),
    "hits": Case(proportional(1e-4), {
        IG: lambda g: g.igraph.hub_score(),
        NX: lambda g: _values(g.networkx.hits(g.nx)[0]),
    }),
    "katz": Case(proportional(1e-6), {
        NX: lambda g: _values(g.networkx.katz_centrality(g.nx, 1e-4, tol=1e-12)),
    }, {"alpha": 1e-4}),
    "kcore": Case(equal(), {
        NK: lambda g: _scores(g.nk.centrality.CoreDecomposition(g.kit)),
        IG: lambda g: g.igraph.coreness(),
        NX: lambda g: _values(g.networkx.core_number(g.nx)),
    }),
    "lcc": Case(equal(1e-9), {
        NK: lambda g: _scores(g.nk.centrality.LocalClusteringCoefficient(g.kit, turbo=True)),
        IG: lambda g: g.igraph.transitivity_local_undirected(mode="zero"),
        NX: lambda g: _values(g.networkx.clustering(g.nx)),
    }),
    "leiden": Case(within(0.06, Loaded.modularity), {
        IG: lambda g: np.array(g.igraph.community_leiden("modularity", n_iterations=2).membership),
    }, note="modularity not 6 % below"),
    "louvain": Case(within(0.06, Loaded.modularity), {
        NK: lambda g: _members(g.nk.community.PLM(g.kit, refine=False)),
        IG: lambda g: np.array(g.igraph.community_multilevel().membership),
        NX: lambda g: _groups(g, g.networkx.community.louvain_communities(g.nx, None, seed=1)),
    }, note="modularity not 6 % below"),
    "mis": Case(within(0.1, lambda g, x: float(np.sum(x))), {
        NX: lambda g: len(g.networkx.maximal_independent_set(g.nx, seed=1)),
    }, note="not 10 % fewer vertices"),
    "matching": Case(
        within(0.1, lambda g, x: float(np.sum(x != np.arange(g.n))) if np.ndim(x) else float(x)), {
            NK: lambda g: 2 * g.nk.matching.PathGrowingMatcher(
                g.kit).run().getMatching().size(g.kit),
            NX: lambda g: 2 * len(g.networkx.maximal_matching(g.nx)),
        }, note="not 10 % fewer pairs"),
    "pagerank": Case(equal(1e-6), {
        NK: lambda g: _scores(g.nk.centrality.PageRank(
            g.kit, 0.85, 1e-10,
            distributeSinks=g.nk.centrality.SinkHandling.DistributeSinks)),
        IG: lambda g: g.igraph.pagerank(),
        NX: lambda g: _values(g.networkx.pagerank(g.nx, weight=None, tol=1e-10 / g.n)),
    }),
    "scc": Case(same_partition, {
        NK: lambda g: _members(g.nk.components.StronglyConnectedComponents(g.kit)),
        IG: lambda g: g.igraph.connected_components("strong").membership,
        NX: lambda g: _groups(g, g.networkx.strongly_connected_components(g.nx)),
    }, directed=True),
    "sssp": Case(equal(1e-12), {
        NK: lambda g: g.nk.distance.Dijkstra(
            g.weighted, g.origin, storePaths=False).run().getDistances(),
        IG: lambda g: g.igraph.distances(g.origin, weights="weight")[0],
        NX: lambda g: _reached(
            g, g.networkx.single_source_dijkstra_path_length(g.nx_weighted, g.origin)),
    }, {"origin": ...}, weighted=True),
    "triangles": Case(equal(), {
        NX: lambda g: _values(g.networkx.triangles(g.nx)),
        IG: lambda g: _corners(g),
    }, note="igraph lists them"),
    "wcc": Case(same_partition, {
        NK: lambda g: _members(g.nk.components.ConnectedComponents(g.kit)),
        IG: lambda g: g.igraph.connected_components().membership,
        NX: lambda g: _groups(g, g.networkx.connected_components(g.nx)),
    }),
}  # fmt: skip


def _corners(graph: Loaded) -> Array:
    found = np.array(graph.igraph.list_triangles())
    return np.bincount(found.reshape(-1), minlength=graph.n)


@dataclass(frozen=True, slots=True)
class Sizes:
    """Options of the suite."""

    scale: int = option(16, "of R-MAT")
    algorithms: tuple[str, ...] = option(tuple(CASES), "only these", names(CASES))
    repeats: int = option(5, "runs of each")
    cores: int = 2


@dataclass
class Results(SuiteResults[Sizes]):
    """Seconds by algorithm and library; why there are none in `why`; differences in `wrong`."""

    seconds_of: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    why: dict[str, dict[str, str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def problems(self) -> list[str]:
        return self.wrong

    def plain(self) -> dict[str, Any]:
        return {"seconds": self.seconds_of}


class _Late(Exception):
    pass


@contextmanager
def _limited(limit: float) -> Iterator[None]:
    """Interrupt Python code after some seconds; native code when it returns."""

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, limit)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _measure(name: str, graph: Loaded, r: Results, limit: float) -> None:
    """Run an algorithm by all libraries, one after another, again and again.

    Of one that takes longer than a tenth of the limit there is one run.
    """
    case = CASES[name]
    params = {k: graph.origin if x is ... else x for k, x in case.params.items()}
    given = graph.ours_weighted if case.weighted else graph.ours

    def ours(_: Loaded) -> Any:
        with run(name, given, params=params, backend="memory://catalogue", progress=False) as found:
            return found.values(case.answer)[1]

    right = ours(graph)  # untimed: it compiles
    failed = r.why.setdefault(name, {})
    taken = r.seconds_of.setdefault(name, {})
    for turn in range(r.sizes.repeats):
        for library, function in {OURS: ours, **case.others}.items():
            mine = taken.setdefault(library, [])
            if library in failed or (turn and mine[0] > limit / 10):
                continue
            try:
                with _limited(limit):
                    took, answer = timed(partial(function, graph))
                    mine.append(took)
            except _Late:
                failed[library] = f"more than {limit:g} s"
                continue
            if library == OURS or turn:
                continue
            if (name, library) == ("betweenness", NK):
                answer = answer / 2
            if wrong := case.check(graph, right, answer):
                failed[library] = f"differs: {wrong}"
                r.wrong.append(f"{name}, {library} differs: {wrong}")


def _load(scale: int, cache: Path, cores: int, *, directed: bool) -> Loaded:
    graph = graphs.of_scale(scale, cache)
    source, target, value = _arrays.parquet(graph.parquet, cores)
    ids, source, target = _arrays.compact(source, target)
    if not directed:
        source, target = np.minimum(source, target), np.maximum(source, target)
    key, first = np.unique(source * ids.size + target, return_index=True)
    if not directed:
        apart = source[first] != target[first]
        key, first = key[apart], first[apart]
    weight = value[first].astype(np.float64)
    return Loaded(ids.size, key // ids.size, key % ids.size, weight, cores, directed=directed)


def _execute(r: Results, options: argparse.Namespace) -> None:
    held: dict[tuple[int, bool], Loaded] = {}
    for name in r.sizes.algorithms:
        scale, directed = max(r.sizes.scale - CASES[name].less, 4), CASES[name].directed
        if (scale, directed) not in held:
            load = _load(scale, cache_of(options), r.sizes.cores, directed=directed)
            held[scale, directed] = load
        say(f"{name}, R-MAT {scale}")
        _measure(name, held[scale, directed], r, options.time_limit)


def _sections(r: Results) -> list[tuple[str, Parts]]:
    rows = []
    for name, taken in r.seconds_of.items():
        case, own = CASES[name], statistics.median(taken[OURS])
        notes = [f"R-MAT {r.sizes.scale - case.less}"] if case.less else []
        notes += [case.note] if case.note else []
        others = [r.why[name].get(k) or _cell(taken.get(k), own) for k in (NK, IG, NX)]
        rows.append([f"`{name}`", cells.seconds(own), *others, "; ".join(notes)])
    head = ["algorithm", "vertexsdk, s", *(f"{library}, s" for library in (NK, IG, NX)), ""]
    note = "In parentheses how many times as long as ours. A dash: it has none of this definition."
    return [("Seconds", [Table(head, rows, note=note)])]


def _cell(taken: list[float] | None, own: float) -> str:
    if not taken:
        return "–"
    other = statistics.median(taken)
    return f"{cells.seconds(other)} ({cells.times(other / own)})"


SUITE = CaseSuite(
    name="catalogue",
    title="Built-in algorithms",
    about="Each on one partition in this process, on R-MAT without direction; all libraries take "
    "turns. A run is timed from a graph in memory to the answer as an array. An answer that "
    "differs has no time.",
    sizes=Sizes, sections=_sections, results=Results, execute=_execute, time_limit=60,
    quick="--scale 10 --repeats 1 --time-limit 20",
)  # fmt: skip
