"""The compiled methods of one class: calls its kernels, with vertices divided among threads."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import ScratchBuffers
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.arrays.threads import spread
from vertexsdk.compile._intrinsics import random_key, random_step
from vertexsdk.compile._method_kernels import BLOCK, KernelText
from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.interpreter import InterpretedMethods, at_vertex, own_ids
from vertexsdk.compile.methods import Edges, Methods, Scope
from vertexsdk.compile.module_cache import load_module
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.plan import Plan
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.errors import ProgramError, RunError, VertexError
from vertexsdk.graph.topology.edge_attributes import no_values, records
from vertexsdk.graph.topology.id_codec import IdCodec
from vertexsdk.graph.topology.target_rows import TargetRows
from vertexsdk.program.program import compiled_params

Array = NDArray[Any]
Values = dict[str, Any]
_APART = 128  # elements, so that what threads write lies in different cache lines
_INDEX = np.dtype(np.int32)
SMALL = 256  # vertices at least that a thread takes at once
PARTS = 32  # for each thread, where vertices differ in work
PARALLEL = 4 * BLOCK  # vertices below which one thread is quicker


def _nothing(dtype: str) -> Array:
    """An empty array, for one that a topology does not have."""
    array: Array = np.zeros(0, dtype)
    array.flags.writeable = False  # as a topology's arrays, or kernels would compile twice
    return array


NO_BOOLS = _nothing("bool")


def _visited(
    visit: Callable[[int, int, int], tuple[int, int]], log: MutationLog, lo: int, hi: int
) -> int:
    """Have a kernel visit lo..hi, growing the log where it stops; return where its output ends.

    `visit(lo, hi, put)` writes from `put` on, and returns how much, and the vertex it stopped at.
    """
    put = lo
    while lo < hi:
        count, lo = visit(lo, hi, put)
        put += count
        if lo < hi:
            log.grow()
    return put


def _reach(v: VertexArrays) -> tuple[Array, ...]:
    """The rows of targets, and room for marks, which only one thread may use."""
    rows = v.reach or TargetRows.alone(v.topology)
    marks = np.zeros(v.topology.n + rows.size, np.uint8)
    return (
        rows.start, rows.stop, rows.target, rows.numbers, rows.other_ids, marks,
        np.full(1, -1, np.int64),
    )  # fmt: skip


class NativeMethods(Methods):
    """The methods of one class as the kernels of `text`; `names` decode string ids."""

    def __init__(
        self,
        plan: Plan,
        kind: int,
        num_vertices: int,
        text: KernelText,
        names: IdCodec | None = None,
    ) -> None:
        super().__init__(plan, kind, num_vertices)
        self.text, self.names = text, names
        self._step = 0
        self._keys: tuple[Array, Array] = (NO_BOOLS, NO_BOOLS)  # ids, keys
        self.module = load_module(text.source)
        self.params = list(compiled_params(self.spec, plan.params).values())
        self.logs = text.logs
        self.threads = 1 if self.logs else plan.threads
        self.loops = np.array([name == plan.sees for name in text.loops], np.bool_)
        self.space = ScratchBuffers()
        value = self.spec.value_dtype
        nothing = no_values(0, value or "float64")
        nothing.flags.writeable = False  # as a topology's arrays, or kernels would compile twice
        self._no_values = records(nothing, value)

    @contextlib.contextmanager
    def _located(
        self, method: str, v: VertexArrays, iteration: int, again: Callable[..., Any]
    ) -> Iterator[Array]:
        """Have what a kernel raises name the vertex and the line.

        The kernel leaves the vertex at which it is in the array that this yields. The method runs
        once more for that vertex, interpreted, as an interpreter knows its line.

        Args:
            again: runs it, given `InterpretedMethods`, a copy of the arrays, and the vertex.
        """
        at = np.full(1, -1, np.int64)
        try:
            yield at
        except Exception as error:
            i = int(at[0])
            if i < 0 or isinstance(error, VertexError):
                raise  # of the compiler
            file, _, lines = self.text.places[f"_{method}_{method}"]
            raise self._interpreted_error(error, v, i, again) or RunError(
                f"{file}:{lines[0]}: {self.spec.name}.{method}: {type(error).__name__}: {error}"
                f"{at_vertex(own_ids(v, [i], self.names)[0], iteration)}"
            ) from error

    def _interpreted_error(
        self, error: Exception, v: VertexArrays, i: int, again: Callable[..., Any]
    ) -> VertexError | None:
        """The error that an interpreted method raises where a kernel did; None if it does not."""
        copies: Any = {
            name: {k: column.copy() for k, column in getattr(v, name).items()}
            for name in ("states", "tracked")
        }
        plan = replace(self.plan, shape="edge")  # in which scatter is called as it is
        methods = InterpretedMethods(plan, self.kind, self.num_vertices, self.names)
        methods.iteration = self.iteration
        arrays = replace(v, **copies, msg=v.msg.copy(), agg=v.agg.copy())
        try:
            again(methods, arrays, np.array([i], np.int32))
        except VertexError as same:
            # the method may have set fields before it failed, so another error proves nothing
            if isinstance(same, ProgramError) or f": {type(error).__name__}" in str(same):
                return same
        except Exception:
            return None
        return None

    def _located_in(self, method: str, scope: Scope) -> contextlib.AbstractContextManager[Array]:
        """Name the vertex and the line in errors of a method."""

        def again(methods: InterpretedMethods, v: VertexArrays, todo: Array) -> None:
            log = MutationLog(self.algebra, self.spec.value_dtype)
            copied = replace(scope, v=v, into=dict(scope.into), log=log)
            getattr(methods, "gather" if method == "next_round" else method)(copied, todo)

        return self._located(method, scope.v, scope.iteration, again)

    def _arguments(
        self, v: VertexArrays, at: Array, read: Values, blocks: Values, log: MutationLog,
        edges: Edges | None = None,
    ) -> tuple[Any, ...]:  # fmt: skip
        """The trailing arguments of every kernel; `edges` stand in place of those of the graph."""
        t, spec = v.topology, self.spec
        edges = edges or Edges(t.target, t.value, t.reverse)
        arguments: list[Any] = [
            at, t.ids, t.start, t.stop, edges.target, t.ghost_ids,
            self._no_values if edges.value is None else records(edges.value, spec.value_dtype),
            edges.reverse if edges.reverse is not None else NO_BOOLS,
            self.num_vertices,
            *(_reach(v) if spec.facts.reads_target_rows else ()),
            *([self.loops] if spec.facts.reads_loop else []),
            *([self.plan.forked] if spec.facts.adapts else []),
        ]  # fmt: skip
        if spec.facts.draws:
            keys = self._random_keys(v)
            arguments += [self.plan.seed, keys, self._step, np.zeros(len(keys), np.int32)]
        arguments += self.columns(v.states).values()
        arguments += self.params
        arguments += [read[name] for name in spec.aggregators]
        arguments += [blocks[name] for name in spec.aggregators]
        return (*arguments, *log.arrays())

    def _random_keys(self, v: VertexArrays) -> Array:
        """The keys of the vertices' random numbers (`random_key`)."""
        t = v.topology
        if self._keys[0] is not t.ids:
            keys = t.ids
            if t.names is not None:
                names = unpack_strings(*t.names)
                keys = np.array([random_key(name) for name in names], np.int64)
                keys.flags.writeable = False
            self._keys = (t.ids, keys)
        return self._keys[1]

    def _partial(self, count: int) -> dict[str, Array]:
        parts = count // BLOCK + 1
        return {
            name: np.full(parts, a.identity, a.dtype) for name, a in self.spec.aggregators.items()
        }

    def _reduce(self, blocks: dict[str, Array], into: dict[str, Any]) -> None:
        for name, values in blocks.items():
            combine = self.spec.aggregators[name].combined
            for x in values.tolist():
                into[name] = combine(into[name], x)

    def _tracked(self, v: VertexArrays) -> list[Array]:
        """The columns of the state at the last scatter, where a tolerance has it tracked."""
        return [*self.columns(v.tracked).values()] if self.plan.tolerance > 0 else []

    def _in_parts(self, count: int, part: Callable[[int, int], Any]) -> list[Any]:
        """Call part(lo, hi) on ranges of whole blocks that cover 0..count, side by side."""
        uneven = self.spec.facts.reads_target_rows  # some vertices are a thousand times the work
        threads = self.threads if uneven or count > PARALLEL else 1
        unit = BLOCK if self.spec.aggregators else SMALL
        step = -(-count // (threads * (PARTS if uneven else 1) * unit)) * unit or unit
        cuts = [*range(0, count or 1, step), count]
        parts = list(itertools.pairwise(cuts))
        results: list[Any] = [None] * len(parts)

        def call(k: int) -> None:
            results[k] = part(*parts[k])

        spread([partial(call, k) for k in range(len(parts))], threads)
        return results

    def init(self, scope: Scope, todo: Array) -> None:
        """Run the kernel of `init` on the vertices of `todo`."""
        self._step = random_step("init", 0)
        blocks = self._partial(len(todo))

        def visit(lo: int, hi: int, put: int) -> tuple[int, int]:
            with self._located_in("init", scope) as at:
                arguments = self._arguments(scope.v, at, scope.read, blocks, scope.log)
                return 0, self.module.init(todo, lo, hi, *arguments)

        self._in_parts(len(todo), partial(_visited, visit, scope.log))
        self._reduce(blocks, scope.into)

    def gather(self, scope: Scope, todo: Array) -> Array:
        """Run the kernel of `gather` on the vertices of `todo`; return those that must scatter."""
        if self.is_without(scope):
            return todo[:0]
        method, number = ("next_round", scope.round) if scope.round else ("gather", scope.iteration)
        kernel = getattr(self.module, method)
        v, delivery, iteration = scope.v, scope.delivery, scope.iteration
        self._step, self.iteration = random_step("gather", iteration), iteration
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        tracked = self._tracked(v)
        largest = 0
        if self.spec.latest and len(todo):
            largest = int((v.topology.in_stop[todo] - v.topology.in_start[todo]).max())

        def part(lo: int, hi: int) -> Array:
            source: tuple[Any, ...] = (v.agg,)
            if self.spec.latest:
                scratch = np.empty((largest, *self.algebra.shape), self.algebra.dtype)
                source = (
                    v.msg, v.topology.in_start, v.topology.in_stop, delivery.in_index,
                    self.algebra.identity, scratch,
                )  # fmt: skip

            def visit(lo: int, hi: int, put: int) -> Any:
                with self._located_in(method, scope) as at:
                    return kernel(
                        todo, lo, hi, put, number, self.plan.tolerance, out, *tracked, *source,
                        *self._arguments(v, at, scope.read, blocks, scope.log),
                    )  # fmt: skip

            return out[lo : _visited(visit, scope.log, lo, hi)]

        parts = self._in_parts(len(todo), part)
        self._reduce(blocks, scope.into)
        count = sum(map(len, parts))
        contiguous = count == len(todo) or len(parts) == 1
        return out[:count] if contiguous else np.concatenate(parts)

    def scatter(self, scope: Scope, todo: Array) -> int:
        """Run the kernel of `scatter` on the vertices of `todo`; return the number of messages."""
        v, delivery, iteration = scope.v, scope.delivery, scope.iteration
        self._step, self.iteration = random_step("scatter", iteration), iteration
        if self.plan.shape == "derived":
            return self._scatter_derived(scope, todo)
        if self.plan.shape == "uniform":
            return self._scatter_uniform(scope, todo)
        blocks = self._partial(len(todo))
        degrees = delivery.degrees(todo)
        edges = int(degrees.sum())
        dense = delivery.dense(edges)
        largest = int(degrees.max()) if len(degrees) and self.plan.shape == "many" else 0
        nothing = np.empty(0, np.int32)
        tracked = self._tracked(v)

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            scratch_row = self._message_scratch(largest)

            def visit(lo: int, hi: int, put: int) -> Any:
                with self._located_in("scatter", scope) as at:
                    return self.module.scatter(
                        todo, lo, hi, 0, iteration, nothing, scratch_row[0], *tracked,
                        *self._arguments(v, at, scope.read, blocks, scope.log), *scratch_row,
                        *delivery.arguments(v.msg, v.agg, 0 if dense else threads, me),
                    )  # fmt: skip

            _visited(visit, scope.log, lo, hi)

        if dense:
            self._in_parts(len(todo), lambda lo, hi: chunk(lo, hi, 0, 0))
            delivery.pull(v.msg, v.agg)
        elif blocks or self.logs:
            # blocks of contributions must not be shared by threads
            chunk(0, len(todo), 1, 0)
        else:
            delivery.rounds(degrees, edges, chunk, v.agg)
        self._reduce(blocks, scope.into)
        return edges

    def _message_scratch(self, largest: int) -> tuple[Array, Array, Array, Array]:
        """Room for one message and its flag, and for a row of `largest` messages and flags."""
        dtype = self.algebra.dtype
        size = () if self.algebra.size is None else (self.algebra.size,)
        return (
            np.empty((_APART, *size), dtype), np.zeros(_APART, np.bool_),
            np.empty((largest, *size), dtype), np.zeros(largest, np.bool_),
        )  # fmt: skip

    def _scatter_uniform(self, scope: Scope, todo: Array) -> int:
        v, delivery = scope.v, scope.delivery
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        shape = (len(todo), *v.msg.shape[1:])
        old = self.space.take(math.prod(shape), v.msg.dtype).reshape(shape)
        tracked = self._tracked(v)

        def part(lo: int, hi: int) -> tuple[Array, Array]:
            scratch_row = self._message_scratch(0)

            def visit(lo: int, hi: int, put: int) -> Any:
                with self._located_in("scatter", scope) as at:
                    return self.module.scatter(
                        todo, lo, hi, put, scope.iteration, out, old, *tracked,
                        *self._arguments(v, at, scope.read, blocks, scope.log), *scratch_row,
                        *delivery.arguments(v.msg, v.agg, 1, 0),
                    )  # fmt: skip

            end = _visited(visit, scope.log, lo, hi)
            return out[lo:end], old[lo:end]

        parts = self._in_parts(len(todo), part)
        self._reduce(blocks, scope.into)
        return delivery.push(parts, v.msg, v.agg)

    # Where no messages are kept, they follow from the state at the last scatter. ---------------

    def _scatter_derived(self, scope: Scope, todo: Array) -> int:
        v, delivery, iteration = scope.v, scope.delivery, scope.iteration
        degrees = delivery.degrees(todo)
        edges = int(degrees.sum())
        tracked = self.columns(v.tracked).values()

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            with self._located_in("scatter", scope) as at:
                self.module.scatter(
                    todo, lo, hi, iteration,
                    *self._arguments(v, at, scope.read, self._partial(0), scope.log), *tracked,
                    iteration == 0, *delivery.arguments(v.msg, v.agg, threads, me),
                )  # fmt: skip

        delivery.rounds(degrees, edges, chunk, v.agg)
        return edges

    def offers(self, v: VertexArrays, sources: Array, edges: Edges) -> Array:
        """Return the messages along some edges, by their sources' state at the last scatter."""
        out = filled(len(sources), self.algebra)
        edges = Edges(_frozen(edges.target), _frozen(edges.value), _frozen(edges.reverse))
        with self._along_edges(v, lambda m, arrays: m.offers(arrays, sources, edges)) as at:
            arguments = self._derived_arguments(v, at, edges)
            self.module.offers(np.ascontiguousarray(sources), out, *arguments)
        return out

    def _along_edges(
        self, v: VertexArrays, again: Callable[..., Any]
    ) -> contextlib.AbstractContextManager[Array]:
        """Name the vertex and the line in errors of messages that follow from the last scatter."""
        return self._located("scatter", v, self.iteration, lambda m, arrays, _: again(m, arrays))

    def repair(self, v: VertexArrays, delivery: Delivery, slots: Array) -> None:
        """Recompute slots whose best message was withdrawn."""
        t = v.topology
        direct = t.in_value is not None
        with self._along_edges(v, lambda m, arrays: m.repair(arrays, delivery, slots)) as at:
            self.module.repair(
                slots, t.in_start, t.in_stop, t.in_source,
                t.in_source if direct else delivery.in_index, direct, v.msg, v.agg,
                self.algebra.identity, *self._derived_arguments(v, at, _incoming(t)),
            )  # fmt: skip

    def support(self, v: VertexArrays, todo: Array, removed: Array, want: Array) -> Array:
        """Return what producers of lower levels that are not removed give to each of `todo`."""
        t = v.topology
        out = np.empty(len(todo), v.agg.dtype)
        with self._along_edges(v, lambda m, arrays: m.support(arrays, todo, removed, want)) as at:
            self.module.support(
                todo, t.in_start, t.in_stop, t.in_source, v.level, removed, want,
                self.algebra.identity, out, *self._derived_arguments(v, at, _incoming(t)),
            )  # fmt: skip
        return out

    def dependants(self, v: VertexArrays, vertices: Array, seen: Array, mark: Array) -> Array:
        """Mark and return the targets to which `vertices` sent nothing worse than they saw."""
        out = np.empty(len(mark), np.int32)
        again = mark.copy()
        with self._along_edges(
            v, lambda m, arrays: m.dependants(arrays, vertices, seen, again)
        ) as at:
            arguments = self._derived_arguments(v, at, None)
            return out[: self.module.dependants(vertices, seen, mark, out, *arguments)]

    def _derived_arguments(
        self, v: VertexArrays, at: Array, edges: Edges | None
    ) -> tuple[Any, ...]:
        """The trailing arguments of kernels that compute messages along edges."""
        none = {name: a.identity for name, a in self.spec.aggregators.items()}
        log = MutationLog(self.algebra, self.spec.value_dtype)
        arguments = self._arguments(v, at, none, self._partial(0), log, edges)
        return (*arguments, *self.columns(v.tracked).values())


def _incoming(t: Any) -> Edges:
    """The edges of a topology, with values in the order of its transposed adjacency, if it can."""
    return Edges(t.target, t.value if t.in_value is None else t.in_value, t.reverse)


def _frozen(column: Any) -> Any:
    """A column of edges as those of a topology are, or kernels compile twice."""
    if column is not None:
        column = np.ascontiguousarray(column)
        column.flags.writeable = False
    return column
