"""Open the main loop of a graph, or resume one that is in the store.

To resume is to claim the loop, load its graph from the newest snapshot, and take in the change log.
A program whose answers follow from the state before has that of the snapshot; the next answer of
another one starts from `init`. A state with other fields goes through `migrate` first.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.engine.batch_run import TRIES
from vertexsdk.engine.commands import Command, Setting
from vertexsdk.engine.loop_engine import LoopEngine
from vertexsdk.engine.loop_names import refuse_to_replace
from vertexsdk.engine.make_engine import engine_for
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, LostError, StateError, first_line
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.graph.checkpoint import put_vertices, stored_graph
from vertexsdk.graph.graph import Graph
from vertexsdk.loops.arguments import check_partitions
from vertexsdk.loops.change_log import ChangeLog
from vertexsdk.loops.history import HistoryConfig, LoopHistory, Restore
from vertexsdk.loops.ledger import Ledger
from vertexsdk.loops.loop_store import open_loop_store
from vertexsdk.loops.snapshot_policy import SnapshotPolicy
from vertexsdk.loops.turns import Turns
from vertexsdk.program.program import Program
from vertexsdk.state import Manifest, SegmentRef, Store
from vertexsdk.state.address import Address
from vertexsdk.state.errors import OwnerError
from vertexsdk.state.manifests import field_differences
from vertexsdk.transport.select import transport_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_log = logging.getLogger("vertexsdk")
_NOT_FIELDS = ("id", "kind", "name.offsets", "name.bytes")  # columns that no program declares

Columns = dict[str, NDArray[Any]]
Migrate = Callable[[Columns], Columns]
_T = TypeVar("_T")


def open_main_loop(
    program: Program,
    graph: Graph,
    params: Mapping[str, Any],
    backend: Address,
    loop: str,
    options: Mapping[str, Any],
    *,
    snapshots: SnapshotPolicy,
    retain: int,
    trusted: bool,
    turns: Turns,
    replaces: bool,
) -> LoopHistory:
    """Commit a graph as the first version of a loop; the arguments are those of `MainLoop`.

    Raises:
        InputError: arguments that do not fit each other; nothing was run.
    """
    program.bind(params)
    if program.prepares:
        raise InputError(
            f"{program.name} runs on a graph that stands still, and its main loop would not: run "
            "it on an answer of another loop, run(..., main.query().graph())"
        )
    checked = RunOptions.checked(program, params, **options).on(graph.transport)
    if graph.multi:  # a change would not say which edge it means
        raise InputError(
            "the graph has parallel edges (multi=True, or a NetworkX multigraph), and changes do "
            "not say which of them they mean: keep the last of each by multi=False, as in "
            "Graph.from_networkx(graph, multi=False)"
        )
    if graph.placed and program.algebra is None:
        raise InputError(
            f"partitioner {graph.partitioner.name}: {program.name} declares no messages, and its "
            "main loop places vertices by hash; leave the partitioner out"
        )
    with ExitStack() as undo:
        store = open_loop_store(undo, backend, graph.transport)
        address = store.backend.address
        check = (
            None
            if replaces
            else partial(refuse_to_replace, loop=loop, place=store.backend.location)
        )
        if check is not None:
            check(store.head(loop))  # before anything is loaded

        def opened() -> tuple[LoopEngine, list[SegmentRef]]:
            engine = engine_for(Setting(program, graph, params, address, loop, checked))
            try:
                store.claim(loop, program=program.name, check=check)
                return engine, engine.checkpoint()
            except BaseException:
                engine.close()
                raise

        engine, segments = _despite_losses(loop, opened)
        undo.callback(engine.close)
        ledger = Ledger(
            to_scalars(params), graph.undirected, engine.value, built_in=program.built_in
        )  # fmt: skip
        if graph.vertex_input is not None:
            segments.append(put_vertices(store, loop, graph.vertex_input))
        manifest = store.commit(
            loop,
            iteration=0,
            segments=segments,
            schema=program.schema(),
            program=program.name,
            statistics={"result": program.result, **ledger.statistics()},
            partitions=graph.partitions,
            ids="int" if engine.integers else "str",
        )
        undo.pop_all()
    _warn_of_no_state(loop, engine, snapshots)
    restore = restorer(graph.spark, program, checked, loop)
    config = HistoryConfig(
        program, graph.spark, backend, address, restore, snapshots, retain, trusted,
        turns,
    )  # fmt: skip
    return LoopHistory(config, store, loop, engine, (manifest, ledger), ChangeLog())


def resume_main_loop(
    spark: SparkSession | None,
    program: Program,
    params: Mapping[str, Any] | None,
    backend: Address,
    loop: str,
    options: Mapping[str, Any],
    migrate: Migrate | None,
    *,
    snapshots: SnapshotPolicy,
    retain: int,
    trusted: bool,
    turns: Turns,
    partitions: int | None,
) -> LoopHistory:
    """Claim a main loop and restore its engine; the arguments are those of `MainLoop.resume`.

    Raises:
        StateInputError, InputError: there is none, or it is another program's.
        StateError: it holds Python objects, and not `trusted`.
    """
    with ExitStack() as undo:
        transport = transport_for(spark)
        store = open_loop_store(undo, backend, transport, create=False)
        manifest = store.version(loop)
        ledger = Ledger.read(manifest)
        program = program.variant(ledger.params)
        _check_program(manifest, program, migrates=migrate is not None)
        _check_params(program, params, ledger, loop)
        checked = RunOptions.checked(program, ledger.params, **options).on(transport)
        if program.algebra is None and not trusted:
            raise StateError(
                f"loop {loop!r} keeps vertices of {program.name}, which declares no messages, as "
                "pickled Python objects, which can run code when read: pass trusted=True if you "
                "trust the writer of this store"
            )
        store.claim(loop)
        manifest = store.version(loop)  # its owner may have committed since
        ledger = Ledger.read(manifest)
        restore = restorer(spark, program, checked, loop)
        if partitions is not None:
            ledger = replace(ledger, partitions=check_partitions(partitions))
        engine = restore(store, manifest, partitions)
        undo.callback(engine.close)
        if migrate is not None:
            manifest = _migrate_state(store, loop, manifest, program, migrate)
        include_sent, undirected = program.algebra is None, ledger.undirected
        log = ChangeLog.of(store, manifest, include_sent=include_sent, undirected=undirected)
        store.prune(loop, retain)  # earlier owners may have ended before they did
        undo.pop_all()
    config = HistoryConfig(
        program, spark, backend, store.backend.address, restore, snapshots, retain, trusted,
        turns,
    )  # fmt: skip
    ledger = replace(ledger, branch_of=None)  # from here on it is a main loop
    return LoopHistory(config, store, loop, engine, (manifest, ledger), log)


def _warn_of_no_state(loop: str, engine: LoopEngine, snapshots: SnapshotPolicy) -> None:
    """Say that snapshots have no state, if they have none."""
    if not engine.saves_state and not snapshots.by_default:
        _log.warning(
            "%s: snapshots have the graph only, as %s",
            loop, "the first answer after a resume starts from init" if engine.start.reason is None
            else f"every answer starts from init: {engine.start.reason}",
        )  # fmt: skip


def _check_program(manifest: Manifest, program: Program, *, migrates: bool) -> None:
    """Refuse a program which did not write the version.

    Raises:
        OwnerError: it is another program, or its fields are others: says which.
    """
    if manifest.program != program.name:
        raise OwnerError(
            f"loop {manifest.loop!r} belongs to program {manifest.program}, not to {program.name}: "
            "resume it with that"
        )
    stored, current = manifest.state_fields, json.loads(json.dumps(program.schema()))
    if stored == current or migrates:
        return
    raise OwnerError(
        f"the fields of {program.name} differ from those of loop {manifest.loop!r}: "
        f"{field_differences(stored, current)}; give migrate=, a function from the old columns "
        "to the new"
    )


def _check_params(
    program: Program, params: Mapping[str, Any] | None, ledger: Ledger, loop: str
) -> None:
    """Refuse parameters that differ from those of the loop."""
    stored = program.bind(ledger.params)
    for name, value in program.bind({**ledger.params, **(params or {})}).items():
        if not np.array_equal(value, stored[name]):
            raise InputError(
                f"loop {loop!r} was opened with {name}={stored[name]!r}, not {value!r}: resume it "
                "with that, or open another loop"
            )


def _despite_losses(loop: str, work: Callable[[], _T]) -> _T:
    """Call `work`; try again when an executor is lost, of which nothing is left then."""
    for retries in reversed(range(TRIES)):
        try:
            return work()
        except LostError as error:
            if not retries:
                raise
            _log.warning("%s: %s; loading the graph again", loop, first_line(error))
    raise AssertionError("unreachable")


def restorer(
    spark: SparkSession | None, program: Program, options: RunOptions, loop: str
) -> Restore:
    """Return `HistoryConfig.restore`."""

    def restore(store: Store, manifest: Manifest, partitions: int | None = None) -> LoopEngine:
        count = partitions or Ledger.read(manifest).partitions or manifest.partitions
        make = partial(_restore_engine, spark, program, options, loop, store, manifest, count)
        return _despite_losses(loop, make)

    return restore


def _restore_engine(
    spark: SparkSession | None,
    program: Program,
    options: RunOptions,
    loop: str,
    store: Store,
    manifest: Manifest,
    partitions: int,
) -> LoopEngine:
    """Return an engine with the graph of a version, whose state starts from `init`.

    Raises:
        InputError: the program reads edge values, and the stored graph has none.
    """
    ledger = Ledger.read(manifest)
    if program.value_dtype is not None and program.value_dtype != ledger.value:
        raise InputError(
            f"{program.name} reads {program.value_dtype} edge values, and loop {loop!r} keeps "
            f"{ledger.value or 'none'}: open the loop anew from the edge file"
        )
    graph = stored_graph(
        spark, store, manifest, undirected=ledger.undirected, partitions=partitions
    )
    nodes = [ref for ref in store.segments(manifest) if ref.group == "nodes"]
    setting = Setting(program, graph, ledger.params, store.backend.address, loop, options, nodes)
    engine = engine_for(setting)
    try:
        _catch_up(engine, program, store, manifest, ledger)
    except BaseException:
        engine.close()
        raise
    return engine


def _catch_up(
    engine: LoopEngine, program: Program, store: Store, manifest: Manifest, ledger: Ledger
) -> None:
    """Have an engine with the stored edges take in the snapshot and the change log of a version."""
    refs = [ref for ref in store.segments(manifest) if ref.kind == "snapshot"]
    received = ledger.received if ledger.graph is None else ledger.graph
    cut = ledger.snapshot if refs and engine.restores_state else None
    log = ChangeLog.replay(
        store, manifest, include_sent=program.algebra is None, undirected=ledger.undirected
    )
    if ledger.graph is None:
        received -= ChangeLog.of(
            store, manifest, include_sent=False, undirected=ledger.undirected
        ).size
    for changes in log:
        if program.value_dtype is None:
            changes = without_values(changes)
        old_changes = 0 if cut is None else min(cut - received, len(changes))
        for some in (changes[:old_changes], changes[old_changes:]):
            if cut is not None and received == cut:
                engine.restore(store, refs)
                cut = None
            if len(some):
                engine.execute(Command(some))
            received += len(some)
    if cut is not None and received == cut:
        engine.restore(store, refs)


def without_values(changes: Changes) -> Changes:
    """Return changes as a program takes them that reads no edge values."""
    return replace(changes, value=np.ones(len(changes.kind)))


def _migrate_state(
    store: Store, loop: str, manifest: Manifest, program: Program, migrate: Migrate
) -> Manifest:
    """Commit the state with the columns that `migrate` returns for the old ones.

    Raises:
        InputError: the function's columns are not the program's fields.
    """
    refs: list[SegmentRef] = []
    for partition, columns in store.read(loop, manifest):
        ids = {n: x for n, x in columns.items() if n in _NOT_FIELDS}
        fields = {n: x for n, x in columns.items() if n not in ids}
        new = migrate({"id": columns["id"], **fields})
        refs.append(
            store.put_segment(
                loop, partition, manifest.iteration + 1, "base",
                {**ids, **_check_columns(program, new, len(columns["id"]))},
            )
        )  # fmt: skip
    return store.commit(
        loop,
        iteration=manifest.iteration + 1,
        segments=refs,
        content=manifest,
        schema=program.schema(),
        program=program.name,
        aggregates={},
        statistics={**manifest.statistics, "result": program.result},
        offsets=manifest.offsets,
    )


def _check_columns(program: Program, columns: Mapping[str, Any], rows: int) -> Columns:
    """The columns as the program's dtypes; refuse those that are not its fields."""
    fields = program.states()
    cast: Columns = {}
    for name, field in fields.items():
        if name not in columns:
            raise InputError(f"migrate() returned no column {name!r}; {program.name} has it")
        cast[name] = np.asarray(columns[name], field.dtype)
        if cast[name].shape != (rows, *field.shape):
            raise InputError(
                f"migrate() returned a column {name!r} of shape {cast[name].shape}; "
                f"it must be {(rows, *field.shape)}"
            )
    unknown = sorted(columns.keys() - fields.keys() - {"id"})
    if unknown:
        raise InputError(f"migrate() returned {unknown[0]!r}, which {program.name} has not")
    return cast
