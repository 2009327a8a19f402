"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.options import option


def _bounds(text: str) -> tuple[str, ...]:
    found = tuple(filter(None, text.split(",")))
    if found[:1] != ("1",) or not all(b == "auto" or (b.isdigit() and int(b)) for b in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give bounds, the first one 1, as 1,16,auto")
    return found


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r}: give a number of seconds above 0")
    return seconds


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        paper, paper_partitions: bounds and numbers of partitions of the paper's table 2.
        cost: the bound whose protocol's cost is measured.
    """

    scale: int = option(20, "of R-MAT")
    grid: int = option(1000, "vertices along one side")
    paper: tuple[str, ...] = ("1", "256", "65536")
    paper_partitions: tuple[int, ...] = (4, 8)
    bounds: tuple[str, ...] = option(
        ("1", "4", "16", "64", "256", "auto"), "of parts b and c: 1,4,auto", _bounds
    )
    partitions: int = option(4, "of parts b and c")
    partitioner: str = option("ldg", "beside the hash: ldg, fennel or metis")
    times: float = option(4.0, "how much slower the straggler is")
    least: float = option(0.001, "seconds of its work in a hop, at least")
    turn: float = option(1.0, "seconds until another one is slow", _seconds)
    cost: str = "256"
    repeats: int = option(3, "runs of each bound")
    budget: float = option(60.0, "seconds after which none is begun")
    limit: float = option(600.0, "seconds for one run")
    cores: int = 2
