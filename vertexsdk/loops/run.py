"""Run a program on a graph, from `init` until it converges."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import Any, Literal

import pyarrow as pa

from vertexsdk.engine.batch_run import Run
from vertexsdk.engine.loop_names import loop_of_run
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.graph.graph import Graph, as_graph
from vertexsdk.loops.arguments import with_parameters
from vertexsdk.loops.result import Result
from vertexsdk.loops.snapshot_policy import SnapshotEvery, SnapshotPolicy
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import Vertex
from vertexsdk.state import open_store
from vertexsdk.state.address import Address, address_or_default


def run(
    program: type[Vertex] | Program | str,
    graph: Any,
    *,
    params: Mapping[str, Any] | None = None,
    backend: str | Address | None = None,
    loop: str | None = None,
    max_iterations: int | None = None,
    tolerance: float | None = None,
    commit_every: int | None = None,
    snapshot_every: SnapshotEvery | None = None,
    resume: bool = False,
    replace: bool = False,
    compiled: bool | Literal["require"] = True,
    threads: int | None = None,
    exchange: Literal["auto", "shuffle"] = "auto",
    delay_bound: int | Literal["auto"] = 1,
    progress: bool | None = None,
    trusted: bool = False,
    seed: int = 0,
    **parameters: Any,
) -> Result:
    """Run a program on a graph until it converges, and commit the result.

    Args:
        program: a Vertex subclass, a `Program` of several, or a name as on the command line:
            "pagerank", "module:Class" or "path.py:Class".
        graph: a `Graph`; or what one can be made of without options: a DataFrame of Spark, pandas
            or Polars, an Arrow table, a NetworkX graph, a SciPy matrix, a path.
        params: values of the program's parameters.
        backend: URL of the versioned store, or "@FILE" for a file that contains it; the default
            is `VERTEXSDK_BACKEND`, or else a directory `vertexsdk-state`.
        loop: the name of the loop in the store; by default `PROGRAM-run`. `read` and
            `vertexsdk query` take PROGRAM for it too, where the store has no main loop PROGRAM.
            The result of an earlier run of this name is replaced.
        max_iterations: stop after so many iterations; by default the class's limit.
        tolerance: do not send on changes up to this size; by default the class's.
        commit_every: also commit a version every so many iterations, not only at the end. They
            stay, for readers; to continue from one would need more than it holds.
        snapshot_every: store all that is needed to continue, after so many iterations, or so much
            time: "30s", "5m", a timedelta. A run that loses a processor continues from the newest
            snapshot, and so does one with `resume`; it is deleted when the run ends. See
            `docs/backends.md`.
        resume: continue from the snapshot that an interrupted run of the same program, parameters
            and graph has left in the store; without one, begin, and say so.
        replace: take the place of a main loop of this name although it has acknowledged changes,
            which are dropped; without it such a loop is refused.
        compiled: False interprets the program; "require" refuses one that does not compile.
        threads: number of threads per partition; by default the cores are divided evenly.
        exchange: "shuffle" has every iteration be a Spark job, whose messages go by its shuffle,
            for a cluster that cannot keep processors (`docs/processors.md`).
        delay_bound: how many iterations a partition may be ahead of the slowest vertex, plus one:
            1 is synchronous; "auto" chooses. See `docs/delay-bound.md`.
        progress: show a progress bar; by default on a terminal only.
        trusted: unpickle the result's fields that are Python objects, and snapshots that hold
            some, as all those of an events program do. A pickle can run code, so all who can write
            to the store must be trusted.
        seed: the seed of the random numbers that `self.random()` returns, an int64.
        parameters: values of the program's parameters too: `run("pagerank", graph, damping=0.9)`.
            In `params` goes one that has the name of an option.

    Returns:
        The result, for the caller to close; any process that opens the backend can read it too.

    Raises:
        InputError: wrong arguments, a snapshot of another run to `resume`, or as `replace` says;
            nothing was run.
        RunError: the run failed; versions committed before stay readable.

    Example:
        >>> from vertexsdk import Graph
        >>> from vertexsdk.algorithms import ShortestPaths
        >>> graph = Graph.from_arrays([1, 2, 1], [2, 3, 3], [0.5, 1.0, 4.0], spark=spark)
        >>> result = run(ShortestPaths, graph, params={"origin": 1}, backend="memory://docs")
        >>> result.to_dict()
        {1: 0.0, 2: 0.5, 3: 1.5}
        >>> result.close()
        >>> import networkx as nx
        >>> with run("bfs", nx.path_graph(3), origin=0, backend="memory://docs") as result:
        ...     result.to_dict()
        {0: 0, 1: 1, 2: 2}
        >>> options = {"backend": "memory://docs", "snapshot_every": "30s", "resume": True}
        >>> with run("pagerank", nx.cycle_graph(4), **options) as result:
        ...     result.statistics["resumed_at"] is None  # there was nothing to continue from
        True
    """
    program, params = with_parameters(program, params, parameters)
    graph = as_graph(graph)
    options = RunOptions.checked(
        program, params, max_iterations=max_iterations, tolerance=tolerance,
        commit_every=commit_every, compiled=compiled, threads=threads, exchange=exchange,
        delay_bound=delay_bound, progress=progress, seed=seed, resume=resume, trusted=trusted,
        snapshots=SnapshotPolicy.of(snapshot_every).interval,
    )  # fmt: skip
    return _run(program, graph, params, options, backend, loop, replaces=replace)


def _run(
    program: Program,
    graph: Graph,
    params: dict[str, Any],
    options: RunOptions,
    backend: str | Address | None,
    loop: str | None,
    *,
    replaces: bool = False,
    title: str = "",
) -> Result:
    """Run a program whose arguments are checked; arguments as of `run` and `Run`."""
    given, edges = graph, None
    if program.prepares:
        name = title or loop or loop_of_run(program.name)
        graph, edges = _prepared(program, graph, params, options, backend, name)
    execution = Run(
        program, graph, options, params=params, backend=backend, loop=loop, replaces=replaces,
        title=title,
    )  # fmt: skip
    version, store = execution.go()
    names = program.classes[0].cls.edge_values
    if names:
        edges = graph.edge_table(execution.messages, names)
    return Result(
        execution.backend, execution.loop, version, execution.statistics, graph.spark,
        options.trusted, program.schema(), store=store, run_on=(given, params.get("origin")),
        edges=edges,
    )  # fmt: skip


def _prepared(
    program: Program,
    graph: Graph,
    params: Mapping[str, Any],
    options: RunOptions,
    backend: str | Address | None,
    title: str,
) -> tuple[Graph, pa.Table | None]:
    """Return the graph with the attributes that a class prepares, and edges if it has those.

    The loops of its inner programs are gone then, and what these say has the title of this run.
    """
    stores: dict[Address, set[str]] = {}  # which of them each has

    def inner(what: type[Vertex] | str, on: Graph, seed: int | None = None, **given: Any) -> Result:
        program, given = with_parameters(what, given)
        chosen = RunOptions.checked(
            program, given, compiled=options.compiled, threads=options.threads, progress=False,
            exchange=options.exchange, seed=options.seed if seed is None else seed,
        )  # fmt: skip
        place = Address("memory://prepare") if on.spark is None else address_or_default(backend)
        loop = f"{program.name}-prepare-{threading.get_ident()}"
        stores.setdefault(place, set()).add(loop)
        return _run(program, on, given, chosen, place, loop, title=title)

    cls = program.classes[0].cls
    try:
        columns = cls.prepare(graph, program.bind(params), inner, options.seed)
    finally:
        for place, loops in stores.items():
            with open_store(place) as store:
                for loop in filter(store.head, loops):
                    store.delete(loop)
    if columns is None:
        return graph, None
    attributes = {name: column for name, column in columns.items() if name != "edges"}
    return graph.with_attributes(attributes, replace=True), columns.get("edges")
