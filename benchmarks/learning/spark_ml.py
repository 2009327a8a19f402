"""MLlib: instances as a cached DataFrame, and models of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.learning.data import ALPHA
from vertexsdk import session

_HEAP = "6g"


def session_on(cores: int) -> Any:
    """Return a session on so many cores."""
    return session(f"local[{cores}]", **{"spark.driver.memory": _HEAP})


def written(path: Path, X: Any, y: Any) -> str:
    """Write instances as Parquet, for `cached`."""
    flat = pa.array(np.ascontiguousarray(X, np.float64).ravel())
    rows = pa.ListArray.from_arrays(np.arange(len(X) + 1, dtype=np.int32) * X.shape[1], flat)
    pq.write_table(pa.table({"label": pa.array(y, pa.float64()), "x": rows}), path)
    return str(path)


def cached(spark: Any, *paths: str) -> Any:
    """Return the instances of files as a DataFrame, all of it in memory."""
    from pyspark.ml.functions import array_to_vector

    cores = spark.sparkContext.defaultParallelism
    frame = spark.read.parquet(*paths).select("label", array_to_vector("x").alias("features"))
    frame = frame.repartition(cores).cache() if cores > 1 else frame.coalesce(1).cache()
    frame.count()
    return frame


def linear(loss: str, iterations: int = 100) -> Any:
    """Return the estimator of a linear model with the objective of ours; "log" or "hinge"."""
    from pyspark.ml.classification import LinearSVC, LogisticRegression

    kind = LinearSVC if loss == "hinge" else LogisticRegression
    return kind(regParam=ALPHA, standardization=False, maxIter=iterations)


def least_iterations(loss: str, frame: Any, wanted: float) -> int:
    """Return how many iterations lead to an objective, or to MLlib's own convergence."""
    model = linear(loss).fit(frame)
    summary = model.summary() if callable(model.summary) else model.summary
    history = list(summary.objectiveHistory)
    return next((k for k, value in enumerate(history) if value <= wanted), len(history) - 1)
