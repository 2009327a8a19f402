"""What preemption and the reuse of results save (figures 10 and 11 of the Domino paper)."""

from __future__ import annotations

import sys
from functools import partial
from typing import Any
from unittest.mock import patch

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.timing import timed
from benchmarks.triggers.programs import Additions, Sums
from benchmarks.triggers.ranks import check_ranks, rank_loop
from benchmarks.triggers.sizes import Sizes
from vertexsdk import TriggerLoop
from vertexsdk.program import trigger_program
from vertexsdk.program.trigger_program import CellRows

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
                took, _ = timed(partial(loop.upsert, "pages", **rows))
                check_ranks(loop, links)
                counts = loop.statistics().values()
            process.note(f"{degree} {schedule}", took)
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
