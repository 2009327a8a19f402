"""A call of a loop that an exception cuts short at any line: the next call goes on from there.

Ctrl-C raises KeyboardInterrupt at whatever line the main thread is.
"""

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
from tests.support.random_changes import seed
from tests.support.soak_kills import check_answer
from vertexsdk import Graph, MainLoop

PACKAGE = str(Path(vertexsdk.__file__).parent)
CUTS = 40


class Lines:
    """Counts the lines of the package that a call runs, and raises at one of them."""

    def __init__(self, at: int | None = None) -> None:
        self.count, self.at = 0, at

    def __call__(self, frame: FrameType, event: str, _: object) -> Any:
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        if event == "line":
            self.count += 1
            if self.at is not None and self.count >= self.at and not in_finalizer(frame):
                sys.settrace(None)
                raise KeyboardInterrupt
        return self

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
def test_the_next_call_goes_on(program: str, tmp_path: Path) -> None:
    chance = random.Random(seed())
    edges = {(0, 1): 1.0}
    graph = Graph.from_arrays([0], [1], [1.0], partitions=2)
    options: dict[str, Any] = {"params": PROGRAMS[program], "retain": 4, "keep_answers": 3}
    with MainLoop(program, graph, backend=f"lmdb://{tmp_path}/state", **options) as main:

        def ingest() -> None:
            main.ingest(batch(number), source="s", offset=number)

        def query() -> None:
            main.query().close()

        lines = {}
        changes = cut = 0
        for number in range(CUTS):
            for work in (ingest, query):
                if work not in lines:
                    counted = Lines()
                    assert not counted.of(work)
                    lines[work] = counted.count
                    continue
                while Lines(chance.randrange(1, lines[work])).of(work):
                    cut += 1
                    if chance.random() < 0.5:
                        break
            ingest()
            apply_batch(edges, number)
            changes += len(batch(number))
            with main.query() as answer:
                check_answer(program, edges, answer.columns())
            assert (main.changes, main.offsets) == (changes, {"s": number})
    assert cut > CUTS // 2
