"""The compiled methods of one class: calls its kernels, with vertices divided among threads."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import ScratchBuffers
from vertexsdk.arrays.packed_strings import unpack_strings
from vertexsdk.arrays.threads import run_all
from vertexsdk.compile._intrinsics import random_key, random_step
from vertexsdk.compile._method_kernels import BLOCK
from vertexsdk.compile.delivery import Delivery, filled
from vertexsdk.compile.mutation_log import MutationLog
from vertexsdk.compile.vertex_arrays import VertexArrays
from vertexsdk.graph.edge_attributes import no_values, records
from vertexsdk.program.program import ClassSpec, compiled_params

Array = NDArray[Any]
_APART = 128  # elements, so that what threads write lies in different cache lines
_INDEX = np.dtype(np.int32)
PARALLEL = 4 * BLOCK  # vertices below which one thread is quicker


def _nothing(dtype: str) -> Array:
    """An empty array, for one that a topology does not have."""
    array: Array = np.zeros(0, dtype)
    array.flags.writeable = False  # as a topology's arrays, or kernels would compile twice
    return array


NO_BOOLS = _nothing("bool")


class NativeMethods:
    """`init`, `gather` and `scatter` of one class over one partition, as kernels.

    Args:
        spec: the class.
        column: the name of the state column of a field.
        module: the generated module with the class's kernels.
        shape: the message layout, see `shape_of`.
        params: the value of every parameter.
        num_vertices: of the whole graph.
        tolerance: within which a vertex does not scatter.
        threads: that kernels may use.
        logs: a method changes the graph, or sends by id.
        tracked: the state at the last scatter is kept, for the tolerance.
        loops: for each name with which methods compare `self.loop` whether it is that.
        forked: `adapt` is called after `init`.
        seed: of random numbers.
    """

    def __init__(
        self,
        spec: ClassSpec,
        column: Any,
        module: ModuleType,
        shape: str,
        params: dict[str, Any],
        num_vertices: int,
        tolerance: float,
        threads: int,
        logs: bool,
        tracked: bool,
        loops: Sequence[bool],
        forked: bool,
        seed: int,
    ) -> None:
        self.seed, self._step = seed, 0
        self._keys: tuple[Array, Array] = (NO_BOOLS, NO_BOOLS)  # ids, keys
        self.spec, self.module, self.shape = spec, module, shape
        self.column = column
        self.params = list(compiled_params(spec, params).values())
        self.num_vertices = num_vertices
        self.tolerance = tolerance
        self.threads = 1 if logs else threads
        self.logs = logs
        self.tracked = tracked
        self.loops, self.forked = np.array(loops, np.bool_), forked
        self.space = ScratchBuffers()
        nothing = no_values(0, spec.value_dtype or "float64")
        nothing.flags.writeable = False  # as a topology's arrays, or kernels would compile twice
        self._no_values = records(nothing, spec.value_dtype)

    def _arguments(
        self,
        v: VertexArrays,
        aggregates: dict[str, Any],
        blocks: dict[str, Array],
        log: MutationLog,
        values: Array | None = None,
    ) -> tuple[Any, ...]:
        t = v.topology
        spec = self.spec
        along = t.value if values is None else values
        arguments: list[Any] = [
            t.ids, t.start, t.stop, t.target, t.ghost_ids,
            self._no_values if along is None else records(along, spec.value_dtype),
            t.reverse if t.reverse is not None else NO_BOOLS,
            self.num_vertices,
            *([self.loops] if spec.facts.reads_loop else []),
            *([self.forked] if spec.facts.adapts else []),
        ]  # fmt: skip
        if spec.facts.draws:
            keys = self._random_keys(v)
            arguments += [self.seed, keys, self._step, np.zeros(len(keys), np.int32)]
        arguments += [v.states[self.column(name)] for name in spec.states]
        arguments += self.params
        arguments += [aggregates[name] for name in spec.aggregators]
        arguments += [blocks[name] for name in spec.aggregators]
        return (*arguments, *log.arrays())

    def _random_keys(self, v: VertexArrays) -> Array:
        """The keys of the vertices' random numbers; see `random_key`."""
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
        """The columns of the state at the last scatter, where it is tracked."""
        return [v.tracked[self.column(n)] for n in self.spec.states] if self.tracked else []

    def _in_parts(self, count: int, part: Callable[[int, int], Any]) -> list[Any]:
        """Call part(lo, hi) on ranges of whole blocks that cover 0..count, side by side."""
        threads = self.threads if count > PARALLEL else 1
        step = -(-count // (threads * BLOCK)) * BLOCK or BLOCK
        cuts = [*range(0, count or 1, step), count]
        return run_all([partial(part, a, b) for a, b in itertools.pairwise(cuts)])

    def init(
        self,
        v: VertexArrays,
        todo: Array,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: MutationLog,
    ) -> None:
        """Initialise the vertices of `todo` (int32, ascending)."""
        self._step = random_step("init", 0)
        blocks = self._partial(len(todo))

        def part(lo: int, hi: int) -> None:
            while lo < hi:
                lo = self.module.init(todo, lo, hi, *self._arguments(v, aggregates, blocks, log))
                if lo < hi:
                    log.grow()

        self._in_parts(len(todo), part)
        self._reduce(blocks, into)

    def gather(
        self,
        v: VertexArrays,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: MutationLog,
    ) -> Array:
        """Gather on the vertices of `todo` (int32, ascending), and return those that must scatter.

        Args:
            v: the partition's arrays, whose states are written.
            delivery: of the partition's messages.
            todo: the local vertices that gather.
            iteration: from 0.
            aggregates: the value of each aggregator after the last iteration.
            into: to which contributions are added, by aggregator.
            log: takes messages by id, and changes of the graph.
        """
        self._step = random_step("gather", iteration)
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        tracked = self._tracked(v)
        largest = 0
        if self.spec.latest:
            t = v.topology
            if len(todo):
                largest = int((t.in_stop[todo] - t.in_start[todo]).max())

        def part(lo: int, hi: int) -> Array:
            put = lo
            first = lo
            source: tuple[Any, ...] = (v.agg,)
            if self.spec.latest:
                scratch = np.empty(largest, delivery.algebra.dtype)
                source = (
                    v.msg, v.topology.in_start, v.topology.in_stop, delivery.in_index,
                    delivery.algebra.identity, scratch,
                )  # fmt: skip
            while lo < hi:
                count, lo = self.module.gather(
                    todo, lo, hi, put, iteration, self.tolerance, out, *tracked, *source,
                    *self._arguments(v, aggregates, blocks, log),
                )  # fmt: skip
                put += count
                if lo < hi:
                    log.grow()
            return out[first:put]

        parts = self._in_parts(len(todo), part)
        self._reduce(blocks, into)
        count = sum(map(len, parts))
        contiguous = count == len(todo) or len(parts) == 1
        return out[:count] if contiguous else np.concatenate(parts)

    def scatter(
        self,
        v: VertexArrays,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: MutationLog,
    ) -> int:
        """Scatter from the vertices of `todo`, and return the number of messages.

        The arguments are those of `gather`.
        """
        self._step = random_step("scatter", iteration)
        if self.shape == "derived":
            return self._scatter_derived(v, delivery, todo, iteration, aggregates, log)
        if self.shape == "uniform":
            return self._scatter_uniform(v, delivery, todo, iteration, aggregates, into, log)
        blocks = self._partial(len(todo))
        degrees = delivery.degrees(todo)
        edges = int(degrees.sum())
        dense = delivery.dense(edges)
        largest = int(degrees.max()) if len(degrees) and self.shape == "many" else 0
        nothing = np.empty(0, np.int32)
        tracked = self._tracked(v)

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            scratch_row = self._message_scratch(delivery, largest)
            while lo < hi:
                _, lo = self.module.scatter(
                    todo, lo, hi, 0, iteration, nothing, scratch_row[0], *tracked,
                    *self._arguments(v, aggregates, blocks, log), *scratch_row,
                    *delivery.arguments(v.msg, v.agg, 0 if dense else threads, me),
                )  # fmt: skip
                if lo < hi:
                    log.grow()

        if dense:
            self._in_parts(len(todo), lambda lo, hi: chunk(lo, hi, 0, 0))
            delivery.pull(v.msg, v.agg)
        elif blocks or self.logs:
            # blocks of contributions must not be shared by threads
            chunk(0, len(todo), 1, 0)
        else:
            delivery.rounds(degrees, edges, chunk, v.agg)
        self._reduce(blocks, into)
        return edges

    def _message_scratch(
        self, delivery: Delivery, largest: int
    ) -> tuple[Array, Array, Array, Array]:
        """Room for one message and its flag, and for a row of `largest` messages and flags."""
        algebra = delivery.algebra
        size = () if algebra.size is None else (algebra.size,)
        return (
            np.empty((_APART, *size), algebra.dtype),
            np.zeros(_APART, np.bool_),
            np.empty((largest, *size), algebra.dtype),
            np.zeros(largest, np.bool_),
        )

    def _scatter_derived(
        self,
        v: VertexArrays,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        log: MutationLog,
    ) -> int:
        degrees = delivery.degrees(todo)
        edges = int(degrees.sum())
        arguments = self._arguments(v, aggregates, self._partial(0), log)
        tracked = [v.tracked[self.column(n)] for n in self.spec.states]

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            self.module.scatter(
                todo, lo, hi, iteration, *arguments, *tracked, iteration == 0,
                *delivery.arguments(v.msg, v.agg, threads, me),
            )  # fmt: skip

        delivery.rounds(degrees, edges, chunk, v.agg)
        return edges

    def repair(
        self, v: VertexArrays, delivery: Delivery, slots: Array, num: dict[str, Any]
    ) -> None:
        """Recompute slots (int32) whose best message was withdrawn; derived shape only."""
        t = v.topology
        direct = t.in_value is not None
        self.module.repair(
            slots, t.in_start, t.in_stop, t.in_source,
            t.in_source if direct else delivery.in_index, direct, v.msg, v.agg,
            delivery.algebra.identity, *self.derived_arguments(v, delivery, t.in_value, num),
        )  # fmt: skip

    def offers(
        self,
        v: VertexArrays,
        delivery: Delivery,
        sources: Array,
        targets: Array,
        values: Array | None,
    ) -> Array:
        """See `InterpretedMethods.offers`."""
        out = filled(len(sources), delivery.algebra)
        given = None
        if values is not None:
            given = np.ascontiguousarray(values)
            given.flags.writeable = False
        arguments = self.derived_arguments(v, delivery, given)
        self.module.offers(np.ascontiguousarray(sources), out, *arguments)
        return out

    def support(
        self, v: VertexArrays, delivery: Delivery, todo: Array, gone: Array, want: Array
    ) -> Array:
        """See `InterpretedMethods.support`; what comes to `want` need not be looked at further."""
        t = v.topology
        out = np.empty(len(todo), v.agg.dtype)
        self.module.support(
            todo, t.in_start, t.in_stop, t.in_source, v.level, gone, want,
            delivery.algebra.identity, out, *self.derived_arguments(v, delivery, t.in_value),
        )  # fmt: skip
        return out

    def dependants(
        self, v: VertexArrays, delivery: Delivery, vertices: Array, seen: Array, mark: Array
    ) -> Array:
        """See `InterpretedMethods.dependants`."""
        out = np.empty(len(mark), np.int32)
        arguments = self.derived_arguments(v, delivery, None)
        return out[: self.module.dependants(vertices, seen, mark, out, *arguments)]

    def derived_arguments(
        self,
        v: VertexArrays,
        delivery: Delivery,
        values: Array | None,
        aggregates: dict[str, Any] | None = None,
    ) -> tuple[Any, ...]:
        """The trailing arguments of kernels which compute messages along edges of these values."""
        none = {k: a.identity for k, a in self.spec.aggregators.items()}
        log = MutationLog(delivery.algebra, self.spec.value_dtype)
        arguments = self._arguments(v, aggregates or none, self._partial(0), log, values)
        return (*arguments, *(v.tracked[self.column(n)] for n in self.spec.states))

    def _scatter_uniform(
        self,
        v: VertexArrays,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: MutationLog,
    ) -> int:
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        shape = (len(todo), *v.msg.shape[1:])
        old = self.space.take(math.prod(shape), v.msg.dtype).reshape(shape)
        tracked = self._tracked(v)

        def part(lo: int, hi: int) -> tuple[Array, Array]:
            put = first = lo
            scratch_row = self._message_scratch(delivery, 0)
            while lo < hi:
                count, lo = self.module.scatter(
                    todo, lo, hi, put, iteration, out, old, *tracked,
                    *self._arguments(v, aggregates, blocks, log), *scratch_row,
                    *delivery.arguments(v.msg, v.agg, 1, 0),
                )  # fmt: skip
                put += count
                if lo < hi:
                    log.grow()
            return out[first:put], old[first:put]

        parts = self._in_parts(len(todo), part)
        self._reduce(blocks, into)
        return delivery.push(parts, v.msg, v.agg)
