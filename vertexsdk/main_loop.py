"""A program over a graph that changes: changes go in, exact answers for an instant come out."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import Any

from vertexsdk.algebra import VertexId
from vertexsdk.changes import Changes
from vertexsdk.compile.edges import COUNTS
from vertexsdk.defaults import default_backend
from vertexsdk.edge_set import EdgeSet
from vertexsdk.errors import InputError
from vertexsdk.graph import Graph
from vertexsdk.load.vertices import with_ids
from vertexsdk.loops import Branch
from vertexsdk.program import Program
from vertexsdk.results import Result
from vertexsdk.state import open_store
from vertexsdk.vertex import Vertex
from vertexsdk.warm_start import Kept, why_from_init

__all__ = ["MainLoop"]


class MainLoop:
    """A graph that takes in changes, and queries of it.

    A query forks a branch loop at this instant and iterates it to the program's fixed point on
    the graph as it is then: the answer equals that of a run from scratch. A branch goes on from
    the answer before where that is exact (see `warm_start`), and begins with `init` elsewhere; its
    statistics say which under `start`, and why under `start_reason`.

    A vertex is there while an edge, the graph's vertex file, or a parameter names it.

    Args:
        program: a Vertex subclass, or a `Program` of several.
        graph: what it begins with; without parallel edges.
        params: values of the program's parameters.
        backend: URL of the versioned store; see `default_backend`.
        loop: the name under which the newest answer is kept, the program's name by default;
            that of query k is kept as `LOOP-k` too.
        strict: refuse a change that removes or alters an edge which is not there.
        options: as those of `run`.

    Raises:
        InputError: wrong arguments; nothing was run.

    Example:
        >>> main = MainLoop(ShortestPaths, graph, params={"origin": 1})  # doctest: +SKIP
        >>> main.ingest([("+", 1, 7, 0.5), ("-", 1, 2)])  # doctest: +SKIP
        {'added': 1, 'removed': 1, 'changed': 0, 'unchanged': 0, 'absent': 0}
        >>> main.query().lookup([7])  # doctest: +SKIP
        {7: {'length': 0.5}}
    """

    def __init__(
        self,
        program: type[Vertex] | Program,
        graph: Graph,
        *,
        params: Mapping[str, Any] | None = None,
        backend: str | None = None,
        loop: str | None = None,
        strict: bool = False,
        **options: Any,
    ) -> None:
        self.program = program if isinstance(program, Program) else Program(program)
        self.params = dict(params or {})
        bound = self.program.bind(self.params)
        self.backend = backend or default_backend()
        self.loop = loop or self.program.name
        self.strict, self.options = strict, options
        self.edges = EdgeSet(graph, self.program.value_dtype)
        self.counts: dict[str, int] = dict.fromkeys(COUNTS, 0)
        self.changes = 0
        self.queries = 0
        self.seconds = 0.0
        tolerance = float(options.get("tolerance") or self.program.classes[0].cls.tolerance)
        self.from_init = why_from_init(self.program, bound, tolerance, graph.partitions)
        if options.get("max_iterations") is not None:
            self.from_init = "it ends after a number of iterations"
        self._kept: Kept | None = None
        self._renamed = 0
        self._keep_vertices()

    def _keep_vertices(self) -> None:
        kinds = {n: t for s in self.program.classes for n, (t, _) in s.params.items()}
        ids = [x for n, x in self.params.items() if kinds.get(n) is VertexId]
        if self.edges.names is None and not all(_is_integer(i) for i in ids):
            raise InputError(f"{ids[0]!r} is no vertex: the graph's ids are integers")
        self._vertices = with_ids(self.edges.base.vertex_input, ids)
        if self._vertices is not None and self.edges.names is not None:
            self.edges.learn(self._vertices.strings())

    def ingest(self, changes: Changes | Iterable[Sequence[Any]]) -> dict[str, int]:
        """Take in changes, in order, all of them or none.

        Args:
            changes: a `Changes` batch, or `(sign, source, target[, value])` tuples.

        Returns:
            How many edges were `added`, `removed`, `changed` or left `unchanged`, and how many
            changes met no such edge (`absent`).

        Raises:
            InputError: changes of another form; or, with `strict`, an absent edge, named.
        """
        batch = changes if isinstance(changes, Changes) else Changes.of(changes)
        began = time.perf_counter()
        if not len(batch):
            return dict.fromkeys(COUNTS, 0)
        counts, absent = self.edges.apply(batch, strict=self.strict)
        if self.strict and absent:
            raise InputError(self._absent(batch, absent[0]))
        for name, number in counts.items():
            self.counts[name] += number
        self.changes += len(batch)
        self.seconds += time.perf_counter() - began
        return counts

    def _absent(self, batch: Changes, number: int) -> str:
        place = batch.places[number] if batch.places else f"change {number + 1} of the batch"
        ends = f"{batch.source[number].as_py()} -> {batch.target[number].as_py()}"
        return f"{place}: there is no edge {ends} to remove or change"

    def query(self) -> Result:
        """Fork a branch loop now, iterate it to the end, and return the exact answer.

        Raises:
            InputError: the graph has no edge left.
            RunError: the run failed; what was ingested stays.
        """
        graph = self.edges.graph(self._vertices)
        warm, reason = self._start()
        branch = Branch(
            self.program, graph, params=self.params, backend=self.backend, loop=self.loop,
            warm=warm, keep=self._next_answer(), **self.options,
        )  # fmt: skip
        try:
            result = branch.go()
        finally:
            graph.unpersist()
        self.queries += 1
        if warm is not None:
            self.edges.base.forget(warm.key)
        self._kept, self._renamed = branch.kept, self.edges.renamed
        start = "init" if branch.warm is None else "warm"
        result.statistics |= {"start": start, "start_reason": reason, "changes": self.changes}
        result.statistics |= self.counts
        name = f"{self.loop}-{self.queries}"
        with open_store(self.backend) as store:
            if name in store.loops():
                store.delete(name)  # of an earlier stream
            store.fork(self.loop, name)
        return result

    def _start(self) -> tuple[Kept | None, str]:
        """The answer to go on from, or None, and why."""
        if self.from_init is not None:
            return None, self.from_init
        if self._kept is None:
            return None, "it is the first query"
        if self._renamed != self.edges.renamed:
            self.edges.base.forget(self._kept.key)
            return None, "vertices with new names came"
        return self._kept, "the answer before was trimmed to what still holds"

    def _next_answer(self) -> str | None:
        return None if self.from_init else f"{self.edges.base.key}/answer-{self.queries}"

    def close(self) -> None:
        """Free the memory of the edges; answers stay in the store."""
        self.edges.base.unpersist()

    def __enter__(self) -> MainLoop:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def _is_integer(vertex: Any) -> bool:
    try:
        return -(2**63) <= int(vertex) < 2**63
    except (TypeError, ValueError):
        return False
