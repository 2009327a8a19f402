"""Suite ``profile``: where a run's time goes, phase by phase.

Loads, runs of PageRank, components, shortest paths and breadth-first search, cold and warm, and a
main loop's ingest and query: seconds per phase by the SDK's own statistics and Spark's event log,
which counts in whole milliseconds.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import vertexsdk
from benchmarks import answers, graphs
from benchmarks.document import Chart, Series, Table
from benchmarks.evolving.cases import changes_of
from benchmarks.evolving.stream import EdgeStream
from benchmarks.graphs import BenchGraph
from benchmarks.options import file, option
from benchmarks.programs import PROGRAMS, check, params_of
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.suite import CaseSuite, Parts
from vertexsdk import Graph, MainLoop, session
from vertexsdk.algorithms.sssp import ShortestPaths

SETTINGS = {"spark.eventLog.enabled": "true", "spark.eventLog.compress": "false"}


@dataclass(slots=True)
class Stage:
    """The slowest task of a stage, in seconds since the epoch or seconds.

    ``read`` and ``written`` are what it waited for the shuffle; ``queued`` from the stage's
    submission to the task's launch; ``decoded`` what deserialising the task took in the JVM.
    """

    ended: float = 0.0
    took: float = 0.0
    queued: float = 0.0
    decoded: float = 0.0
    ran: float = 0.0
    read: float = 0.0
    written: float = 0.0


@dataclass(slots=True)
class Job:
    """One job: from its submission to its end, and its stages by number."""

    began: float
    ended: float = 0.0
    stages: dict[int, Stage] = field(default_factory=dict)


def read(folder: Path) -> list[Job]:
    """The jobs in the event logs below a folder, in order of submission."""
    jobs: dict[int, Job] = {}
    submitted: dict[int, float] = {}
    owner: dict[int, int] = {}
    for event in _events(folder):
        kind = event["Event"]
        if kind == "SparkListenerJobStart":
            jobs[event["Job ID"]] = Job(event["Submission Time"] / 1e3)
            owner |= dict.fromkeys(event["Stage IDs"], event["Job ID"])
        elif kind == "SparkListenerStageSubmitted":
            info = event["Stage Info"]
            submitted[info["Stage ID"]] = info.get("Submission Time", 0) / 1e3
        elif kind == "SparkListenerTaskEnd" and event["Stage ID"] in owner:
            number = event["Stage ID"]
            stages = jobs[owner[number]].stages
            task = _task(event, submitted.get(number, 0.0))
            if task.ended >= stages.setdefault(number, task).ended:
                stages[number] = task
        elif kind == "SparkListenerJobEnd":
            jobs[event["Job ID"]].ended = event["Completion Time"] / 1e3
    return sorted(jobs.values(), key=lambda job: job.began)


def between(jobs: list[Job], began: float, ended: float) -> list[Job]:
    """Those that were submitted and ended within, to the millisecond."""
    return [job for job in jobs if began - 2e-3 <= job.began and 0 < job.ended <= ended + 2e-3]


def _events(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.rglob("*")):
        if not path.is_file() or path.name.startswith(("appstatus", ".")):
            continue
        for line in path.read_text().splitlines():
            try:
                yield json.loads(line)
            except json.JSONDecodeError:  # the last line of a log that is being written
                return


def _task(event: dict[str, Any], submitted: float) -> Stage:
    info, figures = event["Task Info"], event.get("Task Metrics") or {}
    launched, ended = info["Launch Time"] / 1e3, info["Finish Time"] / 1e3
    reads = figures.get("Shuffle Read Metrics", {})
    writes = figures.get("Shuffle Write Metrics", {})
    return Stage(
        ended=ended,
        took=ended - launched,
        queued=max(launched - submitted, 0.0) if submitted else 0.0,
        decoded=figures.get("Executor Deserialize Time", 0) / 1e3,
        ran=figures.get("Executor Run Time", 0) / 1e3,
        read=reads.get("Fetch Wait Time", 0) / 1e3,
        written=writes.get("Shuffle Write Time", 0) / 1e9,
    )


CHANGES = 1000  # to a main loop, between queries


@dataclass(slots=True)
class Sample:
    """One timed call: when it began and ended (seconds since the epoch), and its phases.

    ``warm``: not the first of its kind. ``phases``: by the SDK's own count; empty for loads.
    """

    name: str
    partitions: int
    warm: bool
    began: float
    ended: float
    phases: dict[str, float]

    def plain(self) -> dict[str, Any]:
        """As JSON takes it."""
        return asdict(self)


def of_partitions(
    spark: Any, graph: BenchGraph, partitions: int, repeats: int, folder: Path
) -> Iterator[Sample]:
    """Loads, then first and repeated runs of every algorithm.

    Raises:
        answers.Wrong: an answer is not the reference's.
    """
    loaded = None
    for k in range(3):
        if loaded is not None:
            loaded.unpersist()
        loaded = Graph.read(spark, edges=graph.parquet, multi=True, partitions=partitions)
        yield _timed("load", partitions, k > 0, partial(_load, loaded))
    assert loaded is not None
    for name, (program, _) in PROGRAMS.items():
        for k in range(repeats + 1):
            sample, result = _run(
                name, program, loaded, params_of(name, graph.origin), folder, k > 0
            )
            if k == 0:
                check(name, result.columns(), graph)
            yield sample
    loaded.unpersist()


def main_loop(spark: Any, scale: int, cache: Path, repeats: int, folder: Path) -> Iterator[Sample]:
    """Batches of changes to a main loop of shortest paths, and a query after each."""
    stream = EdgeStream(scale, cache)
    graph = Graph.read(spark, edges=stream.parquet, partitions=1)
    params = {"origin": stream.origin}
    with MainLoop(
        ShortestPaths, graph, params=params, backend=f"lmdb://{folder}/main", budget=None
    ) as main:
        main.query()
        for k in range(repeats + 1):
            changes = changes_of(stream.take(CHANGES))
            yield _of_main("ingest", main, k > 0, partial(main.ingest, changes))
            yield _of_main("query", main, k > 0, main.query)
        answers.check("shortest_paths", stream, main.read().columns())


def _load(graph: Graph) -> dict[str, float]:
    graph.materialise(("out", None, "combined"))
    return {}


def _run(
    name: str, program: Any, graph: Graph, params: Any, folder: Path, warm: bool
) -> tuple[Sample, Any]:
    held: list[Any] = []

    def call() -> dict[str, float]:
        backend = f"lmdb://{folder}/state"
        held.append(vertexsdk.run(program, graph, params=params, backend=backend))
        spent: dict[str, float] = held[0].statistics["spent"]
        return spent

    return _timed(name, graph.partitions, warm, call), held[0]


def _of_main(name: str, main: MainLoop, warm: bool, work: Callable[[], Any]) -> Sample:
    def call() -> dict[str, float]:
        before = dict(main.spent)
        work()
        return {phase: x - before[phase] for phase, x in main.spent.items()}

    return _timed(name, 1, warm, call)


def _timed(name: str, partitions: int, warm: bool, call: Callable[[], dict[str, float]]) -> Sample:
    began = time.time()
    phases = call()
    return Sample(name, partitions, warm, began, time.time(), phases)


REST = "not accounted for"


SHOWN = {
    "graph load": "tasks which read the graph and place it in memory, by Spark's event log",
    "compile": "kernels are compiled, or found again",
    "driver": "the driver's own: jobs made ready, what comes next decided",
    "Spark scheduling": "from a job's submission to the call of its slowest task's function",
    "Python worker start": "a worker process is started, and imports Spark and the SDK",
    "decode": "the task reads its command and the other partitions' messages",
    "open": "the task finds its arrays, or makes them; a main loop takes its changes in",
    "kernel": "iterations",
    "encode": "messages and the report become bytes; the state is kept for the next hop",
    "shuffle": "writing it, and waiting for it, in the slowest task (Spark's event log)",
    "commit": "the store is opened, segments and the version are written",
    "results": "from the slowest task's end until the driver has the reports",
    REST: "",
}


_FROM = {
    "graph load": ("load",),
    "compile": ("compile",),
    "driver": ("prepare", "driver"),
    "Spark scheduling": ("schedule",),
    "Python worker start": ("start",),
    "decode": ("decode",),
    "open": ("open", "changes"),
    "kernel": ("kernel",),
    "encode": ("encode", "save"),
    "commit": ("claim", "commit"),
    "results": ("results",),
}


def placed(sample: Sample, jobs: list[Job]) -> dict[str, Any]:
    """The sample as JSON takes it, with its phases as shown, and what Spark's log says of it."""
    own = between(jobs, sample.began, sample.ended)
    total = sample.ended - sample.began
    if sample.name == "load":
        shown = _of_load(own, total)
    else:
        shown = {name: sum(sample.phases.get(k, 0.0) for k in keys) for name, keys in _FROM.items()}
        _take_shuffle(shown, own)
    ordered = {name: shown.get(name, 0.0) for name in SHOWN}
    ordered[REST] = max(total - sum(ordered.values()), 0.0)
    return {**sample.plain(), "seconds": total, "shown": ordered, "spark": _inside(own)}


def _of_load(jobs: list[Job], total: float) -> dict[str, float]:
    """What a load's jobs tell: their slowest tasks are the work, what is beside them Spark's."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    shuffle = sum(stage.read + stage.written for stage in stages)
    work = sum(stage.ran for stage in stages)
    whole = sum(job.ended - job.began for job in jobs)
    return {
        "graph load": max(work - shuffle, 0.0),
        "shuffle": shuffle,
        "Spark scheduling": max(whole - work, 0.0),
        "driver": max(total - whole, 0.0),
    }


def _take_shuffle(shown: dict[str, float], jobs: list[Job]) -> None:
    """Of a run's phases, put what was the shuffle under that name."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    read = min(sum(stage.read for stage in stages), shown["decode"])
    written = min(sum(stage.written for stage in stages), shown["results"])
    shown["decode"] -= read
    shown["results"] -= written
    shown["shuffle"] = read + written


def _inside(jobs: list[Job]) -> dict[str, float]:
    """Jobs, and seconds along their slowest tasks, as Spark counts them."""
    stages = [stage for job in jobs for stage in job.stages.values()]
    return {
        "jobs": len(jobs),
        "submitted to ended": sum(job.ended - job.began for job in jobs),
        "queued": sum(stage.queued for stage in stages),
        "deserialised": sum(stage.decoded for stage in stages),
        "ran": sum(stage.ran for stage in stages),
    }


Row = dict[str, Any]


_TITLES = {
    "load": "load",
    "pagerank": "PageRank, 10 iterations",
    "components": "components",
    "shortest_paths": "shortest paths",
    "bfs": "breadth-first search",
    "ingest": f"main loop: {CHANGES:,} changes",
    "query": "main loop: query",
}


MOST = 0.15  # of the wall time that may be not accounted for


def median(samples: Sequence[Row]) -> list[Row]:
    """Of the samples of one kind, the one whose seconds are their median; in their order."""
    kinds: dict[tuple[str, int], list[Row]] = {}
    for sample in samples:
        kinds.setdefault((sample["name"], sample["partitions"]), []).append(sample)
    ordered = (sorted(kind, key=lambda s: float(s["seconds"])) for kind in kinds.values())
    return [kind[(len(kind) - 1) // 2] for kind in ordered]


def _title(sample: Row) -> str:
    title, partitions = _TITLES[sample["name"]], sample["partitions"]
    return title if sample["name"] in ("ingest", "query") else f"{title}, P = {partitions}"


@dataclass(frozen=True, slots=True)
class Sizes:
    """Options of the suite."""

    scale: int = option(20, "of R-MAT")
    edges: str = option("", "instead of R-MAT; without the main loop", file)
    partitions: tuple[int, ...] = option((1, 2, 4), "1,2,4")
    repeats: int = option(7, "warm runs of each")
    seconds: float = option(150.0, "after which no more partitions are begun")
    cores: int = 2


def graph_of(sizes: Sizes, cache: Path) -> BenchGraph:
    """The graph that is run on, made once."""
    return (
        graphs.of_file(sizes.edges, cache) if sizes.edges else graphs.of_scale(sizes.scale, cache)
    )


def profile(process: CaseProcess, sizes: Sizes) -> None:
    """Tell every sample, as `placed` has it."""
    log = process.scratch / "events"
    log.mkdir()
    conf = {**SETTINGS, "spark.eventLog.dir": log.as_uri()}
    spark = session(f"local[{sizes.cores}]", "vertexsdk-profile", **conf)
    samples: list[Sample] = []
    graph = graph_of(sizes, process.cache)
    until = time.monotonic() + sizes.seconds
    for partitions in sizes.partitions:
        if not samples or time.monotonic() < until:
            samples += of_partitions(spark, graph, partitions, sizes.repeats, process.scratch)
    if not sizes.edges:
        samples += main_loop(spark, sizes.scale, process.cache, sizes.repeats, process.scratch)
    spark.stop()  # ends the log
    jobs = read(log)
    for sample in samples:
        process.tell(placed(sample, jobs))


class Results(SuiteResults[Sizes]):
    """The samples of the only case."""

    __slots__ = ()

    @property
    def samples(self) -> list[Row]:
        case = self.cases["profile"]
        return [] if case.problem else case.told

    def shown(self) -> list[Row]:
        """Of the warm samples the median ones, and all first ones."""
        warm = median([s for s in self.samples if s["warm"]])
        return [*warm, *(s for s in self.samples if not s["warm"])]

    def plain(self) -> dict[str, Any]:
        return {"samples": self.shown()}


def _sections(r: Results) -> list[tuple[Any, ...]]:
    text = "The first of each in its process: kernels are loaded, workers started, graphs loaded."
    return [
        ("Warm", "The median run of each.", _parts("Warm", [s for s in r.samples if s["warm"]])),
        ("First", text, _parts("First", [s for s in r.samples if not s["warm"]])),
    ]


def _notes(r: Results) -> list[str]:
    over = [_title(s) for s in r.shown() if s["shown"][REST] > MOST * s["seconds"]]
    return [
        *(f"*{name}*: {about}." for name, about in SHOWN.items() if about),
        "Of tasks that run side by side the one which ended last is followed, hop by hop, so that "
        "the phases of a run add up to its wall time.",
        "Of loads Spark's event log is all there is: along the slowest task of every stage. It "
        "counts whole milliseconds.",
        *([f"More than {MOST:.0%} is not accounted for in: {', '.join(over)}."] if over else []),
    ]


def _parts(title: str, samples: Sequence[Row]) -> Parts:
    """A chart of stacked bars, the same as a table, and Spark's own count of the same runs."""
    chosen = median(samples)
    used = [name for name in SHOWN if any(s["shown"][name] >= 5e-5 for s in chosen)]
    unit, factor, digits = ("s", 1.0, 2) if title == "First" else ("ms", 1e3, 1)

    def row(sample: Row, first: str, values: Iterable[float]) -> list[str]:
        return [_title(sample), first, *(f"{x * factor:,.{digits}f}" for x in values)]

    series = [Series(name, [s["shown"][name] * factor for s in chosen]) for name in used]
    titles = [_title(s) for s in chosen]
    phases = [
        row(s, f"**{s['seconds'] * factor:,.{digits}f}**", [s["shown"][n] for n in used])
        for s in chosen
    ]
    names = ["submitted to ended", "queued", "deserialised", "ran"]
    spark = [row(s, f"{s['spark']['jobs']}", [s["spark"][n] for n in names]) for s in chosen]
    note = (
        "Jobs from submission to end; of each stage's slowest task: from the stage's submission "
        "to its launch, deserialising it, and running it in the JVM, which includes Python."
    )
    return [
        Chart("stacked", f"{title}: where the time goes", unit, titles, series),
        Table([unit, "whole", *used], phases),
        Table([unit, "jobs", *names], spark, "Spark's own count", note),
    ]


SUITE = CaseSuite(
    name="profile",
    title="Where a run's time goes",
    about="Ours alone, phase by phase: `run()` as a user calls it, committed to LMDB.",
    sizes=Sizes, cases={"profile": profile}, sections=_sections, notes=_notes, results=Results,
    prepare=lambda names, sizes, cache: graph_of(sizes, cache), time_limit=900,
    stem=lambda s: f"profile-{Path(s.edges).name.lower() or f'r-mat-{s.scale}'}",
    quick="--scale 10 --partitions 1,2 --repeats 2",
)  # fmt: skip
