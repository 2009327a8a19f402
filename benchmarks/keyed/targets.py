"""What stateful classes must reach, and beside what."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from benchmarks import cells
from benchmarks.beside import BesideResults, beside_rows, beside_table
from benchmarks.document import Table
from benchmarks.keyed import chain, states
from benchmarks.keyed.ratings import RATIOS
from benchmarks.keyed.sizes import Sizes
from benchmarks.targets import Target

__all__ = ["TARGETS", "Results", "table"]

_STATED = ("keys", "calls", "events", "counted", "restored", "windows")


class Results(BesideResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def kept(self, case: str, name: str, kind: str, every: float) -> float | None:
        """The share of the throughput without snapshots."""
        return self.ratio(case, f"{name} {kind} {every:g}", case, f"{name} none {every:g}")


def _million(r: Results, kind: str) -> float | None:
    rate = r.median("lmdb-1", kind)
    return None if rate is None else rate / 1e6


def _single(r: Results, kind: str) -> float | None:
    seconds = r.median("lmdb-1", f"one {kind}")
    return None if seconds is None else 1e3 * seconds


def _windows(r: Results) -> float | None:
    rates = [r.median("words-lmdb", f"{window} ms") for window in r.sizes.windows]
    return None if None in rates else float(sum(bool(rate) for rate in rates))


def _targets() -> Iterator[tuple[str, Target[Results]]]:
    for kind in ("put", "get"):
        measure = partial(_million, kind=kind)
        yield "", Target(f"{kind} in bulk, LMDB", measure, 1.0, "M/s", at_least=True)
    for kind in ("put", "get"):
        measure = partial(Results.ratio, case="lmdb-1", name=kind, beside="valkey")
        yield "Valkey", Target(f"{kind}, LMDB / Valkey", measure, 5.0, at_least=True)
    for kind in ("put", "get"):
        yield "", Target(f"one {kind}, LMDB", partial(_single, kind=kind), 1.0, "ms")
    for megabytes in Sizes().states:
        measure = partial(
            Results.kept, case="states", name=f"{megabytes} MB", kind="asynchronous",
            every=states.AIM,
        )  # fmt: skip
        title = f"put, {megabytes:,} MB of state, asynchronous snapshots every {states.AIM:g} s"
        yield "no snapshots", Target(title, measure, 0.95, at_least=True)
    measure = partial(Results.ratio, case="count-lmdb", name="events", beside="count-spark")
    beside = "transformWithStateInPandas, RocksDB"
    yield beside, Target("count of the keys of a stream", measure, 20.0, at_least=True)
    title = f"words in windows of {', '.join(map(str, Sizes().windows))} ms: lengths kept up with"
    yield "", Target(title, _windows, len(Sizes().windows), f"of {len(Sizes().windows)}", True)
    measure = partial(
        Results.ratio, case="restore", name="1 to 1", beside="restore", other="2 to 2"
    )
    title = f"{Sizes().restored:,} MB restored by 2 processors from 2"
    yield "1 from 1", Target(title, measure, 1.6, at_least=True)
    measure = partial(
        Results.kept, case="chain", name="chain", kind="asynchronous", every=chain.AIM
    )
    title = f"three shuffles, asynchronous snapshots every {chain.AIM:g} s"
    yield "no snapshots", Target(title, measure, 0.97, at_least=True)


_BESIDE = tuple(_targets())
TARGETS = tuple(target for _, target in _BESIDE)


def _shown(r: Results) -> Iterator[list[str]]:
    """Ratios that have no aim."""
    for window in r.sizes.windows:
        name = f"{window} ms"
        title = f"words/s in windows of {window} ms"
        ratio = r.ratio("words-lmdb", name, "words-bytewax")
        if r.figures("words-bytewax", "not installed"):
            yield [title, "Bytewax", "not installed", "–", "shown"]
        elif ratio is not None:
            yield [title, "Bytewax", cells.times(ratio), "–", "shown"]
    for reads, writes in RATIOS:
        ratio = r.ratio("ratings-lmdb", f"{reads}:{writes}", "ratings-spark")
        if ratio is not None:
            title = f"recommendations to ratings {reads}:{writes}"
            yield [title, "Structured Streaming", cells.times(ratio), "–", "shown"]


def table(r: Results) -> Table | None:
    """All that was measured; judged at the default sizes on a quiet machine."""
    rows = beside_rows(_BESIDE, r, _STATED)
    rows += _shown(r)
    return beside_table(rows)
