"""What asynchrony must buy, and what it may cost."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import targets
from benchmarks.asynchrony.results import Results
from benchmarks.asynchrony.sizes import Sizes
from benchmarks.cells import QUIET
from benchmarks.document import Table
from benchmarks.targets import Target

__all__ = ["TARGETS", "table"]


def _ratio(case: str, over: str, under: str, r: Results) -> float | None:
    return r.ratio(case, over, under)


def _cost(case: str, over: str, under: str, r: Results) -> float | None:
    return r.ratio(case, f"B={r.sizes.cost} {over}", f"B=1 {under}")


def _slowed(r: Results) -> float | None:
    """What a straggler costs asynchronous runs, over what it costs synchronous ones; at most, where
    a synchronous run with a straggler was ended."""
    if r.median("c-grid", "auto straggler seconds") is None:
        return None
    auto = r.ratio("c-grid", "auto straggler seconds", "auto even seconds")
    waiting = r.ratio("c-grid", "B=1 straggler seconds", "B=1 even seconds")
    return auto / waiting if auto is not None and waiting else None


def _targets() -> Iterator[Target[Results]]:
    for case, many in (("a-few", 4), ("a-many", 8)):
        prepares = partial(Results.median, case=case, name="B=1 prepares")
        yield Target(f"prepares at B=1, R-MAT, {many} partitions", prepares, 0, "")
    for what, bound in (("hops", 5), ("seconds", 3)):
        find = partial(_ratio, "b-grid-structure", f"B=1 {what}", f"auto {what}")
        yield Target(f"{what} on the grid by structure, B=1 / auto", find, bound, at_least=True)
    find = partial(Results.median, case="b-grid-structure", name="auto seconds")
    yield Target("the grid by structure, auto", find, 2.0, "s")
    yield Target("one slow / none slow on the grid, auto over B=1", _slowed, 0.6)
    find = partial(_ratio, "b-rmat-hash", "B=256 seconds", "B=1 seconds")
    yield Target("seconds on R-MAT by hash, B=256 / B=1", find, 2.0)
    for case, said in (("hash", "by hash"), ("structure", "by structure")):
        find = partial(_ratio, f"b-rmat-{case}", "auto seconds", "B=1 seconds")
        yield Target(f"seconds on R-MAT {said}, auto / B=1", find, 1.05)
    for case, said in (("shortest_paths", "shortest paths"), ("components", "components")):
        for place, title in (("alone", "one partition"), ("beside", "one of two partitions")):
            find = partial(_cost, f"d-{case}", f"{place} seconds", f"{place} seconds")
            yield Target(f"all in {title}, {said}, B=256 / B=1", find, 1.15)
        find = partial(_cost, f"d-{case}", "beside kernel", "alone kernel")
        yield Target(f"the same, time in tasks: sweeps / iterations, {said}", find, 1.15)


TARGETS = tuple(_targets())


def _as_stated(s: Sizes) -> bool:
    plain = Sizes()
    return (s.scale, s.grid, s.partitions, s.paper_partitions, s.cost) == (
        plain.scale, plain.grid, plain.partitions, plain.paper_partitions, plain.cost,
    )  # fmt: skip


def table(results: Results) -> Table | None:
    """The aims, judged only at the sizes that they are stated for; None if none was measured."""
    unjudged = "machine not quiet" if results.others() > QUIET else None
    if not _as_stated(results.sizes):
        unjudged = "stated for other sizes"
    judged = targets.rows(TARGETS, results, unjudged)
    return targets.table(judged) if judged else None
