"""What snapshots may cost, and how fast a loop must be back."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from benchmarks import cells, targets
from benchmarks.document import Table
from benchmarks.runner import SuiteResults
from benchmarks.snapshots.intervals import AIM
from benchmarks.snapshots.sizes import Sizes
from benchmarks.targets import Target

__all__ = ["TARGETS", "Results", "table"]

_LEAST = 20  # pauses, for a 99th percentile to be judged


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def kept(self, case: str, kind: str, every: float) -> float | None:
        """The share of the throughput without snapshots; None where either is missing."""
        rate = self.median(case, f"{kind} {every:g}")
        none = self.median(case, f"none {every:g}")
        return rate / none if rate is not None and none else None

    def percentile(self, case: str, name: str, percent: float) -> float | None:
        """Of the figures of a name."""
        figures = self.figures(case, name)
        return float(np.percentile(figures, percent)) if figures else None


def _kept(case: str, r: Results) -> float | None:
    return r.kept(case, "asynchronous", AIM)


def _pause(case: str, r: Results) -> float | None:
    name = "100 MB 1 % pause"
    if len(r.figures(case, name)) < _LEAST:
        return None
    seconds = r.percentile(case, name, 99)
    return None if seconds is None else 1e3 * seconds


def _faster(r: Results) -> float | None:
    one, two = r.median("restore", "1 to 1"), r.median("restore", "2 to 2")
    return one / two if one is not None and two else None


def _grown(r: Results) -> float | None:
    early, late = r.median("day", "bytes 10"), r.median("day", "bytes 100")
    return late / early if late is not None and early else None


def _targets() -> Iterator[Target[Results]]:
    for count in (2, 4):
        title = f"throughput with asynchronous snapshots every {AIM:g} s / none, {count} processors"
        yield Target(title, partial(_kept, f"intervals-{count}"), 0.97, at_least=True)
    for count in (1, 2):
        title = f"pause by a snapshot, 99 %, 100 MB, 1 % of the rows, {count} partitions"
        yield Target(title, partial(_pause, f"pause-{count}"), 5.0, "ms")
    restored = partial(Results.median, case="restore", name="2 to 2")
    yield Target("a state restored by 2 from 2", restored, 3.0, "s")
    yield Target("a state restored by 1 from 1 / by 2 from 2", _faster, 1.6, at_least=True)
    answered = partial(Results.median, case="loss", name="answered")
    yield Target("the next answer after a processor is killed", answered, 5.0, "s")
    yield Target("bytes on disk after a day / after a tenth of it", _grown, 2.0)


TARGETS = tuple(_targets())


def table(r: Results) -> Table | None:
    """The targets of what was measured; judged at the default sizes on a quiet machine."""
    unjudged = "machine not quiet" if r.others() > cells.QUIET else None
    plain = Sizes()
    stated = ("scale", "batch", "restored", "snapshots")
    if any(getattr(r.sizes, name) != getattr(plain, name) for name in stated):
        unjudged = "stated for other sizes"
    judged = targets.rows(TARGETS, r, unjudged)
    return targets.table(judged) if judged else None
