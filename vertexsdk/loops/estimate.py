"""Estimates of a run's needs: memory by a formula of measured costs, time by runs on samples.

Memory follows from what is stored per edge and per vertex: a formula, fitted to the peak of
processes that ran programs on 0.3 to 40 million edges. Time does not: it depends on the machine,
the methods and the graph. So the program runs on samples of growing size, and what the two largest
of them needed is continued to the size of the graph.
"""

from __future__ import annotations

import contextlib
import logging
import math
import time
import uuid
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from vertexsdk.arrays.memory_limit import memory_limit
from vertexsdk.graph.graph import Graph
from vertexsdk.graph.topology.edge_attributes import attribute_members, attribute_types
from vertexsdk.loops.arguments import with_parameters
from vertexsdk.loops.run import run
from vertexsdk.notebook.card import card, seconds_text, size_text, summary_line
from vertexsdk.program.program import Program
from vertexsdk.state import open_store

_SIZES = (1 << 11, 1 << 14, 1 << 17, 1 << 20)  # edges with which the program runs
_STORE, _NAME = "memory://estimates", "estimate"  # of the runs
_TWICE = 3.0  # seconds up to which a run is timed twice
_ENOUGH = 0.7  # seconds of iterating after which no more edges are tried
_PROCESS = 300 << 20  # bytes of a process that has compiled a program, without a graph
_SENT = 2.0  # how often processors have their data while they send edges to each other
_STILL = 1.1  # growth of the range of ids from one sample to the next that is none
_MOST_POWER = 2.0  # of the edges, by which work grows: each vertex after the other


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimated needs of a run of a program on a graph.

    Attributes:
        program: its name.
        edges, vertices: how many the graph has, as far as the samples tell.
        processors: how many there are; in this process, one.
        bytes_per_processor: the most memory that each has at a time, loading included.
        seconds: time of the run, `load_seconds` plus `iterate_seconds`.
        iterations: the iterations on the largest sample.
        compile_seconds: that compiling took; later runs in this process need none.
        sampled: the edges of the largest sample.
        limit: bytes that a run in this process may use, if its container has a limit.
    """

    program: str
    edges: int
    vertices: int
    processors: int
    bytes_per_processor: int
    load_seconds: float
    iterate_seconds: float
    iterations: int
    compile_seconds: float
    sampled: int
    limit: int | None

    @property
    def seconds(self) -> float:
        """Of the whole run, without compiling."""
        return self.load_seconds + self.iterate_seconds

    @property
    def fits(self) -> bool:
        """True if the memory of this process's container suffices, or is unknown."""
        return self.limit is None or self.bytes_per_processor < self.limit

    def _facts(self) -> dict[str, Any]:
        load, iterate = seconds_text(self.load_seconds), seconds_text(self.iterate_seconds)
        memory = size_text(self.bytes_per_processor)
        if self.limit is not None:
            memory += f" of {size_text(self.limit)}{'' if self.fits else ': too much'}"
        sample = "" if self.sampled >= self.edges else f", from {self.sampled:,}"
        return {
            "edges": f"{self.edges:,}{sample}", "vertices": self.vertices,
            "processors": self.processors, "memory of each": memory,
            "time": f"{seconds_text(self.seconds)} (load {load}, iterate {iterate})",
        }  # fmt: skip

    def __repr__(self) -> str:
        return summary_line(f"Estimate {self.program}", self._facts())

    def _repr_html_(self) -> str:
        return card(f"Estimate of {self.program}", self._facts())


@dataclass(frozen=True, slots=True)
class _Sample:
    """Some of the edges, as they were loaded.

    Attributes:
        share: their share of all edges.
        vertices: at their ends.
        load: seconds.
        table: the edges, `source,target,value`.
        strings: ids are strings.
    """

    share: float
    vertices: int
    load: float
    table: pa.Table
    strings: bool

    @property
    def edges(self) -> int:
        """The number of edges."""
        return int(self.table.num_rows)

    @property
    def span(self) -> int | None:
        """The number of integers from the smallest to the largest id; None without any."""
        if self.strings or not self.edges:
            return None
        ends = [pc.min_max(self.table[name]).as_py() for name in ("source", "target")]
        return int(max(e["max"] for e in ends) - min(e["min"] for e in ends)) + 1

    @property
    def letters(self) -> float:
        """The mean length of string ids; 0 of integers, or of none."""
        if not self.strings or not self.edges:
            return 0.0
        return float(pc.mean(pc.binary_length(self.table["target"])).as_py())


@dataclass(frozen=True, slots=True)
class _Probe:
    """The needs of a run on some edges: seconds, and the numbers of updates and messages."""

    edges: int
    seconds: float
    compile: float
    iterations: int
    work: float


def estimate(
    program: Any,
    graph: Graph,
    params: Mapping[str, Any] | None,
    options: Mapping[str, Any],
    parameters: Mapping[str, Any],
) -> Estimate:
    """Return what a run will need, as for `Graph.estimate`."""
    program, params = with_parameters(program, params, parameters)
    program.bind(params)
    samples: list[_Sample] = []
    local = graph.transport.name == "local"
    with _silent():
        for size in _SIZES[-2:]:
            samples.append(_sample(program, graph, size, twice=local))
            if samples[-1].share >= 1:
                break
        last = samples[-1]
        smaller = next((s for s in samples[::-1] if s.edges < last.edges), None)
        edges = last.edges / last.share
        vertices = _vertices(edges, last, smaller)
        probes = _probes(program, graph, params, options, last, vertices)
    processors = 1 if local else graph.partitions
    data = _data_bytes(program, graph, last, edges, vertices) * (1 if processors == 1 else _SENT)
    return Estimate(
        program.name, round(edges), round(vertices), processors,
        round(_PROCESS + data / processors), _load_seconds(edges, last, smaller),
        _iterate_seconds(edges, probes), probes[-1].iterations, max(p.compile for p in probes),
        probes[-1].edges, memory_limit() if local else None,
    )  # fmt: skip


def _sample(program: Program, graph: Graph, size: int, *, twice: bool) -> _Sample:
    """Load a sample; twice, as what is first takes longer, unless processors start for each."""
    part, share = graph.sample(size)
    try:
        loads: list[float] = []
        while not loads or (twice and len(loads) == 1 and loads[0] < _ENOUGH):
            part.unpersist()
            began = time.perf_counter()
            info = part.materialise((program.direction, program.value_dtype, "combined"))
            loads.append(time.perf_counter() - began)
        load = min(loads)
        share = share or 1.0  # of a graph without edges
        return _Sample(share, info.num_vertices, load, part.to_arrow(), info.string_ids)
    finally:
        part.unpersist()


def _probes(
    program: Program,
    graph: Graph,
    params: Mapping[str, Any],
    options: Mapping[str, Any],
    sample: _Sample,
    vertices: float,
) -> list[_Probe]:
    """Run the program on more and more edges of a sample."""
    probes: list[_Probe] = []
    for size in sorted({min(size, sample.edges) for size in (*_SIZES, sample.edges)}):
        part = _folded(program, graph, sample, size, vertices)
        try:
            probe = _probe(program, part, params, options)
            if probe.seconds < _TWICE:  # without what was done for the first time
                again = _probe(program, part, params, options)
                probe = replace(probe, seconds=min(probe.seconds, again.seconds))
        finally:
            part.unpersist()
        probes.append(probe)
        if probe.seconds > _ENOUGH:
            break
    return probes


def _folded(program: Program, graph: Graph, sample: _Sample, size: int, vertices: float) -> Graph:
    """Return a graph of the first edges of a sample, with as many edges per vertex as the whole.

    A sample has nearly as many vertices as the graph, and few edges at each. So ids are taken
    modulo the number of vertices that it should have. Where ids that are near each other are
    neighbours, as in a road network that is stored by place, that changes little.
    """
    rows = sample.table.slice(0, size)
    ends = [rows[name].combine_chunks() for name in ("source", "target")]
    share = sample.share * (len(rows) / sample.edges if sample.edges else 1.0)
    if share >= 1 or not sample.edges:
        codes = [np.asarray(end) for end in ends]
    else:
        if sample.strings:
            codes = _codes(ends)
        else:
            least = min(pc.min(end).as_py() for end in ends)
            codes = [np.asarray(end) - least for end in ends]
        codes = [code % max(round(vertices * share), 2) for code in codes]
    source, target = codes
    value: Any = np.asarray(rows["value"])
    names = attribute_types(program.value_dtype)
    members = attribute_members(program.value_dtype)
    first = {n: np.full(len(value), next(iter(m.values()))) for n, m in members.items()}
    part = Graph.from_arrays(
        source, target, dict.fromkeys(names, value) | first if names else value, spark=graph.spark,
        undirected=graph.undirected, multi=graph.multi, partitions=graph.partitions,
    )  # fmt: skip
    part.silent = True
    return part


def _codes(ends: list[Any]) -> list[NDArray[np.int64]]:
    """Return numbers for string ids, in the order of the strings."""
    names = pc.unique(pa.concat_arrays(ends)).sort()
    return [np.asarray(pc.index_in(end, names), np.int64) for end in ends]


def _probe(
    program: Program, part: Graph, params: Mapping[str, Any], options: Mapping[str, Any]
) -> _Probe:
    values = dict(params)
    for name in program.named_vertices(program.bind(values)).keys() & values.keys():
        degrees = part.degrees()
        values[name] = max(degrees, key=degrees.__getitem__)
    name = f"{_NAME}-{uuid.uuid4().hex}"
    with run(
        program, part, params=values, backend=_STORE, loop=name, progress=False, **options
    ) as result:
        counts = result.statistics
    with open_store(_STORE) as store:
        store.delete(name)
    spent = counts["spent"]
    return _Probe(
        part.num_edges, counts["total_seconds"] - spent["load"] - spent["compile"],
        spent["compile"], counts["iterations"], float(counts["updates"] + counts["messages"]),
    )  # fmt: skip


@contextlib.contextmanager
def _silent() -> Iterator[None]:
    """Say nothing of the samples: the run itself will."""
    log = logging.getLogger("vertexsdk")

    def mute(record: logging.LogRecord) -> bool:
        return not str(record.args).startswith(f"('{_NAME}-")

    log.addFilter(mute)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        log.removeFilter(mute)


def _power(edges: tuple[int, int], quantity: tuple[float, float]) -> float:
    """The power of the number of edges by which something grows from one sample to the next."""
    small, large = (max(x, 1.0) for x in quantity)
    return math.log(large / small) / math.log(edges[1] / edges[0])


def _vertices(edges: float, last: _Sample, smaller: _Sample | None) -> float:
    """Continue the number of vertices; integer ids whose range is known leave room for no more."""
    if last.share >= 1 or smaller is None:
        return last.vertices / last.share
    power = _power((smaller.edges, last.edges), (smaller.vertices, last.vertices))
    vertices: float = last.vertices * (edges / last.edges) ** min(max(power, 0.0), 1.0)
    if last.span is None or smaller.span is None or last.span > _STILL * smaller.span:
        return vertices
    return min(vertices, last.span)


def _load_seconds(edges: float, last: _Sample, smaller: _Sample | None) -> float:
    """Continue the seconds of loading: a fixed part, and one for each edge."""
    each = last.load / max(last.edges, 1)
    if smaller is not None:
        each = max((last.load - smaller.load) / (last.edges - smaller.edges), each / 2)
    return float(last.load + (edges - last.edges) * each)


def _iterate_seconds(edges: float, probes: list[_Probe]) -> float:
    """Continue the seconds of iterating, which grow as updates and messages do."""
    last = probes[-1]
    smaller = next((p for p in probes[1::][::-1] if p.edges < last.edges), None)
    power = 1.0
    if smaller is not None:
        power = _power((smaller.edges, last.edges), (smaller.work, last.work))
    seconds: float = last.seconds * (edges / max(last.edges, 1)) ** min(
        max(power, 1.0), _MOST_POWER
    )
    return seconds


def _data_bytes(
    program: Program, graph: Graph, last: _Sample, edges: float, vertices: float
) -> float:
    """The bytes that a run has at its peak, on all processors, beyond those of a process.

    The adjacency takes 8 bytes for each direction in which messages go along an edge, and those
    of its values. String ids take more, while they are replaced by numbers.
    """
    first = program.classes[0]
    values = 8 * len((program.value_dtype or "").split(",")) if program.value_dtype else 0
    both = program.direction in ("both", "undirected") or graph.undirected
    entries = edges * (2 if both else 1)
    adjacency = entries * (8 + values + (program.direction == "both")) + 24 * vertices
    if first.algebra is None:  # vertices and their targets are objects
        return max(adjacency, 400 * vertices + 210 * entries)
    names = 0.0 if last.span is not None else edges * (95 + 3.7 * last.letters)
    fields = sum(f.size or 1 for f in program.states().values())
    size = first.algebra.size or 1
    state = vertices * (20 + 24 * fields + 12 * size)
    if graph.partitions > 1:
        ghosts = min(entries * (1 - 1 / graph.partitions), vertices * (graph.partitions - 1))
        adjacency += 12 * (entries if first.latest else ghosts)
        state += 8 * size * ghosts
    return max(names, adjacency) + state
