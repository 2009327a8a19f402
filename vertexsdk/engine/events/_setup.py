"""An `EventsEngine` for a graph on Spark, or for a checkpoint in a store."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from vertexsdk.compile.plan import Plan, class_numbers, shippable
from vertexsdk.engine.events._events_engine import EventsEngine
from vertexsdk.engine.events._events_task import EventTask
from vertexsdk.engine.events._resident_versions import Position, VersionPool
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.load.arrow import text_column
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.graph.vertex_file import integer_id
from vertexsdk.program.program import Program
from vertexsdk.state import SegmentRef
from vertexsdk.state.address import Address
from vertexsdk.transport.shipping import ship_by_value


def events_engine(
    program: Program,
    graph: Graph,
    *,
    params: Mapping[str, Any] | None = None,
    backend: str | Address | None = None,
    loop: str | None = None,
    max_iterations: int | None = None,
    seed: int = 0,
    resident: bool = True,
    nodes: Sequence[SegmentRef] = (),
) -> EventsEngine:
    """Return the engine of a main loop which begins with a graph.

    Args:
        program: one without `messages`.
        backend: URL of the store to which segments are written; None if none are.
        loop: the name under which they are.
        max_iterations: instead of the class's own, each time that something came in.
        resident: partitions may stay in processes between hops.
        nodes: of a checkpoint, to stand there; the graph says only where partitions are.

    Raises:
        InputError: a parameter that can be no vertex of the graph.
    """
    keys, kinds = ("",) * graph.partitions, tuple[str, ...]()
    if not nodes:
        info = graph.materialise(("out", program.value_dtype, "combined"))
        keys, kinds = info.keys, info.kinds
    names = graph.string_table
    numbers = class_numbers(program, kinds)
    bound = bound_params(program, params or {}, strings=names is not None)
    ship_by_value(program)
    run = f"{graph.transport.application}/events-{uuid.uuid4().hex}"
    initial = None if nodes else graph.initial_state(program)
    stays = resident and graph.workers.resident
    plan = plan_for(
        program, bound, run=run, topologies=keys, loop=loop or program.name, store=backend,
        max_iterations=max_iterations, kinds=numbers, initial=initial, resident=stays, seed=seed,
    )  # fmt: skip
    task = EventTask(plan, strings=names is not None, undirected=graph.undirected)
    make = partial(graph.workers.exchange, resident=stays)
    family = VersionPool(plan, task, make, graph.forget)
    ids = named_ids(program, params or {}, strings=names is not None)
    if graph.vertex_input is not None:
        given = graph.vertex_input.strings()
        ids = pa.concat_arrays([pc.cast(given, ids.type), ids])
    return begin(family, program, names, named=ids, nodes=nodes)


def plan_for(
    program: Program,
    params: dict[str, Any],
    *,
    run: str,
    topologies: tuple[str, ...],
    loop: str,
    store: str | Address | None,
    max_iterations: int | None = None,
    **more: Any,
) -> Plan:
    """The plan of an events program; `more` are other attributes of it."""
    limit = program.classes[0].cls.max_iterations if max_iterations is None else max_iterations
    return Plan(
        program=shippable(program),
        kernels=tuple(None for _ in program.classes),
        shape="many",
        params=params,
        tolerance=0.0,
        threads=1,
        topologies=topologies,
        run=run,
        loop=loop,
        sees=loop,
        store=store,
        max_iterations=limit,
        each=False,
        **more,
    )


def begin(
    family: VersionPool,
    program: Program,
    names: StringIds | None,
    *,
    named: Any = None,
    nodes: Sequence[SegmentRef] = (),
) -> EventsEngine:
    """Return the main loop's engine: with the graph which was loaded, or as a checkpoint says.

    Args:
        named: ids of vertices which are there without edges, an Arrow array.
    """
    partitions = len(family.plan.topologies)
    if named is not None and names is not None:
        names = StringIds.of(names.sorted, named)
    at = Position(chains=((),) * partitions, names=names)
    engine = EventsEngine(family, at, reads_loop=program.reads_loop)
    try:
        engine.load(named, nodes)
    except BaseException:
        engine.close()
        raise
    return engine


def named_ids(program: Program, params: Mapping[str, Any], *, strings: bool) -> Any:
    """The vertices which parameters name, as an Arrow array."""
    ids = [x for x in program.named_vertices(params).values() if x is not None]
    if strings:
        return text_column(ids)
    return pa.array([integer_id(i) for i in ids], pa.int64())


def bound_params(program: Program, params: Mapping[str, Any], *, strings: bool) -> dict[str, Any]:
    """The values of all parameters, with vertices as the engine calls them."""
    bound = program.bind(params)
    for name, vertex in program.named_vertices(params).items():
        if vertex is not None:
            bound[name] = str(vertex) if strings else integer_id(vertex)
    return bound
