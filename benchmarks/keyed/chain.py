"""Throughput of three shuffles, by kind of snapshot and interval (ABS paper, figures 5 to 7)."""

from __future__ import annotations

from typing import Any

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import Chain
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.turns import in_turns, options
from vertexsdk import StatefulLoop, session

AIM = 3.0  # seconds between snapshots, of the target
_PARTITIONS = 2
_BATCH, _BATCHES = 1 << 16, 16
_KEYS = 1_000_000
_SPARE_SLOTS = 2


def chain(spark: bool, process: CaseProcess, sizes: Sizes) -> None:
    """Note calls per second on two partitions, on resident Spark processors or in this process."""
    slots = len(sizes.kinds) * (_PARTITIONS + 1) + _SPARE_SLOTS
    opened = session(f"local[{slots}]") if spark else None
    rng = np.random.default_rng(1)
    batches = [rng.integers(0, _KEYS, min(_BATCH, sizes.calls)) for _ in range(_BATCHES)]
    for every in sizes.chain_intervals:

        def make(kind: str, every: float = every) -> Any:
            flow = StatefulLoop(
                Chain, backend=f"lmdb://{process.scratch}/{every:g}-{kind}", spark=opened,
                partitions=_PARTITIONS, **options(kind, every),
            )  # fmt: skip
            done = 0

            def step() -> int:
                nonlocal done
                keys = batches[done % _BATCHES]
                done += 1
                flow.add.map(keys)
                return len(keys)

            return flow, step, lambda: _check(flow, batches, done)

        in_turns(process, sizes, "chain", every, sizes.rounds if every == AIM else 1, make)


def _check(flow: StatefulLoop, batches: list[Any], done: int) -> None:
    """Compare counts of the keys of one batch, and of all that follow from all keys.

    Raises:
        Wrong: they differ.
    """
    counts = np.zeros(_KEYS, np.int64)
    for number, keys in enumerate(batches):
        times = done // _BATCHES + (number < done % _BATCHES)
        counts += times * np.bincount(keys, minlength=_KEYS)
    first = np.arange(_KEYS)
    second = (first * 7919 + 13) % 999983
    third = (second * 104729 + 7) % 999979
    for element, keys in (("first", first), ("second", second), ("third", third)):
        right = np.bincount(keys, counts, _KEYS).astype(np.int64)
        wanted = np.unique(keys[batches[0][:1000]])
        rows = flow.lookup(wanted, element)
        if {k: row["value"] for k, row in rows.items()} != dict(
            zip(wanted.tolist(), right[wanted].tolist(), strict=True)
        ):
            raise Wrong(f"counts of {element} differ")
