"""Which colour stands for which name: ours stands out, and the same name looks alike throughout."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.document import Chart

__all__ = ["PALETTE", "is_ours", "of_bars", "of_series"]

PALETTE = 8  # classes c0 to c7 of the style
OWN = 3  # classes own0 to own2

PEERS = (
    "graphx", "graphframes", "scipy", "igraph", "networkit", "pathway", "differential dataflow",
    "networkx",
)  # fmt: skip
"""Names that have a colour of their own, c1 and so on, in every chart."""


def is_ours(name: str) -> bool:
    """Whether a name in a chart is one of ours: ``ours``, ``ours, 2 partitions``."""
    return name.lower().startswith(("ours", "vertexsdk"))


def _peer(name: str) -> int | None:
    found = (k for k, peer in enumerate(PEERS) if name.lower().startswith(peer))
    return next(found, None)


def compared(names: Sequence[str]) -> bool:
    """Whether these are systems, ours or others; else all is ours, or parts of it."""
    own = sum(map(is_ours, names))
    return 0 < own < len(names) or 0 < own <= OWN or any(_peer(n) is not None for n in names)


def of_series(names: Sequence[str]) -> list[str]:
    """A class for each name of a legend, so that all can be told apart."""
    if not compared(names):
        return [f"c{k % PALETTE}" for k in range(len(names))]
    wanted = {name: 1 + at % (PALETTE - 1) for name in names if (at := _peer(name)) is not None}
    given: dict[str, str] = {}
    for name in names:
        if is_ours(name):
            given[name] = f"own{min(sum(map(is_ours, given)), OWN - 1)}"
        else:
            # Two of one system, or one that is not known, take what nobody else has or wants.
            free = [k for k in range(1, PALETTE) if f"c{k}" not in given.values()]
            at = wanted.get(name, 0)
            if at not in free:
                at = next((k for k in free if k not in wanted.values()), (free or [1])[0])
            given[name] = f"c{at}"
    return [given[name] for name in names]


def of_bars(chart: Chart) -> list[list[str]]:
    """A class for each category and series. Bars have their names beside them, so the others are
    all grey where systems are compared."""
    series = [s.name for s in chart.series]
    names = series if len(series) > 1 else chart.categories
    if compared(names):
        classes = [
            c if is_ours(n) else "peer" for n, c in zip(names, of_series(names), strict=True)
        ]
    else:
        classes = of_series(names) if len(series) > 1 else ["own0"] * len(names)
    return [classes] * len(chart.categories) if len(series) > 1 else [[c] for c in classes]
