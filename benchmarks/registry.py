"""The suites that there are, and what can be asked of each by the same words."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SIZE, FILES = ("--scale",), ("--scale", "--edges")


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite, which ``benchmarks.suites.NAME`` declares as ``SUITE``.

    ``takes``: which of ``--scale``, ``--edges`` and ``--changes`` it knows; all know ``--out`` and
    ``--cache``. ``always``: whether it runs when no suite is named. ``scaled``: what else than
    ``--scale N`` it is called with for a scale.
    """

    name: str
    takes: tuple[str, ...] = ()
    always: bool = True
    scaled: Callable[[int], list[str]] = lambda scale: ["--scale", str(scale)]

    def load(self) -> Any:
        """Its declaration."""
        return importlib.import_module(f"benchmarks.suites.{self.name}").SUITE

    def quick(self) -> tuple[str, ...]:
        """Its arguments for ``./dev bench --quick``; none where it has no quick form."""
        return tuple(self.load().quick.split())


def _growing(scale: int) -> list[str]:
    """Up to this scale against edges; the rest, which is more work, two below it."""
    less = min(max(14, scale - 2), 24)  # below 14 there are not enough edges for all its changes
    return ["--scales", f"{min(scale, max(8, scale - 6))}..{scale}", "--scale", str(less)]


def _at_most_16(scale: int) -> list[str]:
    """What takes NetworkX minutes for each algorithm on larger graphs."""
    return ["--scale", str(min(scale, 16))]


SUITES = {
    suite.name: suite
    for suite in (
        Suite("batch", FILES),
        Suite("catalogue", SIZE, scaled=_at_most_16),
        Suite("evolving", ("--scale", "--edges", "--changes")),
        Suite("state", SIZE),
        Suite("asynchrony", SIZE),
        Suite("scaling", SIZE, scaled=_growing),
        Suite("processors", SIZE),
        Suite("snapshots", SIZE),
        Suite("history", SIZE),
        Suite("keyed"),
        Suite("learning"),
        Suite("triggers"),
        Suite("examples", SIZE),
        Suite("profile", FILES),
        Suite("soak", always=False),
    )
}

TOOLS = {
    "page": "benchmarks.page",
    "check": "benchmarks.guard",
    "estimates": "benchmarks.estimates",
}
"""Other things that are run in the same way."""


def fit_in(memory: int, cores: int) -> int:
    """The R-MAT scale at which all suites can run on such a machine, 12 to 22.

    The greediest system, GraphX, takes some 700 bytes for each of the 2**(scale + 4) edges; a
    fifth of the memory is left to others. Two cores do scale 20 in two hours or so; each step up
    doubles the work, and so do twice as many cores.

    Args:
        memory: bytes that can be had now.
        cores: how many can be used.
    """
    by_memory = (memory * 4 // 5 // 700 // 16).bit_length() - 1
    by_cores = 18 + max(1, cores).bit_length()
    return max(12, min(by_memory, by_cores, 22))
