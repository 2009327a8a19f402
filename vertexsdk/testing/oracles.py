"""Oracles: the expected results of the built-in algorithms, by NetworkX or by definition.

An oracle takes a NetworkX graph and the algorithm's parameters, and returns the expected values by
field, then by vertex. NetworkX and SciPy are imported when an oracle is called.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vertexsdk.program.algebra import INT_MAX

Values = dict[str, dict[Any, Any]]


def graph_of(
    edges: Iterable[Sequence[Any]], vertices: Iterable[Any] = (), *, undirected: bool = False
) -> Any:
    """Build a NetworkX DiGraph or Graph; of duplicate edges the last sets the `weight`.

    Args:
        edges: (source, target) or (source, target, weight); the default weight is 1.
        vertices: ids of vertices that may have no edges.

    Example:
        >>> sorted(graph_of([(1, 2), (2, 1), (2, 2)], undirected=True).edges)
        [(1, 2), (2, 2)]
    """
    import networkx as nx

    graph = nx.Graph() if undirected else nx.DiGraph()
    graph.add_nodes_from(vertices)
    graph.add_weighted_edges_from((*edge, 1)[:3] for edge in edges)
    return graph


def expected(
    name: str,
    edges: Iterable[Sequence[Any]],
    vertices: Iterable[Any] = (),
    params: Mapping[str, Any] | None = None,
    *,
    undirected: bool = False,
) -> Values:
    """The expected result of the built-in algorithm `name`.

    Args:
        name: a key of `ORACLES`, as on the command line.
        edges, vertices, undirected: as for `graph_of`.
        params: the algorithm's parameters.

    Returns:
        field → vertex → value.

    Raises:
        KeyError: no oracle has this name.

    Example:
        >>> expected("wcc", [(4, 2), (8, 9)]) == {"component": {4: 2, 2: 2, 8: 8, 9: 8}}
        True
    """
    return ORACLES[name](graph_of(edges, vertices, undirected=undirected), **(params or {}))


def disagreements(
    wanted: Values, got: Mapping[Any, Mapping[str, Any]], tolerance: float = 0.0
) -> list[str]:
    """The differences between a result and what an oracle expects, as lines of text.

    Args:
        wanted: field → vertex → value, from `expected`.
        got: vertex → field → value, from `Result.to_dict`.
        tolerance: largest absolute difference of floats.

    Example:
        >>> wanted = expected("bfs", [(1, 2)], params={"origin": 1})
        >>> disagreements(wanted, {1: {"depth": 0}, 2: {"depth": 7}})
        ['depth of 2: 7, not 1']
    """
    lines = []
    for field, values in wanted.items():
        if values.keys() != got.keys():
            lines.append(f"vertices differ: {sorted(values.keys() ^ got.keys(), key=str)[:9]}")
        for vertex in sorted(values.keys() & got.keys()):
            if not near(values[vertex], got[vertex][field], tolerance):
                lines.append(f"{field} of {vertex!r}: {got[vertex][field]}, not {values[vertex]}")
    return lines


def near(a: Any, b: Any, tolerance: float) -> bool:
    """Return whether two values are equal, floats within `tolerance`; NaN is equal to itself.

    Args:
        a, b: numbers, strings, arrays, or lists, tuples and dicts of them.

    Example:
        >>> near([float("nan"), 1.0], [float("nan"), 1.25], 0.5)
        True
    """
    if isinstance(a, (tuple, list, np.ndarray)) and isinstance(b, (tuple, list, np.ndarray)):
        return len(a) == len(b) and all(near(x, y, tolerance) for x, y in zip(a, b, strict=True))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(near(a[k], b[k], tolerance) for k in a)
    if isinstance(a, float) and isinstance(b, float):
        return a == b or (a != a and b != b) or abs(a - b) <= tolerance
    return bool(np.all(a == b))


def sssp(graph: Any, origin: Any) -> Values:
    """Dijkstra's algorithm."""
    import networkx as nx

    lengths = nx.single_source_dijkstra_path_length(graph, origin)
    return {"length": {v: float(lengths.get(v, math.inf)) for v in graph}}


def bfs(graph: Any, origin: Any) -> Values:
    """Depths by NetworkX."""
    import networkx as nx

    depths = nx.single_source_shortest_path_length(graph, origin)
    return {"depth": {v: depths.get(v, INT_MAX) for v in graph}}


def pagerank(
    graph: Any,
    damping: float = 0.85,
    iterations: int = 0,
    epsilon: float = 1e-10,
    personalise: Any = None,
    weight: str | None = None,
) -> Values:
    """PageRank by NetworkX, or a number of steps by its definition."""
    import networkx as nx

    jump = {v: 1.0 / len(graph) if personalise is None else float(v == personalise) for v in graph}
    if not iterations:
        ranks = nx.pagerank(
            graph, damping, jump, max_iter=9999, tol=1e-15, weight=weight and "weight"
        )
        return {"rank": {v: float(rank) for v, rank in ranks.items()}}
    values = {u: {v: e["weight"] if weight else 1 for v, e in graph.adj[u].items()} for u in graph}
    totals = {u: math.fsum(values[u].values()) for u in graph}
    ranks = dict(jump)
    for _ in range(iterations):
        dangling = math.fsum(ranks[v] for v in graph if not totals[v])
        followed = {v: [dangling * jump[v]] for v in graph}
        for u in filter(totals.__getitem__, graph):
            for v, value in values[u].items():
                followed[v].append(ranks[u] * value / totals[u])
        ranks = {v: (1 - damping) * jump[v] + damping * math.fsum(followed[v]) for v in graph}
    return {"rank": ranks}


def wcc(graph: Any) -> Values:
    """Weakly connected components by NetworkX, named by their smallest vertex."""
    import networkx as nx

    parts = nx.connected_components(graph.to_undirected())
    return {"component": {v: min(part) for part in parts for v in part}}


def scc(graph: Any) -> Values:
    """Strongly connected components by NetworkX, named by their smallest vertex."""
    import networkx as nx

    parts = nx.strongly_connected_components(graph.to_directed())
    return {"component": {v: min(part) for part in parts for v in part}}


def cdlp(graph: Any, iterations: int = 10) -> Values:
    """Label propagation by the definition of LDBC Graphalytics."""
    labels = {v: v for v in graph}
    for _ in range(iterations):
        seen: dict[Any, Counter[Any]] = {v: Counter() for v in graph}
        for v in graph:
            for u in graph.adj[v]:
                seen[v][labels[u]] += 1
                if graph.is_directed():
                    seen[u][labels[v]] += 1
        labels = {v: _most(seen[v]) if seen[v] else v for v in graph}
    return {"label": labels}


def _most(counts: Counter[Any]) -> Any:
    return min(label for label, count in counts.items() if count == max(counts.values()))


def lcc(graph: Any) -> Values:
    """Clustering coefficients: undirected by NetworkX, directed by LDBC's definition."""
    import networkx as nx

    simple = nx.Graph(graph.to_undirected())
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    triangles = dict(nx.triangles(simple))
    if not graph.is_directed():
        return {"coefficient": dict(nx.clustering(simple)), "triangles": triangles}
    coefficient = {}
    for v in graph:
        near_v = set(simple.adj[v])
        edges = sum(w in near_v and w != u for u in near_v for w in graph.adj[u])
        coefficient[v] = edges / (len(near_v) * (len(near_v) - 1)) if len(near_v) > 1 else 0.0
    return {"coefficient": coefficient, "triangles": triangles}


def kcore(graph: Any) -> Values:
    """Core numbers by NetworkX."""
    import networkx as nx

    simple = nx.Graph(graph.to_undirected())
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    return {"core": dict(nx.core_number(simple))}


def degree(graph: Any) -> Values:
    """Degrees by NetworkX; on an undirected graph, in- and out-degree count neighbours."""
    if not graph.is_directed():
        neighbours = {v: len(graph.adj[v]) for v in graph}
        return {"degree": dict(graph.degree), "in_degree": neighbours, "out_degree": neighbours}
    return {
        "degree": dict(graph.degree),
        "in_degree": dict(graph.in_degree),
        "out_degree": dict(graph.out_degree),
    }


def triangles(graph: Any) -> Values:
    """Triangles by NetworkX."""
    import networkx as nx

    return {"triangles": dict(nx.triangles(_simple(graph)))}


def katz(
    graph: Any,
    alpha: float = 0.1,
    beta: float = 1.0,
    epsilon: float = 1e-9,
    weight: str | None = None,
) -> Values:
    """Katz centrality as the solution of its linear equations."""
    rows = _matrix(graph, weight)
    scores = np.linalg.solve(np.eye(len(rows)) - alpha * rows.T, np.full(len(rows), beta))
    return {"score": dict(zip(graph, scores.tolist(), strict=True))}


def eigenvector(
    graph: Any, epsilon: float = 1e-9, rounds: int = 0, weight: str | None = None
) -> Values:
    """Eigenvector centrality by NumPy; of a graph with one largest eigenvalue."""
    values, vectors = np.linalg.eig(_matrix(graph, weight).T)
    vector = np.abs(vectors[:, np.argmax(values.real)].real)
    return {"score": dict(zip(graph, vector.tolist(), strict=True))}


def hits(graph: Any, epsilon: float = 1e-10, rounds: int = 0, weight: str | None = None) -> Values:
    """Hubs and authorities by a singular value decomposition; of a graph with one largest value."""
    left, _, right = np.linalg.svd(_matrix(graph, weight))
    shares = [np.abs(x) / np.abs(x).sum() for x in (left[:, 0], right[0])]
    hub, authority = (dict(zip(graph, x.tolist(), strict=True)) for x in shares)
    return {"hub": hub, "authority": authority}


def closeness(graph: Any, samples: int = 0) -> Values:
    """Closeness and harmonic centrality by NetworkX."""
    import networkx as nx

    harmonic = {v: float(x) for v, x in nx.harmonic_centrality(graph).items()}
    return {"closeness": nx.closeness_centrality(graph), "harmonic": harmonic}


def betweenness(graph: Any, samples: int = 0, normalised: bool = True) -> Values:
    """Betweenness by NetworkX."""
    import networkx as nx

    return {"betweenness": nx.betweenness_centrality(graph, normalized=normalised)}


def similarity(graph: Any, origin: Any) -> Values:
    """Common neighbours by definition."""
    simple = _simple(graph)
    mine = set(simple.adj[origin])
    both = {v: mine & set(simple.adj[v]) for v in simple}
    logs = {v: math.log(d) for v, d in simple.degree if d > 1}
    return {
        "common": {v: len(c) for v, c in both.items()},
        "jaccard": {v: len(c) / len(mine | set(simple.adj[v])) if c else 0.0
                    for v, c in both.items()},
        "overlap": {v: len(c) / min(len(mine), len(simple.adj[v])) if c else 0.0
                    for v, c in both.items()},
        "adamic_adar": {v: math.fsum(1 / logs[w] for w in c if w in logs)
                        for v, c in both.items()},
    }  # fmt: skip


def squares(graph: Any) -> Values:
    """Cycles of length four, by the square of the adjacency matrix."""
    simple = _simple(graph)
    ways = _matrix(simple) @ _matrix(simple)
    np.fill_diagonal(ways, 0)
    counts = (ways * (ways - 1) / 2).sum(axis=1).astype(int).tolist()
    return {"squares": dict(zip(simple, counts, strict=True))}


def edge_similarity(graph: Any) -> Values:
    """The mean Jaccard similarity to a vertex's neighbours, by NetworkX."""
    import networkx as nx

    simple, similarity = _simple(graph), {}
    for v in simple:
        coefficients = [
            x for *_, x in nx.jaccard_coefficient(simple, [(v, u) for u in simple.adj[v]])
        ]
        similarity[v] = math.fsum(coefficients) / len(coefficients) if coefficients else 0.0
    return {"similarity": similarity}


def truss(graph: Any, k: int = 4) -> Values:
    """Degrees in the k-truss by NetworkX."""
    import networkx as nx

    subgraph = nx.k_truss(_simple(graph), k)
    return {"degree": {v: subgraph.degree[v] if v in subgraph else 0 for v in graph}}


def forest(graph: Any) -> Values:
    """Kruskal's method; of edges with equal values that with the smaller ids comes first."""
    import networkx as nx

    lightest: dict[tuple[Any, Any], float] = {}
    for a, b, x in graph.edges(data="weight", default=1):
        if a != b:
            edge = (min(a, b), max(a, b))
            lightest[edge] = min(float(x), lightest.get(edge, math.inf))
    tree = nx.Graph()
    tree.add_nodes_from(graph)
    sets = nx.utils.UnionFind(graph)
    for (a, b), x in sorted(lightest.items(), key=lambda item: (item[1], item[0])):
        if sets[a] != sets[b]:
            sets.union(a, b)
            tree.add_edge(a, b, value=x)
    parent: dict[Any, Any] = {}
    root: dict[Any, Any] = {}
    for part in nx.connected_components(tree):
        first = min(part)
        parent |= {first: first, **{v: u for u, v in nx.bfs_edges(tree, first)}}
        root |= dict.fromkeys(part, first)
    value = {v: 0.0 if u == v else tree[u][v]["value"] for v, u in parent.items()}
    return {"parent": parent, "value": value, "root": root}


def bridges(graph: Any) -> Values:
    """Bridges by NetworkX, and the smallest neighbour on a shortest path to the smallest id."""
    import networkx as nx

    simple, parent = _simple(graph), {}
    for part in nx.connected_components(simple):
        depth = nx.single_source_shortest_path_length(simple, min(part))
        for v in part:
            nearer = [u for u in simple.adj[v] if depth[u] < depth[v]]
            parent[v] = min(nearer, default=v)
    edges = {frozenset(edge) for edge in nx.bridges(simple)}
    return {"bridge": {v: {v, u} in edges for v, u in parent.items()}, "parent": parent}


def _simple(graph: Any) -> Any:
    import networkx as nx

    simple = nx.Graph(graph.to_undirected())
    simple.remove_edges_from(list(nx.selfloop_edges(simple)))
    return simple


def _matrix(graph: Any, weight: str | None = None) -> Any:
    """The adjacency matrix: of edge values for `weight="value"`, else of ones."""
    import networkx as nx

    return nx.to_numpy_array(graph, weight=weight and "weight")


ORACLES: dict[str, Callable[..., Values]] = {
    oracle.__name__: oracle
    for oracle in (
        bfs, betweenness, bridges, cdlp, closeness, degree, edge_similarity, eigenvector, forest,
        hits, katz, kcore, lcc, pagerank, scc, similarity, squares, sssp, triangles, truss, wcc,
    )
}  # fmt: skip
