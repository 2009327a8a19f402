"""The master's side of moving vertices: watches the hops of a loop, and has the partitions move."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from vertexsdk.balance import Balancer, Move, Transfer
from vertexsdk.chunks import Chosen, choose
from vertexsdk.errors import LostError
from vertexsdk.task import Report

__all__ = ["STAGES", "Mover"]

STAGES = ("send", "build", "settle")

Everywhere = Callable[[Callable[[int], Chosen | None]], list[Chosen | None]]


class Mover:
    """Moves vertices of one run between its iterations, when the load is heavily unbalanced.

    Args:
        run: prefix of the run's resident keys.
        balancer: decides.
        everywhere: calls a function of the partition's number where each is.
        hop: runs a stage on every partition.
    """

    def __init__(
        self,
        run: str,
        balancer: Balancer,
        everywhere: Everywhere,
        hop: Callable[[Move], Sequence[Report]],
    ) -> None:
        self.run, self.balancer = run, balancer
        self._everywhere, self._hop = everywhere, hop

    def after(self, reports: Sequence[Report], iteration: int, vertices: int) -> int:
        """Take in the reports of an iteration; return the version from which to go on.

        Raises:
            LostError: a worker has lost what it held.
        """
        version = reports[0].version
        loads = [sum(p.updates + p.messages for p in r.history) for r in reports]
        # Where others use the machine too, the clock runs on while the work does not.
        seconds = max(min(r.seconds.get(n, 0.0) for n in ("kernel", "cpu")) for r in reports)
        transfers = self.balancer.saw(loads, seconds)
        return self._move(transfers, version, iteration, vertices) if transfers else version

    def _move(self, transfers: list[Transfer], version: int, iteration: int, vertices: int) -> int:
        found = self._everywhere(partial(choose, self.run, version, transfers))
        began = time.perf_counter()
        there = [f for f in found if f is not None]
        if len(there) < len(found):
            raise LostError(f"an executor was lost with version {version}; run again")
        ids, to = (np.concatenate([f[k] for f in there]) for k in (0, 1))
        if len(ids):
            key = f"{self.run}/placement-{len(self.balancer.moves)}"
            for stage in STAGES:
                version = self._hop(Move(stage, version, vertices, ids, to, key))[0].version
        self.balancer.moved(iteration, len(ids), time.perf_counter() - began)
        return version

    def statistics(self) -> dict[str, Any]:
        """The `moves` that were made, and the `imbalance` of the last hops."""
        return {"moves": self.balancer.moves, "imbalance": self.balancer.imbalance}
