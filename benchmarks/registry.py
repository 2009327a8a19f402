"""The suites that there are, and what can be asked of each by the same words."""

from __future__ import annotations

import importlib
from dataclasses import dataclass, field
from typing import Any

__all__ = ["SUITES", "TOOLS", "Suite", "fit_in"]

SIZE, FILES = ("--scale",), ("--scale", "--edges")


@dataclass(frozen=True, slots=True)
class Suite:
    """One suite: a module with ``main(arguments) -> exit status``, and ``QUICK``, its arguments for
    ``./dev bench --quick``.

    ``takes``: which of ``--scale``, ``--edges`` and ``--changes`` it knows; all know ``--out`` and
    ``--cache``. ``always``: whether it runs when no suite is named.
    """

    name: str
    module: str
    takes: tuple[str, ...] = field(default=())
    always: bool = True

    def load(self) -> Any:
        """Its module."""
        return importlib.import_module(self.module)


SUITES = {
    suite.name: suite
    for suite in (
        Suite("batch", "benchmarks.suites.batch", FILES),
        Suite("evolving", "benchmarks.suites.evolving", ("--scale", "--edges", "--changes")),
        Suite("state", "benchmarks.suites.state"),
        Suite("asynchrony", "benchmarks.suites.asynchrony", SIZE),
        Suite("scaling", "benchmarks.suites.scaling"),
        Suite("examples", "benchmarks.suites.examples", SIZE),
        Suite("profile", "benchmarks.suites.profile", FILES),
        Suite("soak", "benchmarks.suites.soak", always=False),
    )
}

TOOLS = {"page": "benchmarks.page.command", "check": "benchmarks.guard.command"}
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
