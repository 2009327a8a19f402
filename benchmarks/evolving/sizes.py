"""What a run of the suite ``evolving`` can be made smaller or larger by."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from benchmarks.options import file, names, option, scales

FROM_SCRATCH, BESIDE = ("ours", "graphx", "graphframes"), ("dataflow", "pathway")


def _shares(text: str) -> tuple[float, ...]:
    try:
        found = tuple(float(word) for word in text.split(",") if word)
    except ValueError:
        found = ()
    if not found or not all(0 < share <= 0.5 for share in found):
        raise argparse.ArgumentTypeError(f"{text!r}: give shares of the edges, as 0.01,0.2")
    return found


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        batch, batch_seconds: changes in a batch where many arrive, and the seconds of
            approximation after it.
        seconds: for one case, once it is warm; nothing is begun after them.
    """

    scale: int = option(20, "of R-MAT")
    batch: int = option(1 << 17, "changes that are ingested at once")
    batch_seconds: float = option(0.5, "of approximation, part c")
    warm: int = option(2, "rounds that are not counted")
    queries: int = option(30, "parts a and b")
    changes: int = option(1000, "changes per query there", flag="--every")
    edges_file: str = option("", "instead of R-MAT", file, "--edges")
    changes_files: tuple[str, ...] = option((), "of those", file, "--changes", "+")
    singles: int = option(200, "changes of one edge, part e")
    shares: tuple[float, ...] = option((0.01, 0.05, 0.10, 0.20), "of the edges, part c", _shares)
    seconds: float = option(15.0, "for a case once it is warm")
    systems: tuple[str, ...] = option(
        FROM_SCRATCH, "from scratch; may be ''", names(FROM_SCRATCH, empty=True)
    )
    peers: tuple[str, ...] = option(
        BESIDE, "for changing graphs; may be ''", names(BESIDE, empty=True)
    )
    peer_scales: tuple[int, ...] = option((), "of R-MAT, tried until one does not finish", scales)
    peer_time_limit: float = option(600.0, "seconds for one case of a peer")
    cores: int = 2

    def pieces(self, edges: int) -> int:
        """Changes in a batch where a share of so many edges arrives: at most a hundredth."""
        return max(1, min(self.batch, edges // 100))
