"""What a loop over a changing graph has taken in, kept with each of its versions."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, replace
from typing import Any

from vertexsdk.engine.engine import Outcome
from vertexsdk.graph.edge_kernels import COUNTS
from vertexsdk.state import Manifest

__all__ = ["Ledger"]

_KEY = "main"  # among the statistics of a version


@dataclass(frozen=True)
class Ledger:
    """Counters of one version, and what another process needs to go on from it.

    Attributes:
        params: of the program, as given.
        undirected: each edge stands for both directions.
        value: dtype of the edge values which are kept, or None.
        received: changes taken in.
        reflected: those of them that iterations have been run on since.
        repeated: changes that came again, and were left out.
        bad: records of sources that were no changes.
        counts: changes by what they met.
        queries: answered so far.
        state: whether the version has a state at all.
        exact: the program's rule ended the last iterations, and nothing came since.
        residual: see `Effort`.
        canonical: of an undirected graph: every change that a checkpoint holds came with one
            spelling of its edge. Loops written before that was so lack it.
    """

    params: dict[str, Any]
    undirected: bool
    value: str | None
    received: int = 0
    reflected: int = 0
    repeated: int = 0
    bad: int = 0
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(COUNTS, 0))
    queries: int = 0
    state: bool = False
    exact: bool = False
    residual: float | None = None
    canonical: bool = False

    @classmethod
    def of(cls, manifest: Manifest) -> Ledger | None:
        """The ledger of a version; None if it is of no such loop."""
        found = manifest.statistics.get(_KEY)
        return None if found is None else cls(**found)

    def statistics(self) -> dict[str, Any]:
        """What a version's statistics hold for `of`."""
        return {_KEY: asdict(self)}

    @property
    def behind(self) -> int:
        """Changes which the state does not reflect yet."""
        return self.received - self.reflected

    def after(self, out: Outcome, changes: int, *, iterated: bool) -> Ledger:
        """The ledger when orders with so many changes have been carried out."""
        received = self.received + changes
        new = replace(
            self,
            received=received,
            counts={n: self.counts[n] + out.counts[n] for n in self.counts},
            exact=self.exact and not changes,
        )
        if not iterated or out.num_vertices == 0:
            return new
        return replace(
            new,
            reflected=received,
            state=self.state or bool(out.segments),
            exact=out.effort.quiet,
            residual=out.effort.residual,
        )
