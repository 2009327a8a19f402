"""The memory of a live partition does not grow with the changes it took, beside a fork either."""

from __future__ import annotations

import pytest

from tests.support.live import LiveInProcess
from vertexsdk.algorithms import BreadthFirstSearch
from vertexsdk.engine.loop import _loop_task as loop_task
from vertexsdk.engine.loop._row_edits import RowPool
from vertexsdk.program.program import Program


def test_pools_which_no_fork_reads_are_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(RowPool, "wasteful", lambda self, entries: True)
    edges = [(0, 1), (1, 2), (2, 3)]
    live = LiveInProcess(Program(BreadthFirstSearch), edges, [0], params={"origin": 0})

    def files() -> int:
        return len(list(loop_task._held[live.key, 0].arena.path.iterdir()))

    live.answer()
    alone = files()
    fork = live.fork()
    deeper = fork.fork()
    for k in range(20):
        live.take([("+" if k % 2 else "-", 1, 2)])
        deeper.take([("+" if k % 2 else "-", 2, 3)])
    assert files() <= alone + 2  # what the fork reads: keys of out-rows, and of in-rows
    late = live.fork()
    live.take([("-", 0, 1)])
    late.take([("+", 3, 4)])
    assert fork.answer()[3] == {"depth": 3}
    assert deeper.answer()[3] == {"depth": 3}
    assert late.answer()[4] == {"depth": 4}
    live.job(adopt=late.key)
    live.take([("+", 4, 5)])
    assert live.answer()[5] == {"depth": 5}
    assert fork.answer()[3] == {"depth": 3}
    for one in (fork, deeper, late):
        one.close()
    live.job(thaw=True)
    live.take([("+", 5, 6)])
    assert files() == alone
    live.close()
