"""A call of a loop that Ctrl-C cuts short anywhere: the next call goes on from there."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import pytest

import vertexsdk
from tests.support.killed_driver import PROGRAMS, apply_batch, batch
from tests.support.seeds import seed
from tests.support.soak_kills import check_answer
from vertexsdk import Graph, MainLoop

PACKAGE = str(Path(vertexsdk.__file__).parent)
CUTS = 20


class Calls:
    """Counts the calls of the package's functions, and raises in one of them.

    Python looks for signals where a function begins; between two lines it may not, as where a
    `with` block gives its lock back.
    """

    def __init__(self, at: int | None = None) -> None:
        self.count, self.at = 0, at

    def __call__(self, frame: FrameType, _event: str, _: object) -> None:
        if frame.f_code.co_filename.startswith(PACKAGE):
            self.count += 1
            if self.at is not None and self.count >= self.at and not in_finalizer(frame):
                sys.settrace(None)
                raise KeyboardInterrupt

    def of(self, work: Callable[[], object]) -> bool:
        """Do some work; whether it was cut short."""
        before = sys.gettrace()
        sys.settrace(self)
        try:
            work()
        except KeyboardInterrupt:
            return True
        finally:
            sys.settrace(before)
        return False


def in_finalizer(frame: FrameType | None) -> bool:
    """Whether Python would ignore an exception there."""
    while frame is not None and frame.f_code.co_name != "__del__":
        frame = frame.f_back
    return frame is not None


# What was being opened when the exception came is closed by the garbage collector.
@pytest.mark.filterwarnings("ignore:unclosed", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("program", [*PROGRAMS])
@pytest.mark.sample(1)
def test_the_next_call_goes_on(program: str, tmp_path: Path) -> None:
    chance = random.Random(seed())
    edges = [{(0, 1): 1.0}]  # before each batch
    graph = Graph.from_arrays([0], [1], [1.0], partitions=2)
    options: dict[str, Any] = {"params": PROGRAMS[program], "retain": 4, "keep_answers": 3}
    with MainLoop(program, graph, backend=f"lmdb://{tmp_path}/state", **options) as main:

        def ingest() -> None:
            main.ingest(batch(number), source="s", offset=number)

        def query() -> None:
            main.query().close()

        def compare() -> None:
            with main.query() as answer:
                check_answer(program, edges[main.offsets.get("s", -1) + 1], answer.columns())

        calls: dict[Callable[[], None], int] = {}
        changes = cut = 0
        for number in range(CUTS):
            edges.append(dict(edges[-1]))
            apply_batch(edges[-1], number)
            changes += len(batch(number))
            for work in (ingest, query):
                counted = Calls(chance.randrange(1, calls[work]) if work in calls else None)
                if counted.of(work):
                    cut += 1
                    compare()
                else:
                    calls[work] = counted.count  # it was not cut short
            ingest()
            compare()
            assert (main.changes, main.offsets) == (changes, {"s": number})
    assert cut > CUTS // 2
