"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import option, scales


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scale: int = option(20, "of R-MAT")
    slope: tuple[int, ...] = option((18, 20), "scales for memory: 18,20", scales)
    repeats: int = option(5, "runs of each kind")
    commands: int = option(200, "that are timed, of each kind")
    branches: tuple[int, ...] = option((1, 4, 16), "beside ingest: 1,4,16")
    branch_scale: int = option(16, "R-MAT, for branches")
    batch: int = option(20_000, "changes in a batch beside branches")
    seconds: float = option(10.0, "of ingest, for each number of them")
    executor_memory: int = option(2048, "MiB of a JVM")
    cores: int = 2
