"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

from benchmarks.options import option, scales


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case."""

    scales: tuple[int, ...] = option(
        (14, 15, 16, 17, 18, 19, 20), "R-MAT: 14..20, or 14,16,18", scales
    )
    scale: int = option(18, "R-MAT, for partitions and changes")
    partitions: tuple[int, ...] = option((1, 2, 4, 8), "1,2,4,8")
    changes: tuple[int, ...] = option(
        (1, 10, 100, 1000, 10_000, 100_000), "between queries: 1,10,100"
    )
    repeats: int = option(3, "runs of each kind")
    budget: float = option(20.0, "seconds after which none is begun")
    executor_memory: int = option(1024, "MiB of a JVM")
    hops: int = option(5, "that are timed, of each kind")
    tasks: int = option(64, "in a hop, at most, to see what one costs")
    megabytes: int = option(64, "in a hop or a commit, at most")
    log_edges: int = option(21, "2**this edges in random graphs")
    cores: int = 2
