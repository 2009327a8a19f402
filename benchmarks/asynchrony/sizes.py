"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Sizes"]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        scale: of R-MAT.
        grid: vertices along one side of the grid of streets.
        paper, paper_partitions: bounds and numbers of partitions of the paper's table 2.
        bounds, partitions: of hops and time to convergence; "auto" is a bound.
        partitioner: the structural one that stands beside the hash.
        times, least, turn: how much slower the straggler is, the seconds that its own work is
            taken to last at least, as a hop does not take less, and the seconds after which
            another partition is the straggler.
        cost: the bound whose protocol's cost is measured.
        repeats, budget: runs of each bound; none is begun after so many seconds of runs.
        limit: seconds for one run.
    """

    scale: int = 20
    grid: int = 1000
    paper: tuple[str, ...] = ("1", "256", "65536")
    paper_partitions: tuple[int, ...] = (4, 8)
    bounds: tuple[str, ...] = ("1", "4", "16", "64", "256", "auto")
    partitions: int = 4
    partitioner: str = "ldg"
    times: float = 4.0
    least: float = 0.001
    turn: float = 1.0
    cost: str = "256"
    repeats: int = 3
    budget: float = 60.0
    limit: float = 600.0
    cores: int = 2
