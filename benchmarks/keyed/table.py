"""What the suite measured, as a document."""

from __future__ import annotations

from benchmarks import cells, targets
from benchmarks.document import Document, Section, Table
from benchmarks.keyed.sizes import Sizes
from benchmarks.runner import SuiteResults
from benchmarks.targets import Target

__all__ = ["TARGETS", "Results", "document"]

_TITLES = {
    "dict": "a dict, in a Python loop",
    "valkey": "Valkey, pipelines of 1,000, appendfsync everysec",
    "memory-1": "stateful class, `memory://`, 1 partition",
    "lmdb-1": "stateful class, LMDB, 1 partition",
    "lmdb-2": "stateful class, LMDB, 2 partitions in one process",
    "strings-1": "stateful class, LMDB, strings as keys",
    "lists-1": "stateful class, LMDB, lists for arrays",
    "redis-1": "stateful class, Valkey, appendfsync always",
    "postgres-1": "stateful class, PostgreSQL",
}


class Results(SuiteResults[Sizes]):
    """Figures by case."""

    __slots__ = ()

    def rate(self, case: str, kind: str) -> float | None:
        """Million calls a second."""
        rate = self.median(case, kind)
        return None if rate is None else rate / 1e6

    def beside_valkey(self, kind: str) -> float | None:
        """Our calls a second over those of Valkey."""
        ours, theirs = self.median("lmdb-1", kind), self.median("valkey", kind)
        return None if ours is None or not theirs else ours / theirs

    def single(self, kind: str) -> float | None:
        """Milliseconds of one call."""
        seconds = self.median("lmdb-1", f"one {kind}")
        return None if seconds is None else 1e3 * seconds


TARGETS: tuple[Target[Results], ...] = (
    Target("put in bulk, LMDB", lambda r: r.rate("lmdb-1", "put"), 1.0, "M/s", at_least=True),
    Target("get in bulk, LMDB", lambda r: r.rate("lmdb-1", "get"), 1.0, "M/s", at_least=True),
    Target("put, LMDB / Valkey", lambda r: r.beside_valkey("put"), 5.0, at_least=True),
    Target("get, LMDB / Valkey", lambda r: r.beside_valkey("get"), 5.0, at_least=True),
    Target("one put, LMDB", lambda r: r.single("put"), 1.0, "ms"),
    Target("one get, LMDB", lambda r: r.single("get"), 1.0, "ms"),
)


def document(r: Results) -> Document:
    """The whole report."""
    report = Document(
        "keyed",
        "Suite keyed: calls of stateful classes",
        "Values put and got by key in bulk, and one by one.",
        f"./dev {' '.join(r.command)}",
        r.machine,
        f"{r.sizes.cores} cores used",
        cells.disturbed(r.others(), "during a case"),
        notes=[
            f"{r.sizes.keys:,} keys of 62 bits, {r.sizes.calls:,} calls of each kind in a turn, "
            f"{r.sizes.turns} turns; medians. `map` gets NumPy arrays; its log is durable before a "
            "block of 65,536 calls runs.",
        ],
    )
    unjudged = "machine not quiet" if r.others() > cells.QUIET else None
    if r.sizes.keys != Sizes().keys:
        unjudged = "stated for other sizes"
    report.sections += targets.sections(TARGETS, r, r.problems(), unjudged)
    rows = []
    for case, title in _TITLES.items():
        rates = [cells.number(r.median(case, kind)) for kind in ("put", "get")]
        if set(rates) != {"–"}:
            single = [cells.middle(r.figures(case, f"one {kind}")) for kind in ("put", "get")]
            rows.append([title, *rates, *single])
    if rows:
        head = ["", "put/s", "get/s", "one put", "one get"]
        report.sections.append(Section("Put and get", "", [Table(head, rows)]))
    return report
