"""What the suite found, as a document."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any

from benchmarks import cells
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.ported import lines
from benchmarks.ported.catalogue import HERE, PROGRAMS
from benchmarks.ported.sizes import Sizes
from benchmarks.ported.systems import SYSTEMS
from benchmarks.runner import CaseResult

_ROOT = HERE.parent.parent
TITLES = {name: system.title for name, system in SYSTEMS.items()}


def document(
    machine: Mapping[str, Any],
    command: Sequence[str],
    sizes: Sizes,
    cases: Mapping[str, CaseResult],
) -> Document:
    """The tables of lines and seconds, and the programs themselves."""
    others = max([0.0, *(case.others for case in cases.values())])
    missing = [f"- {TITLES[name]}: {case.problem}" for name, case in cases.items() if case.problem]
    return Document(
        suite="examples",
        title="Suite examples",
        about=(
            "Programs as GraphX and GraphFrames users write them with Pregel and "
            "aggregateMessages, beside the same programs here: lines of code, and time on the same "
            f"cached graph, R-MAT {sizes.scale}."
        ),
        command=" ".join(["./dev", *command]),
        machine=dict(machine),
        settings=f"{sizes.cores} of {machine['cores']} cores used",
        warning=cells.disturbed(others, "during a system's turn"),
        sections=[
            *([Section("Not measured", "\n".join(missing))] if missing else []),
            _seconds(sizes, cases),
            _lines(sizes),
            _programs(sizes),
        ],
        notes=_notes(),
    )


def _seconds(sizes: Sizes, cases: Mapping[str, CaseResult]) -> Section:
    there = [name for name, case in cases.items() if _times(case)]
    rows, series = [], {name: Series(TITLES[name], []) for name in there}
    for program in sizes.programs:
        found = {name: _times(cases[name]).get(program, []) for name in there}
        mine = statistics.median(found["ours"]) if found.get("ours") else None
        row = []
        for name in there:
            middle = statistics.median(found[name]) if found[name] else None
            row.append(_cell(found[name], None if name == "ours" else mine))
            series[name].values.append(middle)
        rows.append([PROGRAMS[program].title, *row])
    titles = [program.replace("_", " ") for program in sizes.programs]
    chart = Chart("bars", "Seconds", "s", titles, list(series.values()), log=True)
    text = (
        "Median seconds of the whole call, (runs, least to greatest), and how many times ours. "
        "Ours includes its Spark job and the commit of the result to LMDB."
    )
    head = ["program", *(TITLES[name] for name in there)]
    return Section("Time", text, [chart, Table(head, rows)])


def _times(case: CaseResult) -> Mapping[str, list[float]]:
    return {} if case.wrong else case.figures


def _cell(found: list[float], mine: float | None) -> str:
    ratio = f" {statistics.median(found) / mine:.3g}×" if found and mine else ""
    return cells.spread(found) + ratio


def _lines(sizes: Sizes) -> Section:
    rows, series = [], {name: Series(TITLES[name], []) for name in SYSTEMS}
    for program in sizes.programs:
        counts = {name: lines.count(PROGRAMS[program].file(name)) for name in SYSTEMS}
        rows.append([PROGRAMS[program].title, *(str(n) for n in counts.values())])
        for name, n in counts.items():
            series[name].values.append(float(n))
    sums = [f"**{sum(v or 0 for v in s.values):.0f}**" for s in series.values()]
    rows.append(["together", *sums])
    titles = [program.replace("_", " ") for program in sizes.programs]
    chart = Chart("bars", "Lines of code", "lines", titles, list(series.values()))
    text = (
        "Lines that are not blank and not only comment, counted from the files below: imports and "
        "the call that runs the program are in, loading the graph is not."
    )
    return Section("Lines of code", text, [chart, Table(["program", *TITLES.values()], rows)])


def _programs(sizes: Sizes) -> Section:
    rows = []
    for name in sizes.programs:
        program = PROGRAMS[name]
        paths = [f"`{program.file(system).relative_to(_ROOT)}`" for system in SYSTEMS]
        rows.append([program.title, program.source, *paths])
    table = Table(["program", "as found in", *TITLES.values()], rows)
    parts = [
        f"**{PROGRAMS[name].title}**\n\n"
        f"```python\n{PROGRAMS[name].file('ours').read_text()}```\n\n"
        f"```scala\n{PROGRAMS[name].file('graphx').read_text()}```"
        for name in sizes.programs[:2]
    ]
    return Section("The programs", "\n\n".join(parts), [table])


def _notes() -> list[str]:
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
