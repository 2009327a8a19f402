"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        scales: of R-MAT, for time against edges.
        scale: of R-MAT, for time against partitions and changes.
        partitions: numbers of them.
        changes: between a query and the next one.
        repeats, budget: runs of each kind; none is begun after so many seconds of runs.
        executor_memory: MiB of an executor's JVM.
        hops, tasks: of the experiments on what hops cost: how many are timed, with up to how many
            tasks.
        megabytes: in one hop, at most, of those on what a byte costs; and committed.
        log_edges: 2 ** this edges in the graphs of those on messages.
    """

    scales: tuple[int, ...] = (14, 15, 16, 17, 18, 19, 20)
    scale: int = 18
    partitions: tuple[int, ...] = (1, 2, 4, 8)
    changes: tuple[int, ...] = (1, 10, 100, 1000, 10_000, 100_000)
    repeats: int = 3
    budget: float = 20.0
    executor_memory: int = 1024
    hops: int = 5
    tasks: int = 64
    megabytes: int = 64
    log_edges: int = 21
    cores: int = 2
