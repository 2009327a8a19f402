"""The methods of one class as the engine calls them, compiled or interpreted."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, Self

from numpy.typing import NDArray

from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan
from vertexsdk.compile.vertex_arrays import VertexArrays

Array = NDArray[Any]


@dataclass(frozen=True, slots=True)
class Edges:
    """Edges along which messages are computed, by number.

    Attributes:
        target: their targets (int32[k]).
        value: their values; None where edges have none.
        reverse: whether each is followed against its direction (bool[k]); None where none is.
    """

    target: Array
    value: Array | None = None
    reverse: Array | None = None

    @classmethod
    def numbered(cls, topology: Any, edges: Array) -> Self:
        """The edges of a topology with some numbers."""
        t = topology
        return cls(t.target[edges], *(x if x is None else x[edges] for x in (t.value, t.reverse)))


@dataclass(frozen=True, slots=True)
class Scope:
    """The data that methods read and write while they visit the vertices of a partition.

    Attributes:
        v: the partition's arrays, whose states are written.
        delivery: the delivery of the partition's messages.
        iteration: from 0.
        read: the value of each aggregator after the last iteration.
        into: to which contributions are added, by aggregator.
        log: takes messages by id, and changes of the graph.
        round: the round that begins in this iteration; 0 where none does.
    """

    v: VertexArrays
    delivery: Delivery
    iteration: int
    read: dict[str, Any]
    into: dict[str, Any]
    log: MutationLog
    round: int = 0


class Methods(ABC):
    """`init`, `gather` and `scatter` of one class over one partition.

    Args:
        plan: the run's plan.
        kind: the number of the class.
        num_vertices: the number of vertices of the whole graph.
    """

    def __init__(self, plan: Plan, kind: int, num_vertices: int) -> None:
        assert plan.program.algebra is not None
        self.plan, self.kind, self.num_vertices = plan, kind, num_vertices
        self.spec, self.algebra = plan.program.classes[kind], plan.program.algebra
        self.iteration = 0  # the newest in which methods ran, for messages

    def columns(self, by_name: dict[str, Array]) -> dict[str, Array]:
        """Those of some state columns that are the class's, by the name of the field."""
        return {
            name: by_name[self.plan.program.column(self.kind, name)] for name in self.spec.states
        }

    @abstractmethod
    def init(self, scope: Scope, todo: Array) -> None:
        """Initialise the vertices of `todo` (int32, ascending)."""

    def is_without(self, scope: Scope) -> bool:
        """Return whether a round begins, and the class has no method for it."""
        return bool(scope.round) and not self.spec.facts.rounds

    @abstractmethod
    def gather(self, scope: Scope, todo: Array) -> Array:
        """Gather on the vertices of `todo` (int32, ascending); return those that must scatter.

        Where a round begins, `next_round` is called in place of `gather`, if the class has it.
        """

    @abstractmethod
    def scatter(self, scope: Scope, todo: Array) -> int:
        """Scatter from the vertices of `todo`, and return the number of messages."""

    # Where no messages are kept, they follow from the state at the last scatter. ---------------

    @abstractmethod
    def offers(self, v: VertexArrays, sources: Array, edges: Edges) -> Array:
        """The messages of vertices, by their state at the last scatter, along edges.

        Args:
            v: the partition's arrays.
            sources: the source of each edge (int32[k]).
            edges: the edges.
        """

    @abstractmethod
    def repair(self, v: VertexArrays, delivery: Delivery, slots: Array) -> None:
        """Recompute slots (int32) whose best message was withdrawn."""

    @abstractmethod
    def support(self, v: VertexArrays, todo: Array, removed: Array, want: Array) -> Array:
        """Return what producers of lower levels that are not removed give to each of `todo`.

        What comes to `want` need not be looked at further.
        """

    @abstractmethod
    def dependants(self, v: VertexArrays, vertices: Array, seen: Array, mark: Array) -> Array:
        """Targets not marked to which `vertices` sent nothing worse than they saw; marks them."""
