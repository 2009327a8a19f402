"""Runs the systems for changing graphs beside our cases, each at the largest size it finishes."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from benchmarks import streaming
from benchmarks.evolving.cases import stream_of
from benchmarks.evolving.sizes import Sizes
from benchmarks.peers import Unavailable
from benchmarks.processes import Limits
from benchmarks.runner import CaseResult, run_case
from benchmarks.streaming import Streamer, run
from benchmarks.streaming.plan import Plan, queries, shares

MODULE = "benchmarks.suites.evolving"
CASES = ("a-shortest_paths", "a-components", "b-pagerank", "c-shortest_paths", "c-pagerank")
_GROWTH = 3.0  # a size of which the next, four times as large, would not finish is the last


@dataclass(slots=True)
class Beside:
    """What is known of one system: by graph, what each case found there.

    ``untried``: for a case, why no larger graph was tried.
    """

    title: str
    about: str
    versions: dict[str, str] = field(default_factory=dict)
    unavailable: str | None = None
    tried: dict[str, dict[str, CaseResult]] = field(default_factory=dict)
    untried: dict[str, str] = field(default_factory=dict)

    def best(self, case: str) -> str | None:
        """The last graph on which the case ended well."""
        well = [g for g, cases in self.tried.items() if case in cases and not cases[case].problem]
        return well[-1] if well else None


@dataclass(frozen=True, slots=True)
class Setting:
    """What all runs of this kind share."""

    sizes: Sizes
    cache: Path
    scratch: Path
    limits: Limits
    say: Callable[[str], None]


def graph_name(sizes: Sizes) -> str:
    """As the tables call it."""
    return Path(sizes.edges_file).name if sizes.edges_file else f"R-MAT {sizes.scale}"


def streamed(
    name: str, cases: Iterable[str], scales: Sequence[int] | None, setting: Setting
) -> Beside:
    """Each case on larger and larger graphs, until one is not finished."""
    system = streaming.streamer(name)
    found = Beside(system.title, system.about)
    try:
        found.versions = system.start(setting.cache)
    except Unavailable as reason:
        found.unavailable = " ".join(str(reason).split())
        setting.say(f"{system.title}: not available: {found.unavailable}")
        return found
    for case in cases:
        if case in CASES and case.split("-")[1] in system.programs:
            _climb(system, case, scales or system.scales, setting, found)
    return found


def _climb(
    system: Streamer, case: str, scales: Sequence[int], setting: Setting, found: Beside
) -> None:
    sizes = setting.sizes
    every = [sizes] if sizes.edges_file else [replace(sizes, scale=s) for s in scales]
    every = [one for one in every if one.scale <= sizes.scale] or [sizes]
    for one in every:
        graph = graph_name(one)
        setting.say(f"{system.title}: {case} on {graph}")
        folder = setting.scratch / f"{type(system).__name__}-{case}-{one.scale}"
        stream = stream_of(one, setting.cache, folder)
        edges = stream.edges
        steps = shares(one, edges) if case[0] == "c" else queries(one)
        plan = Plan(stream, steps, folder / "plan")
        ended = run.run(
            system, case, plan, one.cores, one.seconds, folder, setting.limits, setting.say
        )
        ended.edges, ended.origin = edges, plan.origin
        shutil.rmtree(folder)
        found.tried.setdefault(graph, {})[case] = ended
        if ended.problem:
            return
        if one is not every[-1] and ended.seconds * _GROWTH > setting.limits.seconds:
            found.untried[case] = (
                f"no larger graph was tried: {graph} took {ended.seconds:.0f} s of the "
                f"{setting.limits.seconds:.0f} s allowed"
            )
            return


def ours_there(found: Iterable[Beside], setting: Setting) -> dict[str, dict[str, CaseResult]]:
    """Our own cases on the graphs that the systems finished, other than the suite's own."""
    wanted: dict[str, list[str]] = {}
    for one in found:
        for case in CASES:
            graph = one.best(case)
            if graph and graph != graph_name(setting.sizes):
                also = [f"{case}-batch"] if case[0] == "c" else []
                ingest = ["d-shortest_paths"] if case == "c-shortest_paths" else []
                wanted.setdefault(graph, []).extend([case, *also, *ingest])
    answers: dict[str, dict[str, CaseResult]] = {}
    for graph, cases in wanted.items():
        sizes = replace(setting.sizes, scale=int(graph.split()[-1]))
        edges = stream_of(sizes, setting.cache, setting.scratch).edges
        sizes = replace(sizes, batch=sizes.pieces(edges))
        for case in dict.fromkeys(cases):
            folder = setting.scratch / f"ours-{sizes.scale}-{case}"
            answers.setdefault(graph, {})[case] = run_case(
                MODULE, case, sizes, setting.cache, folder, setting.limits, setting.say
            )
            shutil.rmtree(folder)
    return answers
