"""Charts of the suite: hops and seconds by bound, and with a straggler."""

from __future__ import annotations

from benchmarks.asynchrony.cases import named
from benchmarks.asynchrony.results import Results
from benchmarks.document import Chart, Series

__all__ = ["bounds", "straggler"]


def bounds(r: Results) -> list[Chart]:
    """Bars for each bound, a series for each graph and placement; of hops and of seconds."""
    names = [named(bound) for bound in r.sizes.bounds]
    found = []
    for what, unit in (("hops", "hops"), ("seconds", "s")):
        series = []
        for graph, said in (("rmat", "R-MAT"), ("grid", "grid")):
            for how, placed in (("hash", "hash"), ("structure", r.sizes.partitioner)):
                case = f"b-{graph}-{how}"
                values = [r.median(case, f"{name} {what}") for name in names]
                if any(value is not None for value in values):
                    series.append(Series(f"{said}, {placed}", values))
        if series:
            title = "Hops to convergence" if what == "hops" else "Seconds to convergence"
            found.append(Chart("bars", title, unit, names, series, log=True))
    return found


def straggler(r: Results) -> list[Chart]:
    """Bars of seconds, with a partition that is slow and without."""
    series, names = [], list(dict.fromkeys(map(named, (r.sizes.bounds[0], r.sizes.bounds[-1]))))
    cases = [("c-rmat", "R-MAT"), ("c-grid", "grid")]
    categories = [f"{said}, {name}" for _, said in cases for name in names]
    for kind, title in (("even", "none slow"), ("straggler", "one slow")):
        values = [r.median(case, f"{name} {kind} seconds") for case, _ in cases for name in names]
        series.append(Series(title, values))
    if all(value is None for one in series for value in one.values):
        return []
    return [
        Chart("bars", "Seconds with and without a straggler", "s", categories, series, log=True)
    ]
