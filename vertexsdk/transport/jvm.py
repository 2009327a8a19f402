"""The JVM's part of a hop, through py4j: few calls, shuffles, and errors in one line.

A call to the JVM costs 0.1 to 0.3 ms, and to look up a class as much again, so a `Jvm` looks up
once what does not change between hops.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from typing import Any

import cloudpickle
from py4j.java_collections import ListConverter, MapConverter
from py4j.protocol import Py4JError
from pyspark import SparkContext
from pyspark.errors import PySparkException
from pyspark.serializers import Serializer
from pyspark.util import _load_from_socket

from vertexsdk.errors import LostError, RunError
from vertexsdk.transport.wire import Bundle, Frames, ToShuffle

JavaObject = Any


class Jvm:
    """The few JVM classes and methods that hops use."""

    def __init__(self, sc: SparkContext) -> None:
        jvm, client = sc._jvm, sc._gateway._gateway_client  # type: ignore[union-attr]
        assert jvm is not None
        self.sc = sc
        self.jsc = sc._jsc
        self.scala_sc = sc._jsc.sc()
        self._python_rdd = jvm.PythonRDD
        self.pairwise_rdd = jvm.PairwiseRDD
        self._function = jvm.SimplePythonFunction
        self._scala = jvm.scala.jdk.javaapi.CollectionConverters.asScala
        self.partitioner = jvm.PythonPartitioner
        self._environment = MapConverter().convert(sc.environment, client)
        self._includes = ListConverter().convert(sc._python_includes, client)
        dependency = jvm.java.lang.Class.forName("org.apache.spark.ShuffleDependency")
        self.parent = dependency.getDeclaredField("_rdd")  # of a shuffle
        self.parent.setAccessible(True)

    def hosts(self) -> set[str]:
        """Return the hosts that have an executor, as far as Spark knows."""
        managers = set(self.scala_sc.getExecutorMemoryStatus().keys().mkString(" ").split())
        managers.discard(self.scala_sc.statusStore().executorSummary("driver").hostPort())
        return {manager.rpartition(":")[0] for manager in managers}

    def distribute(self, records: Iterable[bytes], partitions: int) -> JavaObject:
        """Return a JavaRDD<byte[]> of the records, as many in each partition, in order."""

        def read(file: str) -> JavaObject:
            return self._python_rdd.readRDDFromFile(self.jsc, file, partitions)

        def serve() -> JavaObject:
            return self.sc._jvm.PythonParallelizeServer(self.scala_sc, partitions)  # type: ignore[union-attr]

        return self.sc._serialize_to_jvm(records, Frames(), read, serve)

    def python(
        self, parent: JavaObject, function: Any, reads: Serializer, writes: Serializer
    ) -> JavaObject:
        """Return a (Scala) RDD: a Python function applied to each partition of the parent."""
        command = cloudpickle.dumps((function, None, reads, writes))
        registry = self.sc._pickled_broadcast_vars
        broadcasts = [broadcast._jbroadcast for broadcast in registry]
        registry.clear()
        wrapped = self._function(
            bytearray(command),
            self._environment,
            self._includes,
            self.sc.pythonExec,
            self.sc.pythonVer,
            broadcasts,
            self.sc._javaAccumulator,
        )
        return self._python_rdd(parent, wrapped, False, False)

    def collect(self, rdd: JavaObject, reads: Serializer) -> list[Any]:
        """Run a job for the (Scala) RDD; return the records in order.

        It is collected by a future, as Spark then has fewer closures to clean: to clean one it
        reads the code of its largest classes, in every job, which took longer than all else.
        """
        records = rdd.asJavaRDD().collectAsync().get()
        served = self._python_rdd.serveIterator(self._scala(records.iterator()), "serve RDD")
        with _load_from_socket(served, reads) as stream:
            return list(stream)

    def values(self, pairs: JavaObject) -> JavaObject:
        """Return the values of a JavaPairRDD as a JavaRDD<byte[]>."""
        return self._python_rdd.valueOfPair(pairs)


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

    def __init__(self, jvm: Jvm, rdd: JavaObject, partitions: int) -> None:
        self._jvm = jvm
        partitioner = jvm.partitioner(partitions, id(to_partition))
        pairs = jvm.pairwise_rdd(rdd).asJavaPairRDD().partitionBy(partitioner)
        self._dependency = pairs.rdd().dependencies().head()
        self.bundles = jvm.values(pairs)

    def write(self) -> None:
        """Run the tasks; their blocks stay in the shuffle."""
        self._jvm.scala_sc.submitMapStage(self._dependency).get()

    def cut(self, anchor: JavaObject) -> None:
        """Forget the earlier hops, so that neither the lineage nor Spark's disk use grows."""
        lost = self._jvm.python(anchor.rdd(), _lost, Frames(), ToShuffle())
        self._jvm.parent.set(self._dependency, self._jvm.pairwise_rdd(lost).asJavaPairRDD().rdd())

    def free(self) -> None:
        """Delete the blocks wherever they are, without waiting."""
        cleaner = self._jvm.scala_sc.cleaner()
        if cleaner.isDefined():
            cleaner.get().doCleanupShuffle(self._dependency.shuffleId(), False)


_LOST = "vertexsdk.errors.LostError: "  # how a worker's traceback ends


@contextlib.contextmanager
def spark_failure() -> Iterator[None]:
    """Turn Spark's exceptions into a `RunError` of one line, with the full text in its notes."""
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        reason = _reason(_causes(error))
        lost = reason.startswith(_LOST)
        run_error = LostError(reason.removeprefix(_LOST)) if lost else RunError(reason)
        with contextlib.suppress(Exception):  # the text comes from a JVM which may have died
            run_error.add_note(str(error))
        raise run_error from None


def _causes(error: Exception) -> list[str]:
    """Return the messages of the Java exceptions behind an error, outermost first."""
    java = getattr(error, "java_exception", None) or getattr(error, "_origin", None)
    messages: list[str] = []
    with contextlib.suppress(Py4JError, ConnectionError):
        while java is not None and len(messages) < 20:
            messages.append(java.toString())
            java = java.getCause()
    if not messages and isinstance(error, PySparkException):  # such as a remote session's
        messages = [str(error)]
    return messages


def _reason(causes: list[str]) -> str:
    """Return the line of a Spark failure that gives the reason."""
    text = "\n".join(causes)
    if "Traceback (most recent call last)" in text:
        trace = text[text.index("Traceback (most recent call last)") :].splitlines()[1:]
        for line in trace:
            if line and not line[0].isspace():
                return line.removeprefix("vertexsdk.errors.RunError: ").strip()
    if "Python worker exited unexpectedly" in text or "Python worker failed" in text:
        return (
            "a Python worker died during the run (killed, or out of memory); "
            "use more partitions or give the machine more memory"
        )
    if "cancelled" in text:
        return "the run was cancelled"
    if "ExecutorLostFailure" in text:
        return "executors were lost repeatedly during the run; see the cluster's logs"
    lines = [line.strip() for cause in reversed(causes) for line in cause.splitlines()]
    first = next((line for line in lines if line and not line.startswith("at ")), None)
    return f"Spark: {first}" if first else "Spark stopped during the run; start the session again"
