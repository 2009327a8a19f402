"""Times of one algorithm by every library, in turn, each answer compared with ours."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from benchmarks.catalogue.cases import Case, Loaded

OURS = "ours"


@dataclass
class Measured:
    """Seconds by library; why there are none in `failed`.

    Attributes:
        wrong: whether an answer differs.
    """

    seconds: dict[str, list[float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    wrong: bool = False


class _Late(Exception):
    pass


@contextmanager
def _limited(seconds: float) -> Any:
    """Interrupt Python code after some seconds; native code when it returns."""

    def late(*_: object) -> None:
        raise _Late

    before = signal.signal(signal.SIGALRM, late)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def measure(name: str, case: Case, graph: Loaded, repeats: int, limit: float) -> Measured:
    """Run an algorithm by all libraries, one after another, again and again.

    Args:
        repeats: runs of each; of one that takes longer than a tenth of `limit`, one.
        limit: seconds for one run of another library.
    """
    params = {k: graph.origin if x is ... else x for k, x in case.params.items()}

    def ours() -> Any:
        from vertexsdk import run

        own = graph.ours_weighted if case.weighted else graph.ours
        with run(name, own, params=params, backend="memory://catalogue",
                 progress=False) as result:  # fmt: skip
            return result.values(case.answer)[1]

    found, answers = Measured(), {OURS: ours()}  # untimed: it compiles
    functions: dict[str, Callable[[], Any]] = {OURS: ours}
    functions |= {k: lambda f=f: f(graph) for k, f in case.others.items()}  # type: ignore[misc]
    for turn in range(repeats):
        for library, function in functions.items():
            taken = found.seconds.setdefault(library, [])
            if library in found.failed or (turn and taken[0] > limit / 10):
                continue
            try:
                with _limited(limit):
                    began = time.perf_counter()
                    answer = function()
                    taken.append(time.perf_counter() - began)
            except _Late:
                found.failed[library] = f"more than {limit:g} s"
                continue
            if library == OURS or turn:
                continue
            wrong = case.check(graph, answers[OURS], _as_ours(name, library, answer))
            if wrong:
                found.failed[library], found.wrong = f"differs: {wrong}", True
    return found


def _as_ours(name: str, library: str, answer: Any) -> Any:
    if name == "betweenness" and library == "NetworKit":
        return answer / 2
    return answer
