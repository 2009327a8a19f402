"""The suites that there are, and what can be asked of each by the same words."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

SIZE, FILES = ("--scale",), ("--scale", "--edges")


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a module with ``SUITE``, a `benchmarks.suite.CaseSuite`, or with
    ``main(arguments) -> exit status`` and ``QUICK``, its arguments for ``./dev bench --quick``.

    ``takes``: which of ``--scale``, ``--edges`` and ``--changes`` it knows; all know ``--out`` and
    ``--cache``. ``always``: whether it runs when no suite is named. ``scaled``: what else than
    ``--scale N`` it is called with for a scale.
    """

    name: str
    module: str
    takes: tuple[str, ...] = field(default=())
    always: bool = True
    scaled: Callable[[int], list[str]] = lambda scale: ["--scale", str(scale)]

    def load(self) -> Any:
        """What has its ``main``."""
        module = importlib.import_module(self.module)
        return getattr(module, "SUITE", module)

    def quick(self) -> tuple[str, ...]:
        """Its arguments for ``./dev bench --quick``; none where it has no quick form."""
        loaded = self.load()
        arguments = getattr(loaded, "QUICK", None) or getattr(loaded, "quick", "").split()
        return tuple(arguments)


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
        Suite("batch", "benchmarks.suites.batch", FILES),
        Suite("catalogue", "benchmarks.suites.catalogue", SIZE, scaled=_at_most_16),
        Suite("evolving", "benchmarks.suites.evolving", ("--scale", "--edges", "--changes")),
        Suite("state", "benchmarks.suites.state", SIZE),
        Suite("asynchrony", "benchmarks.suites.asynchrony", SIZE),
        Suite("scaling", "benchmarks.suites.scaling", SIZE, scaled=_growing),
        Suite("processors", "benchmarks.suites.processors", SIZE),
        Suite("snapshots", "benchmarks.suites.snapshots", SIZE),
        Suite("history", "benchmarks.suites.history", SIZE),
        Suite("keyed", "benchmarks.suites.keyed"),
        Suite("learning", "benchmarks.suites.learning"),
        Suite("triggers", "benchmarks.suites.triggers"),
        Suite("examples", "benchmarks.suites.examples", SIZE),
        Suite("profile", "benchmarks.suites.profile", FILES),
        Suite("soak", "benchmarks.suites.soak", always=False),
    )
}

TOOLS = {
    "page": "benchmarks.page",
    "check": "benchmarks.guard",
    "estimates": "benchmarks.estimates",
}
"""What is no suite, but is run in the same way."""


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
