"""The systems that are compared, one file each, behind one small interface.

To add one: write ``benchmarks/peers/NAME.py`` with a subclass of `Peer` that has a method for each
measure it can do, and a line in `SYSTEMS`. Nothing else knows its name.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

from benchmarks.graphs import BenchGraph
from benchmarks.measures import MEASURES
from benchmarks.runner import Unavailable

Later = Callable[[], dict[str, Any]]
"""Hands over the answer after the clock was stopped: ``ids`` and ``value``, or facts.

A load hands over ``vertices`` and ``edges``. A PageRank by another definition adds ``definition``
(the end of a reference's name, as ``_undistributed``) and may widen ``error`` (relative L1).
A number under ``phase NAME`` is shown as the seconds that a part of the last run took.
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What every system is given: cores to use, bytes of memory it may use, a scratch folder."""

    cores: int
    memory: int
    scratch: str


class Peer(ABC):
    """A system under test, in a process of its own.

    The harness calls `start` once, then for a tiny graph (to warm what can be warmed) and for the
    real one: sets `graph`, calls `prepare` and each measure's method as often as asked, and
    `release` before each load. A measure's method does the work that is timed and returns a
    `Later`; its result must be computed by then (no lazy plan), extracting and converting it
    belongs into the `Later`.

    Raises:
        Unavailable: by `start`, when the system is not there.
    """

    title: ClassVar[str]
    about: ClassVar[str]
    """How it is run and what its answers mean, one or two sentences for the table's notes."""

    graph: BenchGraph

    def __init__(self, settings: Settings) -> None:
        self.settings = settings

    @abstractmethod
    def start(self) -> dict[str, str]:
        """Import, open sessions. Returns versions by name."""

    @abstractmethod
    def release(self) -> None:
        """Forget the loaded graph and give its memory back."""

    def prepare(self, measure: str) -> None:  # noqa: B027
        """Before the clock: make what ``measure`` needs besides the load. The report says how long
        it took, so use it only for what a user's program pays once per graph."""

    def stop(self) -> None:  # noqa: B027
        """Close sessions."""

    @classmethod
    def offers(cls) -> tuple[str, ...]:
        """The measures it has methods for, in the order of the tables."""
        return tuple(measure.name for measure in MEASURES if hasattr(cls, measure.name))


SYSTEMS: dict[str, str] = {
    "ours": "benchmarks.peers.ours:Ours",
    "ours-2": "benchmarks.peers.ours:OursTwo",
    "graphx": "benchmarks.peers.graphx:GraphX",
    "graphframes": "benchmarks.peers.graphframes:GraphFrames",
    "scipy": "benchmarks.peers.scipy:SciPy",
    "igraph": "benchmarks.peers.igraph:IGraph",
    "networkit": "benchmarks.peers.networkit:NetworKit",
    "networkx": "benchmarks.peers.networkx:NetworkX",
}


def peer(system: str) -> type[Peer]:
    """The class of a system by its name in `SYSTEMS`, or given as ``module:Class`` itself.

    Raises:
        ValueError: there is no such name, module or class.
    """
    module, _, name = SYSTEMS.get(system, system).partition(":")
    try:
        found: type[Peer] = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, ValueError) as error:
        known = ", ".join(SYSTEMS)
        raise ValueError(f"no system {system!r} ({error}); choose from {known}") from error
    return found


def require(module: str, install: str) -> Any:
    """Import a peer's package.

    Raises:
        Unavailable: it is not installed; says how to install it.
    """
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"{error}; pip install {install}") from error
