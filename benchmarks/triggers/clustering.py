"""k-means of items to which others are added: ours, and MLlib (figure 14 of the Domino paper)."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import numpy as np
from numpy.typing import NDArray

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.timing import timed
from benchmarks.triggers.programs import DIMENSIONS, KMeans
from benchmarks.triggers.sizes import Sizes
from benchmarks.triggers.spark_jobs import session_on
from vertexsdk import TriggerLoop

_SPREAD = 0.6  # of the centres of the items, where that of items around them is 1

Points = NDArray[np.float64]
Beside = Callable[[CaseProcess, Sizes, Points, Points, int], Points]
"""Notes the seconds of another system; takes all items, first centres and iterations."""


def by_mllib(
    process: CaseProcess, sizes: Sizes, points: Points, start: Points, iterations: int
) -> Points:
    """Note the seconds of MLlib, whose items are in memory; return its centres."""
    from pyspark.mllib.clustering import KMeans as MeansOfMLlib
    from pyspark.mllib.clustering import KMeansModel
    from pyspark.mllib.linalg import Vectors

    context = session_on(sizes.cores).sparkContext
    rows = context.parallelize(points, sizes.cores).map(Vectors.dense).cache()
    rows.count()
    options = {"initialModel": KMeansModel(list(start)), "epsilon": 0.0}
    for turn in range(1 + sizes.turns):
        took, model = timed(
            lambda: MeansOfMLlib.train(rows, len(start), maxIterations=iterations, **options)
        )
        if turn:  # the first one compiles
            process.note(f"mllib {len(points)}", took)
    rows.unpersist()
    return np.array(model.clusterCenters)


def clustering(process: CaseProcess, sizes: Sizes, beside: Beside = by_mllib) -> None:
    """Add items; note seconds until no item changes its cluster, and how many iterations."""
    points = _clouds(max(sizes.items), sizes.clusters)
    with TriggerLoop(KMeans, backend=f"lmdb://{process.scratch}/state") as loop:
        loop.upsert("centres", id=range(sizes.clusters), point=points[: sizes.clusters])
        first = runs = 0
        for last in sizes.items:
            start = _centres(loop)
            ids = range(first, last)
            new = points[first:last]
            took, _ = timed(partial(loop.upsert, "items", id=ids, point=new))
            before, runs = runs, loop.statistics()["KMeans.assign"]["runs"]
            iterations = 1 + (runs - before - len(ids)) // last
            process.note(f"{last}", took)
            process.note(f"{last} iterations", iterations)
            centres = beside(process, sizes, points[:last], start, iterations)
            if not np.allclose(_centres(loop), centres, rtol=1e-6, atol=1e-9):
                raise Wrong(f"the centres of {last:,} items differ")
            first = last


def _centres(loop: TriggerLoop) -> Points:
    return np.array(loop.read("centres")["point"].to_pylist())


def _clouds(count: int, clusters: int) -> Points:
    """Draw items around as many centres, one after the other of each."""
    rng = np.random.default_rng(14)
    centres = _SPREAD * rng.normal(size=(clusters, DIMENSIONS))
    points: Points = centres[np.arange(count) % clusters] + rng.normal(size=(count, DIMENSIONS))
    return points
