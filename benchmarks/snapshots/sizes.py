"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        scale: of R-MAT, where shortest paths are kept up.
        batch: changes between two queries there.
        intervals: seconds between snapshots.
        turn: seconds of a turn with each kind of snapshot, at least; it has two snapshots.
        turns: of each kind at the interval that the target names, `AIM`; one at the others.
        states: MB of state whose snapshots pause a partition.
        shares: percent of the rows that change between two of these.
        pauses: snapshots of each such kind, at most.
        patience: seconds for these, at most.
        restored: MB of fields that are restored; a snapshot with the edges is 2.4 times as large.
        repeats: of each restoration.
        losses: processors that are killed.
        snapshots: of the simulated day.
    """

    scale: int = 18
    batch: int = 20_000
    intervals: tuple[float, ...] = (0.5, 1.0, 3.0, 10.0)
    turn: float = 6.0
    turns: int = 4
    states: tuple[int, ...] = (10, 100, 1000)
    shares: tuple[int, ...] = (1, 10, 100)
    pauses: int = 200
    patience: float = 5.0
    restored: int = 400
    repeats: int = 2
    losses: int = 3
    snapshots: int = 86_400
    cores: int = 2
