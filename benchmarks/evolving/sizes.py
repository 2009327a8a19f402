"""What a run of the suite can be made smaller or larger by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every case.

    Attributes:
        queries, changes: so many queries, each after so many changes.
        warm: so many of them before, which are not counted.
        batch, batch_seconds: changes in a batch where many arrive, and the seconds of
            approximation after it.
        shares: of the edges, that arrive between two queries.
        singles: changes of one edge, each with a query.
        seconds: for one case, once it is warm; nothing is begun after them.
        total, every: changes of the soak, and how many between its queries.
        edges_file, changes_files: of one's own instead of R-MAT and drawn changes.
    """

    scale: int = 20
    queries: int = 30
    changes: int = 1000
    warm: int = 2
    batch: int = 1 << 17
    batch_seconds: float = 0.5
    shares: tuple[float, ...] = (0.01, 0.05, 0.10, 0.20)
    singles: int = 200
    seconds: float = 15.0
    cores: int = 2
    total: int = 10_000_000
    every: int = 100_000
    edges_file: str = ""
    changes_files: tuple[str, ...] = ()

    def pieces(self, edges: int) -> int:
        """Changes in a batch where a share of so many edges arrives: at most a hundredth."""
        return max(1, min(self.batch, edges // 100))
