"""A live engine for the settings which can have one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vertexsdk.engine.batch_run import Run
from vertexsdk.engine.engine import Setting
from vertexsdk.engine.incremental._incremental_engine import IncrementalEngine
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.name_codes import NameCodes, code_step
from vertexsdk.graph.vertex_file import VertexInput, last_rows, with_ids
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
    if options.max_iterations is not None:
        return None
    if graph.partitions > 1 and options.delay_bound not in (1, "auto"):
        return None  # whose iterations are synchronous
    if why_from_init(program, program.bind(setting.params), tolerance, 1) is not None:
        return None
    layout = layout_of(program, undirected=graph.undirected)
    if layout is None or _why_not(setting, strings=False) is not None:
        return None
    vertices = _named(setting)
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
    if info.string_ids and _integers_but_for_parameters(setting, graph):
        return None  # a parameter names no vertex of the graph
    if info.kinds or _why_not(setting, strings=info.string_ids) is not None:
        return None
    run = Run(
        program, graph, replace(setting.options, progress=False), params=setting.params,
        backend=setting.backend, loop=setting.loop,
    )  # fmt: skip
    plan = run.plan(info)
    if graph.partitions > 1 and not plan.resident:
        return None  # its partitions tell each other what they did several times a command
    if plan.kernels[0] is None and plan.shape == "edge":
        plan = replace(plan, shape="derived")  # they follow from fields and the value of an edge
    if plan.initial is not None and plan.initial.value.changing is not None:
        return None
    names = None
    if graph.string_table is not None:
        names = NameCodes(graph.string_table.sorted)
        plan = replace(plan, params=_spread_codes(setting, plan.params, len(names)))
    engine = IncrementalEngine(graph, plan, layout, _residual(program), names)
    engine.loaded = {
        "partitioner": graph.partitioner.name, "boundary_share": info.boundary_share,
        "cut": info.cut,
    }  # fmt: skip
    try:
        ids = np.zeros(0, np.int64)
        if vertices is not None:
            ids = last_rows(vertices, graph.string_table)[0]
        engine.create(info.keys, ids)
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


def _integers_but_for_parameters(setting: Setting, loaded: Graph) -> bool:
    """Whether ids are integers in the graph itself, and strings only where parameters name some."""
    given = {str(x) for x in setting.program.named_vertices(setting.params).values()}
    table = loaded.string_table
    assert table is not None
    if len(table) - table.integers > len(given):
        return False
    info = setting.graph.materialise(("out", setting.program.value_dtype, "combined"))
    return not info.string_ids


def _why_not(setting: Setting, *, strings: bool) -> str | None:
    return why_not_incremental(
        setting.program, strings=strings,
        undirected=setting.graph.undirected,
    )  # fmt: skip


def _spread_codes(setting: Setting, params: Mapping[str, Any], names: int) -> dict[str, Any]:
    """The parameters, with codes of `NameCodes` in place of the ranks of so many names."""
    program, given = setting.program, setting.params
    bound = program.named_vertices(program.bind(given))
    ranks = [n for n, x in bound.items() if x is not None and (n in given or isinstance(x, str))]
    return {**params, **{n: (params[n] + 1) * code_step(names) for n in ranks}}


def _residual(program: Program) -> str | None:
    """The only aggregate which the program's rule reads, if it is one."""
    read = program.classes[0].facts.converged_reads
    return next(iter(read)) if len(read) == 1 else None
