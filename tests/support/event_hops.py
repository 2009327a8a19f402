"""The engine of an events program in this process, without Spark: for many small runs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from vertexsdk import Graph
from vertexsdk.engine import loop_task
from vertexsdk.engine.commands import Setting
from vertexsdk.engine.make_engine import engine_for
from vertexsdk.program.program import Program
from vertexsdk.state import SegmentRef
from vertexsdk.state.address import Address

__all__ = ["engine_in_process", "mail_of", "state_of", "targets_of"]


def engine_in_process(
    program: Program,
    edges: Iterable[Sequence[Any]] = (),
    vertices: Iterable[Any] = (),
    params: Mapping[str, Any] | None = None,
    *,
    partitions: int = 1,
    undirected: bool = False,
    store: str | Address = "memory://events",
    loop: str = "main",
    nodes: Sequence[SegmentRef] = (),
) -> Any:
    """Return the engine of a main loop over a small graph.

    Args:
        edges, vertices, params, undirected: as for `reference`.
        store: URL to which segments are written.
        nodes: of a checkpoint, to begin from.

    >>> engine = engine_in_process(Program(PaperPaths), [(1, 2)])  # doctest: +SKIP
    >>> engine.execute(Command(budget=QUIET)).work.quiet  # doctest: +SKIP
    True
    """
    rows = {(s, t): (x[0] if x else 1) for s, t, *x in edges}
    if undirected:
        rows = {(min(k), max(k)): x for k, x in rows.items()}
    strings = any(isinstance(i, str) for pair in rows for i in pair)
    ends = [np.array([pair[k] for pair in rows], object if strings else np.int64) for k in (0, 1)]
    graph = Graph.from_arrays(
        *ends, np.array(list(rows.values()), float), vertices=list(vertices) or None,
        undirected=undirected, partitions=partitions,
    )  # fmt: skip
    return engine_for(Setting(program, graph, dict(params or {}), store, loop, nodes=nodes))


def state_of(engine: Any) -> dict[Any, dict[str, Any]]:
    """The state of every vertex that is there, maps of producers too, read where it is."""
    parts = _parts(engine)
    states = {i: part.nodes.peek(i).state for part in parts for i in part.present_ids()}
    return dict(sorted(states.items()))


def targets_of(engine: Any) -> dict[Any, dict[Any, Any]]:
    """The targets which every vertex that is there has declared."""
    parts = _parts(engine)
    targets = {i: part.nodes.peek(i).targets for part in parts for i in part.present_ids()}
    return dict(sorted(targets.items()))


def mail_of(engine: Any) -> dict[Any, list[Any]]:
    """What is on its way, by receiver."""
    return dict(sorted((i, row) for part in _parts(engine) for i, row in part.mail.items()))


def _parts(engine: Any) -> list[Any]:
    partitions = range(engine.graph.partitions)
    lives: list[Any] = [loop_task._partitions[engine._key, p][1] for p in partitions]
    return [live.part for live in lives]
