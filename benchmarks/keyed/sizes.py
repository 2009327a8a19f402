"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.snapshots.intervals import KINDS

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        keys: different ones that are put in bulk, drawn from 62 bits.
        calls: in bulk, of each kind and turn.
        turns: of each kind.
        single: calls one by one.
        states: MB of state, of which random keys are put.
        processors: on which such a state is.
        each: MB of state of each of these.
        kinds: of snapshots.
        intervals: seconds between them, with the smallest state; the others have the target's.
        chain_intervals: the same, where calls are shuffled three times.
        turn: seconds of a turn with a kind of snapshot, at least; it has at least one interval.
        rounds: turns of each kind at the interval of the target; one at the others.
        events: rows of the stream whose keys are counted.
        counted: different keys of it.
        windows: milliseconds.
        seconds: of words in windows of one length.
        restored: MB of state that are restored.
        repeats: of each restoration.
        ratings: there before requests are measured.
        requests: of each ratio of reads and writes.
    """

    keys: int = 1_000_000
    calls: int = 1 << 20
    turns: int = 3
    single: int = 500
    states: tuple[int, ...] = (100, 1000)
    processors: tuple[int, ...] = (1, 2, 4)
    each: int = 25
    kinds: tuple[str, ...] = KINDS
    intervals: tuple[float, ...] = (2.0, 5.0, 10.0)
    chain_intervals: tuple[float, ...] = (0.5, 1.0, 3.0, 10.0)
    turn: float = 3.0
    rounds: int = 3
    events: int = 1_000_000
    counted: int = 10_000
    windows: tuple[int, ...] = (10, 25, 50, 100)
    seconds: float = 3.0
    restored: int = 1000
    repeats: int = 2
    ratings: int = 20_000
    requests: int = 600
    cores: int = 2
