"""Makes the engine of a loop: loads its graph, and has an engine take it over."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from vertexsdk.compile.plan import Plan
from vertexsdk.engine.answer_checks import say_unused_values, warn_of_strangers
from vertexsdk.engine.auto_bound import BoundChoice
from vertexsdk.engine.batch_run import Run
from vertexsdk.engine.commands import AnswerStart, Setting
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.graph.graph import Graph, VariantInfo
from vertexsdk.graph.topology.name_codes import NameCodes, code_step
from vertexsdk.graph.vertex_file import VertexInput, integer_id, last_rows, with_ids
from vertexsdk.notebook.live_display import in_notebook
from vertexsdk.program.analysis.incremental_rules import (
    layout_of,
    why_from_init,
    why_no_history,
    why_not_local,
)
from vertexsdk.program.vertex import MAIN_LOOP


def engine_for(setting: Setting) -> LoopEngine:
    """Return the engine of a loop.

    Raises:
        InputError: parameters or options that do not fit the graph; nothing was run.
    """
    return _engine_with(setting, _listed_vertices(setting))


def _engine_with(setting: Setting, vertices: VertexInput | None) -> LoopEngine:
    """Return the engine of a graph with these vertices; where there is none, free the graph."""
    graph = setting.graph.with_vertices(vertices)
    graph.title = f"loop {setting.loop!r}"
    engine = None
    try:
        engine = _create(setting, graph, vertices)
    finally:
        if engine is None:
            graph.unpersist()
    return engine


def _create(setting: Setting, graph: Graph, vertices: VertexInput | None) -> LoopEngine:
    """Load the graph and have an engine take it over."""
    program = setting.program
    info = graph.materialise(("out", program.value_dtype, "combined"))
    if info.string_ids and _integers_but_for_parameters(setting, graph):
        named = [integer_id(x) for x in program.named_vertices(setting.params).values()]
        graph.unpersist()
        return _engine_with(setting, with_ids(setting.graph.vertex_input, named))
    options = replace(setting.options, progress=None if in_notebook() else False)
    if program.algebra is None and options.compiled != "require":
        options = replace(options, compiled=False)  # it cannot be, as expected
    run = Run(
        program, graph, options, params=setting.params, backend=setting.backend, loop=setting.loop
    )
    run.sees = MAIN_LOOP
    with run.bar:
        plan = replace(run.plan(info), names=None)  # partitions keep their names
    warn_of_strangers(program, run.params, graph)
    say_unused_values(program, info, graph)
    layout = "undirected" if graph.undirected else "directed"
    start = _start(setting, graph, info, plan, run)
    if program.algebra is None:
        plan = replace(plan, params=_method_params(setting, strings=info.string_ids))
    elif start.strategy == "warm":
        layout = layout_of(program, undirected=graph.undirected) or layout
        if plan.kernels[0] is None and plan.shape == "edge":
            plan = replace(plan, shape="derived")  # they follow from fields and an edge's value
    names = None
    if graph.string_table is not None:
        names = NameCodes(graph.string_table.sorted)
    if names is not None and program.algebra is not None:
        step = code_step(len(names))
        plan = replace(plan, params=_spread_codes(setting, plan.params, step))
        if plan.initial is not None:
            attributes = plan.initial.value.with_codes(step, program)
            plan = replace(plan, initial=graph.transport.broadcast(attributes))
    engine = LoopEngine(graph, plan, layout, start, names)
    engine.loaded = {
        "partitioner": graph.partitioner.name, "boundary_share": info.boundary_share,
        "cut": info.cut, "delay_bound": start.choice.bound,
        "delay_bound_reason": start.choice.reason,
    }  # fmt: skip
    try:
        ids = np.zeros(0, np.int64)
        if vertices is not None:
            ids = last_rows(vertices, graph.string_table)[0]
        engine.create(info.keys, ids, setting.nodes)
    except BaseException:
        engine.close()
        raise
    for key in info.keys:
        graph.forget(key)
    return engine


def _why_from_init(
    setting: Setting, graph: Graph, strings: bool, classes: bool, initial: Any
) -> str | None:
    """Return why every answer begins with `init`, if it does."""
    program, options = setting.program, setting.options
    if options.max_iterations is not None:
        return "it ends after a number of iterations"
    bound = options.delay_bound
    if graph.partitions > 1 and bound not in (1, "auto"):
        return f"it has a delay bound of {bound}"
    if classes:
        return "the vertex file names classes"
    if initial is not None and initial.value.changing is not None:
        return f"{initial.value.changing} begins with vertex attributes"
    return why_from_init(
        program, program.bind(setting.params), options.tolerance_of(program),
        undirected=graph.undirected, strings=strings,
    )  # fmt: skip


def _start(setting: Setting, graph: Graph, info: VariantInfo, plan: Plan, run: Run) -> AnswerStart:
    """Return the start of the loop's answers."""
    program, bound = setting.program, setting.options.delay_bound
    classes, strings = bool(info.kinds), info.string_ids
    reason = None
    if program.algebra is not None:
        reason = _why_from_init(setting, graph, strings, classes, plan.initial)
    if reason is None:
        synchronous = "iterations from the previous state are synchronous"
        return AnswerStart("warm", BoundChoice(1, False, synchronous))
    if not plan.tolerance > 0:
        plain = plan.initial is None and not classes
        if plain and why_not_local(program, plan.max_iterations) is None:
            return AnswerStart("local", run.choice(info))
        asynchronous = graph.partitions > 1 and bound not in (1, "auto")
        limit = plan.max_iterations
        why = why_no_history(program, strings=strings, max_iterations=limit)
        if not asynchronous and why is None:
            if not setting.options.history:
                return AnswerStart("init", run.choice(info), "no history is kept, history=False")
            choice = BoundChoice(1, False, "iterations are recorded")
            return AnswerStart("history", choice, history_bytes=setting.options.history_bytes)
        if why is not None and (classes or not program.classes[0].facts.scalar_messages):
            reason = why
    return AnswerStart("init", run.choice(info), reason)


def _listed_vertices(setting: Setting) -> VertexInput | None:
    """The vertices of the graph's vertex file, and those which parameters name."""
    ids = setting.program.named_vertices(setting.params).values()
    return with_ids(setting.graph.vertex_input, list(ids))


def _integers_but_for_parameters(setting: Setting, loaded: Graph) -> bool:
    """Return whether the graph itself has integer ids, and only parameters name strings."""
    given = {str(x) for x in setting.program.named_vertices(setting.params).values()}
    table = loaded.string_table
    assert table is not None
    if len(table) - table.integers > len(given):
        return False
    info = setting.graph.materialise(("out", setting.program.value_dtype, "combined"))
    return not info.string_ids


def _method_params(setting: Setting, *, strings: bool) -> dict[str, Any]:
    """The values of all parameters, with vertices as methods see them."""
    bound = setting.program.bind(setting.params)
    for name, vertex in setting.program.named_vertices(setting.params).items():
        if vertex is not None:
            bound[name] = str(vertex) if strings else integer_id(vertex)
    return bound


def _spread_codes(setting: Setting, params: Mapping[str, Any], step: int) -> dict[str, Any]:
    """The parameters, with codes of `NameCodes`, so far apart, in place of ranks of names."""
    program, given = setting.program, setting.params
    bound = program.named_vertices(program.bind(given))
    ranks = [n for n, x in bound.items() if x is not None and (n in given or isinstance(x, str))]
    return {**params, **{n: (params[n] + 1) * step for n in ranks}}
