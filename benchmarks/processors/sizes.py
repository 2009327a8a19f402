"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        scale: of R-MAT, for programs and loading.
        slope: scales by which the slope of memory is taken.
        repeats: runs of each kind, in turn.
        commands: that are timed, of each kind.
        branches: numbers of branches beside ingest.
        branch_scale, batch: of R-MAT, and changes a batch, for branches beside ingest.
        seconds: of ingest, with and without each number of branches.
        executor_memory: MiB of an executor's JVM.
    """

    scale: int = 20
    slope: tuple[int, ...] = (18, 20)
    repeats: int = 5
    commands: int = 200
    branches: tuple[int, ...] = (1, 4, 16)
    branch_scale: int = 16
    batch: int = 20_000
    seconds: float = 10.0
    executor_memory: int = 2048
    cores: int = 2
