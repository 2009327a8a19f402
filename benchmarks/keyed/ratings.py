"""Collaborative filtering: ratings and recommendations by their ratio (SDG paper, figure 5)."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from scipy import sparse

from benchmarks.answers import Wrong
from benchmarks.case_process import CaseProcess
from benchmarks.keyed.classes import Recommender
from benchmarks.keyed.sizes import Sizes
from benchmarks.keyed.spark_streams import streaming_session
from vertexsdk import StatefulLoop

RATIOS = ((1, 5), (1, 1), (5, 1))  # reads to writes
_USERS, _ITEMS = 943, 1682  # of MovieLens 100K, which has 106 ratings of a user
_ROUNDS = 3  # in which the requests of a ratio come: first writes, then reads


class _Requests:
    """Ratings in an order drawn at random, each pair of user and item once, and who asks."""

    def __init__(self, sizes: Sizes) -> None:
        rng = np.random.default_rng(1)
        needed = sizes.ratings + len(RATIOS) * sizes.requests
        popular = rng.zipf(1.3, 20 * needed) % _ITEMS
        active = (rng.pareto(2.0, 20 * needed) * 200).astype(int) % _USERS
        _, first = np.unique(active * _ITEMS + popular, return_index=True)
        first = np.sort(first)[:needed]
        if len(first) < needed:
            raise ValueError("more ratings than there are pairs of user and item")
        self.user, self.item = active[first], popular[first]
        self.rating = rng.integers(1, 11, needed) / 2
        self.rounds: list[tuple[str, slice, Any]] = []
        at = sizes.ratings
        for reads, writes in RATIOS:
            for _ in range(_ROUNDS):
                asked = sizes.requests * reads // (reads + writes) // _ROUNDS
                end = at + sizes.requests * writes // (reads + writes) // _ROUNDS
                who = rng.choice(self.user[:at], max(1, asked))
                self.rounds.append((f"{reads}:{writes}", slice(at, end), who))
                at = end

    def columns(self, which: slice) -> tuple[Any, Any, Any]:
        return self.user[which], self.item[which], self.rating[which]

    def check(self, count: int, user: int, found: dict[int, float]) -> None:
        """Compare scores after so many ratings.

        Raises:
            Wrong: they differ.
        """
        user_of, item_of, rating = self.columns(slice(0, count))
        shape = _USERS, _ITEMS
        rated = sparse.csr_array((np.ones(count), (user_of, item_of)), shape)
        together = (rated.T @ rated).tocsr()
        together.setdiag(2 * together.diagonal())
        given = sparse.csr_array((rating, (user_of, item_of)), shape)
        right = together @ given[[user]].toarray().ravel()
        scores = np.zeros(_ITEMS)
        scores[np.array(list(found), np.int64)] = list(found.values())
        if not np.allclose(scores, right, rtol=1e-9):
            raise Wrong(f"scores of user {user} differ")


def ratings(process: CaseProcess, sizes: Sizes) -> None:
    """By a stateful class in this process."""
    given = _Requests(sizes)
    with StatefulLoop(Recommender, backend=f"lmdb://{process.scratch}/state") as flow:
        flow.add_rating.map(*given.columns(slice(0, sizes.ratings)))
        for name, new, who in given.rounds:
            began = time.perf_counter()
            flow.add_rating.map(*given.columns(new))
            answers = flow.recommend.map(who)
            took = time.perf_counter() - began
            process.note(name, (new.stop - new.start + len(who)) / took)
            given.check(new.stop, int(who[-1]), dict(answers[-1]))


def ratings_by_spark(process: CaseProcess, sizes: Sizes) -> None:
    """By a Structured Streaming job: one micro-batch for each round.

    `foreachBatch` joins its ratings with those of their users, adds to the counts of pairs of
    items, and joins these with the ratings of who asks. Each writes both tables anew, under its
    number, so that a micro-batch that is repeated has the same result.
    """
    from pyspark.sql import functions as f

    given, place = _Requests(sizes), process.scratch
    spark = streaming_session(sizes)
    shape = "user long, item long, rating double"

    def table(name: str, batch: int) -> str:
        return str(place / f"{name}-{batch}")

    spark.createDataFrame([], shape).write.parquet(table("ratings", -1))
    spark.createDataFrame([], "item long, other long, count double").write.parquet(
        table("together", -1)
    )

    def job(frame: Any, batch: int) -> None:
        frame = frame.persist()
        old = spark.read.parquet(table("ratings", batch - 1))
        new = frame.where("rating is not null").persist()
        old.union(new).write.mode("overwrite").parquet(table("ratings", batch))
        every = spark.read.parquet(table("ratings", batch))
        pairs = _pairs(f, new, old).union(_pairs(f, old, new)).union(_pairs(f, new, new))
        together = spark.read.parquet(table("together", batch - 1)).union(pairs)
        together = together.groupBy("item", "other").agg(f.sum("count").alias("count"))
        together.write.mode("overwrite").parquet(table("together", batch))
        together = spark.read.parquet(table("together", batch))
        asked = frame.where("rating is null").select(f.col("item").alias("request"), "user")
        scores = (
            asked.join(every, "user").join(together, "item")
            .groupBy("request", "user", "other").agg(f.sum(f.expr("rating * count")).alias("score"))
        )  # fmt: skip
        scores.write.mode("overwrite").parquet(table("scores", batch))
        new.unpersist()
        frame.unpersist()

    source = place / "requests"
    source.mkdir()
    _write(source / "000.parquet", *given.columns(slice(0, sizes.ratings)))
    query = (
        spark.readStream.schema(shape).option("maxFilesPerTrigger", 1).parquet(str(source))
        .writeStream.foreachBatch(job).option("checkpointLocation", str(place / "checkpoint"))
        .start()
    )  # fmt: skip
    query.processAllAvailable()
    for number, (name, new, who) in enumerate(given.rounds, 1):
        began = time.perf_counter()
        _write(source / f"{number:03}.parquet", *given.columns(new), who)
        query.processAllAvailable()
        took = time.perf_counter() - began
        process.note(name, (new.stop - new.start + len(who)) / took)
        last = spark.read.parquet(table("scores", number)).where(f"request = {len(who) - 1}")
        found = {row.other: row.score for row in last.collect()}
        given.check(new.stop, int(who[-1]), found)
    query.stop()


def _pairs(f: Any, left: Any, right: Any) -> Any:
    """Items of both that one user has rated, each pair once in each direction, with a count of 1;
    an item with itself counts twice, as the class has it.
    """
    other = right.select("user", f.col("item").alias("other"))
    count = f.when(f.col("item") == f.col("other"), 2.0).otherwise(1.0).alias("count")
    return left.join(other, "user").select("item", "other", count)


def _write(path: Path, user: Any, item: Any, rating: Any, who: Any = ()) -> None:
    """Ratings, then requests, which have no rating and their number for an item."""
    whole = pa.table({
        "user": np.concatenate([user, np.asarray(who, np.int64)]),
        "item": np.concatenate([item, np.arange(len(who))]),
        "rating": pa.array([*rating.tolist(), *[None] * len(who)], pa.float64()),
    })  # fmt: skip
    partial = path.with_name(f".{path.name}")
    pq.write_table(whole, partial)
    partial.rename(path)
