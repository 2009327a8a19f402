"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import names, option
from benchmarks.snapshots.intervals import KINDS


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    keys: int = option(1_000_000, "different keys")
    calls: int = option(1 << 20, "in bulk, of each kind and turn")
    turns: int = option(3, "of each kind")
    single: int = option(500, "calls one by one")
    states: tuple[int, ...] = option((100, 1000), "MB of state: 100,1000")
    processors: tuple[int, ...] = option((1, 2, 4), "with a state each: 1,2,4")
    each: int = option(25, "MB of state of each of these")
    kinds: tuple[str, ...] = option(KINDS, "of snapshots", names(KINDS))
    intervals: tuple[float, ...] = option(
        (2.0, 5.0, 10.0), "seconds between snapshots, smallest state: 2,5,10"
    )
    chain_intervals: tuple[float, ...] = option(
        (0.5, 1.0, 3.0, 10.0), "the same, calls that are shuffled three times"
    )
    turn: float = option(3.0, "seconds of a turn, at least")
    rounds: int = option(3, "turns at the interval of the target")
    events: int = option(1_000_000, "rows whose keys are counted")
    counted: int = option(10_000, "different keys of these")
    windows: tuple[int, ...] = option((10, 25, 50, 100), "milliseconds: 10,25,50,100")
    seconds: float = option(3.0, "of windows of one length")
    restored: int = option(1000, "MB of state that are restored")
    repeats: int = option(2, "of restoring and counting")
    ratings: int = option(20_000, "there before requests are measured")
    requests: int = option(600, "of each ratio of reads and writes")
    cores: int = 2
