"""Blocks from the tasks of one stage to partitions, by a Spark shuffle that runs on its own."""

from __future__ import annotations

from collections.abc import Iterator

from vertexsdk.errors import RunError
from vertexsdk.transport.jvm import JavaObject, Jvm
from vertexsdk.transport.wire import Bundle, Frames, ToShuffle

__all__ = ["Shuffle", "to_partition"]


def to_partition(key: int) -> int:
    """Return the partition of a key: the partition function of every RDD here.

    PySpark compares partition functions by identity, so there is only this one.
    """
    return key


def _lost(partition: int, records: object) -> Iterator[tuple[int, Bundle]]:
    """Stand where the lineage of a finished shuffle was cut; runs if its blocks are gone."""
    raise RunError(
        "an executor was lost with the messages it held; run again from the last committed version"
    )


class Shuffle:
    """The blocks of one hop in Spark's shuffle.

    `SparkContext.submitMapStage` runs the map stage alone. It and the field that `cut` sets are
    Spark's own business: where they are missing, a count runs the stage, and a local checkpoint
    cuts the lineage, at the price of a second stage without Python.
    """

    def __init__(self, jvm: Jvm, rdd: JavaObject, partitioner: JavaObject) -> None:
        self._jvm = jvm
        self._rdd = jvm.pairs(rdd).partitionBy(partitioner)
        self._dependency = self._rdd.rdd().dependencies().head()
        self.bundles = jvm.values(self._rdd)
        self._checkpointed = False

    def write(self) -> None:
        """Run the tasks and keep what they send."""
        if self._jvm.map_stages:
            self._jvm.scala_sc.submitMapStage(self._dependency).get()
        else:
            self.bundles.rdd().localCheckpoint()
            self._checkpointed = True
            self.bundles.count()

    def cut(self, anchor: JavaObject) -> None:
        """Forget the hops before, so that neither lineage nor Spark's disk use grow."""
        if not self._checkpointed:
            lost = self._jvm.python(anchor.rdd(), _lost, Frames(), ToShuffle())
            self._jvm.set_parent(self._dependency, self._jvm.pairs(lost).rdd())

    def free(self) -> None:
        """Delete the blocks."""
        if self._checkpointed:
            self.bundles.unpersist(False)
        self._jvm.clean(self._dependency)
