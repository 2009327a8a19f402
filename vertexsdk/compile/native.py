"""The compiled methods of one class: arguments marshalled, vertices divided among threads."""

from __future__ import annotations

import math
from functools import partial
from types import ModuleType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.buffers import ScratchBuffers
from vertexsdk.arrays.threads import run_all
from vertexsdk.compile._method_kernels import BLOCK
from vertexsdk.compile.delivery import Delivery
from vertexsdk.compile.mutation_log import Log
from vertexsdk.compile.vertex_arrays import Vertices
from vertexsdk.program.algebra import dtype_of
from vertexsdk.program.program import ClassSpec

__all__ = ["NativeMethods"]

Array = NDArray[Any]
_APART = 128  # elements, so that what threads write lies in different cache lines
_INDEX = np.dtype(np.int32)
PARALLEL = 4 * BLOCK  # vertices below which one thread is quicker


def _nothing(dtype: str) -> Array:
    """Stand in for an array which a topology has not."""
    array: Array = np.zeros(0, dtype)
    array.flags.writeable = False  # as a topology's arrays, or kernels would compile twice
    return array


NOTHING = {name: _nothing(name) for name in ("float64", "int64", "bool")}


class NativeMethods:
    """`init`, `gather` and `scatter` of one class over one partition, as kernels."""

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
    ) -> None:
        self.spec, self.module, self.shape = spec, module, shape
        self.column = column
        self.params = params
        self.num_vertices = num_vertices
        self.tolerance = tolerance
        self.threads = 1 if logs else threads
        self.logs = logs
        self.tracked = tracked
        self.space = ScratchBuffers()

    def _arguments(
        self,
        v: Vertices,
        aggregates: dict[str, Any],
        blocks: dict[str, Array],
        log: Log,
        values: Array | None = None,
    ) -> tuple[Any, ...]:
        t = v.topology
        spec = self.spec
        along = t.value if values is None else values
        given: list[Any] = [
            t.ids, t.start, t.stop, t.target, t.ghost_ids,
            along if along is not None else NOTHING[spec.value_dtype or "float64"],
            t.reverse if t.reverse is not None else NOTHING["bool"],
            self.num_vertices,
        ]  # fmt: skip
        given += [v.states[self.column(name)] for name in spec.states]
        for name, (kind, _) in spec.params.items():
            dtype = dtype_of(kind)
            if dtype != object:
                given.append(dtype.type(self.params[name]).item())
        given += [aggregates[name] for name in spec.aggregators]
        given += [blocks[name] for name in spec.aggregators]
        return (*given, *log.arrays())

    def _partial(self, count: int) -> dict[str, Array]:
        parts = count // BLOCK + 1
        return {
            name: np.full(parts, a.identity, a.dtype) for name, a in self.spec.aggregators.items()
        }

    def _reduce(self, blocks: dict[str, Array], into: dict[str, Any]) -> None:
        for name, values in blocks.items():
            combine = self.spec.aggregators[name].combine
            for x in values.tolist():
                into[name] = combine(into[name], x)

    def _cuts(self, count: int) -> list[int]:
        threads = self.threads if count > PARALLEL else 1
        step = -(-count // (threads * BLOCK)) * BLOCK or BLOCK
        return [*range(0, count, step), count]

    def init(
        self, v: Vertices, todo: Array, aggregates: dict[str, Any], into: dict[str, Any], log: Log
    ) -> None:
        """Initialise the vertices of `todo`."""
        blocks = self._partial(len(todo))
        cuts = self._cuts(len(todo))

        def part(lo: int, hi: int) -> None:
            while lo < hi:
                lo = self.module.init(todo, lo, hi, *self._arguments(v, aggregates, blocks, log))
                if lo < hi:
                    log.grow()

        run_all([partial(part, a, b) for a, b in zip(cuts, cuts[1:], strict=False)])
        self._reduce(blocks, into)

    def gather(
        self,
        v: Vertices,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: Log,
    ) -> Array:
        """Gather on the vertices of `todo`; return those which are to scatter."""
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        tracked = [v.tracked[self.column(n)] for n in self.spec.states] if self.tracked else []
        cuts = self._cuts(len(todo))
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

        parts = run_all(
            [partial(part, a, b) for a, b in zip(cuts, cuts[1:], strict=False)] or [lambda: out[:0]]
        )
        self._reduce(blocks, into)
        found = sum(map(len, parts))
        full = found == len(todo) or len(parts) == 1  # so they are side by side
        return out[:found] if full else np.concatenate(parts)

    def scatter(
        self,
        v: Vertices,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: Log,
    ) -> int:
        """Scatter from the vertices of `todo`; return the number of messages."""
        if self.shape == "derived":
            return self._scatter_derived(v, delivery, todo, iteration, aggregates, log)
        if self.shape == "uniform":
            return self._scatter_uniform(v, delivery, todo, iteration, aggregates, into, log)
        blocks = self._partial(len(todo))
        degrees = delivery.degrees(todo)
        edges = int(degrees.sum())
        quiet = delivery.dense(edges)
        largest = int(degrees.max()) if len(degrees) and self.shape == "many" else 0
        nothing = np.empty(0, np.int32)
        tracked = [v.tracked[self.column(n)] for n in self.spec.states] if self.tracked else []

        def chunk(lo: int, hi: int, threads: int, me: int) -> None:
            one = self._one(delivery, largest)
            while lo < hi:
                _, lo = self.module.scatter(
                    todo, lo, hi, 0, iteration, nothing, one[0], *tracked,
                    *self._arguments(v, aggregates, blocks, log), *one,
                    *delivery.arguments(v.msg, v.agg, 0 if quiet else threads, me),
                )  # fmt: skip
                if lo < hi:
                    log.grow()

        if quiet:
            cuts = self._cuts(len(todo))
            run_all([partial(chunk, a, b, 0, 0) for a, b in zip(cuts, cuts[1:], strict=False)])
            delivery.pull(v.msg, v.agg)
        elif blocks or self.logs:
            # blocks of contributions must not be shared by threads
            chunk(0, len(todo), 1, 0)
        else:
            delivery.rounds(degrees, edges, chunk, v.agg)
        self._reduce(blocks, into)
        return edges

    def _one(self, delivery: Delivery, largest: int) -> tuple[Array, Array, Array, Array]:
        """One message and its flag, and a row of messages and flags."""
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
        v: Vertices,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        log: Log,
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

    def repair(self, v: Vertices, delivery: Delivery, slots: Array, num: dict[str, Any]) -> None:
        """Recompute slots whose winner was withdrawn; derived shape only."""
        t = v.topology
        direct = t.in_value is not None
        self.module.repair(
            slots, t.in_start, t.in_stop, t.in_source,
            t.in_source if direct else delivery.in_index, direct, v.msg, v.agg,
            delivery.algebra.identity, *self.derived_arguments(v, delivery, t.in_value, num),
        )  # fmt: skip

    def derived_arguments(
        self,
        v: Vertices,
        delivery: Delivery,
        values: Array | None,
        aggregates: dict[str, Any] | None = None,
    ) -> tuple[Any, ...]:
        """The trailing arguments of kernels which compute messages along edges of these values."""
        none = {k: a.identity for k, a in self.spec.aggregators.items()}
        log = Log(delivery.algebra, self.spec.value_dtype)
        given = self._arguments(v, aggregates or none, self._partial(0), log, values)
        return (*given, *(v.tracked[self.column(n)] for n in self.spec.states))

    def _scatter_uniform(
        self,
        v: Vertices,
        delivery: Delivery,
        todo: Array,
        iteration: int,
        aggregates: dict[str, Any],
        into: dict[str, Any],
        log: Log,
    ) -> int:
        blocks = self._partial(len(todo))
        out = self.space.take(len(todo), _INDEX)
        shape = (len(todo), *v.msg.shape[1:])
        old = self.space.take(math.prod(shape), v.msg.dtype).reshape(shape)
        tracked = [v.tracked[self.column(n)] for n in self.spec.states] if self.tracked else []
        cuts = self._cuts(len(todo))

        def part(lo: int, hi: int) -> tuple[Array, Array]:
            put = first = lo
            one = self._one(delivery, 0)
            while lo < hi:
                count, lo = self.module.scatter(
                    todo, lo, hi, put, iteration, out, old, *tracked,
                    *self._arguments(v, aggregates, blocks, log), *one,
                    *delivery.arguments(v.msg, v.agg, 1, 0),
                )  # fmt: skip
                put += count
                if lo < hi:
                    log.grow()
            return out[first:put], old[first:put]

        parts = run_all(
            [partial(part, a, b) for a, b in zip(cuts, cuts[1:], strict=False)]
            or [lambda: (out[:0], old[:0])]
        )
        self._reduce(blocks, into)
        return delivery.push(parts, v.msg, v.agg)
