"""How long a state takes to be restored, by partitions before and after (SDG paper, figure 11)."""

from __future__ import annotations

import time

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import KeyValue
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.states import Writer
from benchmarks.snapshots.intervals import NEVER
from vertexsdk import StatefulLoop, session

PAIRS = ((1, 1), (1, 2), (2, 2))  # partitions before and after
_SLOTS = 4  # of the session
_ASKED = 1000


def restore(process: CaseProcess, sizes: Sizes) -> None:
    """Note seconds from `StatefulLoop.resume` on resident Spark processors to the first answers."""
    spark = session(f"local[{_SLOTS}]")
    for megabytes in (1, sizes.restored):  # the first, untimed, starts the processors
        keys = Writer(megabytes).keys
        asked = keys[:: max(1, len(keys) // _ASKED)]
        for before in sorted({before for before, _ in PAIRS}):
            with StatefulLoop(
                KeyValue, backend=_url(process, megabytes, before), partitions=before,
                snapshot_every=NEVER,
            ) as flow:  # fmt: skip
                flow.put.map(keys, keys.astype(float))
        for _ in range(sizes.repeats if megabytes == sizes.restored else 1):
            for before, after in PAIRS:
                began = time.perf_counter()
                with StatefulLoop.resume(
                    KeyValue, backend=_url(process, megabytes, before), partitions=after,
                    spark=spark, snapshot_every=NEVER,
                ) as flow:  # fmt: skip
                    found = flow.get.map(asked)
                    took = time.perf_counter() - began
                if not np.array_equal(np.asarray(found, float), asked.astype(float)):
                    raise Wrong(f"{before} to {after}: values are not those that were put")
                if megabytes == sizes.restored:
                    process.note(f"{before} to {after}", took)


def _url(process: CaseProcess, megabytes: int, before: int) -> str:
    return f"lmdb://{process.scratch}/{megabytes}-{before}"
