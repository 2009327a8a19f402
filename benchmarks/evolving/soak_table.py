"""What the soak found: whether memory is flat after the warm-up, as a document."""

from __future__ import annotations

import numpy as np

from benchmarks import cells
from benchmarks.document import Chart, Document, Section, Series, Table
from benchmarks.evolving.results import Results
from benchmarks.runner import CaseResult

WARM = 0.2  # of the changes; what is held until then is not judged
GROWTH = 0.05  # over the rest of the run: more than that is not flat
LEAST = 4  # points that make a line

_KINDS = {
    "driver own": "driver, without mapped files",
    "workers own": "Python workers, without mapped files",
    "shared": "graphs and state in shared memory",
    "all": "**all of these**",
    "jvm own": "**JVM**, without mapped files",
    "driver": "driver, resident",
    "jvm": "JVM, resident",
    "workers": "Python workers, resident",
    "heap": "JVM's heap, as its last collection left it",
}


def flat(found: CaseResult) -> bool:
    """Whether memory, after the warm-up, grew by less than `GROWTH` until the end: that of driver,
    workers and shared memory together; the JVM's; and what the JVM's heap has to keep."""
    lines = {kind: _line(found, kind) for kind in ("all", "jvm own", "heap")}
    if any(line is None for line in lines.values()):
        return False
    rise = {kind: line[2] * line[0] for kind, line in lines.items() if line}
    mean = {kind: line[0] for kind, line in lines.items() if line}
    return rise["all"] <= GROWTH * mean["all"] and (
        max(rise["jvm own"], rise["heap"]) <= GROWTH * mean["jvm own"]
    )


def document(r: Results, found: CaseResult) -> Document:
    """All that the soak says."""
    done = int(max(found.figures.get("done", [0])))
    queries = found.figures.get("query", [])
    checked = "the last answer was right" if found.of("checked") else "no answer was checked"
    about = (
        f"{found.edges:,} edges at first; {done:,} changes in batches of at most "
        f"{min(r.sizes.batch, r.sizes.every):,}, shortest paths kept up after each, "
        f"{len(queries)} queries; {checked}. {found.seconds:,.0f} s in all."
    )
    if found.problem:
        about = f"**Failed:** {found.problem}\n\n{about}"
    return Document(
        suite="soak",
        title=f"Soak: {r.sizes.total:,} changes of R-MAT {r.sizes.scale}",
        about=about,
        command=f"./dev {' '.join(r.command)}",
        machine=r.machine,
        settings=f"{r.sizes.cores} of {r.machine['cores']} cores used",
        warning=cells.disturbed(r.others(), "meanwhile"),
        sections=[_memory(found), _over_time(found)] if queries else [],
    )


def _points(found: CaseResult, kind: str) -> list[tuple[float, float]]:
    """(changes done, median bytes held while the next ones were taken in), in order."""
    if kind == "heap":
        return list(zip(found.figures["done"], found.figures["heap bytes"], strict=True))
    last = found.figures["done"][-1]  # then the answer is checked, and all of it ends
    looks: dict[float, list[float]] = {}
    for at, held in found.memory:
        if at >= last:
            continue
        own = ("driver own", "workers own", "shared")
        held_now = sum(held[k] for k in own) if kind == "all" else held[kind]
        looks.setdefault(at, []).append(held_now)
    return [(at, float(np.median(held))) for at, held in sorted(looks.items())]


def _line(found: CaseResult, kind: str) -> tuple[float, float, float] | None:
    """Mean bytes after the warm-up; bytes per change; growth to the end as a share of the mean."""
    points = _points(found, kind)
    kept = [p for p in points if points and p[0] >= WARM * points[-1][0]]
    if len(kept) < LEAST:
        return None
    at, held = np.array(kept).T
    slope = float(np.polyfit(at, held, 1)[0])
    mean = float(held.mean())
    return mean, slope, slope * float(at[-1] - at[0]) / mean if mean else 0.0


def _memory(found: CaseResult) -> Section:
    head = ["memory", "mean, MB", "slope, MB per million changes", "growth to the end"]
    rows = []
    for kind, title in _KINDS.items():
        line = _line(found, kind)
        if line is not None:
            mean, slope, growth = line
            rows.append([title, f"{mean / 1e6:,.0f}", f"{slope:,.2f}", f"{growth:+.1%}"])
    if not rows:
        return Section("Memory", "Too few looks at memory to judge it.")
    verdict = "flat" if flat(found) else "**not flat**"
    note = (
        f"After the first {WARM:.0%} of the changes, by least squares; "
        f"{verdict}: growth of the bold lines by at most {GROWTH:.0%} counts as flat. What the "
        "kernel can drop, as pages of the store's file, is only in the resident lines. The JVM has "
        "all of its heap from the start; what it needs of it must not grow either."
    )
    return Section("Memory", "", [Table(head, rows, note=note)])


def _over_time(found: CaseResult) -> Section:
    head = ["changes", "all of these, MB", "store on disk, MB", "query, s"]
    held = dict(_points(found, "all"))
    figures = (found.figures[name] for name in ("done", "state bytes", "query"))
    lines = list(zip(*figures, strict=True))
    lines = lines[:: max(1, len(lines) // 20)]
    megabytes = [held[done] / 1e6 if done in held else None for done, _, _ in lines]
    rows = [
        [f"{done:,.0f}", "–" if mb is None else f"{mb:,.0f}", f"{state / 1e6:,.0f}",
         cells.seconds(query)]
        for (done, state, query), mb in zip(lines, megabytes, strict=True)
    ]  # fmt: skip
    chart = Chart(
        "lines", "Memory while changes come in", "MB", [row[0] for row in rows],
        [Series("driver, workers and shared memory", megabytes),
         Series("store on disk", [state / 1e6 for _, state, _ in lines])],
        x=[done for done, _, _ in lines], x_title="changes",
    )  # fmt: skip
    return Section("Over time", "", [Table(head, rows), chart])
