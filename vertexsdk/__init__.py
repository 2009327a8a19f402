"""Iterative computation on graphs that never stop changing, on Apache Spark.

Subclass `Vertex`, write `init`, `gather` and `scatter`, and `run` it over a `Graph`.
"""

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
    "REMOVE_TARGET",
    "UPDATE",
    "Algebra",
    "InputError",
    "Latest",
    "Max",
    "Min",
    "Program",
    "ProgramError",
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
    "state",
]

__version__ = "0.1.0"
