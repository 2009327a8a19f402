"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import option


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scale: int = option(18, "of R-MAT")
    batch: int = option(20_000, "changes between two queries")
    intervals: tuple[float, ...] = option(
        (0.5, 1.0, 3.0, 10.0), "seconds between snapshots: 0.5,1,3,10"
    )
    turn: float = option(6.0, "seconds of a turn, at least")
    turns: int = option(4, "turns of each kind every 3 s")
    states: tuple[int, ...] = option((10, 100, 1000), "MB of state: 10,100,1000")
    shares: tuple[int, ...] = option((1, 10, 100), "percent of rows that change")
    pauses: int = option(200, "snapshots of each such state, at most")
    patience: float = option(5.0, "seconds for these, at most")
    restored: int = option(400, "MB of state that are restored")
    repeats: int = option(2, "of each restoration")
    losses: int = option(3, "processors that are killed")
    snapshots: int = option(86_400, "of the simulated day")
    cores: int = 2
