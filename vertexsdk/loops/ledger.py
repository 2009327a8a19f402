"""Counters of the changes that a loop has received, stored with each of its versions."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any

from vertexsdk.arrays.corruption import damaged
from vertexsdk.engine.commands import CommandResult
from vertexsdk.errors import InputError
from vertexsdk.graph.changes.changes import COUNTS
from vertexsdk.state import Manifest
from vertexsdk.state.stored_columns import accepted_record, accepted_values
from vertexsdk.state.version_history import KEYED

_KEY = "main"  # among the statistics of a version
_COUNTS: dict[str, type | tuple[type, ...]] = dict.fromkeys(COUNTS, int)
_NUMBER = (int, float, type(None))
_WINDOW: dict[str, type | tuple[type, ...]] = {
    "length": _NUMBER,
    "clock": _NUMBER,
    "late": int,
    "overtaken": int,
    "expired": int,
}


@dataclass(frozen=True)
class Ledger:
    """Counters of one version, and what another process needs to continue from it.

    Attributes:
        params: the program's parameters, as the user passed them.
        undirected: each edge stands for both directions.
        value: dtype of the stored edge values, or None.
        received: changes received so far.
        reflected: how many of them the state reflects.
        repeated: changes skipped because their offset was committed before.
        bad: records of sources that are not valid changes.
        counts: edges added, removed, changed, left unchanged or absent.
        queries: how many were answered.
        state: whether the version has a state; the first query writes one.
        exact: the state is the fixed point, and reflects all changes.
        residual: as in `WorkDone`.
        graph: how many changes the stored edges have; None for all that the log does not have.
        snapshot: how many changes the stored state had taken in; None where none is stored.
        partitions: how many the loop continues with; None for as many as the version has.
        branch_of: the main loop of which this version's loop is a branch; None if it is none.
        window: its `length` and `clock` in seconds, and how many events were `late` or `overtaken`
            and edges `expired`; None for a loop without one.
        built_in: the program is one of `vertexsdk.algorithms`, and not a user's of that name.
    """

    params: dict[str, Any]
    undirected: bool
    value: str | None
    received: int = 0
    reflected: int = 0
    repeated: int = 0
    bad: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    queries: int = 0
    state: bool = False
    exact: bool = False
    residual: float | None = None
    graph: int | None = None
    snapshot: int | None = None
    partitions: int | None = None
    branch_of: str | None = None
    window: dict[str, Any] | None = None
    built_in: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> Ledger | None:
        """The ledger of a version, or None if the version is not of a main loop or its forks."""
        stored = manifest.statistics.get(_KEY)
        if stored is None:
            return None
        with damaged(f"version {manifest.iteration} of loop {manifest.loop!r}"):
            ledger = accepted_record(cls, stored)
            for values, kinds in ((ledger.counts, _COUNTS), (ledger.window, _WINDOW)):
                if values is not None and accepted_values(values, kinds).keys() != kinds.keys():
                    raise TypeError("its counts are of something else")
            return ledger

    @classmethod
    def read(cls, manifest: Manifest) -> Ledger:
        """The ledger of a main loop's version.

        Raises:
            InputError: the version is of a run or of a stateful class.
        """
        ledger = cls.of(manifest)
        if ledger is None and KEYED in manifest.statistics:
            raise InputError(
                f"loop {manifest.loop!r} is of a stateful class, and not a main loop: "
                "continue with StatefulLoop.resume(...), on any number of partitions"
            )
        if ledger is None:
            raise InputError(
                f"loop {manifest.loop!r} is not a main loop: it was written by a run, which stores "
                "no graph; open one with MainLoop(program, graph)"
            )
        return ledger

    def statistics(self) -> dict[str, Any]:
        """The entry in a version's statistics that `of` reads."""
        return {_KEY: {f.name: getattr(self, f.name) for f in fields(self)}}

    @property
    def behind(self) -> int:
        """The number of received changes that the state does not reflect yet."""
        return self.received - self.reflected

    @property
    def ingested(self) -> int:
        """The number of changes received from outside, with those that a window ignored."""
        w = self.window
        return self.received + (w["late"] + w["overtaken"] - w["expired"] if w else 0)

    def after(self, out: CommandResult, changes: int, *, iterated: bool) -> Ledger:
        """The ledger after an engine has applied `changes` changes, and perhaps iterated."""
        received = self.received + changes
        new = replace(
            self,
            received=received,
            counts={n: self.counts[n] + out.counts[n] for n in self.counts},
            exact=self.exact and not changes,
        )
        if not iterated:
            return new
        return replace(
            new,
            reflected=received,
            state=self.state or bool(out.segments),
            exact=out.work.quiet,
            residual=out.work.residual,
        )
