"""One run of a program over a graph, to its end: load, compile, iterate, commit."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from functools import partial
from types import ModuleType
from typing import Any

import numba
import numpy as np

from vertexsdk.arrays.json_values import as_json
from vertexsdk.compile import kernel_cache
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.kernel_cache import compiled_plan
from vertexsdk.compile.native import NativeMethods
from vertexsdk.compile.plan import Plan, class_numbers, shape_of, shippable
from vertexsdk.engine._run_recovery import RunRecovery, StoredSnapshot
from vertexsdk.engine.answer_checks import (
    check_answer,
    endless,
    say_unused_values,
    warn_of_strangers,
)
from vertexsdk.engine.auto_bound import BoundChoice, as_given, choose
from vertexsdk.engine.commands import (
    AnswerStart,
    Budget,
    Command,
    EdgeColumns,
    Version,
    Versions,
    WorkDone,
)
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.engine.loop_names import acknowledged_changes, loop_of_run, refuse_to_replace
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.engine.processor import Processor
from vertexsdk.engine.progress import ProgressBar
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, LostError, RunError
from vertexsdk.graph.graph import Graph, VariantInfo
from vertexsdk.graph.load.build_topology import Variant
from vertexsdk.graph.topology.edge_attributes import no_values
from vertexsdk.graph.topology.topology import Topology
from vertexsdk.program.analysis.delay_bound import by_blocks, why_synchronous
from vertexsdk.program.facts import METHODS
from vertexsdk.program.program import Program
from vertexsdk.state import Manifest, Store, open_store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.state.write_behind import WriteBehind
from vertexsdk.transport.shipping import ship_by_value
from vertexsdk.transport.transport import Transport

TRIES = 3
SLOW = 1.0  # seconds of compiling a user's class after which it is said
_OURS = "vertexsdk.algorithms"
SHOWN = 100_000  # vertices in a commit up to which it is readable by SQL when it is acknowledged


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


class Run:
    """One loop run to its fixed point: its choices, its clock, and the hops it makes.

    Args:
        options: run options, from `RunOptions.checked`.
        params, backend, loop: as those of `run`.
        replaces: take the place of a main loop with acknowledged changes.
        title: what messages call it, which then do not tell of the graph; by default the loop's
            name.

    Attributes:
        sees: what `self.loop` is.
    """

    def __init__(
        self,
        program: Program,
        graph: Graph,
        options: RunOptions,
        *,
        params: Mapping[str, Any] | None = None,
        backend: str | Address | None = None,
        loop: str | None = None,
        replaces: bool = False,
        title: str = "",
    ) -> None:
        self.options, self.compiled = options.on(graph.transport), options.compiled
        self.graph = graph if options.exchange == "auto" else graph.held_by_jobs()
        self.program, self.loop = program, loop or loop_of_run(program.name)
        self._replaces = replaces
        self.backend = address_or_default(backend)
        self.max_iterations = options.limit_of(program)
        self.given = dict(params or {})
        self.title, self._of_another = title or self.loop, bool(title)
        self.bar = ProgressBar(self.title, options.progress, self.max_iterations)
        self.seconds: dict[str, float] = {}
        self.spent = PhaseTimer()
        self.statistics: dict[str, Any] = {}
        self.committed: Manifest | None = None  # by this run, and so by a try that was lost too
        self.recovery = RunRecovery(self.loop, options, self.bar.note)
        self.sees = self.loop
        self.messages: list[EdgeColumns] = []  # along edges, where the class names them

    def go(self) -> tuple[Manifest, Store]:
        """Load, compile, iterate, commit.

        Returns:
            The version that was committed last, and the open store, for the caller to close.
        """
        store = self._go()
        assert self.committed is not None
        return self.committed, store

    def _go(self) -> Store:
        began = time.perf_counter()
        bound = self.program.bind(self.given)
        with ExitStack() as on_error:
            with self.spent.timed("claim"):
                store = on_error.enter_context(open_store(self.backend))
                refuse_other_hosts(self.graph.transport, store)  # before any job
                self._refuse_to_replace(store, store.head(self.loop))
            with self.bar:
                self._run_with_retries(store, bound)
            self.recovery.end(store)
            store.show(self.loop)
            on_error.pop_all()
        total = self.statistics["total_seconds"] = time.perf_counter() - began
        self.statistics["spent"] = self.spent.complete(total)
        return store

    def _run_with_retries(self, store: Store, bound: dict[str, Any]) -> None:
        """Run to the end; where an executor is lost, from the newest snapshot or the beginning."""
        tries, reached = 0, -1
        while True:
            tries += 1
            try:
                info = self._load()
                params = self._codes(bound, info)
                warn_of_strangers(self.program, bound, self.graph)
                say_unused_values(self.program, info, self.graph)
                with self.spent.timed("claim"):
                    newest = store.claim(self.loop, check=partial(self._refuse_to_replace, store))
                if lost := acknowledged_changes(newest):
                    self.bar.note(
                        f"replaces the main loop of this name and its {lost:,} acknowledged changes"
                    )
                stored = self.recovery.find(store)
                same = newest is not None and newest.statistics.get("run") == self.recovery.run
                self.committed = newest if same or self.committed else None
                plan = self._plan(info, params, store)
                self._iterate(plan, info, store, stored)
                return
            except RunError as error:
                if not isinstance(error, LostError):
                    raise
                if self.recovery.newest > reached:
                    tries, reached = 1, self.recovery.newest
                if tries == TRIES:
                    raise RunError(
                        f"{error}; {TRIES} tries failed, see whether executors die for lack "
                        "of memory"
                    ) from error
                self.graph.unpersist()
                self.bar.note(f"{error}; loading the graph again")

    def _refuse_to_replace(self, store: Store, newest: Manifest | None) -> None:
        if newest is not None:
            newest.check_owner(self.program.name, None, store.backend.location)
        if not self._replaces:
            refuse_to_replace(newest, self.loop, store.backend.location)

    def _load(self) -> VariantInfo:
        self.bar.say("loading")
        began = time.perf_counter()
        latest = self.program.algebra is not None and self.program.algebra.kind == "latest"
        each = latest and self.graph.partitions > 1
        parallel = not self.graph.multi or self.program.classes[0].cls.parallel_edges
        ghosts = "each" if each else "combined"
        info = self.graph.materialise(
            Variant(self.program.direction, self.program.value_dtype, ghosts, parallel)
        )
        text = f"{info.duplicates} duplicate edges: the last one of each pair counts "
        text += "(multi=True keeps all)"
        if info.duplicates and not self._of_another and self.graph.is_new(text):
            self.bar.note(text)
        self.seconds["load"] = time.perf_counter() - began
        self.spent.add("load", self.seconds["load"])
        return info

    def plan(self, info: VariantInfo) -> Plan:
        """Return the plan with which tasks run over a graph that is loaded.

        Raises:
            InputError: parameters that do not fit the graph.
        """
        params = self._codes(self.program.bind(self.given), info)
        with open_store(self.backend) as store:
            return self._plan(info, params, store)

    def _codes(self, bound: dict[str, Any], info: VariantInfo) -> dict[str, Any]:
        """Return the parameters with vertex ids as codes, refusing ids that are not there."""
        params = dict(bound)
        for name, value in self.program.named_vertices(bound).items():
            if value is None or (isinstance(value, int) and name not in self.given):
                continue  # a default of a user's class that stands for no vertex
            try:
                params[name] = int(self.graph.code_of([value])[0])
            except InputError:
                raise InputError(
                    f"{self.program.name}: {name}={value!r} is not a vertex of the graph"
                ) from None
        return params

    def _plan(self, info: VariantInfo, params: dict[str, Any], store: Store) -> Plan:
        transport, partitions = self.graph.transport, self.graph.partitions
        algebra = self.program.algebra
        run_id = uuid.uuid4().hex[:12]
        ship_by_value(spec.cls for spec in self.program.classes)
        plan = Plan(
            program=self.program,
            kernels=tuple(None for _ in self.program.classes),
            shape="many" if algebra is None else shape_of(self.program.classes),
            params=params,
            tolerance=self.options.tolerance_of(self.program),
            threads=self.options.threads or transport.threads(partitions),
            topologies=tuple(info.keys),
            run=f"{transport.application}/run-{run_id}",
            loop=self.loop,
            sees=self.sees,
            seed=self.options.seed,
            store=store.backend.address,
            max_iterations=self.max_iterations,
            each=algebra is not None and algebra.kind == "latest" and partitions > 1,
            kinds=class_numbers(self.program, info.kinds),
            resident=self._stays,
            initial=self.graph.initial_state(self.program),
        )
        began = time.perf_counter()
        user_classes = [
            s.name for s in self.program.classes if not s.cls.__module__.startswith(_OURS)
        ]
        methods = f"the methods of {', '.join(user_classes)}"
        text = f"compiling {methods}, once: the result is kept on disk"
        with self.bar.noted_after(SLOW, text) if user_classes else nullcontext():
            plan = compiled_plan(plan, self.compiled, info.string_ids, self.bar.say, compile_plan)
        if all(kernel is None for kernel in plan.kernels):
            self.compiled = False  # said once; another try need not find it out again
        self.seconds["compile"] = time.perf_counter() - began
        self.spent.add("compile", self.seconds["compile"])
        if info.string_ids and any(k is None for k in plan.kernels):
            plan = replace(plan, names=self.graph.string_broadcast)
        return replace(plan, program=shippable(self.program, plan.kernels))

    def _iterate(
        self, plan: Plan, info: VariantInfo, store: Store, stored: StoredSnapshot | None
    ) -> None:
        began = time.perf_counter()
        writes = WriteBehind(store.backend.location)
        commits: list[Future[object]] = []  # the newest one

        def add(version: Version) -> None:
            previous = commits.pop() if commits else None
            if previous is not None and previous.done():
                previous.result()  # raises if it failed

            def commit() -> Manifest:
                if previous is not None:
                    previous.result()
                return self._commit(store, info, began, version)

            commits.append(writes.submit(commit))

        choice = self.choice(info)
        if choice.bound > 1:
            plan = replace(plan, resident=True)
        try:
            engine = LoopEngine(
                self.graph, plan, "directed", AnswerStart("init", choice), run=info.num_vertices,
                phases=self.spent, title=self.title,
            )  # fmt: skip
            with closing(engine), closing(writes):
                after = self.committed.iteration if self.committed else 0
                versions = Versions(self.options.commit_every, after, add)
                command = Command(budget=Budget(report=self._show), versions=versions)
                if self.recovery.active:
                    bound = self.program.bind(self.given)
                    command = replace(
                        command,
                        before=self.recovery.begin(engine, stored, bound, info),
                        snapshots=self.recovery.snapshots(store, writes),
                    )
                done = engine.execute(command)
                if done.work.reason == "default_limit":
                    raise RunError(endless(self.program.classes[0], done.work.iterations))
                self.messages = done.messages
                with self.spent.timed("commit"):
                    commits[-1].result()
        finally:
            self.graph.forget(plan.run)
        self.spent.driver(time.perf_counter() - began)
        check_answer(
            self.program, self.program.bind(self.given), done.work, done.not_finite,
            info.num_edges, info.num_vertices, from_init=True,
        )  # fmt: skip
        self.statistics |= {
            "seconds": time.perf_counter() - began,
            "phases": {**done.statistics["phases"], **self.seconds},
            "worker_memory": done.statistics["worker_memory"],
            "num_edges": info.num_edges, "duplicate_edges": info.duplicates,
            "partitions": self.graph.partitions, "partitioner": self.graph.partitioner.name,
            "boundary_share": info.boundary_share, "cut": info.cut,
            "compiled": all(k is not None for k in plan.kernels),
            "delay_bound": choice.bound, "delay_bound_reason": choice.reason,
        }  # fmt: skip

    def _show(self, work: WorkDone) -> None:
        self.bar.update(work.iterations, work.updates, work.messages)

    @property
    def _stays(self) -> bool:
        """True if partitions stay in their processes between hops."""
        return self.options.exchange == "auto" and self.graph.workers.resident

    @property
    def _jobs_only(self) -> bool:
        return self.options.exchange != "auto" or bool(self.graph.transport.other_hosts())

    def choice(self, info: VariantInfo) -> BoundChoice:
        """Return the delay bound to run with over a graph that is loaded."""
        partitions, bound = self.graph.partitions, self.options.delay_bound
        if bound == "auto":
            refused = why_synchronous(self.program, self.program.bind(self.given))
            if refused is None and self.max_iterations is not None:
                refused = "it is to end after a number of iterations"
            if refused is None and self.recovery.active:
                refused = "snapshots are of iterations that all partitions end together"
                self.bar.note(f"the delay bound is 1: {refused}")
            if refused is None and not self._stays and self._jobs_only:
                refused = "tasks do not stay"
            return choose(partitions, info.boundary_share, by_blocks(self.program), refused)
        return as_given(partitions, info.boundary_share, bound)

    def _commit(
        self,
        store: Store,
        info: VariantInfo,
        began: float,
        version: Version,
    ) -> Manifest:
        work, bytes_before = version.work, self.statistics.get("backend_bytes", 0)
        self.statistics |= {
            "iterations": version.iteration, "hops": work.hops, "updates": work.updates,
            "prepares": 0, "acknowledges": 0, "messages": work.messages, "bytes": work.bytes,
            "seconds": time.perf_counter() - began, "result": self.program.result,
            "num_vertices": version.vertices, "reason": version.reason, **version.statistics,
            **self.recovery.statistics,
            "backend_bytes": bytes_before + sum(ref.bytes for ref in version.segments),
        }  # fmt: skip
        self.committed = store.commit(
            self.loop,
            iteration=version.iteration,
            segments=version.segments,
            schema=self.program.schema(),
            program=self.program.name,
            aggregates=as_json(version.aggregates),
            statistics=dict(self.statistics),
            parent=self.committed,
            partitions=self.graph.partitions,
            ids="str" if info.string_ids else "int",
        )
        if sum(ref.rows for ref in version.segments) <= SHOWN:
            store.show(self.loop)
        return self.committed


def refuse_other_hosts(transport: Transport, store: Store) -> None:
    """Refuse a store of this host alone if executors are on other hosts."""
    if getattr(store.backend, "shared", True):
        return
    if far := transport.other_hosts():
        raise InputError(
            f"{store.backend.location} is for one host, but executors are on {', '.join(far)}; "
            "use a backend which is shared between hosts"
        )


# Compile a plan's kernels before the first task, and find out whether they compile at all.
#
# A processor over an empty stand-in for the graph goes through one iteration with its kernels
# replaced by their compilation, so every kernel is compiled for exactly the types it will see.


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
            return (0, args[2]) if name in ("gather", "scatter") else None

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
