"""Suite ``examples``: programs of GraphX and GraphFrames users, ported: lines of code and time.

Each folder of ``benchmarks/ported`` has one program three times, in files as a user would write
them: `ours.py`, `graphx.scala`, `graphframes.py`.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq
from pygments.lexers import get_lexer_for_filename
from pygments.token import Comment, String

from benchmarks import cells, graphs
from benchmarks.document import Table, bars
from benchmarks.graphs import BenchGraph
from benchmarks.options import names, option
from benchmarks.peers import Peer, Settings
from benchmarks.peers._spark import NUMBERS, pairs, scala_jar
from benchmarks.peers.graphframes import GraphFrames
from benchmarks.peers.graphx import GraphX
from benchmarks.peers.ours import Ours
from benchmarks.programs import TINY_SCALE
from benchmarks.runner import CaseProcess, SuiteResults, Wrong
from benchmarks.suite import CaseSuite
from benchmarks.timing import seconds

Values = npt.NDArray[Any]


HERE = Path(__file__).parent.parent / "ported"


FILES = {"ours": "ours.py", "graphx": "graphx.scala", "graphframes": "graphframes.py"}


ERROR = 1e-9  # relative, of each value: whole numbers below 1e9 have to be exact


_ROUNDS = 10


_CORE = 10


@dataclass(frozen=True, slots=True)
class Ported:
    """One folder.

    Attributes:
        name: of the folder.
        title, source: what it finds, and where users have it from.
        scala: the object in `graphx.scala`.
        origin: whether it takes a vertex to begin with.
        answer: float64[n] from compact (source, target, value, n, origin, ids).
    """

    name: str
    title: str
    source: str
    scala: str
    answer: Callable[..., Values]
    origin: bool = False

    def file(self, system: str) -> Path:
        """The program as one system has it."""
        return HERE / self.name / FILES[system]


def _columns(graph: BenchGraph) -> tuple[npt.NDArray[np.int64], ...]:
    table = pq.read_table(graph.parquet)
    ids = np.asarray(graph.answer("ids"))
    source, target, value = (table[name].to_numpy() for name in table.column_names[:3])
    return np.searchsorted(ids, source), np.searchsorted(ids, target), value, ids


def _sum(at: Values, weights: Values, n: int) -> Values:
    total: Values = np.bincount(at, weights=weights, minlength=n)
    return total


def _older_followers(source: Values, target: Values, n: int, ids: Values, **_: object) -> Values:
    older = ids[source] > ids[target]
    count = np.bincount(target[older], minlength=n)
    total = _sum(target[older], ids[source[older]].astype(float), n)
    return np.where(count > 0, total / np.maximum(count, 1), 0.0)


def _pagerank(source: Values, target: Values, n: int, **_: object) -> Values:
    degree = np.maximum(np.bincount(source, minlength=n), 1)
    rank: Values = np.full(n, 0.15)
    for _round in range(_ROUNDS):
        rank = 0.15 + 0.85 * _sum(target, (rank / degree)[source], n)
    return rank


def _heat(source: Values, target: Values, n: int, origin: int, **_: object) -> Values:
    count = np.bincount(target, minlength=n)
    heat = np.zeros(n)
    heat[origin] = 100.0
    for _round in range(_ROUNDS):
        mean = _sum(target, heat[source], n) / np.maximum(count, 1)
        heat = np.where(count > 0, (heat + mean) / 2, heat)
        heat[origin] = 100.0
    return heat


def _two_hops(source: Values, target: Values, n: int, **_: object) -> Values:
    return _sum(target, np.bincount(target, minlength=n)[source].astype(float), n)


def _pruning(source: Values, target: Values, n: int, **_: object) -> Values:
    inside, before = np.ones(n, bool), -1
    while inside.sum() != before:
        before = int(inside.sum())
        there = inside[source] & inside[target]
        ends = np.concatenate((source[there], target[there]))
        inside &= np.bincount(ends, minlength=n) >= _CORE
    return inside.astype(float)


def right(program: Ported, graph: BenchGraph) -> Values:
    """The answer that every system must give: float64[n] in the order of the graph's ids."""
    if program.name == "shortest_paths":
        return graph.answer("shortest_paths")
    if program.name == "components":
        return np.asarray(graph.answer("ids"))[np.asarray(graph.answer("components"))]
    source, target, _, ids = _columns(graph)
    origin = int(np.searchsorted(ids, graph.origin))
    return program.answer(source=source, target=target, n=ids.size, ids=ids, origin=origin)


def wrong(wanted: Values, all_ids: Values, ids: Values, value: Values) -> str | None:
    """How an answer differs from the right one; None where it does not.

    Vertices that nothing was sent to may be left out, as aggregateMessages does: they count as 0.
    """
    place = np.minimum(np.searchsorted(all_ids, ids), all_ids.size - 1)
    if np.unique(ids).size != ids.size or not np.array_equal(all_ids[place], ids):
        return "its vertices are not the graph's"
    found = np.zeros(all_ids.size)
    found[place] = value
    count = int((~np.isclose(found, wanted, rtol=ERROR, atol=0.0)).sum())
    return f"{count} of {all_ids.size} values differ" if count else None


def _given(**_: object) -> Values:
    raise AssertionError("the graph has this answer")


_GUIDE = "GraphX programming guide"


PROGRAMS: dict[str, Ported] = {
    program.name: program
    for program in (
        Ported("shortest_paths", "single-source shortest paths by Pregel",
               f"{_GUIDE}, Pregel API", "ShortestPaths", _given, origin=True),
        Ported("older_followers", "average age of older followers by aggregateMessages",
               f"{_GUIDE}, aggregateMessages", "OlderFollowers", _older_followers),
        Ported("pagerank", "PageRank by Pregel, 10 iterations",
               "GraphFrames' documentation of Pregel", "PageRank", _pagerank),
        Ported("components", "connected components by Pregel",
               "GraphX's own library", "Components", _given),
        Ported("heat", "heat spreading from one vertex, 10 steps, by Pregel",
               "written for this table", "Heat", _heat, origin=True),
        Ported("two_hops", "followers of followers by aggregateMessages",
               "written for this table", "TwoHops", _two_hops),
        Ported("pruning", "10-core by leaving out vertices of small degree",
               "written for this table, with subgraph and degrees", "Pruning", _pruning),
    )
}  # fmt: skip
"""By name."""


_ROOT = HERE.parent.parent
Answer = Callable[[], tuple[Any, Any]]


def _notes(r: SuiteResults[Sizes]) -> list[str]:
    return [
        "Each system ran in processes of its own: every program on R-MAT 8, then each once on this "
        "graph, untimed, and then the runs that count. The graph stays in memory: GraphX's edges "
        "with values, one partition per core, from the text; ours in one partition.",
        "Answers are compared with plain NumPy before any time is kept: every value to 1e-9 "
        "relative, so whole numbers exactly. A vertex that aggregateMessages has no value for "
        "counts as 0. A wrong answer makes the exit status 1.",
        "PageRank here is not normalised and loses what vertices without edges out of them hold, "
        "in all three; it begins with 0.15, as Pregel runs no program where no message comes.",
        "Ages are ids, as in the guide.",
        "GraphX's own lib.PageRank does the same without Pregel, and is quicker: see the suite "
        "batch.",
    ]


@dataclass(frozen=True, slots=True)
class Sizes:
    """Given to every system."""

    programs: tuple[str, ...] = option(tuple(PROGRAMS), ",".join(PROGRAMS), names(PROGRAMS))
    scale: int = option(18, "of R-MAT")
    repeats: int = option(5, "runs of each program")
    budget: float = option(30.0, "seconds after which none is begun")
    cores: int = 2


class _Programs(Peer):
    """A system that runs any of the programs; their result stays until it is forgotten."""

    result: Any = None

    def load(self, graph: BenchGraph) -> None:
        """Load a graph and keep it in memory."""
        self.graph = graph
        self.release()
        self.load_parquet()

    def run(self, program: Ported) -> Answer:
        """Run a program on the graph to its end; what is returned hands over (ids, values)."""
        raise NotImplementedError

    def forget(self) -> None:
        """Let go of what the last run left in memory; not timed."""

    def given(self, program: Ported) -> tuple[int, ...]:
        """The arguments of a program."""
        return (self.graph.origin,) if program.origin else ()


class OurPrograms(_Programs, Ours):
    title = "ours"

    def start(self) -> dict[str, str]:
        os.environ["VERTEXSDK_BACKEND"] = f"lmdb://{self.settings.scratch}/state"
        return super().start()

    def run(self, program: Ported) -> Answer:
        module = importlib.import_module(f"benchmarks.ported.{program.name}.ours")
        result = module.answer(self.loaded, *self.given(program))

        def later() -> tuple[Any, Any]:
            columns = result.columns()
            return columns["id"], columns[result.statistics["result"]]

        return later


class GraphXPrograms(_Programs, GraphX):
    """GraphX with the programs of the folders in a jar."""

    def conf(self) -> dict[str, str]:
        files = sorted(HERE.glob("*/graphx.scala"))
        return {"spark.jars": str(scala_jar(HERE / "load.scala", self.settings, *files))}

    def load_parquet(self) -> None:
        context, cores = self.spark.sparkContext._jsc, self.settings.cores
        self.loaded = self.jvm.ported.Load.text(context, self.graph.text, cores)

    def run(self, program: Ported) -> Answer:
        scala = getattr(self.jvm.ported, program.scala)
        self.result = result = scala.run(self.loaded, *self.given(program))
        result.count()
        return lambda: pairs(result, self.settings.scratch, NUMBERS)

    def forget(self) -> None:
        self.result.unpersist(True)
        self.result = None
        gc.collect()  # so that Spark's cleaner may find what the program has cached besides
        self.jvm.System.gc()


class GraphFramesPrograms(_Programs, GraphFrames):
    def run(self, program: Ported) -> Answer:
        module = importlib.import_module(f"benchmarks.ported.{program.name}.graphframes")
        self.result = result = module.answer(self.loaded, *self.given(program)).cache()
        result.count()

        def later() -> tuple[Any, Any]:
            table = result.select("id", "value").toArrow()
            return table["id"].to_numpy(), table["value"].to_numpy().astype(np.float64)

        return later

    def forget(self) -> None:
        self.result.unpersist()


SYSTEMS: dict[str, type[_Programs]] = {
    "ours": OurPrograms, "graphx": GraphXPrograms, "graphframes": GraphFramesPrograms,
}  # fmt: skip
"""By the name of its files."""
TITLES = {name: system.title for name, system in SYSTEMS.items()}


@contextlib.contextmanager
def _started(process: CaseProcess, sizes: Sizes) -> Iterator[tuple[Any, ...]]:
    """A system that has run every program on a tiny graph, and has loaded the graph."""
    system = SYSTEMS[process.case](Settings(sizes.cores, process.memory, str(process.scratch)))
    system.start()
    system.load(graphs.of_scale(TINY_SCALE, process.cache))
    for name in sizes.programs:
        system.run(PROGRAMS[name])()
        system.forget()
    graph = graphs.of_scale(sizes.scale, process.cache)
    system.load(graph)
    process.ready(graph.edges, graph.origin)
    yield process, sizes, system


def _measure(process: CaseProcess, sizes: Sizes, system: _Programs) -> None:
    """Run each program once, check the answer, then run it again and again.

    Raises:
        Wrong: the answer is not right.
    """
    all_ids = np.asarray(system.graph.answer("ids"))
    for program in (PROGRAMS[name] for name in sizes.programs):
        ids, value = system.run(program)()
        system.forget()
        differs = wrong(right(program, system.graph), all_ids, np.asarray(ids), np.asarray(value))
        if differs:
            raise Wrong(f"{program.name} by {system.title}: {differs}")
        taken: list[float] = []
        while not taken or (len(taken) < sizes.repeats and sum(taken) < sizes.budget):
            taken.append(seconds(partial(system.run, program)))
            system.forget()
        for each in taken:
            process.note(program.name, each)


def count(path: Path) -> int:
    """Lines of a Python or Scala file that are not blank, and not only comment or docstring."""
    lines, number = set(), 1
    lexer = get_lexer_for_filename(path.name, stripnl=False)
    for kind, text in lexer.get_tokens(path.read_text()):
        for piece in text.splitlines(keepends=True):
            if piece.strip() and kind not in Comment and kind not in String.Doc:
                lines.add(number)
            number += piece.endswith("\n")
    return len(lines)


def _sections(r: SuiteResults[Sizes]) -> list[tuple[Any, ...]]:
    programs = [PROGRAMS[name] for name in r.sizes.programs]
    shown = [name.replace("_", " ") for name in r.sizes.programs]
    there = [name for name in r.cases if any(r.figures(name, p.name) for p in programs)]
    times = {TITLES[name]: [r.median(name, p.name) for p in programs] for name in there}
    taken = [[p.title, *(_cell(r, name, p.name) for name in there)] for p in programs]
    counts = {TITLES[name]: [count(p.file(name)) for p in programs] for name in SYSTEMS}
    lines = [[p.title, *map(str, row)] for p, *row in zip(programs, *counts.values(), strict=True)]
    lines.append(["together", *(f"**{sum(column)}**" for column in counts.values())])
    files = [[p.title, p.source, *(f"`{p.file(s).relative_to(_ROOT)}`" for s in SYSTEMS)]
             for p in programs]  # fmt: skip
    sources = [
        f"**{p.title}**\n\n```python\n{p.file('ours').read_text()}```\n\n"
        f"```scala\n{p.file('graphx').read_text()}```"
        for p in programs[:2]
    ]
    return [
        ("Time", "Median seconds of the whole call, (runs, least to greatest), and how many times "
         "ours. Ours includes its Spark job and the commit of the result to LMDB.",
         [bars("Seconds", "s", shown, times), Table(["program", *times], taken)]),
        ("Lines of code", "Lines that are not blank and not only comment, counted from the files "
         "below: imports and the call that runs the program are in, loading the graph is not.",
         [bars("Lines of code", "lines", shown, counts, log=False),
          Table(["program", *counts], lines)]),
        ("The programs", "\n\n".join(sources),
         [Table(["program", "as found in", *TITLES.values()], files)]),
    ]  # fmt: skip


def _cell(r: SuiteResults[Sizes], system: str, program: str) -> str:
    mine = None if system == "ours" else r.ratio(system, program, "ours")
    return r.spread(system, program) + (f" {cells.times(mine)}" if mine else "")


def _failed(r: SuiteResults[Sizes]) -> bool:
    ours = r.cases.get("ours")
    return bool(ours and ours.problem) or any(case.wrong for case in r.cases.values())


SUITE = CaseSuite(
    name="examples",
    about="Programs as GraphX and GraphFrames users write them with Pregel and aggregateMessages, "
    "beside the same programs here: lines of code, and time on the same cached graph.",
    sizes=Sizes, cases=dict.fromkeys(SYSTEMS, _measure), sections=_sections, notes=_notes,
    context=_started, failed=_failed, flag="systems", time_limit=900,
    prepare=lambda names, sizes, cache: graphs.of_scale(sizes.scale, cache),
    quick="--scale 12 --repeats 1 --systems ours,graphx "
    "--programs shortest_paths,older_followers,pagerank,components,two_hops",
)  # fmt: skip
