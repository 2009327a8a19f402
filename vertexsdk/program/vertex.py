"""The class that a user subclasses: a `Vertex` with typed fields and the three methods.

The methods are the paper's (Tornado, SIGMOD 2016, appendix B). They are compiled when they
can be; when they run interpreted, one object of the user's class serves as a cursor which the
engine moves from vertex to vertex, so a method must keep nothing on `self` but declared state.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, TypeVar, overload

from vertexsdk.errors import ProgramError
from vertexsdk.program.algebra import Algebra, Any_, Max, Min, Sum

UPDATE, ADD_TARGET, REMOVE_TARGET = 0, 1, 2
MAIN_LOOP = "main"  # what `self.loop` is in a main loop; in a branch it is the branch's name
MISSING: Any = type("Missing", (), {"__repr__": lambda self: "<no default>"})()
T = TypeVar("T")
_CHECKS: list[Callable[[type[Vertex]], object]] = []  # of a class when it is defined
VARIANTS: dict[type[Vertex], list[tuple[Mapping[str, Any], type[Vertex]]]] = {}  # by base class


@dataclass(slots=True)
class Field:
    """A declaration in a class body."""

    role: Literal["state", "param", "aggregate", "producers"]
    default: Any = MISSING
    size: int | None = None
    algebra: Algebra | None = None
    type: Any = None
    bounds: Bounds | None = None


@dataclass(frozen=True, slots=True)
class Bounds:
    """The interval in which the numbers of a parameter or an attribute are.

    >>> Bounds("(0, 1)").hold(0.5), Bounds("(0, 1)").hold(0), Bounds("[0, 1]").hold(0)
    (True, False, True)
    """

    interval: str

    def hold(self, x: Any) -> Any:
        """Return whether they hold a number; for an array, which of its numbers."""
        low, high = map(float, self.interval[1:-1].split(","))
        above = low <= x if self.interval[0] == "[" else low < x
        return above & (x <= high if self.interval[-1] == "]" else x < high)

    def __str__(self) -> str:
        return self.interval


@overload
def param() -> Any: ...
@overload
def param(default: T, *, bounds: str | None = None) -> T: ...
def param(default: Any = MISSING, *, bounds: str | None = None) -> Any:
    """Declare a parameter: one value for all vertices, set when the program is run.

    Args:
        default: where a run gives no value; without a default every run must give one. None: the
            parameter may be left out, and `self.NAME is None` tells whether it was.
        bounds: an interval outside of which a value is refused: "(0, 1)", with its ends "[0, 1]".

    Returns:
        The declaration; in a method `self.NAME` is the value. Numbers compile, and so do tuples
        and NumPy arrays of numbers, which methods can only read.

    >>> class Reach(Vertex, abstract=True):
    ...     origin: int = param()
    ...     damping: float = param(0.85)
    """
    return Field("param", default, bounds=None if bounds is None else Bounds(bounds))


@overload
def state() -> Any: ...
@overload
def state(default: T, *, size: None = None, bounds: str | None = None) -> T: ...
@overload
def state(default: Any, *, size: int, bounds: str | None = None) -> Any: ...
def state(default: Any = MISSING, *, size: int | None = None, bounds: str | None = None) -> Any:
    """Declare a typed state field, versioned in the backend.

    The annotation gives the type: int (int64), float (float64), bool, `VertexId`; or str or any
    picklable class, with which the program runs interpreted. A vector is annotated with the type of
    its numbers, or, for type checkers, as `NDArray[np.int64]`, `NDArray[np.float64]`.

    Args:
        default: the value of a new vertex; without it a number starts at zero, an object at None.
        size: the length of a vector of numbers; None for a single value.
        bounds: an interval, as "[0, 1]", outside of which vertex attributes are refused.

    Returns:
        The declaration; in a method `self.NAME` is the vertex's value, or an array (size,).

    Raises:
        ProgramError: when the class is defined, if type, default and size do not fit.

    >>> class Factors(Vertex, abstract=True):
    ...     bias: float = state(0.5)
    ...     weights: float = state(size=8)
    """
    return Field("state", default, size=size, bounds=None if bounds is None else Bounds(bounds))


def aggregate(algebra: Algebra | Callable[..., Any], type: type = float) -> Any:
    """Declare a global aggregator: contribute in one iteration, read in the next.

    Args:
        algebra: `Sum(float)`, `Min(int)`, an `Algebra`, or the builtin `sum`, `min`, `max`
            (over `type`) or `any`.
        type: int or float, for a builtin.

    Returns:
        The declaration; in a method `self.NAME` is an `Aggregator`. Where ids are strings, a
        `VertexId` in `converged` and in `Result.aggregates` is the place of the id among all ids.

    Raises:
        ProgramError: `algebra` is something else.

    >>> class Mass(Vertex, abstract=True):
    ...     dangling = aggregate(Sum(float))
    """
    if isinstance(algebra, Algebra):
        return Field("aggregate", algebra=algebra)
    known: dict[Any, Callable[[], Algebra]] = {
        sum: lambda: Sum(type),
        min: lambda: Min(type),
        max: lambda: Max(type),
        any: Any_,
    }
    if algebra not in known:
        raise ProgramError(
            f"aggregate({algebra!r}): give sum, min, max, any, or an Algebra of your own"
        )
    return Field("aggregate", algebra=known[algebra]())


def producers(type: type = float) -> Any:
    """Declare a map from producer id to a value, for programs without an algebra.

    Args:
        type: the type of the values.

    Returns:
        The declaration; in a method `self.NAME` is a dict.

    >>> class Inbox(Vertex, abstract=True):
    ...     latest = producers(float)
    """
    return Field("producers", type=type)


@dataclass(slots=True)
class Target:
    """One consumer of a vertex, as `self.targets` has it.

    Attributes:
        id: the consumer's id: int, or str where ids are strings.
        value: the edge's value, of the type `Vertex.edge`; None where edges have no values. With
            several named values a dict of them, each of which is an attribute of the target too.
        reverse: whether the edge is followed against its direction (`direction = "both"` only).
        edge: the edge's number in the partition, for the engine.
        rows: returns the targets of this one, for the engine.

    >>> Target(7, 0.5).value
    0.5
    """

    id: Any
    value: Any = None
    reverse: bool = False
    edge: int = -1
    rows: Any = field(default=None, repr=False, compare=False)

    @property
    def targets(self) -> list[Target]:
        """The targets of this vertex, ascending by id; of each only `id` is known.

        They are those of the graph as the run began. A compiled method can loop over them and take
        their `len`. A vertex sees no farther: of a target's target, `targets` is empty unless
        that is a target of its own too.
        """
        if self.rows is None:
            raise ProgramError(
                "target.targets is there for the targets of self, in a class with messages"
            )
        targets: list[Target] = self.rows(self)
        return targets

    def __getattr__(self, name: str) -> Any:
        if isinstance(self.value, dict) and name in self.value:
            return self.value[name]
        raise AttributeError(f"a target has no {name!r}; declare it: edge = {{{name!r}: float}}")


@dataclass(slots=True)
class Delta:
    """The messages or the event that `gather` receives.

    Attributes:
        value: the aggregate of all current messages; at the events level one message.
        values: with `Latest`, the last message of every producer.
        kind: at the events level: UPDATE, ADD_TARGET or REMOVE_TARGET.

    >>> Delta(value=2.5).kind == UPDATE
    True
    """

    value: Any = None
    values: Any = None
    kind: int = UPDATE


class Aggregator:
    """A global aggregator as a method sees it.

    Attributes:
        value: what all vertices contributed in the last iteration.

    >>> class Mass(Vertex, abstract=True):
    ...     total = aggregate(sum)
    ...     def gather(self, iteration, source, delta):
    ...         self.total.contribute(delta.value / self.total.value)
    """

    __slots__ = ("_combine", "_partial", "value")

    def __init__(self, combine: Callable[[Any, Any], Any], value: Any) -> None:
        self._combine = combine
        self._partial: Any = None
        self.value = value

    def contribute(self, value: Any) -> None:
        """Combine `value` into what every vertex reads in the next iteration."""
        self._partial = self._combine(self._partial, value)


class Aggregates:
    """The aggregators' values after an iteration, by name, for `converged`.

    >>> Aggregates({"change": 0.25}).change
    0.25
    """

    def __init__(self, values: dict[str, Any]) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(f"no aggregator named {name!r}; declared: {sorted(self.__dict__)}")


def on_definition(check: Callable[[type[Vertex]], object]) -> None:
    """Have `check` called with every `Vertex` subclass when it is defined; it may raise."""
    _CHECKS.append(check)


class Vertex:
    """Base class of programs: a subclass declares fields and messages, and has three methods.

    Class attributes a subclass may set:
        messages: an `Algebra` (Sum, Min, Max, Latest or one of your own), by which the messages
            to a vertex are combined; None for the events level.
        direction: which way messages go along edges: "out" (default), "in", "both" (each edge
            both ways; a pair joined twice counts twice), "undirected" (neighbours as a set; of
            edges both ways between a pair, the value of that from the smaller id counts).
        parallel_edges: whether parallel edges of a graph that keeps them (`multi`) are targets each
            by itself; with False they are one. Never with `direction = "undirected"`.
        edge: type of `target.value`, float by default; or a dict of the names and types (int,
            float, an IntEnum) of several values, which are then `target.NAME`.
        tolerance: a vertex does not scatter while every float field is this close to its value
            at the last scatter, and nothing else changed.
        always: gather on every vertex in every iteration.
        max_iterations: stop after this many iterations.
        asynchronous: whether a delay bound above 1 leads to the same fixed point; None (default)
            derives that from the algebra of the messages. With False, each answer of a main loop
            starts from `init` too.
        result: the state field written as `value`; the first one by default.
        edge_values: names of the numbers in a message; of a run, `Result.edges` has the last
            message of each edge under these names then.

    A subclass may be a variant of its first base: `class B(A, when={"weight": "value"})` is run in
    the place of A where the parameter `weight` of A is "value". So A need not ask for what costs
    time, such as edge values, and other values of that parameter are refused.

    Raises:
        ProgramError: when the class is defined, if it cannot run as written.

    Example:
        >>> class Hops(Vertex):
        ...     origin: int = param()
        ...     hops: int = state(0)
        ...     messages = Min(int)
        ...     def gather(self, iteration, source, delta):
        ...         self.hops = 0 if self.id == self.origin else delta.value
        ...     def scatter(self, iteration):
        ...         if self.hops < INT_MAX:
        ...             self.emitAll(self.hops + 1)
    """

    messages: ClassVar[Algebra | None] = None
    direction: ClassVar[str] = "out"
    parallel_edges: ClassVar[bool] = True
    edge: ClassVar[type | Mapping[str, type]] = float
    tolerance: ClassVar[float] = 0.0
    always: ClassVar[bool] = False
    max_iterations: ClassVar[int | None] = None
    asynchronous: ClassVar[bool | None] = None
    result: ClassVar[str | None] = None
    edge_values: ClassVar[tuple[str, ...]] = ()

    id: Any
    loop: str  # MAIN_LOOP, or the name of a branch or run; compiled if compared with a string
    num_vertices: int
    _runtime: Any

    def __init_subclass__(
        cls, abstract: bool = False, when: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        # cloudpickle makes a class empty first; the driver has checked it
        unpickled = sys._getframe(1).f_globals.get("__name__", "") in ("types", "abc")
        if not abstract and not unpickled:
            for check in _CHECKS:
                check(cls)
        if when is not None:
            for name in when.keys() - {n for n, f in declared_fields(cls) if f.role == "param"}:
                raise ProgramError(f"{cls.__name__}: when names {name!r}, which is not a parameter")
            VARIANTS.setdefault(cls.__bases__[0], []).append((when, cls))

    # What a user writes. ------------------------------------------------------------------

    @classmethod
    def prepare(
        cls, graph: Any, params: Mapping[str, Any], run: Callable[..., Any], seed: int
    ) -> Mapping[str, Any] | None:
        """Compute attributes of vertices on the driver, before a run: by other programs, say.

        So an algorithm of several programs is run as one. Main loops refuse a class with this
        method, as their graphs change: run it on the `graph()` of an answer.

        Args:
            graph: a `Graph`.
            params: the value of every parameter.
            run: `run(program, graph, seed=seed, **params)` is `vertexsdk.run` with the options of
                this run, in memory where the graph is in this process; close what it returns.
            seed: the run's seed.

        Returns:
            Arrays by name, `id` and state fields, which replace all attributes of the graph's
            vertices; None leaves these as they are. An Arrow table `edges` is what the result's
            `edges()` returns.
        """
        return None

    def init(self) -> None:
        """Set the state of a new vertex; without this method fields have their defaults."""

    def adapt(self) -> None:
        """Change the state of a vertex when a branch forks; called once there, on each vertex.

        It is `A` of the Tornado paper (section 3.2). A branch of an events program continues from
        the state of the main loop; every other branch of a class with this method begins with
        `init`, after which it is called.
        """

    def gather(self, iteration: int, source: Any, delta: Any) -> None:
        """Compute the state from what producers sent.

        At the events level this default adds and removes targets as the graph's edges change.

        Args:
            iteration: from 0.
            source: with an algebra -1; at the events level the id of the producer.
            delta: a `Delta`.
        """
        if delta.kind == ADD_TARGET:
            self.addTarget(delta.value)
        elif delta.kind == REMOVE_TARGET:
            self.removeTarget(delta.value)

    def scatter(self, iteration: int) -> None:
        """Send messages to consumers, by `emit` and `emitAll`."""

    def next_round(self, round: int) -> None:
        """Change the state of a vertex as an outer loop begins another round.

        A class with this method is a loop in a loop. Iterations of gather and scatter are the
        inner one: where it is at its fixed point, this method is called on every vertex. Those
        whose fields it changes scatter, and gather in the next iteration, as all do after `init`.
        The run ends with a round that changes no vertex.

        Args:
            round: its number, from 1.

        Example: in round k, vertices with less than k neighbours that are left go.

        >>> class Cores(Vertex):
        ...     k: int = state(1)
        ...     left: bool = state(True)
        ...     messages = Sum(int)
        ...     direction = "undirected"
        ...     def gather(self, iteration, source, delta):
        ...         self.left = self.left and delta.value >= self.k
        ...     def next_round(self, round):
        ...         if self.left:
        ...             self.k += 1
        ...     def scatter(self, iteration):
        ...         self.emitAll(int(self.left))

        Source: nested iteration, "Differential dataflow" (McSherry et al., CIDR 2013), section 3.4.
        """

    def converged(self, iteration: int, aggregates: Any) -> bool:
        """Return whether the loop may stop after this iteration.

        Args:
            iteration: from 0.
            aggregates: the `Aggregates` after it. Of `self` only parameters and `num_vertices`
                can be read.
        """
        return False

    # What a user calls. -------------------------------------------------------------------

    @property
    def targets(self) -> list[Target]:
        """The current consumers, ascending by id; `len(self.targets)` is the out-degree."""
        targets: list[Target] = self._runtime.targets()
        return targets

    @property
    def addedTargets(self) -> list[Target]:
        """Consumers added, or given another value, since the last scatter (events level)."""
        targets: list[Target] = self._runtime.added_targets()
        return targets

    @property
    def removedTargets(self) -> list[Target]:
        """Consumers removed since the last scatter (events level)."""
        targets: list[Target] = self._runtime.removed_targets()
        return targets

    @property
    def retainedTargets(self) -> list[Target]:
        """Consumers that are unchanged since the last scatter (events level)."""
        targets: list[Target] = self._runtime.retained_targets()
        return targets

    def edges_to(self, target: Target) -> int:
        """Return how many of this vertex's targets are that one, in constant time.

        It is 0 or 1, and with `direction = "both"` up to 2. So the common neighbours of a vertex
        and its target are found in the time that it takes to go through the targets of one.

        Args:
            target: one of `self.targets`, or of the `targets` of one of them.

        Example: triangles that contain the edge to each target.

        >>> class Common(Vertex, abstract=True):
        ...     messages = Sum(int)
        ...     def scatter(self, iteration):
        ...         for target in self.targets:
        ...             count = 0
        ...             for third in target.targets:
        ...                 count += self.edges_to(third)
        ...             self.emit(target, count)
        """
        count: int = self._runtime.edges_to(target)
        return count

    def random(self) -> float:
        """Return a random float in [0, 1).

        It follows from the run's `seed`, the vertex's id, the iteration, and how many numbers the
        vertex drew in this method before: so it is the same for any number of partitions,
        compiled and interpreted, and after any retry.
        """
        x: float = self._runtime.random(self.id)
        return x

    def emit(self, target: Any, value: Any) -> None:
        """Send `value` to a `Target`, or to any vertex by id; only in `scatter`."""
        self._runtime.emit(target, value)

    def emitAll(self, value: Any) -> None:
        """Send `value` to every target; only in `scatter`."""
        self._runtime.emit_all(value)

    def addTarget(self, target: Any, value: Any = None) -> None:
        """Add a consumer (id), with an edge value; it takes effect when the method returns."""
        self._runtime.add_target(target, value)

    def removeTarget(self, target: Any) -> None:
        """Remove a consumer (id or `Target`) and withdraw the last message sent to it."""
        self._runtime.remove_target(target)


def declared_fields(cls: type) -> Iterator[tuple[str, Field]]:
    """Yield the (name, Field) pairs of a class and its bases, in order of declaration."""
    members = [pair for base in reversed(inspect.getmro(cls)) for pair in vars(base).items()]
    yield from {name: value for name, value in members if isinstance(value, Field)}.items()
