"""Iterative computation on graphs that never stop changing, on Apache Spark.

Subclass `Vertex`, write `init`, `gather` and `scatter`, and `run` it over a `Graph`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

# First: importing the package `state` binds that name, which then becomes the function below.
from vertexsdk import state as _package  # noqa: F401
from vertexsdk.algebra import INT_MAX, INT_MIN, Algebra, Latest, Max, Min, Sum, VertexId, inf
from vertexsdk.errors import (
    InputError,
    ProgramError,
    RunError,
    StateError,
    StateInputError,
    VertexError,
)
from vertexsdk.program import Program
from vertexsdk.vertex import (
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
    "Changes",
    "Deltas",
    "Graph",
    "Ingester",
    "InputError",
    "Latest",
    "MainLoop",
    "Max",
    "Min",
    "Program",
    "ProgramError",
    "Result",
    "RunError",
    "StateError",
    "StateInputError",
    "Sum",
    "Vertex",
    "VertexError",
    "VertexId",
    "aggregate",
    "inf",
    "param",
    "producers",
    "read",
    "run",
    "state",
]

__version__ = "0.1.0"

# What needs Spark or a store is imported when it is first used.
_LATER = {
    "BranchLoop": "vertexsdk.branch_loop",
    "Budget": "vertexsdk.engine",
    "Changes": "vertexsdk.changes",
    "Deltas": "vertexsdk.deltas",
    "Graph": "vertexsdk.graph",
    "Ingester": "vertexsdk.ingester",
    "MainLoop": "vertexsdk.main_loop",
    "Result": "vertexsdk.results",
    "read": "vertexsdk.results",
    "run": "vertexsdk.running",
}

if TYPE_CHECKING:
    from vertexsdk.branch_loop import BranchLoop
    from vertexsdk.changes import Changes
    from vertexsdk.deltas import Deltas
    from vertexsdk.engine import Budget
    from vertexsdk.graph import Graph
    from vertexsdk.ingester import Ingester
    from vertexsdk.main_loop import MainLoop
    from vertexsdk.results import Result, read
    from vertexsdk.running import run


def __getattr__(name: str) -> Any:
    if name in _LATER:
        import importlib

        value = getattr(importlib.import_module(_LATER[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'vertexsdk' has no attribute {name!r}")
