"""Which colour stands for which name: ours stands out, and the same name looks alike throughout."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.document import Chart

__all__ = ["PALETTE", "is_ours", "of_bars", "of_series"]

PALETTE = 8  # classes c0 to c7 of the style


def is_ours(name: str) -> bool:
    """Whether a name in a chart is one of ours: ``ours``, ``ours, 2 partitions``."""
    return name.lower().startswith(("ours", "vertexsdk"))


def compared(names: Sequence[str]) -> bool:
    """Whether ours stands beside others here."""
    return len({is_ours(name) for name in names}) == 2


def of_series(names: Sequence[str]) -> list[str]:
    """A class for each name of a legend, so that all can be told apart."""
    if not compared(names):
        return [f"c{k % PALETTE}" for k in range(len(names))]
    own, others = 0, 0
    found = []
    for name in names:
        if is_ours(name):
            found.append(f"own{min(own, 2)}")
            own += 1
        else:
            found.append(f"c{1 + others % (PALETTE - 1)}")
            others += 1
    return found


def of_bars(chart: Chart) -> list[list[str]]:
    """A class for each category and series. Bars have their names beside them, so the others are
    all grey where ours is among them."""
    series, categories = [s.name for s in chart.series], chart.categories
    if len(series) > 1:
        names = of_series(series)
        if compared(series):
            names = [c if is_ours(n) else "peer" for n, c in zip(series, names, strict=True)]
        return [names for _ in categories]
    if not compared(categories):
        return [["own0"] for _ in categories]
    names = of_series(categories)
    return [[c if is_ours(n) else "peer"] for n, c in zip(categories, names, strict=True)]
