"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import option


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    points: int = option(1_000_000, "of logistic regression")
    passes: int = option(10, "over them, for points/s")
    most: int = option(50, "passes to 1.01 × the best loss, at most")
    instances: int = option(300_000, "at the last instant")
    shares: tuple[int, ...] = option((1, 5, 10, 20), "percent that arrive: 1,5,10,20")
    stream: int = option(100_000, "instances of a stream, for rates")
    columns: int = option(141_000, "of the bags of words among these")
    batches: int = option(20, "of the stream")
    turns: int = option(3, "of what is timed more than once")
    cores: int = 2
