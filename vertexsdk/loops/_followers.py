"""A program on the graph of another program's main loop: it has no log and no input of its own.

The *leader* is the main loop that takes changes in. Each of its *followers* edits its own graph in
memory by what the leader has committed. A version of a follower refers to the leader's checkpoint
and change log in the store, so a change that the leader has acknowledged is in all of them, however
the process ends: a follower that fails is restored from there.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from vertexsdk.arrays.json_values import to_scalars
from vertexsdk.engine.commands import Command
from vertexsdk.engine.run_options import RunOptions
from vertexsdk.errors import InputError, first_line
from vertexsdk.graph.changes.changes import Changes
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops._ledger import Ledger
from vertexsdk.loops._open_loop import restorer, without_values
from vertexsdk.loops.snapshot_policy import SnapshotPolicy
from vertexsdk.program.program import Program
from vertexsdk.state import SegmentRef, Store, open_store
from vertexsdk.transport.select import transport_for

_log = logging.getLogger("vertexsdk")
_NONE = SnapshotPolicy(changes=1 << 62)  # the leader's are enough, as answers follow from the graph


class Follower:
    """Keeps a history at the changes of its leader, whose lock it shares.

    Attributes:
        history: the follower's.
    """

    def __init__(self, leader: LoopHistory, history: LoopHistory) -> None:
        self._leader, self.history = leader, history
        self._applied = leader.ledger.received  # of the leader's changes, by the engine
        history.lock = leader.lock
        history.catch_up = self.catch_up

    def apply(self, changes: Changes) -> None:
        """Apply what the leader has committed; the lock is held."""
        history = self.history
        if history.stale:
            return
        if history.config.program.value_dtype is None:
            changes = without_values(changes)
        try:
            history.engine.execute(Command(changes))
            self._applied += len(changes)
        except Exception as error:  # restored from the leader's log before it is used again
            _log.warning("%s: %s; restoring from the store", history.loop, first_line(error))
            history.stale = True

    def catch_up(self) -> None:
        """Commit a version with the leader's changes, if there are new ones.

        Raises:
            StateError: the store cannot be written.
        """
        leader, history = self._leader, self.history
        with leader.lock:
            leader.settle()
            history.settle()
            before, now = history.ledger, leader.ledger
            if self._applied != now.received:  # what a merged branch brought, or a failure
                history.stale = True
            names = ("received", "counts", "repeated", "bad", "window", "graph")
            ledger = replace(before, **{name: getattr(now, name) for name in names})
            if ledger != before:
                ledger = replace(ledger, exact=before.exact and now.received == before.received)
                known = {ref.key for ref in history.store.segments(history.manifest)}
                refs = _of_graph(leader.store, leader)
                added = [r for r in refs if r.key not in known]
                if any(r.kind == "topology" for r in added):  # a new graph drops the log before it
                    added = [r for r in refs if r in added or r.kind == "changes"]
                history.follow(added, leader.log, ledger, leader.manifest.offsets)
            self._applied = now.received


def follow(
    leader: LoopHistory,
    program: Program,
    params: Mapping[str, Any],
    loop: str,
    options: Mapping[str, Any],
) -> Follower:
    """Open a follower, whose versions replace those of an earlier loop of its name.

    Args:
        params, loop, options: as for `MainLoop`.

    Raises:
        InputError: the program cannot follow, or arguments do not fit.
        OwnerError: the name is that of another program's loop.
    """
    config = leader.config
    program.bind(params)
    transport = transport_for(config.spark)
    checked = RunOptions.checked(program, params, **options).on(transport)
    store = open_store(config.address, create=False)
    try:
        earlier = store.claim(loop, program=program.name)
        with leader.lock:
            leader.settle()
            ledger = replace(
                leader.ledger, params=to_scalars(params), reflected=0, queries=0, state=False,
                exact=False, residual=None, snapshot=None,
            )  # fmt: skip
            if earlier is not None and (before := Ledger.of(earlier)) is not None:
                ledger = replace(ledger, queries=before.queries)
            manifest = store.commit(
                loop,
                iteration=0,
                segments=_of_graph(leader.store, leader),
                schema=program.schema(),
                program=program.name,
                statistics={"result": program.result, **ledger.statistics()},
                offsets=leader.manifest.offsets,
                partitions=leader.manifest.partitions,
                ids=leader.manifest.ids,
            )
            restore = restorer(config.spark, program, checked, loop)
            engine = restore(store, manifest)
            if engine.integers != leader.integers:
                engine.close()
                raise InputError(
                    f"{program.name}: its parameters name vertices by strings, and the graph's ids "
                    "are integers: name them by integers"
                )
            own = replace(config, program=program, restore=restore, snapshots=_NONE)
            history = LoopHistory(own, store, loop, engine, (manifest, ledger), leader.log)
            return Follower(leader, history)
    except BaseException:
        store.close()
        raise


def _of_graph(store: Store, leader: LoopHistory) -> list[SegmentRef]:
    """The segments of the leader's checkpoint and change log."""
    return [r for r in store.segments(leader.manifest) if r.kind in ("topology", "changes")]
