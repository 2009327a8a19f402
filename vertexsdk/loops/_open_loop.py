"""Open the main loop of a graph, or resume one that is in the store."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Any

from pyspark.sql import SparkSession

from vertexsdk.arrays.json_values import plain
from vertexsdk.engine.batch_run import refuse_other_hosts
from vertexsdk.engine.engine import Setting
from vertexsdk.engine.select import engine_for
from vertexsdk.errors import InputError, StateError
from vertexsdk.graph.checkpoint import put_vertices
from vertexsdk.graph.edge_set import refuse_parallel
from vertexsdk.graph.graph import Graph
from vertexsdk.loops._change_log import ChangeLog
from vertexsdk.loops._history import HistoryConfig, LoopHistory
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops._resume_loop import (
    Migrate,
    check_params,
    check_program,
    found,
    migrate_state,
    restore_engine,
)
from vertexsdk.program.analysis.delay_bound import checked_bound
from vertexsdk.program.program import Program
from vertexsdk.state import open_store
from vertexsdk.state.address import Address

__all__ = ["open_main_loop", "resume_main_loop"]

_log = logging.getLogger("vertexsdk")


def open_main_loop(
    program: Program,
    graph: Graph,
    params: Mapping[str, Any],
    backend: Address,
    loop: str,
    options: Mapping[str, Any],
    *,
    checkpoint_every: int | None,
    retain: int,
    trusted: bool,
) -> LoopHistory:
    """Put a graph into the store as the first version of a loop; see `MainLoop`.

    Raises:
        InputError: arguments that do not fit each other; nothing was run.
    """
    program.bind(params)
    _check_bound(program, params, options)
    refuse_parallel(graph)
    if graph.placed and program.algebra is None:
        raise InputError(
            f"partitioner {graph.partitioner.name}: {program.name} declares no messages, and its "
            "main loop places vertices by hash; leave the partitioner out"
        )
    with ExitStack() as undo:
        store = open_store(backend)
        undo.callback(store.close)
        refuse_other_hosts(graph.spark, store)
        address = store.backend.address
        engine = engine_for(Setting(program, graph, params, address, loop, options))
        undo.callback(engine.close)
        ledger = Ledger(plain(params), graph.undirected, engine.value, canonical=True)
        store.claim(loop, program=program.name, schema=program.schema())
        segments = engine.checkpoint()
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
    restore = partial(restore_engine, graph.spark, program, options, loop)
    config = HistoryConfig(program, address, restore, checkpoint_every, retain, trusted)
    return LoopHistory(config, store, loop, engine, (manifest, ledger), ChangeLog())


def resume_main_loop(
    spark: SparkSession,
    program: Program,
    params: Mapping[str, Any] | None,
    backend: Address,
    loop: str,
    options: Mapping[str, Any],
    migrate: Migrate | None,
    *,
    checkpoint_every: int | None,
    retain: int,
    trusted: bool,
) -> LoopHistory:
    """Claim a main loop, and make an engine which stands where it stands; see `MainLoop.resume`.

    Raises:
        StateInputError, InputError: there is none, or it is another program's.
        StateError: it holds Python objects, and not `trusted`.
    """
    with ExitStack() as undo:
        store = open_store(backend, create=False)
        undo.callback(store.close)
        refuse_other_hosts(spark, store)
        manifest, ledger = found(store, loop)
        check_program(manifest, program, migrates=migrate is not None)
        check_params(program, params, ledger, loop)
        _check_bound(program, ledger.params, options)
        if program.algebra is None and not trusted:
            raise StateError(
                f"loop {loop!r} keeps vertices of {program.name}, which declares no messages, as "
                "pickled Python objects, which can run code when read: pass trusted=True if you "
                "trust whoever wrote this store"
            )
        store.claim(loop)
        manifest, ledger = found(store, loop)  # what the other committed meanwhile
        restore = partial(restore_engine, spark, program, options, loop)
        engine = restore(store, manifest)
        undo.callback(engine.close)
        if migrate is not None:
            manifest = migrate_state(store, loop, manifest, program, migrate)
        sent, undirected = program.algebra is None, ledger.undirected
        log = ChangeLog.of(store, manifest, sent=sent, undirected=undirected)
        ledger = _checked_spelling(loop, ledger, log)
        store.prune(loop, retain)  # those before may have ended too soon to do so
        undo.pop_all()
    config = HistoryConfig(
        program, store.backend.address, restore, checkpoint_every, retain, trusted
    )
    return LoopHistory(config, store, loop, engine, (manifest, ledger), log)


def _checked_spelling(loop: str, ledger: Ledger, log: ChangeLog) -> Ledger:
    """Note that the edges of an undirected graph are right, or warn that they may not be.

    Loops without the mark were written when the order of changes that named an edge both ways was
    lost. Their logs hold the right changes, so edges are right where no checkpoint replaced any.
    """
    if not ledger.undirected or ledger.canonical:
        return ledger
    if log.size == ledger.received:
        return replace(ledger, canonical=True)
    _log.warning(
        "loop %r was written by a vertexsdk which lost the order of changes that named an edge "
        "both ways (a b, then b a) in one batch: such edges may be wrong; to be sure, begin the "
        "loop again from the edge file",
        loop,
    )
    return ledger


def _check_bound(program: Program, params: Mapping[str, Any], options: Mapping[str, Any]) -> None:
    """Refuse a delay bound which does not fit the program before anything is run."""
    limit = options.get("max_iterations")
    first = program.classes[0].cls
    checked_bound(
        options.get("delay_bound", 1), program, params,
        first.max_iterations if limit is None else limit,
    )  # fmt: skip
