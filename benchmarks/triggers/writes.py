"""Rows per second of writes to a table, by what watches it (figure 9 of the Domino paper)."""

from __future__ import annotations

from functools import partial

import numpy as np

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.timing import timed
from benchmarks.triggers.programs import Plain, Silent, WriteCount
from benchmarks.triggers.sizes import Sizes
from vertexsdk import TriggerLoop

KINDS = {"none": Plain, "silent": Silent, "+1": WriteCount}  # by what the triggers do


def writes(process: CaseProcess, sizes: Sizes, backend: str = "lmdb://{scratch}/state") -> None:
    """Loops take turns; note rows per second of each, and beside those without triggers."""
    url = backend.format(scratch=process.scratch)
    loops = {name: TriggerLoop(cls, backend=url) for name, cls in KINDS.items()}
    keys = np.random.default_rng(9).permutation(sizes.rows)
    for loop in loops.values():
        loop.upsert("rows", key=keys, value=np.zeros(len(keys)))
    for turn in range(1, sizes.pairs + 1):
        values = np.full(len(keys), float(turn))
        took = {}
        for name in list(loops)[:: 1 if turn % 2 else -1]:
            upsert = partial(loops[name].upsert, "rows", key=keys, value=values)
            took[name], _ = timed(upsert)
            process.note(name, len(keys) / took[name])
        for name in loops:
            process.note(f"{name} kept", took["none"] / took[name])
    runs = [loops[name].statistics() for name in loops]
    expected = [{}, {"Silent.see": len(keys)}, {"WriteCount.add": (sizes.pairs + 1) * len(keys)}]
    if [{t: n["runs"] for t, n in one.items()} for one in runs] != expected:
        raise Wrong(f"triggers ran {runs}")
    for loop in loops.values():
        if loop.read("rows")["value"].to_numpy().tolist() != values.tolist():
            raise Wrong("values are not those that were written")
    counts = loops["+1"].read("counts")["count"].to_pylist()
    if counts != [sizes.pairs + 1] * len(keys):
        raise Wrong("counts of writes differ")
    for loop in loops.values():
        loop.close()
