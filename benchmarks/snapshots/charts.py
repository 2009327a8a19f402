"""Charts of the suite: throughput by interval, and changes per second around a loss."""

from __future__ import annotations

from benchmarks.document import Chart, Series
from benchmarks.snapshots.intervals import KINDS
from benchmarks.snapshots.losses import AFTER, BEFORE, WIDTH
from benchmarks.snapshots.targets import Results

__all__ = ["loss", "throughput"]


def throughput(r: Results, case: str, title: str) -> list[Chart]:
    """Bars for each interval, a series for each kind of snapshot."""
    names = [f"{every:g}" for every in r.sizes.intervals]
    series = [Series(kind, [r.median(case, f"{kind} {name}") for name in names]) for kind in KINDS]
    if all(value is None for one in series for value in one.values):
        return []
    categories = [f"every {name} s" for name in names]
    return [Chart("bars", f"Changes per second, {title}", "changes/s", categories, series)]


def loss(r: Results) -> list[Chart]:
    """A line of changes per second over the seconds around a loss."""
    bars = range(round((BEFORE + AFTER) / WIDTH))
    values = [r.median("loss", f"rate {number}") for number in bars]
    if all(value is None for value in values):
        return []
    at = [number * WIDTH - BEFORE for number in bars]
    names = [f"{second:g}" for second in at]
    title = "Changes per second around the loss of a processor"
    series = [Series("ours", values)]
    return [Chart("lines", title, "changes/s", names, series, x=at, x_title="seconds since")]
