"""Pages that change: a part of them has other words, or other links."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

import numpy as np

from benchmarks.triggers.sizes import Sizes

Value = TypeVar("Value")
Draw = Callable[[np.random.Generator, int, int], list[Value]]

_WORDS, _VOCABULARY = 50, 20_000  # of a page, of all pages
_LINKS = 10  # of a page


class Pages(Generic[Value]):
    """Pages, each with a value; drawn from a seed, so that each system has the same ones.

    Args:
        count: of pages.
        draw: draws values, so many and for so many pages.
    """

    def __init__(self, count: int, draw: Draw[Value]) -> None:
        self._rng, self._draw = np.random.default_rng(13), draw
        self.urls = [f"page{k}" for k in range(count)]
        self.values = draw(self._rng, count, count)

    def change(self, percent: float) -> tuple[list[str], list[Value]]:
        """Give some pages other values; return these pages with them."""
        count = len(self.urls)
        chosen = self._rng.choice(count, max(1, round(count * percent / 100)), replace=False)
        drawn = self._draw(self._rng, len(chosen), count)
        for place, value in zip(chosen.tolist(), drawn, strict=True):
            self.values[place] = value
        return [self.urls[place] for place in chosen.tolist()], drawn

    def graph(self) -> dict[str, Value]:
        """Return the value of each page."""
        return dict(zip(self.urls, self.values, strict=True))

    def changes(self, sizes: Sizes) -> Iterator[tuple[float, tuple[list[str], list[Value]]]]:
        """Yield percents, the smallest first, each as many times as there are turns."""
        for percent in sizes.shares:
            for _ in range(sizes.turns):
                yield percent, self.change(percent)


def texts(rng: np.random.Generator, count: int, pages: int) -> list[str]:
    """Draw texts of 50 of 20,000 words, by Zipf's law."""
    shares = np.cumsum(1.0 / np.arange(1, _VOCABULARY + 1))
    words = np.searchsorted(shares, shares[-1] * rng.random((count, _WORDS))).tolist()
    return [" ".join(f"word{word}" for word in of_page) for of_page in words]


def links(rng: np.random.Generator, count: int, pages: int) -> list[list[str]]:
    """Draw links, ten at most from each page and none twice, more of them to the first pages."""
    targets = (pages * rng.random((count, _LINKS)) ** 2).astype(np.int64)
    return [[f"page{target}" for target in np.unique(row).tolist()] for row in targets]
