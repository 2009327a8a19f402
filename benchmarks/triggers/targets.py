"""What triggers must reach, and beside what."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial

from benchmarks import cells
from benchmarks.beside import BesideResults, beside_rows, beside_table
from benchmarks.document import Table
from benchmarks.targets import Target
from benchmarks.triggers.sizes import Sizes

__all__ = ["BATCH_JOBS", "STORES", "TARGETS", "Results", "table"]

STORES = {"writes-memory": "memory", "writes-lmdb": "LMDB"}
BATCH_JOBS = {"words": "word count", "pagerank": "PageRank"}
_STATED = ("rows", "texts", "pages", "items", "clusters")
_AIM = 1.0  # percent of the pages that change


class Results(BesideResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def faster(self, part: str, percent: float) -> float | None:
        """How many times as fast as the batch job, if so much changes."""
        return self.ratio(f"{part}-spark", "batch", f"{part}-ours", f"{percent:g}")

    def crossover(self, part: str) -> str:
        """The percent of changes from which on the batch job is faster, in words."""
        measured = [(p, self.faster(part, p)) for p in self.sizes.shares]
        there = [(p, ratio) for p, ratio in measured if ratio is not None]
        if not there:
            return "–"
        slower = next((k for k, (_, ratio) in enumerate(there) if ratio < 1), None)
        if slower is None:
            return f"above {there[-1][0]:g} %"
        if not slower:
            return f"below {there[0][0]:g} %"
        (low, above), (high, below) = there[slower - 1 : slower + 1]
        part_of_way = math.log(above) / math.log(above / below)  # straight, by logarithms of both
        return f"{low * (high / low) ** part_of_way:.2g} %"

    def clustering(self) -> float | None:
        """MLlib's seconds to ours, the least of all numbers of items; None where one is missing."""
        ratios = [
            self.ratio("clustering", f"mllib {n}", "clustering", f"{n}") for n in self.sizes.items
        ]
        there = [ratio for ratio in ratios if ratio is not None]
        return min(there) if len(there) == len(ratios) else None


def _targets() -> Iterator[tuple[str, Target[Results]]]:
    for case, store in STORES.items():
        for kind, what, bound in (
            ("silent", "a trigger that does not run", 0.97), ("+1", "a +1 for each", 0.88)
        ):  # fmt: skip
            measure = partial(Results.median, case=case, name=f"{kind} kept")
            title = f"writes with {what}, {store}"
            yield "no triggers", Target(title, measure, bound, at_least=True)
    for part, title in BATCH_JOBS.items():
        measure = partial(Results.faster, part=part, percent=_AIM)
        yield "Spark", Target(f"{title}, {_AIM:g} % changes", measure, 20.0, at_least=True)
    title = "clustering, least of all numbers of items"
    yield "MLlib", Target(title, Results.clustering, 1.0, at_least=True)


_BESIDE = tuple(_targets())
TARGETS = tuple(target for _, target in _BESIDE)


def table(r: Results) -> Table | None:
    """All that was measured; judged at the default sizes on a quiet machine."""
    rows = beside_rows(_BESIDE, r, _STATED)
    for part, title in BATCH_JOBS.items():
        if (where := r.crossover(part)) != "–":
            rows.append([f"{title}: the batch job is faster from", "Spark", where, "–", "shown"])
    title = f"{BATCH_JOBS['words']}, {_AIM:g} % changes"
    if r.figures("words-pathway", "not installed"):
        rows.append([title, "Pathway", "not installed", "–", "shown"])
    elif ratio := r.ratio("words-pathway", f"{_AIM:g}", "words-ours"):
        rows.append([title, "Pathway", cells.times(ratio), "–", "shown"])
    return beside_table(rows)
