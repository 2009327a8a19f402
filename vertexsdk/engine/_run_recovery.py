"""The snapshots of a run in the store: it continues from them after a loss or in another process.

The store has them as a loop of its own, beside that of the run, as readers of the run's versions
have no use for them: `LOOP.snapshot` has one version, the newest snapshot, and goes with the end of
the run.
"""

from __future__ import annotations

import json
import uuid
import zlib
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np

from vertexsdk.arrays.corruption import damaged
from vertexsdk.arrays.json_values import as_json
from vertexsdk.arrays.packed_strings import pack_arrow
from vertexsdk.compile.plan import Plan
from vertexsdk.engine.commands import BeginRun, RunSnapshots, WorkDone
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.engine.loop_names import loop_of_snapshots
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, StateError, first_line
from vertexsdk.graph.graph import Graph, VariantInfo
from vertexsdk.state import FencedError, Manifest, SegmentRef, Store
from vertexsdk.state.stored_columns import accepted_record, accepted_values
from vertexsdk.state.write_behind import WriteBehind

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
