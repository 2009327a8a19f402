"""Suite ``triggers``: triggers on tables that change, beside batch jobs on all of them."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from scipy import sparse

from benchmarks import cells
from benchmarks.answers import Wrong
from benchmarks.document import lines
from benchmarks.peers import Unavailable
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.streaming.pathway import Pathway
from benchmarks.suite import CaseSuite, Part, Parts, filled, grouped
from benchmarks.targets import Target, median
from benchmarks.timing import timed
from benchmarks.triggers.pages import Pages, links, texts
from benchmarks.triggers.sizes import Sizes
from tests.triggers.programs import Rank, Words
from vertexsdk import (
    Algebra,
    Array,
    Mean,
    Sum,
    Table,
    TriggerLoop,
    Triggers,
    accumulate,
    on_change,
    session,
)
from vertexsdk.program import trigger_program
from vertexsdk.program.trigger_program import CellRows

DIMENSIONS = 50


class Plain(Triggers):
    """A table without triggers."""

    rows: Any = Table(key=int, value=float, other=float)


class Silent(Plain):
    """The same with a trigger, which watches a column that is not written to."""

    @on_change(Plain.rows, "other")
    def see(self, row: Any, old: Any) -> None:
        """Do nothing; inserted rows run it."""


class WriteCount(Plain):
    """The same with a "+1" for each write."""

    counts: Any = Table(key=int, count=int)

    @on_change(Plain.rows, "value")
    def add(self, row: Any, old: Any) -> None:
        """Count the write."""
        self.counts[row.key].count += 1


class Sums(Triggers):
    """Totals of partial results, as those of PageRank."""

    parts: Any = Table(id=int, total=int, value=float)
    totals: Any = Table(id=int, value=float)

    @on_change(parts, "value")
    def put(self, part: Any, old: Any) -> None:
        """Hand over a partial result."""
        self.sums[part.total][part.id] = part.value

    @accumulate(Sum(float), synchronous=True)
    def sums(self, id: int, total: float) -> None:
        """Set the total."""
        self.totals[id].value = total


def _plus(one: float, other: float) -> float:
    return one + other


def _minus(one: float) -> float:
    return -one


class Additions(Sums):
    """The same with the algebra of a user, one addition after the other."""

    @accumulate(Algebra(float, combine=_plus, identity=0.0, inverse=_minus), synchronous=True)
    def sums(self, id: int, total: float) -> None:
        """Set the total."""
        self.totals[id].value = total


class KMeans(Triggers):
    """`KMeans` of the tests with more dimensions, whose distances NumPy computes."""

    items: Any = Table(id=int, point=Array(float, size=DIMENSIONS), cluster=-1)
    centres: Any = Table(id=int, point=Array(float, size=DIMENSIONS), broadcast=True)

    @on_change(items, "point")
    def assign(self, item: Any, old: Any) -> None:
        """Put an item to its nearest centre."""
        near = nearest(item.point, self.centres)
        if near != item.cluster:
            self.members[item.cluster].discard(item.id)
            item.cluster = near
        self.members[near][item.id] = item.point

    @accumulate(Mean(float, size=DIMENSIONS), synchronous=True)
    def members(self, cluster: int, mean: Any) -> None:
        """Move a centre."""
        if cluster >= 0:
            self.centres[cluster].point = mean

    @on_change(centres, "point")
    def again(self, centre: Any, old: Any) -> None:
        """Have all items look for their centres."""
        self.activate(self.assign)


def nearest(point: Any, centres: Any) -> int:
    """Return the id of the centre that is nearest to a point; their ids are 0, 1, 2, ..."""
    return int(((centres.values("point") - point) ** 2).sum(axis=1).argmin())


def session_on(cores: int) -> Any:
    """Return a session on so many cores, with as many partitions after a shuffle."""
    return session(
        f"local[{cores}]",
        **{
            "spark.driver.memory": "6g", "spark.sql.shuffle.partitions": str(cores),
            "spark.sql.adaptive.enabled": "false",
        },
    )  # fmt: skip


def in_memory(spark: Any, table: Any, key: str) -> Any:
    """Return an Arrow table as a DataFrame in memory, its rows divided by a column."""
    frame = spark.createDataFrame(table).repartition(spark.sparkContext.defaultParallelism, key)
    frame = frame.cache()
    frame.count()
    return frame


KINDS = {"none": Plain, "silent": Silent, "+1": WriteCount}  # by what the triggers do


def writes(process: CaseProcess, sizes: Sizes, backend: str = "lmdb://{scratch}/state") -> None:
    """Loops take turns; note rows per second of each, and beside those without triggers."""
    url = backend.format(scratch=process.scratch)
    loops = {name: TriggerLoop(cls, backend=url) for name, cls in KINDS.items()}
    keys = np.random.default_rng(9).permutation(sizes.rows)
    for loop in loops.values():
        loop.upsert("rows", key=keys, value=np.zeros(len(keys)))
    for turn in range(1, sizes.pairs + 1):
        values = np.full(len(keys), float(turn))
        took = {}
        for name in list(loops)[:: 1 if turn % 2 else -1]:
            upsert = partial(loops[name].upsert, "rows", key=keys, value=values)
            took[name], _ = timed(upsert)
            process.note(name, len(keys) / took[name])
        for name in loops:
            process.note(f"{name} kept", took["none"] / took[name])
    runs = [loops[name].statistics() for name in loops]
    expected = [{}, {"Silent.see": len(keys)}, {"WriteCount.add": (sizes.pairs + 1) * len(keys)}]
    if [{t: n["runs"] for t, n in one.items()} for one in runs] != expected:
        raise Wrong(f"triggers ran {runs}")
    for loop in loops.values():
        if loop.read("rows")["value"].to_numpy().tolist() != values.tolist():
            raise Wrong("values are not those that were written")
    counts = loops["+1"].read("counts")["count"].to_pylist()
    if counts != [sizes.pairs + 1] * len(keys):
        raise Wrong("counts of writes differ")
    for loop in loops.values():
        loop.close()


_ROOT = Path(__file__).parent.parent.parent


def words(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds until all counts are those of the pages as they are now."""
    pages = Pages(sizes.texts, texts)
    with TriggerLoop(Words, backend=f"lmdb://{process.scratch}/state") as loop:
        process.timed("all pages", partial(loop.upsert, "pages", url=pages.urls, text=pages.values))
        for percent, (urls, values) in pages.changes(sizes):
            took, _ = timed(partial(loop.upsert, "pages", url=urls, text=values))
            rows = loop.read("words")
            counts = zip(*(rows[name].to_pylist() for name in ("word", "count")), strict=True)
            check_words(dict(counts), pages.values)
            process.note(f"{percent:g}", took)


def check_words(counts: Mapping[str, int], values: Iterable[str]) -> None:
    """Compare the counts of words with those of texts.

    Raises:
        Wrong: they differ.
    """
    if counts != Counter(word for text in values for word in text.split()):
        raise Wrong("counts of words differ")


def words_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds of a DataFrame job on all pages, which are in memory; it keeps no result."""
    from pyspark.sql import functions as f

    spark, pages = session_on(sizes.cores), Pages(sizes.texts, texts)
    for turn in range(1 + sizes.turns):
        frame = in_memory(spark, pa.table({"url": pages.urls, "text": pages.values}), "url")
        word = f.explode(f.split("text", " ")).alias("word")
        counts = frame.select(word).groupBy("word").count()
        job = counts.write.format("noop").mode("overwrite").save
        process.timed("batch" if turn else "", job)  # the first one compiles
        check_words(dict(map(tuple, counts.collect())), pages.values)
        frame.unpersist()
        pages.change(1.0)


def words_by_pathway(process: CaseProcess, sizes: Sizes) -> None:
    """The same changes as ours in the environment of Pathway, which keeps nothing."""
    pathway = Pathway()
    try:
        pathway.start(process.cache)
    except Unavailable:
        process.note("not installed", 1)
        return
    done = subprocess.run(
        [pathway.python, "-m", "benchmarks.triggers.pathway_words"],
        cwd=_ROOT,
        env={**os.environ, "PATHWAY_THREADS": str(sizes.cores), "PATHWAY_PROCESSES": "1"},
        input=json.dumps(asdict(sizes)), capture_output=True, text=True,
    )  # fmt: skip
    if done.returncode:
        raise RuntimeError(f"Pathway: {' '.join(done.stderr.split())[-200:]}")
    for line in done.stdout.splitlines():
        told = json.loads(line)
        if not told["right"]:
            raise Wrong("counts of words differ")
        process.note(told["name"], told["seconds"])


TOLERANCE = 1e-3  # of ranks, whose mean is 1


_DAMPING = 0.85


Graph = Mapping[str, Sequence[str]]  # the links of each page


def rank_loop(process: CaseProcess, **options: Any) -> TriggerLoop:
    """Return a loop that ranks pages."""
    url = f"lmdb://{process.scratch}/state"
    return TriggerLoop(Rank(tolerance=TOLERANCE), backend=url, replace=True, **options)


def ranks(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds until all ranks are those of the pages as they are now."""
    pages = Pages(sizes.pages, links)
    with rank_loop(process) as loop:
        first = partial(loop.upsert, "pages", url=pages.urls, links=pages.values)
        process.timed("all pages", first)
        for percent, (urls, values) in pages.changes(sizes):
            took, _ = timed(partial(loop.upsert, "pages", url=urls, links=values))
            check_ranks(loop, pages.graph())
            process.note(f"{percent:g}", took)


def check_ranks(loop: TriggerLoop, graph: Graph) -> None:
    """Compare the ranks of a loop with those of a graph.

    Raises:
        Wrong: they are farther from them than the tolerance allows.
    """
    rows = loop.read("pages")
    _compare(dict(zip(*(rows[name].to_pylist() for name in ("url", "rank")), strict=True)), graph)


def _compare(ranks: Mapping[str, float], graph: Graph) -> None:
    exact, _ = _ranks_of(graph, 1e-12)
    if ranks.keys() != graph.keys():
        raise Wrong(f"{len(ranks):,} pages have ranks, of {len(graph):,}")
    error = np.abs(exact - [ranks[url] for url in graph]).sum()
    if not error <= len(exact) * TOLERANCE * _DAMPING / (1 - _DAMPING):
        raise Wrong(f"the L1 error of ranks is {error:.3g}")


def _ranks_of(graph: Graph, tolerance: float) -> tuple[Any, int]:
    """Return the ranks by NumPy, and after how many iterations none changed by the tolerance."""
    places = {url: k for k, url in enumerate(graph)}
    rows = [places[link] for own in graph.values() for link in own]
    counts = np.array([len(own) for own in graph.values()])
    columns = np.repeat(np.arange(len(counts)), counts)
    shares = sparse.csr_array(
        (_DAMPING / counts[columns], (rows, columns)), shape=(len(counts), len(counts))
    )
    ranks, iterations, change = np.ones(len(counts)), 0, np.inf
    while change > tolerance:
        last, ranks = ranks, 1 - _DAMPING + shares @ ranks
        change, iterations = np.abs(ranks - last).max(), iterations + 1
    return ranks, iterations


def ranks_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds of as many iterations on all pages as the tolerance needs."""
    from pyspark.sql import functions as f

    spark, pages = session_on(sizes.cores), Pages(sizes.pages, links)
    rank = f.lit(1 - _DAMPING) + f.sum(f.col("rank") * f.col("share"))
    for turn in range(1 + sizes.turns):
        graph = pages.graph()
        rows = [(u, v, _DAMPING / len(own)) for u, own in graph.items() for v in own]
        rows += [(u, u, 0.0) for u in graph]  # for the sum of a page without links to it
        columns = dict(zip(("url", "link", "share"), zip(*rows, strict=True), strict=True))
        edges = in_memory(spark, pa.table(columns), "url")
        start = in_memory(spark, pa.table({"url": pages.urls, "rank": [1.0] * len(graph)}), "url")
        _, iterations = _ranks_of(graph, TOLERANCE)

        def job(edges: Any = edges, ranks: Any = start, iterations: int = iterations) -> Any:
            for _ in range(iterations):
                sums = edges.join(ranks, "url").groupBy("link").agg(rank.alias("rank"))
                ranks = sums.withColumnRenamed("link", "url").localCheckpoint()
            return ranks

        frame = process.timed("batch" if turn else "", job)  # the first one compiles
        _compare(dict(map(tuple, frame.collect())), graph)
        if turn:
            process.note("iterations", iterations)
        for each in (edges, start):
            each.unpersist()
        pages.change(1.0)


_SPREAD = 0.6  # of the centres of the items, where that of items around them is 1


Points = NDArray[np.float64]


Beside = Callable[[CaseProcess, Sizes, Points, Points, int], Points]
"""Notes the seconds of another system; takes all items, first centres and iterations."""


def by_mllib(
    process: CaseProcess, sizes: Sizes, points: Points, start: Points, iterations: int
) -> Points:
    """Note the seconds of MLlib, whose items are in memory; return its centres."""
    from pyspark.mllib.clustering import KMeans as MeansOfMLlib
    from pyspark.mllib.clustering import KMeansModel
    from pyspark.mllib.linalg import Vectors

    context = session_on(sizes.cores).sparkContext
    rows = context.parallelize(points, sizes.cores).map(Vectors.dense).cache()
    rows.count()
    options = {"initialModel": KMeansModel(list(start)), "epsilon": 0.0}
    for turn in range(1 + sizes.turns):
        train = partial(MeansOfMLlib.train, rows, len(start), iterations, **options)
        model = process.timed(f"mllib {len(points)}" if turn else "", train)  # the first compiles
    rows.unpersist()
    return np.array(model.clusterCenters)


def clustering(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
    """Add items; note seconds until no item changes its cluster, and how many iterations."""
    points = _clouds(max(sizes.items), sizes.clusters)
    with TriggerLoop(KMeans, backend=f"lmdb://{process.scratch}/state") as loop:
        loop.upsert("centres", id=range(sizes.clusters), point=points[: sizes.clusters])
        first = runs = 0
        for last in sizes.items:
            start = _centres(loop)
            ids = range(first, last)
            new = points[first:last]
            process.timed(f"{last}", partial(loop.upsert, "items", id=ids, point=new))
            before, runs = runs, loop.statistics()["KMeans.assign"]["runs"]
            iterations = 1 + (runs - before - len(ids)) // last
            process.note(f"{last} iterations", iterations)
            centres = beside(process, sizes, points[:last], start, iterations)
            if not np.allclose(_centres(loop), centres, rtol=1e-6, atol=1e-9):
                raise Wrong(f"the centres of {last:,} items differ")
            first = last


def _centres(loop: TriggerLoop) -> Points:
    return np.array(loop.read("centres")["point"].to_pylist())


def _clouds(count: int, clusters: int) -> Points:
    """Draw items around as many centres, one after the other of each."""
    rng = np.random.default_rng(14)
    centres = _SPREAD * rng.normal(size=(clusters, DIMENSIONS))
    points: Points = centres[np.arange(count) % clusters] + rng.normal(size=(count, DIMENSIONS))
    return points


SCHEDULES = ("rounds", "every")


ALGEBRAS = {"Sum(float)": Sums, "one addition after the other": Additions}


REUSE = {"with": trigger_program._FEW_CELLS, "without": sys.maxsize}  # cells totalled at once


_WARM, _CHANGES = 2, 10  # of each total; of these in a turn


def preemption(process: CaseProcess, sizes: Sizes) -> None:
    """Rank pages with so many links into each; note events, runs and seconds by schedule."""
    for degree in sizes.degrees:
        links = _links_into(sizes.graph, degree)
        for schedule in SCHEDULES:
            with rank_loop(process, schedule=schedule) as loop:
                rows = {"url": list(links), "links": list(links.values())}
                process.timed(f"{degree} {schedule}", partial(loop.upsert, "pages", **rows))
                check_ranks(loop, links)
                counts = loop.statistics().values()
            for what in ("events", "runs"):
                process.note(f"{degree} {schedule} {what}", sum(one[what] for one in counts))


def _links_into(pages: int, degree: int) -> dict[str, list[str]]:
    """Draw a graph: the links of each page, of which so many lead to every page."""
    rng = np.random.default_rng(10)
    links: dict[str, list[str]] = {f"page{k}": [] for k in range(pages)}
    urls = list(links)
    for url in urls:
        for k in rng.choice(pages, min(degree, pages), replace=False).tolist():
            links[urls[k]].append(url)
    return links


def reuse(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds of a write that leads to an accumulation, and of the accumulation in it."""
    for partials in sizes.partials:
        for name, cls in ALGEBRAS.items():
            for how, few in REUSE.items():
                with patch.object(trigger_program, "_FEW_CELLS", few):
                    _one_of_many(process, sizes, cls, partials, f"{partials} {name} {how}")


def _one_of_many(process: CaseProcess, sizes: Sizes, cls: type, partials: int, figure: str) -> None:
    """Change one partial result of every total, again and again."""
    ids = np.arange(sizes.totals * partials)
    values = (ids % 7).astype(float)  # whose sums are exact in whichever order
    spent = 0.0
    plain = CellRows.total

    def total(state: CellRows, key: str) -> Any:
        nonlocal spent
        took, result = timed(lambda: plain(state, key))
        spent += took
        return result

    with TriggerLoop(cls, backend=f"memory://{figure}") as loop:
        loop.upsert("parts", id=ids, total=ids % sizes.totals, value=values)
        with patch.object(CellRows, "total", total):
            for turn in range(_WARM + sizes.turns * _CHANGES):
                chosen = ids[turn % partials * sizes.totals :][: sizes.totals]
                values[chosen] += 1
                spent = 0.0
                took, _ = timed(partial(loop.upsert, "parts", id=chosen, value=values[chosen]))
                if turn >= _WARM:
                    process.note(figure, took / sizes.totals)
                    process.note(f"{figure} accumulation", spent / sizes.totals)
        totals = values.reshape(partials, sizes.totals).sum(axis=0)
        if loop.read("totals")["value"].to_pylist() != totals.tolist():
            raise Wrong("totals differ")


CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "writes-memory": partial(writes, backend="memory://bench"),
    "writes-lmdb": writes,
    "preemption": preemption,
    "reuse": reuse,
    "words-ours": words,
    "words-spark": words_by_spark,
    "words-pathway": words_by_pathway,
    "pagerank-ours": ranks,
    "pagerank-spark": ranks_by_spark,
    "clustering": clustering,
}


STORES = {"writes-memory": "memory", "writes-lmdb": "LMDB"}


BATCH_JOBS = {"words": "word count", "pagerank": "PageRank"}


_AIM = 1.0  # percent of the pages that change


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def faster(self, part: str, percent: float) -> float | None:
        """How many times as fast as the batch job, if so much changes."""
        return self.ratio(f"{part}-spark", "batch", f"{part}-ours", f"{percent:g}")

    def crossover(self, part: str) -> str:
        """The percent of changes from which on the batch job is faster, in words."""
        measured = [(p, self.faster(part, p)) for p in self.sizes.shares]
        there = [(p, ratio) for p, ratio in measured if ratio is not None]
        if not there:
            return "–"
        slower = next((k for k, (_, ratio) in enumerate(there) if ratio < 1), None)
        if slower is None:
            return f"above {there[-1][0]:g} %"
        if not slower:
            return f"below {there[0][0]:g} %"
        (low, above), (high, below) = there[slower - 1 : slower + 1]
        part_of_way = math.log(above) / math.log(above / below)  # straight, by logarithms of both
        return f"{low * (high / low) ** part_of_way:.2g} %"

    def clustering(self) -> float | None:
        """MLlib's seconds to ours, the least of all numbers of items; None where one is missing."""
        ratios = [
            self.ratio("clustering", f"mllib {n}", "clustering", f"{n}") for n in self.sizes.items
        ]
        there = [ratio for ratio in ratios if ratio is not None]
        return min(there) if len(there) == len(ratios) else None


def _targets() -> Iterator[Target[Results]]:
    for case, store in STORES.items():
        for kind, what, bound in (
            ("silent", "a trigger that does not run", 0.97), ("+1", "a +1 for each", 0.88)
        ):  # fmt: skip
            title = f"writes with {what}, {store}"
            yield Target(title, median(case, f"{kind} kept"), bound, "×", True, "no triggers")
    for part, title in BATCH_JOBS.items():
        measure = partial(Results.faster, part=part, percent=_AIM)
        yield Target(f"{title}, {_AIM:g} % changes", measure, 20.0, "×", True, "Spark")
    title = "clustering, least of all numbers of items"
    yield Target(title, Results.clustering, 1.0, "×", True, "MLlib")


def _shown(r: Results) -> Iterator[list[str]]:
    for part, title in BATCH_JOBS.items():
        if (where := r.crossover(part)) != "–":
            yield [f"{title}: the batch job is faster from", "Spark", where, "–", "shown"]
    title = f"{BATCH_JOBS['words']}, {_AIM:g} % changes"
    if r.figures("words-pathway", "not installed"):
        yield [title, "Pathway", "not installed", "–", "shown"]
    elif value := r.ratio("words-pathway", f"{_AIM:g}", "words-ours"):
        yield [title, "Pathway", cells.times(value), "–", "shown"]


def _notes(r: Results) -> list[str]:
    s = r.sizes
    return [
        "Ours is in this process, one partition, interpreted, its log in LMDB unless a row says "
        "otherwise. Medians.",
        f"Writes: all {s.rows:,} rows in one `upsert`, by loops that take turns, {s.pairs} times "
        "each. *Kept* is the median of the ratios of one turn.",
        f"Preemption: PageRank of {s.graph:,} pages from nothing, with as many links into each. "
        'With `schedule="every"` triggers run for each event, also where a later one makes it '
        "redundant.",
        f"Reuse: one partial result of each of {s.totals:,} totals changes. *The write* is all of "
        "`upsert`, divided by the totals; *accumulation* is what the accumulator takes of that. "
        "*One addition after the other* is an `Algebra` of a user with an inverse.",
        f"Word count: {s.texts:,} pages of 50 words, of 20,000 by Zipf's law, some of which have "
        f"other texts. The batch job is a DataFrame on local[{s.cores}], with all pages in memory; "
        "what it counts is not kept.",
        f"PageRank: {s.pages:,} pages with ten links each, some of which have other ones, until "
        f"no rank changes by {TOLERANCE:g} (their mean is 1). The batch job joins and aggregates "
        f"DataFrames that are in memory on local[{s.cores}], begins with 1 everywhere, and is told "
        "how many iterations that takes.",
        "*The batch job is faster from*: where a line through the two neighbours, both axes "
        "logarithmic, meets it.",
        f"Clustering: {DIMENSIONS} dimensions, {s.clusters} clusters; items are added until there "
        "are so many, then no item changes its cluster any more. MLlib begins with all items in "
        f"memory on local[{s.cores}], from the same centres, and has as many iterations.",
        "All counts equal those of Python, and centres those of MLlib; the L1 error of ranks is "
        "what the tolerance allows, on both sides.",
    ]  # fmt: skip


_KINDS = {"none": "no trigger", "silent": "one that does not run", "+1": "a +1 for each write"}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Writes", [_writes(r)]),
        ("Preemption", [_preemption(r)]),
        ("Reuse of results", [_reuse(r)]),
        *((title[0].upper() + title[1:], [_changes(r, part), _chart(r, part, title)])
          for part, title in BATCH_JOBS.items()),
        ("Clustering", [_clusters(r)]),
    ]  # fmt: skip


def _writes(r: Results) -> Part:
    return filled(["", "trigger", "rows/s", "kept"], (
        [
            store, _KINDS[kind], r.number(case, kind), cells.times(r.median(case, f"{kind} kept")),
        ]
        for case, store in STORES.items() for kind in KINDS
    ), 2)  # fmt: skip


def _preemption(r: Results) -> Part:
    case = "preemption"
    return filled(["links into a page", "schedule", "events", "runs", "seconds"], (
        [
            f"{degree}", schedule, r.number(case, f"{degree} {schedule} events"),
            r.number(case, f"{degree} {schedule} runs"), r.seconds(case, f"{degree} {schedule}"),
        ]
        for degree in r.sizes.degrees for schedule in SCHEDULES
    ), 2)  # fmt: skip


def _reuse(r: Results) -> Part:
    rows = []
    for algebra in ALGEBRAS:
        for partials in r.sizes.partials:
            row = [algebra, f"{partials:,}"]
            for what in ("", " accumulation"):
                both = [f"{partials} {algebra} {how}{what}" for how in ("with", "without")]
                row += [_micro(r.median("reuse", figure)) for figure in both]
                row.append(r.times("reuse", both[1], "reuse", both[0]))
            rows.append(row)
    head = ["algebra", "partial results", "the write, µs", "without reuse", "without / with"]
    return filled([*head, "accumulation, µs", "without reuse", "without / with"], rows, 2)


def _micro(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e6 * seconds:.1f}"


def _changes(r: Results, part: str) -> Part:
    ours, spark = f"{part}-ours", f"{part}-spark"
    pathway = bool(part == "words" and r.figures("words-pathway", f"{r.sizes.shares[0]:g}"))
    head = ["changes", "ours", "Spark, everything", "Spark / ours", *["Pathway"] * pathway]
    return filled(head, (
        [
            "all pages, new" if share == "all pages" else f"{share} %", r.spread(ours, share),
            r.seconds(spark, "batch"), r.times(spark, "batch", ours, share),
            *([r.middle("words-pathway", share)] if pathway else []),
        ]
        for share in (*(f"{percent:g}" for percent in r.sizes.shares), "all pages")
    ))  # fmt: skip


def _chart(r: Results, part: str, title: str) -> Part:
    shares = r.sizes.shares
    if len(shares) < 2:
        return None
    names = [f"{share:g}" for share in shares]
    series = {
        "ours": [r.median(f"{part}-ours", name) for name in names],
        "Spark": [r.median(f"{part}-spark", "batch")] * len(names),
    }
    title = f"Until the results are there, {title}"
    return lines(title, "s", shares, names, "percent of the pages", series)


def _clusters(r: Results) -> Part:
    case = "clustering"
    return filled(["items", "iterations", "ours", "MLlib", "MLlib / ours"], (
        [
            f"{n:,}", r.number(case, f"{n} iterations"), r.seconds(case, f"{n}"),
            r.seconds(case, f"mllib {n}"), r.times(case, f"mllib {n}", case, f"{n}"),
        ]
        for n in r.sizes.items
    ))  # fmt: skip


SUITE = CaseSuite(
    name="triggers",
    title="Suite triggers: programs over tables that change",
    about="What triggers cost, and how soon their results are those of what has changed, beside "
    "batch jobs on everything.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes, shown=_shown,
    targets=tuple(_targets()), stem=lambda s: f"triggers-{s.texts}", time_limit=3600,
    stated=("rows", "texts", "pages", "items", "clusters"),
    groups=grouped(CASES, "writes", "words", "pagerank"),
    quick="--rows 5000 --pairs 3 --graph 60 --degrees 5,10 --partials 100,800 --totals 20 "
    "--texts 5000 --pages 500 --shares 0.1,1,10 --items 500,1000 --clusters 20 --turns 1",
)  # about two minutes  # fmt: skip
