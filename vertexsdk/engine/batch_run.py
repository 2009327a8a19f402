"""One run of a program over a graph, to its end: load, compile, iterate, commit."""

from __future__ import annotations

import json
import time
import uuid
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import ExitStack, closing, nullcontext
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from vertexsdk.arrays.corruption import damaged
from vertexsdk.arrays.json_values import as_json
from vertexsdk.arrays.packed_strings import pack_arrow
from vertexsdk.compile.kernel_cache import compiled_plan
from vertexsdk.compile.plan import Plan, class_numbers, shape_of, shippable
from vertexsdk.engine.answer_checks import (
    check_answer,
    endless,
    say_unused_values,
    warn_of_strangers,
)
from vertexsdk.engine.auto_bound import BoundChoice, as_given, choose
from vertexsdk.engine.commands import (
    AnswerStart,
    BeginRun,
    Budget,
    Command,
    EdgeColumns,
    RunSnapshots,
    Version,
    Versions,
    WorkDone,
)
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.engine.loop_names import (
    acknowledged_changes,
    loop_of_run,
    loop_of_snapshots,
    refuse_to_replace,
)
from vertexsdk.engine.phases import PhaseTimer
from vertexsdk.engine.precompile import compile_plan
from vertexsdk.engine.progress import ProgressBar
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, LostError, RunError, StateError, first_line
from vertexsdk.graph.graph import Graph, VariantInfo
from vertexsdk.graph.load.build_topology import Variant
from vertexsdk.program.analysis.delay_bound import by_blocks, why_synchronous
from vertexsdk.program.program import Program
from vertexsdk.state import FencedError, Manifest, SegmentRef, Store, open_store
from vertexsdk.state.address import Address, address_or_default
from vertexsdk.state.stored_columns import accepted_record, accepted_values
from vertexsdk.state.write_behind import WriteBehind
from vertexsdk.transport.shipping import ship_by_value
from vertexsdk.transport.transport import Transport

TRIES = 3
SLOW = 1.0  # seconds of compiling a user's class after which it is said
_OURS = "vertexsdk.algorithms"
SHOWN = 100_000  # vertices in a commit up to which it is readable by SQL when it is acknowledged


class Run:
    """One loop run to its fixed point: its choices, its clock, and the hops it makes.

    Args:
        options: run options, from `RunOptions.checked`.
        params, backend, loop: as those of `run`.
        replaces: take the place of a main loop with acknowledged changes.
        title: what messages call it, which then do not tell of the graph; by default the loop's
            name.

    Attributes:
        params: the value of every parameter.
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
        self.params = program.bind(self.given)
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
        with ExitStack() as on_error:
            with self.spent.timed("claim"):
                store = on_error.enter_context(open_store(self.backend))
                refuse_other_hosts(self.graph.transport, store)  # before any job
                self._refuse_to_replace(store, store.head(self.loop))
            with self.bar:
                self._run_with_retries(store)
            self.recovery.end(store)
            store.show(self.loop)
            on_error.pop_all()
        total = self.statistics["total_seconds"] = time.perf_counter() - began
        self.statistics["spent"] = self.spent.complete(total)
        return store

    def _run_with_retries(self, store: Store) -> None:
        """Run to the end; where an executor is lost, from the newest snapshot or the beginning."""
        tries, reached = 0, -1
        while True:
            tries += 1
            try:
                info = self._load()
                params = self._codes()
                warn_of_strangers(self.program, self.params, self.graph)
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
        params = self._codes()
        with open_store(self.backend) as store:
            return self._plan(info, params, store)

    def _codes(self) -> dict[str, Any]:
        """Return the parameters with vertex ids as codes, refusing ids that are not there."""
        params = dict(self.params)
        for name, value in self.program.named_vertices(self.params).items():
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
                    command = replace(
                        command,
                        before=self.recovery.begin(engine, stored, self.params, info),
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
            self.program, self.params, done.work, done.not_finite,
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
            refused = why_synchronous(self.program, self.params)
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


# The snapshots of a run in the store: it continues from them after a loss or in another process.
#
# The store has them as a loop of its own, beside that of the run, as readers of the run's versions
# have no use for them: `LOOP.snapshot` has one version, the newest snapshot, and goes with the end
# of the run.

_RECORD = "snapshot"  # in the statistics of the manifest


@dataclass(frozen=True)
class StoredSnapshot:
    """A snapshot in the store.

    Attributes:
        run: the run that took it (`RunRecovery.run`).
        of: what it is a snapshot of (`identity`).
        partitioner: the partitioner that divided the graph.
        work: the work done until it was taken.
    """

    manifest: Manifest
    segments: tuple[SegmentRef, ...]
    run: str
    of: dict[str, Any]
    partitioner: str
    work: WorkDone


class RunRecovery:
    """The snapshots of one run, over all tries to come to its end.

    Args:
        loop: name of the run.
        options: options of the run.
        note: tells the user something.

    Attributes:
        run: identifies the run; another process that continues it has the same.
        resumed_at: the iteration from which the last try continued; None if it began with `init`.
        newest: the iteration of the newest snapshot that this process has committed.
        taken: how many were committed.
    """

    def __init__(self, loop: str, options: RunOptions, note: Callable[[str], None]) -> None:
        self._loop, self._options, self._note = loop, options, note
        self.name = loop_of_snapshots(loop)
        self.run = uuid.uuid4().hex[:12]
        self.resumed_at: int | None = None
        self.newest = -1
        self.taken = 0
        self._of: dict[str, Any] = {}
        self._graph: Graph
        self._committed: Future[object] | None = None

    @property
    def active(self) -> bool:
        """True if the run takes snapshots, or continues from one."""
        return self._options.snapshots is not None or self._options.resume

    def find(self, store: Store) -> StoredSnapshot | None:
        """Return the snapshot from which the run is to continue.

        A run that begins says so if the store has one, or if it was to continue from one.
        """
        processor_lost = self.newest >= 0  # a processor was lost
        stored = _read(store, self.name)
        if stored is None:
            if self.active and store.head(self.name) is not None:
                raise InputError(
                    f"the store has a loop {self.name!r}, and snapshots of {self._loop!r} would be "
                    "under that name: delete or copy it, or give the run another loop="
                )
            if self._options.resume and not processor_lost:
                self._note("the store has no snapshot of it: begins at iteration 0")
            return None
        if processor_lost or self._options.resume:
            self.run = stored.run
            return stored
        self._note(
            f"begins at iteration 0; resume=True would continue at iteration "
            f"{stored.manifest.iteration:,}, from the snapshot of a run that was interrupted"
        )
        return None

    def begin(
        self,
        engine: LoopEngine,
        stored: StoredSnapshot | None,
        params: Mapping[str, Any],
        info: VariantInfo,
    ) -> WorkDone:
        """Make the partitions of the run, from a snapshot if there is one.

        Args:
            params: the value of every parameter, as the user gives them.
            info: description of the graph, as it was loaded.

        Returns:
            The work that was done until then.

        Raises:
            InputError: it is a snapshot of something else.
            StateError: it cannot be read.
        """
        plan = engine.plan
        self._graph, graph = engine.graph, engine.graph
        self.resumed_at = None
        self._of = identity(plan, params, graph, info)
        if stored is not None:
            self._compare(stored, self._of)
        self._of["graph"] = f"{engine.begin(BeginRun()):016x}"
        if stored is None:
            return WorkDone()
        self._compare(stored, self._of)
        alike = (stored.manifest.partitions, stored.partitioner) == (
            graph.partitions, graph.partitioner.name,
        )  # fmt: skip
        if not alike and plan.program.algebra is not None and not plan.resident:
            raise InputError(
                f"{self._loop}: its snapshot is of {stored.manifest.partitions} partitions, "
                f"placed by {stored.partitioner}: tasks that do not stay must have the same"
            )
        engine.begin(BeginRun(stored.segments, alike, self._options.trusted))
        self.resumed_at = stored.manifest.iteration
        self._note(f"continues at iteration {self.resumed_at:,}, from its snapshot")
        return replace(stored.work)

    def _compare(self, stored: StoredSnapshot, now: Mapping[str, Any]) -> None:
        for name, value in now.items():
            recorded = stored.of.get(name)
            if json.dumps(value) != json.dumps(recorded):
                at = f"{stored.manifest.iteration:,}"
                raise InputError(
                    f"{self._loop}: its snapshot at iteration {at} is of another run, "
                    f"{_difference(name, recorded, value)}: leave out resume=True to "
                    "begin at iteration 0"
                )

    def snapshots(self, store: Store, writes: WriteBehind) -> RunSnapshots | None:
        """Return when snapshots are taken, and what commits them, in the thread of `writes`."""
        interval = self._options.snapshots
        if interval is None:
            return None

        def add(work: WorkDone, segments: list[SegmentRef]) -> None:
            if self._committed is not None and self._committed.done():
                self._committed.result()  # raises if another run took over
            self._committed = writes.submit(lambda: self._commit(store, work, segments))

        def drop(segments: list[SegmentRef], why: str) -> None:
            if why:
                self._note(f"a snapshot was dropped: {why}")
            writes.submit(lambda: store.backend.delete_unreferenced([r.key for r in segments]))

        return RunSnapshots(interval.iterations, interval.seconds, add, drop)

    def _commit(self, store: Store, work: WorkDone, segments: list[SegmentRef]) -> None:
        record = {
            "run": self.run, "of": self._of, "work": asdict(work),
            "partitioner": self._graph.partitioner.name,
        }  # fmt: skip
        try:
            store.commit(
                self.name, iteration=work.iterations, segments=segments,
                statistics={_RECORD: record}, partitions=self._graph.partitions,
            )  # fmt: skip
        except FencedError:
            raise
        except StateError as error:
            self._note(f"a snapshot was dropped: {first_line(error)}")
            return
        self.newest = work.iterations
        self.taken += 1

    def end(self, store: Store) -> None:
        """Delete the snapshot: the run has ended, and its last version is in the store.

        What processes that died have stored of others goes too.
        """
        if _read(store, self.name) is not None:
            store.delete(self.name)
        if self.active:
            store.backend.delete_unreferenced(list(store.backend.list_segments(self.name)))

    @property
    def statistics(self) -> dict[str, Any]:
        """The results of snapshots, for the statistics of the run."""
        if not self.active:
            return {}
        return {"run": self.run, "snapshots": self.taken, "resumed_at": self.resumed_at}


def identity(
    plan: Plan, params: Mapping[str, Any], graph: Graph, info: VariantInfo
) -> dict[str, Any]:
    """Return what a run's state depends on, as JSON; the methods' code is not compared."""
    names, attributes = 0, 0
    if graph.string_table is not None:
        for part in pack_arrow(graph.string_table.sorted):
            names = zlib.crc32(np.ascontiguousarray(part).data, names)
    if plan.initial is not None:
        for name, (ids, values) in sorted(plan.initial.value.columns.items()):
            rows = repr(values.tolist()).encode() if values.dtype.hasobject else values.tobytes()
            for data in (name.encode(), ids.tobytes(), rows):
                attributes = zlib.crc32(data, attributes)
    return {
        "program": plan.program.name,
        "fields": plan.program.schema(),
        "parameters": as_json(params),
        "tolerance": plan.tolerance,
        "seed": plan.seed,
        "vertices": info.num_vertices,
        "edges": info.num_edges,
        "string ids": names,
        "vertex attributes": attributes,
        "message layout": plan.shape,
    }


def _difference(name: str, then: Any, now: Any) -> str:
    """Say how two values of an entry of `identity` differ."""
    if name == "message layout":
        return "which was not compiled as this one is"
    if name in ("fields", "string ids", "vertex attributes"):
        return f"of other {name}"
    if name == "graph":
        return "of a graph with other edges, edge values or classes"
    if isinstance(then, dict) and isinstance(now, dict):
        name = next(k for k in [*now, *then] if json.dumps(now.get(k)) != json.dumps(then.get(k)))
        then, now = then.get(name), now.get(name)
    return f"with {name} {then!r} in place of {now!r}"


def _read(store: Store, name: str) -> StoredSnapshot | None:
    head = store.backend.get_head(name)
    if head is None or not head.manifest:
        return None
    manifest = store.manifest(head.manifest)
    record = manifest.statistics.get(_RECORD)
    if record is None:
        return None  # a loop of the user's has this name
    segments = tuple(sorted(store.segments(manifest), key=lambda ref: ref.key.partition))
    with damaged(f"the snapshot in loop {name!r}"):
        kinds = {"run": str, "of": dict, "partitioner": str}
        run, of, partitioner = (accepted_values(record, kinds)[n] for n in kinds)
        work = accepted_record(WorkDone, record["work"])
    return StoredSnapshot(manifest, segments, run, of, partitioner, work)
