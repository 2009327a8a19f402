"""A live engine for the settings which can have one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.engine.batch_run import Run
from vertexsdk.engine.engine import Setting
from vertexsdk.engine.incremental._incremental_engine import IncrementalEngine
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.vertex_file import VertexInput, with_ids
from vertexsdk.program.analysis.incremental_rules import layout_of, why_not_incremental
from vertexsdk.program.analysis.warm_start import why_from_init
from vertexsdk.program.program import Program

__all__ = ["incremental_engine"]


def incremental_engine(setting: Setting) -> IncrementalEngine | None:
    """Return an engine which changes the graph in place; None where the setting needs another.

    Raises:
        InputError: parameters or options that do not fit the graph.
    """
    program, graph, options = setting.program, setting.graph, setting.options
    first = program.classes[0].cls
    tolerance = float(options.tolerance or first.tolerance)
    if graph.partitions > 1 or options.max_iterations is not None:
        return None
    if why_from_init(program, program.bind(setting.params), tolerance, 1) is not None:
        return None
    given: dict[str, Any] = {
        "partitions": 1, "undirected": graph.undirected, "compiled": bool(options.compiled),
    }  # fmt: skip
    layout = layout_of(program, undirected=graph.undirected)
    if layout is None or why_not_incremental(program, strings=False, **given) is not None:
        return None
    vertices = _named(setting)
    if vertices is not None and not _all_integers(vertices):
        return None
    loaded = graph.with_vertices(vertices)
    engine = None
    try:
        engine = _taken_over(setting, loaded, layout, vertices)
    finally:
        if engine is None:
            loaded.unpersist()
    return engine


def _taken_over(
    setting: Setting, graph: Graph, layout: str, vertices: VertexInput | None
) -> IncrementalEngine | None:
    """Load the graph and have an engine take it over; None where the program does not compile."""
    program = setting.program
    info = graph.materialise(("out", program.value_dtype, "combined"))
    if info.string_ids or info.kinds:
        return None
    run = Run(
        program, graph, replace(setting.options, progress=False), params=setting.params,
        backend=setting.backend, loop=setting.loop,
    )  # fmt: skip
    plan = run.plan(info)
    if plan.kernels[0] is None:
        return None
    if plan.initial is not None and plan.initial.value.changing is not None:
        return None
    engine = IncrementalEngine(graph, plan, layout, _residual(program))
    try:
        ids = np.zeros(0, np.int64) if vertices is None else _integers(vertices)
        engine.create(info.keys[0], info.num_edges, np.unique(ids))
    except BaseException:
        engine.close()
        raise
    for key in info.keys:
        graph.forget(key)
    return engine


def _named(setting: Setting) -> VertexInput | None:
    """The vertices of the graph's vertex file, and those which parameters name."""
    ids = setting.program.named_vertices(setting.params).values()
    return with_ids(setting.graph.vertex_input, list(ids))


def _integers(vertices: VertexInput) -> NDArray[np.int64]:
    return np.asarray(vertices.column.cast("int64"))


def _all_integers(vertices: VertexInput) -> bool:
    try:
        _integers(vertices)
    except (ValueError, TypeError):
        return False
    return True


def _residual(program: Program) -> str | None:
    """The only aggregate which the program's rule reads, if it is one."""
    read = program.classes[0].facts.converged_reads
    return next(iter(read)) if len(read) == 1 else None
