"""Suite ``snapshots``: what snapshots cost a main loop, and how fast it is back after a loss."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks import cells
from benchmarks.case_process import CaseProcess
from benchmarks.document import Chart, Series, Table
from benchmarks.runner import SuiteResults
from benchmarks.snapshots import losses
from benchmarks.snapshots.day import MOMENTS, day
from benchmarks.snapshots.intervals import AIM, KINDS, intervals
from benchmarks.snapshots.pauses import pauses
from benchmarks.snapshots.restoring import AFTER, BEFORE, restoring
from benchmarks.snapshots.sizes import Sizes
from benchmarks.suite import CaseSuite, Parts, filled
from benchmarks.targets import Target, median, ratio

CASES: dict[str, Callable[[CaseProcess, Sizes], None]] = {
    "intervals-2": partial(intervals, 2, True),
    "intervals-4": partial(intervals, 4, True),
    "intervals-inprocess": partial(intervals, 2, False),
    "pause-1": partial(pauses, 1),
    "pause-2": partial(pauses, 2),
    "restore": restoring,
    "loss": losses.losses,
    "day": day,
}


_LEAST = 20  # pauses, for a 99th percentile to be judged


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def kept(self, case: str, kind: str, every: float) -> float | None:
        """The share of the throughput without snapshots; None where either is missing."""
        return self.ratio(case, f"{kind} {every:g}", case, f"none {every:g}")


def _pause(case: str, r: Results) -> float | None:
    name = "100 MB 1 % pause"
    if len(r.figures(case, name)) < _LEAST:
        return None
    seconds = r.percentile(case, name, 99)
    return None if seconds is None else 1e3 * seconds


def _targets() -> Iterator[Target[Results]]:
    for count in (2, 4):
        title = f"throughput with asynchronous snapshots every {AIM:g} s / none, {count} processors"
        kept = partial(Results.kept, case=f"intervals-{count}", kind="asynchronous", every=AIM)
        yield Target(title, kept, 0.97, "×", True)
    for count in (1, 2):
        title = f"pause by a snapshot, 99 %, 100 MB, 1 % of the rows, {count} partitions"
        yield Target(title, partial(_pause, f"pause-{count}"), 5.0, "ms")
    yield Target("a state restored by 2 from 2", median("restore", "2 to 2"), 3.0, "s")
    faster = ratio("restore", "1 to 1", other="2 to 2")
    yield Target("a state restored by 1 from 1 / by 2 from 2", faster, 1.6, "×", True)
    answered = median("loss", "answered")
    yield Target("the next answer after a processor is killed", answered, 5.0, "s")
    grown = ratio("day", "bytes 100", other="bytes 10")
    yield Target("bytes on disk after a day / after a tenth of it", grown, 2.0)


def _throughput_chart(r: Results, case: str, title: str) -> list[Chart]:
    """Bars for each interval, a series for each kind of snapshot."""
    names = [f"{every:g}" for every in r.sizes.intervals]
    series = [Series(kind, [r.median(case, f"{kind} {name}") for name in names]) for kind in KINDS]
    if all(value is None for one in series for value in one.values):
        return []
    categories = [f"every {name} s" for name in names]
    return [Chart("bars", f"Changes per second, {title}", "changes/s", categories, series)]


def _loss_chart(r: Results) -> list[Chart]:
    """A line of changes per second over the seconds around a loss."""
    bars = range(round((losses.BEFORE + losses.AFTER) / losses.WIDTH))
    values = [r.median("loss", f"rate {number}") for number in bars]
    if all(value is None for value in values):
        return []
    at = [number * losses.WIDTH - losses.BEFORE for number in bars]
    names = [f"{second:g}" for second in at]
    title = "Changes per second around the loss of a processor"
    series = [Series("ours", values)]
    return [Chart("lines", title, "changes/s", names, series, x=at, x_title="seconds since")]


_PLACES = {
    "intervals-2": "2 processors",
    "intervals-4": "4 processors",
    "intervals-inprocess": "2 partitions in process",
}


def _sections(r: Results) -> list[tuple[str, Parts]]:
    return [
        ("Throughput by interval", [x for case in _PLACES for x in _throughput(r, case)]),
        ("Pauses", [_pauses(r)]),
        ("Restoring", [_restored(r)]),
        ("A processor is lost", [_lost(r), *_loss_chart(r)]),
        ("A day of snapshots", [_day(r)]),
    ]


def _notes(r: Results) -> list[str]:
    return [
        f"Throughput: R-MAT {r.sizes.scale} without parallel edges, shortest paths, a query after "
        f"each batch of {r.sizes.batch:,} changes, LMDB. Loops of the same graph take turns in one "
        "process; *none* never stores its graph either, which a loop does by default when its "
        "change log is long. The answer of each loop at the end equals one from scratch.",
        "Pauses: a program with 16 fields, 128 bytes for each vertex, in process; between two "
        "snapshots so many percent of the vertices get another state. The pause is that of the "
        "partition that stood still longest.",
        "Restoring: from the call of `MainLoop.resume` to the exact answer of the first query; "
        "the same program, the state alone is so large.",
        "A loss: SIGKILL to the process of one partition of two, snapshots every second; seconds "
        "from the kill to the first answer to a query that was asked after it.",
        "A day: a graph of 4,000 edges, one change and one synchronous snapshot after the other.",
    ]


def _throughput(r: Results, case: str) -> list[Table | Chart | None]:
    rows = []
    for every in r.sizes.intervals:
        for kind in KINDS:
            name = f"{kind} {every:g}"
            if r.figures(case, name):
                pause, seconds, size = (
                    r.median(case, f"{name} {what}") for what in ("pause", "seconds", "bytes")
                )
                rows.append([
                    f"{every:g} s", kind, cells.number(r.median(case, name)),
                    cells.times(r.kept(case, kind, every)), _milliseconds(pause),
                    cells.seconds(seconds), _megabytes(size),
                ])  # fmt: skip
    head = ["interval", "snapshots", "changes/s", "/ none", "pause, ms", "stored in, s", "MB"]
    return [filled(head, rows, 2, _PLACES[case]), *_throughput_chart(r, case, _PLACES[case])]


def _pauses(r: Results) -> Table | None:
    rows = []
    for case, partitions in (("pause-1", "1"), ("pause-2", "2")):
        for megabytes in r.sizes.states:
            for percent in r.sizes.shares:
                name = f"{megabytes} MB {percent} %"
                pauses = r.figures(case, f"{name} pause")
                if pauses:
                    middle, most = (r.percentile(case, f"{name} pause", p) for p in (50, 99))
                    rows.append([
                        f"{megabytes} MB", partitions, f"{percent} %", str(len(pauses)),
                        _milliseconds(middle), _milliseconds(most),
                        cells.seconds(r.median(case, f"{name} stored")),
                        _megabytes(r.median(case, f"{name} bytes")),
                        cells.seconds(r.median(case, f"{name} ingest")),
                    ])  # fmt: skip
    head = [
        "state", "partitions", "rows changed", "snapshots", "pause, ms: median", "99 %",
        "stored in, s", "MB stored", "ingest, s",
    ]  # fmt: skip
    return filled(head, rows, 3)


def _restored(r: Results) -> Table | None:
    rows = [
        [
            str(before), str(after), cells.spread(figures),
            cells.seconds(r.median("restore", f"{before} to {after} resume")),
            _megabytes(r.median("restore", f"bytes {before}")),
        ]
        for before in BEFORE
        for after in AFTER
        if (figures := r.figures("restore", f"{before} to {after}"))
    ]  # fmt: skip
    return filled(["from", "to", "first answer, s", "of it resume", "MB of the snapshot"], rows, 2)


def _lost(r: Results) -> Table | None:
    rows = [
        [what, cells.spread(figures)]
        for name, what in (
            ("answered", "from the kill to the next answer"),
            ("longest", "the longest batch with its query"),
        )
        if (figures := r.figures("loss", name))
    ]
    return filled(["", "seconds"], rows)


def _day(r: Results) -> Table | None:
    rows = []
    for moment in MOMENTS:
        size = r.median("day", f"bytes {moment}")
        if size is not None:
            counts = (r.median("day", f"{what} {moment}") for what in ("segments", "versions"))
            rows.append([f"{moment} %", _megabytes(size), *map(cells.number, counts)])
    head = ["of the day", "MB on disk", "segments", "versions"]
    return filled(head, rows, title=f"{r.sizes.snapshots:,} snapshots")


def _milliseconds(seconds: float | None) -> str:
    return "–" if seconds is None else f"{1e3 * seconds:.3g}"


def _megabytes(size: float | None) -> str:
    return "–" if size is None else f"{size / 1e6:.3g}"


SUITE = CaseSuite(
    name="snapshots",
    title="Suite snapshots: what snapshots cost, and what they buy",
    about="Main loops that take snapshots while they go on, or stop for each, beside one that "
    "takes none; and how long it takes until they answer again after a loss.",
    sizes=Sizes, cases=CASES, results=Results, sections=_sections, notes=_notes,
    targets=tuple(_targets()),
    stated=("scale", "batch", "restored", "snapshots"),
    stem=lambda s: f"snapshots-r-mat-{s.scale}",
    groups={"intervals": ("intervals-2", "intervals-4"), "pause": ("pause-1", "pause-2")},
    default=tuple(case for case in CASES if case != "intervals-inprocess"),
    quick=(
        "--parts", "intervals-inprocess,pause-2,loss,day", "--scale", "12", "--batch", "2000",
        "--intervals", "1", "--turn", "2", "--turns", "1", "--states", "2", "--pauses", "10",
        "--losses", "1", "--snapshots", "1000",
    ),  # about a minute
)  # fmt: skip
