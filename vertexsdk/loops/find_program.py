"""PROGRAM on the command line: a built-in's name, `module:Class`, or `path.py:Class`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import os
import re
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

import cloudpickle

from vertexsdk.errors import InputError, VertexError, excerpt
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex


def load_program(text: str) -> Program:
    """Return the program that `text` names.

    Args:
        text: a built-in's name, here or in another system; `module:Class`, or `path.py:Class`.

    Raises:
        InputError: no such program, or its file cannot be imported.
    """
    if ":" not in text and not text.endswith(".py"):
        from vertexsdk import algorithms

        built_in = algorithms.ALGORITHMS
        name = text if text in built_in else understood(text)
        if name not in built_in:
            raise InputError(
                f"no built-in program {excerpt(text)}{program_hint(text, built_in)}; `vertexsdk "
                "algorithms` lists them; for one of your own give module:Class or path.py:Class"
            )
        return Program(built_in[name], name=name)
    program = load_class(text, _is_program, "Vertex")
    return program if isinstance(program, Program) else Program(program)


def load_class(text: str, accepts: Callable[[Any], bool], base: str) -> Any:
    """Return what `module:Class` or `path.py:Class` names.

    Args:
        accepts: whether it is of the kind that is wanted.
        base: the class that such a one derives from, for messages.

    Raises:
        InputError: no such class, or its file cannot be imported.
    """
    place, _, name = text.rpartition(":") if ":" in text else (text, "", "")
    module = _from_file(place) if place.endswith(".py") else _from_module(place)
    chosen: Any = getattr(module, name, None)
    if accepts(chosen):
        return chosen
    names = sorted(key for key, value in vars(module).items() if accepts(value))
    problem = (
        f"{place} has no {base} subclass {name!r}" if name else f"{place}: write {place}:Class"
    )
    raise InputError(f"{problem}; it has: {', '.join(names) or 'none'}")


def _is_program(value: Any) -> bool:
    a_class = isinstance(value, type) and issubclass(value, Vertex) and value is not Vertex
    return a_class or isinstance(value, Program)


def _from_file(path: str) -> ModuleType:
    """Import a file outside of packages, under a unique name."""
    if not os.path.isfile(path):
        raise InputError(f"no such file: {path}")
    directory = os.path.dirname(os.path.abspath(path))
    name = "vertexsdk_program_" + Path(path).stem.replace("-", "_")
    spec = importlib.util.spec_from_file_location(name, os.path.abspath(path))
    if spec is None or spec.loader is None:
        raise InputError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    known_modules = set(sys.modules)
    sys.modules[name] = module
    sys.path.insert(0, directory)
    try:
        spec.loader.exec_module(module)
    except VertexError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"{path}: {type(error).__name__}: {error}") from error
    _ship_neighbours(directory, set(sys.modules) - known_modules)
    return module


def _ship_neighbours(directory: str, names: set[str]) -> None:
    """Make cloudpickle send modules beside the program by value; workers cannot import them."""
    for name in names:
        place = os.path.join(directory, *name.split("."))
        file = getattr(sys.modules[name], "__file__", None)
        ours = name.split(".")[0] == "vertexsdk"
        if not ours and file in (f"{place}.py", os.path.join(place, "__init__.py")):
            cloudpickle.register_pickle_by_value(sys.modules[name])


def _from_module(name: str) -> ModuleType:
    if os.getcwd() not in sys.path and "" not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(name)
    except VertexError:
        raise
    except (Exception, SystemExit) as error:
        raise InputError(f"cannot import {name!r}: {error}") from error


# What other systems call the built-in programs.
#
# A name is *understood* if it means exactly what the program here computes, on every graph on
# which the other system has it; else it is suggested, with the difference.

# Names of NetworkX, igraph, GraphX, GraphFrames and Neo4j GDS, without their marks (`_plain`).
_UNDERSTOOD = {
    "betweenness_centrality": "betweenness",
    "breadth_first_search": "bfs",
    "coloring": "colouring",
    "connected_components": "wcc",
    "local_clustering_coefficient": "lcc",
    "maximal_independent_set": "mis",
    "maximal_matching": "matching",
    "minimum_spanning_forest": "forest",
    "minimum_spanning_tree": "forest",
    "scc": "scc",
    "single_source_dijkstra_path_length": "sssp",
    "single_source_shortest_path_length": "bfs",
    "strongly_connected_components": "scc",
    "triangle_count": "triangles",
    "triangles": "triangles",
    "wcc": "wcc",
    "weakly_connected_components": "wcc",
}
_PATHS = "lengths of paths from `origin`; `bfs` counts edges, result.path(to) has the vertices"
_LABELS = "all labels change at once, for 10 iterations, and of equals the smallest wins"
_CORES = "every vertex counts a neighbour once, whichever way edges go"
_DIFFERENT = {
    "bfs_tree": ("bfs", "numbers of edges from `origin`; result.path(to) has the vertices"),
    "average_clustering": ("lcc", "the coefficient of each vertex"),
    "asyn_lpa_communities": ("cdlp", _LABELS),
    "closeness_centrality": ("closeness", "its field closeness; its value is harmonic"),
    "clustering": (
        "lcc",
        "directed edges count as in LDBC Graphalytics",
    ),
    "clustering_coefficient": ("lcc", "the coefficient of each vertex"),
    "community_leiden": ("leiden", "without direction, the same for every run"),
    "community_multilevel": ("louvain", "without direction, the same for every run"),
    "core_number": ("kcore", _CORES),
    "coreness": ("kcore", _CORES),
    "degree_centrality": ("degree", "numbers of edges, not divided"),
    "delta_stepping": ("sssp", _PATHS),
    "dijkstra": ("sssp", _PATHS),
    "dijkstra_path": ("sssp", _PATHS),
    "dijkstra_path_length": ("sssp", _PATHS),
    "eigenvector_centrality": ("eigenvector", "edge values do not count"),
    "fast_label_propagation_communities": ("cdlp", _LABELS),
    "greedy_color": ("colouring", "another order, so other colours"),
    "harmonic_centrality": ("closeness", "sums of 1/distance, not divided"),
    "in_degree": ("degree", "its field in_degree"),
    "jaccard_coefficient": ("edge_similarity", "of the pairs that an edge joins"),
    "k1coloring": ("colouring", "another order, so other colours"),
    "k_core": ("kcore", "the largest k of each vertex; keep those of your k or more"),
    "k_core_decomposition": ("kcore", _CORES),
    "k_truss": ("truss", "result.edges() has its edges"),
    "katz_centrality": ("katz", "scores are not divided by their length"),
    "label_propagation": ("cdlp", _LABELS),
    "label_propagation_communities": ("cdlp", _LABELS),
    "louvain_communities": ("louvain", "without direction, the same for every run"),
    "neighborhood": ("khop", "from the vertices with the attribute `source` = 1"),
    "node_similarity": ("similarity", "to `origin`; `edge_similarity` is of every edge"),
    "out_degree": ("degree", "its field out_degree"),
    "page_rank": ("pagerank", "ranks add up to 1"),
    "parallel_personalized_page_rank": ("ppr", "by the vertex attribute `jump`"),
    "personalized_page_rank": ("ppr", "by the vertex attribute `jump`"),
    "random_walk": ("walks", "how often each vertex is visited"),
    "shortest_path": ("sssp", _PATHS),
    "shortest_path_length": ("sssp", _PATHS),
    "shortest_paths": ("sssp", _PATHS),
    "single_source_bellman_ford": ("sssp", _PATHS),
    "single_source_dijkstra": ("sssp", _PATHS),
    "single_source_shortest_path": ("bfs", "numbers of edges; result.path(to) has the vertices"),
    "spanning_tree": ("forest", "the minimum spanning forest, by edge values"),
    "square_clustering": ("squares", "how many cycles of four edges, not a share"),
    "static_page_rank": ("pagerank", "ranks add up to 1; give `iterations` for a fixed number"),
    "transitivity": ("lcc", "the coefficient of each vertex"),
}


def _plain(name: str) -> str:
    """Return a name without what systems differ in: `gds.triangleCount.stream`, `nx.triangles`.

    >>> [_plain(name) for name in ("gds.triangleCount.stream", "triangle_count")]
    ['trianglecount', 'trianglecount']
    """
    name = re.sub(r"^(gds|nx|networkx|algo)\.(alpha\.|beta\.)?", "", name.strip())
    name = re.sub(r"\.(stream|stats|mutate|write)$", "", name)
    return re.sub(r"[\W_]", "", name).lower()


def understood(name: str) -> str:
    """Return the built-in program that another system's name means exactly, else the name itself.

    >>> understood("stronglyConnectedComponents"), understood("clustering")
    ('scc', 'clustering')
    """
    return {_plain(other): ours for other, ours in _UNDERSTOOD.items()}.get(_plain(name), name)


def program_hint(name: str, classes: Mapping[str, type]) -> str:
    """Return what to write in place of a name that is not understood; "" if nothing is near.

    Args:
        name: that somebody gave.
        classes: the built-in programs, by name.
    """
    for other, (ours, difference) in _DIFFERENT.items():
        if _plain(other) == _plain(name):
            return f"; the nearest is {ours!r}: {difference}"
    known = {other: ours for other, (ours, _) in _DIFFERENT.items()} | _UNDERSTOOD
    known |= {cls.__name__: ours for ours, cls in classes.items()}
    by_plain = {_plain(other): ours for other, ours in known.items()}
    by_plain |= {_plain(ours): ours for ours in classes}
    near = difflib.get_close_matches(_plain(name), by_plain, 1, 0.7)
    return f"; did you mean {by_plain[near[0]]!r}?" if near else ""
