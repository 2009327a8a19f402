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
    "Array",
    "BranchLoop",
    "Broadcast",
    "Budget",
    "CallError",
    "Changes",
    "Deltas",
    "Family",
    "Graph",
    "Ingester",
    "InputError",
    "Latest",
    "MainLoop",
    "MainLoops",
    "Map",
    "Matrix",
    "Max",
    "Mean",
    "Min",
    "Partitioned",
    "PerPartition",
    "Program",
    "ProgramError",
    "Result",
    "RowsState",
    "RunError",
    "SparseVector",
    "StateElement",
    "StateError",
    "StateInputError",
    "Stateful",
    "StatefulClient",
    "StatefulLoop",
    "Subscription",
    "Sum",
    "Table",
    "TriggerLoop",
    "Triggers",
    "Value",
    "Vertex",
    "VertexError",
    "VertexId",
    "accumulate",
    "aggregate",
    "combine",
    "exit_on_sigterm",
    "explain",
    "gather_all",
    "inf",
    "on_all",
    "on_change",
    "param",
    "producers",
    "read",
    "run",
    "session",
    "state",
    "subscribe",
]

__version__ = "0.1.0"

# What needs Spark or a store is imported when it is first used.
_LATER = {
    "Array": "vertexsdk.stateful.elements",
    "BranchLoop": "vertexsdk.loops.branch_loop",
    "Broadcast": "vertexsdk.stateful.placement",
    "Budget": "vertexsdk.engine.commands",
    "Changes": "vertexsdk.graph.changes.changes",
    "Deltas": "vertexsdk.graph.changes.deltas",
    "Family": "vertexsdk.program.table_columns",
    "Graph": "vertexsdk.graph.graph",
    "Ingester": "vertexsdk.graph.changes.deltas",
    "MainLoop": "vertexsdk.loops.main_loop",
    "MainLoops": "vertexsdk.loops.main_loops",
    "Map": "vertexsdk.stateful.elements",
    "Matrix": "vertexsdk.stateful.elements",
    "Mean": "vertexsdk.triggers.triggers",
    "Partitioned": "vertexsdk.stateful.placement",
    "PerPartition": "vertexsdk.stateful.placement",
    "Result": "vertexsdk.loops.result",
    "RowsState": "vertexsdk.program.keyed_state",
    "SparseVector": "vertexsdk.program.keyed_state",
    "StateElement": "vertexsdk.program.keyed_state",
    "Stateful": "vertexsdk.stateful.stateful",
    "StatefulClient": "vertexsdk.stateful.stateful_client",
    "StatefulLoop": "vertexsdk.stateful.stateful_loop",
    "Subscription": "vertexsdk.loops.subscription",
    "Table": "vertexsdk.triggers.table",
    "TriggerLoop": "vertexsdk.triggers.trigger_loop",
    "Triggers": "vertexsdk.triggers.triggers",
    "Value": "vertexsdk.stateful.elements",
    "accumulate": "vertexsdk.triggers.triggers",
    "combine": "vertexsdk.triggers.triggers",
    "exit_on_sigterm": "vertexsdk.loops.signals",
    "explain": "vertexsdk.loops.explain",
    "gather_all": "vertexsdk.program.keyed_state",
    "on_all": "vertexsdk.program.keyed_state",
    "on_change": "vertexsdk.triggers.triggers",
    "read": "vertexsdk.loops.result",
    "run": "vertexsdk.loops.run",
    "session": "vertexsdk.transport.session",
    "subscribe": "vertexsdk.loops.subscription",
}

if TYPE_CHECKING:
    from vertexsdk.engine.commands import Budget
    from vertexsdk.graph.changes.changes import Changes
    from vertexsdk.graph.changes.deltas import Deltas, Ingester
    from vertexsdk.graph.graph import Graph
    from vertexsdk.loops.branch_loop import BranchLoop
    from vertexsdk.loops.explain import explain
    from vertexsdk.loops.main_loop import MainLoop
    from vertexsdk.loops.main_loops import MainLoops
    from vertexsdk.loops.result import Result, read
    from vertexsdk.loops.run import run
    from vertexsdk.loops.signals import exit_on_sigterm
    from vertexsdk.loops.subscription import Subscription, subscribe
    from vertexsdk.program.keyed_state import (
        RowsState,
        SparseVector,
        StateElement,
        gather_all,
        on_all,
    )
    from vertexsdk.program.table_columns import Family
    from vertexsdk.stateful.elements import Array, Map, Matrix, Value
    from vertexsdk.stateful.placement import Broadcast, Partitioned, PerPartition
    from vertexsdk.stateful.stateful import Stateful
    from vertexsdk.stateful.stateful_client import StatefulClient
    from vertexsdk.stateful.stateful_loop import StatefulLoop
    from vertexsdk.transport.session import session
    from vertexsdk.triggers.table import Table
    from vertexsdk.triggers.trigger_loop import TriggerLoop
    from vertexsdk.triggers.triggers import Mean, Triggers, accumulate, combine, on_change


def __getattr__(name: str) -> Any:
    if name in _LATER:
        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'vertexsdk' has no attribute {name!r}")
