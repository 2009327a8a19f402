"""Blocks from the tasks of one stage to partitions, by a Spark shuffle that runs on its own."""

from __future__ import annotations

from collections.abc import Iterator

from vertexsdk.errors import LostError
from vertexsdk.transport.jvm import JavaObject, Jvm
from vertexsdk.transport.wire import Bundle, Frames, ToShuffle


def to_partition(key: int) -> int:
    """Return the partition of a key, which is the key; the partition function of all RDDs here.

    PySpark compares partition functions by identity, so there is only one.
    """
    return key


def _lost(partition: int, records: object) -> Iterator[tuple[int, Bundle]]:
    """Replace the lineage of a finished shuffle; Spark runs this if its blocks were lost."""
    raise LostError("an executor was lost with its messages; run again from the last version")


class Shuffle:
    """The blocks of one hop in Spark's shuffle.

    `SparkContext.submitMapStage` runs the map stage alone. It and the field that `cut` sets are
    private to Spark.
    """

    def __init__(self, jvm: Jvm, rdd: JavaObject, partitioner: JavaObject) -> None:
        self._jvm = jvm
        self._rdd = jvm.pairs(rdd).partitionBy(partitioner)
        self._dependency = self._rdd.rdd().dependencies().head()
        self.bundles = jvm.values(self._rdd)

    def write(self) -> None:
        """Run the tasks; their blocks stay in the shuffle."""
        self._jvm.scala_sc.submitMapStage(self._dependency).get()

    def cut(self, anchor: JavaObject) -> None:
        """Forget the earlier hops, so that neither the lineage nor Spark's disk use grows."""
        lost = self._jvm.python(anchor.rdd(), _lost, Frames(), ToShuffle())
        self._jvm.set_parent(self._dependency, self._jvm.pairs(lost).rdd())

    def free(self) -> None:
        """Delete the blocks."""
        self._jvm.clean(self._dependency)
