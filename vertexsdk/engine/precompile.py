"""Compile a plan's kernels before the first task, and find out whether they compile at all.

A processor over an empty stand-in for the graph goes through one iteration with its kernels
replaced by their compilation, so every kernel is compiled for exactly the types it will see.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numba
import numpy as np

from vertexsdk.compile import kernel_cache
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.native import NativeMethods
from vertexsdk.compile.plan import Plan, shape_of
from vertexsdk.engine.processor import Processor
from vertexsdk.graph.topology.edge_attributes import no_values
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.facts import METHODS
from vertexsdk.program.program import Program


def why_interpreted(program: Program, params: Mapping[str, Any]) -> str | None:
    """Return why a program does not compile; None where it does.

    Args:
        program: its classes.
        params: the value of every parameter.

    >>> from vertexsdk.algorithms import Degree
    >>> why_interpreted(Program(Degree), {})
    """
    values = {n: 0 if isinstance(x, str) else x for n, x in params.items()}  # ids are codes
    plan = Plan(
        program=program,
        kernels=tuple(None for _ in program.classes),
        shape="many" if program.algebra is None else shape_of(program.classes),
        params=values,
        tolerance=float(program.classes[0].cls.tolerance),
        threads=1,
        topologies=("",),
        run="",
        loop="",
        store=None,
        max_iterations=None,
        each=False,
    )
    return kernel_cache.why_interpreted(plan, compile_plan)


class _Compiling:
    """A module whose functions compile for their arguments and do nothing.

    Args:
        module: with the functions.
        say: told each method of a class before it is compiled.
        of: the name of the class; None for the delivery of messages.
    """

    def __init__(
        self, module: ModuleType, say: Callable[[str], None], of: str | None = None
    ) -> None:
        self._module, self._say, self._of = module, say, of

    def __getattr__(self, name: str) -> Callable[..., Any]:
        kernel = getattr(self._module, name)

        def compile_only(*args: Any) -> Any:
            if self._of is not None:  # other kernels compute what scatter sends
                self._say(f"compiling {name if name in METHODS else 'scatter'} of {self._of}")
            kernel.compile(tuple(numba.typeof(a) for a in args))
            if name == "init":
                return args[2]
            return (0, args[2]) if name in ("gather", "next_round", "scatter") else None

        return compile_only


def stand_in(plan: Plan) -> Topology:
    """Return a vertex of every class and an edge, with the array types of the real topology."""
    value = plan.program.value_dtype
    classes = len(plan.program.classes)
    n = max(classes, 2)

    def fixed(data: Any, dtype: Any) -> Any:
        array = np.array(data, dtype)
        array.flags.writeable = False
        return array

    return Topology(
        partition=0,
        partitions=len(plan.topologies),
        ids=fixed(range(n), np.int64),
        start=fixed([0] + [1] * n, np.int64),
        target=fixed([1], np.int32),
        ghost_ids=fixed([], np.int64),
        ghost_start=fixed([0] * (len(plan.topologies) + 1), np.int64),
        inbound=fixed([], np.int32),
        inbound_start=fixed([0] * (len(plan.topologies) + 1), np.int64),
        in_start=fixed([0, 0] + [1] * (n - 1), np.int64),
        in_source=fixed([0], np.int32),
        kind=fixed(range(n), np.uint8) if classes > 1 else None,
        value=None if value is None else fixed(no_values(1, value), None),
        reverse=fixed([False], np.bool_) if plan.program.direction == "both" else None,
    )


def compile_plan(plan: Plan, say: Callable[[str], None]) -> None:
    """Compile every kernel of the plan; those on disk are only loaded.

    Args:
        say: told which method comes next.

    Raises:
        NumbaError: a method does not compile; the message says where.
    """
    topology = stand_in(plan)
    processor = Processor(plan, 0, topology.n, topology)
    module: Any = _Compiling(processor.module, say)
    delivery: Delivery = processor.delivery
    delivery.module = processor.module = module
    for methods in processor.methods:
        if isinstance(methods, NativeMethods):
            compiling = _Compiling(methods.module, say, methods.spec.name)
            methods.module = compiling  # type: ignore[assignment]
    v = processor.v
    aggregates = {k: a.identity for k, a in plan.program.aggregators.items()}
    for iteration in (0, 1):
        processor.step(iteration, aggregates)
    if plan.rounds:
        processor.step(2, aggregates, 1)
    _delivery_kernels(delivery, v)
    if plan.threads > 1:
        _delivery_kernels(delivery, v)


def _delivery_kernels(delivery: Delivery, v: Any) -> None:
    some = np.zeros(1, np.int32)
    none = np.zeros(0, np.int32)
    values = v.msg[:0].copy()
    old = v.msg[:1].copy()
    if delivery.algebra.kind != "latest":
        delivery._repair(none, v.msg, v.agg)
        if delivery.shape != "derived":
            delivery.pull(v.msg, v.agg)
    if delivery.shape == "uniform" and delivery.ordered:
        delivery.module.better(some, old, v.msg, old, 0)
        delivery.read_better(old, 0, v.msg, v.agg)
    if v.gathered is not None:
        delivery.module.differing(none, v.agg, v.gathered, none.copy())
    arguments = delivery.arguments(v.msg, v.agg, 1, 0)
    t = delivery.topology
    if delivery.shape == "uniform":
        delivery.module.push(some, 0, 1, old, t.start, t.stop, t.target, *arguments)
        if delivery.algebra.kind == "latest":
            delivery.module.mark_targets(some[:0], t.start, t.stop, t.target, delivery.ch)
    elif delivery.shape != "derived":
        delivery.module.emit_edges(np.zeros(0, np.int64), values, t.target, *arguments)
    delivery.module.apply_buckets(
        0, 1, v.agg, delivery.ch, delivery.list, delivery.counts, *delivery._small
    )
    index = none.copy()
    for array in (index, values):
        array.flags.writeable = False
    if t.partitions > 1:
        delivery.inbound(0, index, values, v.msg, v.agg)
    delivery.finish(v.msg, v.agg)
