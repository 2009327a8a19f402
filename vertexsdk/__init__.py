"""Iterative computation on graphs that never stop changing, on Apache Spark.

Subclass `Vertex`, write `init`, `gather` and `scatter`, and `run` it over a `Graph`.
"""

from __future__ import annotations

import importlib.util
from typing import TYPE_CHECKING, Any

# First: importing the package `state` binds that name, which then becomes the function below.
from vertexsdk import state as _package  # noqa: F401
from vertexsdk.errors import (
    CallError,
    InputError,
    ProgramError,
    RunError,
    StateError,
    StateInputError,
    VertexError,
)
from vertexsdk.program.algebra import (
    INT_MAX,
    INT_MIN,
    Algebra,
    Latest,
    Max,
    Min,
    Sum,
    VertexId,
    inf,
)
from vertexsdk.program.program import Program
from vertexsdk.program.vertex import (
    ADD_TARGET,
    MAIN_LOOP,
    REMOVE_TARGET,
    UPDATE,
    Vertex,
    aggregate,
    param,
    producers,
    state,
)

if importlib.util.find_spec("vertexsdk.backends") is None:
    raise ImportError(
        f"{__path__[0]} is a checkout that hides the installed vertexsdk: start Python in another "
        "directory, or run ./dev setup in the checkout and then .venv/bin/python"
    )

__all__ = [
    "ADD_TARGET",
    "INT_MAX",
    "INT_MIN",
    "MAIN_LOOP",
    "REMOVE_TARGET",
    "UPDATE",
    "Algebra",
    "BranchLoop",
    "Budget",
    "CallError",
    "Changes",
    "Deltas",
    "Graph",
    "Ingester",
    "InputError",
    "Latest",
    "MainLoop",
    "MainLoops",
    "Map",
    "Max",
    "Min",
    "Partitioned",
    "Program",
    "ProgramError",
    "Result",
    "RunError",
    "StateError",
    "StateInputError",
    "Stateful",
    "StatefulClient",
    "StatefulLoop",
    "Sum",
    "Vertex",
    "VertexError",
    "VertexId",
    "aggregate",
    "exit_on_sigterm",
    "explain",
    "inf",
    "param",
    "producers",
    "read",
    "run",
    "session",
    "state",
]

__version__ = "0.1.0"

# What needs Spark or a store is imported when it is first used.
_LATER = {
    "BranchLoop": "vertexsdk.loops.branch_loop",
    "Budget": "vertexsdk.engine.engine",
    "Changes": "vertexsdk.graph.changes.changes",
    "Deltas": "vertexsdk.graph.changes.deltas",
    "Graph": "vertexsdk.graph.graph",
    "Ingester": "vertexsdk.graph.changes.ingester",
    "MainLoop": "vertexsdk.loops.main_loop",
    "MainLoops": "vertexsdk.loops.main_loops",
    "Map": "vertexsdk.stateful.elements",
    "Partitioned": "vertexsdk.stateful.elements",
    "Result": "vertexsdk.loops.result",
    "Stateful": "vertexsdk.stateful.stateful",
    "StatefulClient": "vertexsdk.stateful.stateful_client",
    "StatefulLoop": "vertexsdk.stateful.stateful_loop",
    "exit_on_sigterm": "vertexsdk.loops.signals",
    "explain": "vertexsdk.loops.explain",
    "read": "vertexsdk.loops.result",
    "run": "vertexsdk.loops.run",
    "session": "vertexsdk.transport.session",
}

if TYPE_CHECKING:
    from vertexsdk.engine.engine import Budget
    from vertexsdk.graph.changes.changes import Changes
    from vertexsdk.graph.changes.deltas import Deltas
    from vertexsdk.graph.changes.ingester import Ingester
    from vertexsdk.graph.graph import Graph
    from vertexsdk.loops.branch_loop import BranchLoop
    from vertexsdk.loops.explain import explain
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.loops.main_loops import MainLoops
    from vertexsdk.loops.result import Result, read
    from vertexsdk.loops.run import run
    from vertexsdk.loops.signals import exit_on_sigterm
    from vertexsdk.stateful.elements import Map, Partitioned
    from vertexsdk.stateful.stateful import Stateful
    from vertexsdk.stateful.stateful_client import StatefulClient
    from vertexsdk.stateful.stateful_loop import StatefulLoop
    from vertexsdk.transport.session import session


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'vertexsdk' has no attribute {name!r}")
