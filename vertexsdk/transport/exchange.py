"""Hops: a task on every partition, then an exchange of blocks between them.

A hop runs the task once on each of P partitions and carries its blocks to the next hop in one of
two ways. *By the driver*: the driver collects them with the reports, and passes them to the next
hop's tasks; cheapest when small. *By the shuffle*: they stay on the executors' disks as the output
of a map stage that runs alone, so that this hop, too, is a single stage of Python tasks.

Invariants: a hop that fails leaves its input blocks in place; a partition receives blocks in order
of their source; partition p runs where partition p of the anchor is, while that executor lives.
"""

from __future__ import annotations

import contextlib
import time
import uuid
from typing import Any, Literal

import cloudpickle
from py4j.protocol import Py4JError
from pyspark.accumulators import _accumulatorRegistry
from pyspark.serializers import Serializer

from vertexsdk.errors import LostError
from vertexsdk.transport.jvm import JavaObject, Shuffle
from vertexsdk.transport.locality import Anchor
from vertexsdk.transport.task_times import HopTimes, Stamp
from vertexsdk.transport.transport import Task
from vertexsdk.transport.wire import (
    Bundle,
    HopFunction,
    NoInput,
    Reports,
    TaskInput,
    ToDriver,
    ToShuffle,
    outcome,
)

BROADCAST_COMMAND = 1 << 18  # bytes above which a command is sent once per executor


class JobExchange:
    """The hops of one loop over the partitions of an anchor.

    Args:
        anchor: where the partitions are; it outlives the exchange.
        task: `task(partition, command, blocks)` gets the (source partition, block) pairs that the
            previous hop sent to the partition, and yields (destination, block) pairs; destination
            `DRIVER` is a report. It must be pure, because Spark may run it twice.

    Attributes:
        times: those of the last hop.

    >>> from vertexsdk.transport.transport import DRIVER
    >>> def task(partition, command, blocks):
    ...     yield DRIVER, b"".join(block for _, block in blocks)
    ...     yield 1 - partition, command
    >>> with JobExchange(Anchor(spark, 2), task) as exchange:
    ...     exchange.hop(b"a", via="shuffle"), exchange.hop(b"b")
    ([b'', b''], [b'a', b'a'])
    """

    def __init__(self, anchor: Anchor, task: Task) -> None:
        sc = anchor.sc
        self._anchor, self.partitions = anchor, anchor.partitions
        self._name = f"vertexsdk-{uuid.uuid4().hex}"
        sc._pickled_broadcast_vars.clear()
        self._task = cloudpickle.dumps(task)
        self._broadcasts = list(sc._pickled_broadcast_vars)  # that the task uses
        self._jvm = anchor.jvm
        self._reports = sc.accumulator({}, Reports())
        self._hops = 0
        self._blocks: list[bytes] | Shuffle | None = None  # for the next hop
        self._submitted = 0.0
        self.times: HopTimes | None = None

    def hop(self, command: Any, *, via: Literal["driver", "shuffle"] = "driver") -> list[bytes]:
        """Run the task on every partition.

        Args:
            command: for every task; pickled.
            via: how the blocks of this hop travel to the next.

        Returns:
            The report of each partition, in order; several reports of one task are joined.

        Raises:
            VertexError: raised by a task; the same hop may be run again.
            RunError: the last line of another exception of a task, or why Spark failed.
        """
        began = time.time()
        pickled = cloudpickle.dumps(command)
        sc = self._jvm.sc
        for used in self._broadcasts:  # each hop may be the first in a worker
            sc._pickled_broadcast_vars.add(used)
        broadcast = sc.broadcast(pickled) if len(pickled) > BROADCAST_COMMAND else None
        function = HopFunction(
            self._name,
            self._hops,
            self.partitions,
            self._task,
            broadcast or pickled,
            self._reports if via == "shuffle" else None,
        )
        try:
            with self._anchor.watched():
                if via == "shuffle":
                    stamped = self._hop_by_shuffle(function)
                else:
                    stamped = self._hop_by_driver(function)
        except KeyboardInterrupt:
            sc.cancelAllJobs()
            raise
        finally:
            if broadcast is not None:
                broadcast.destroy()
        self._hops += 1
        stamps = [stamp for stamp, _ in stamped]
        self.times = HopTimes(began, self._submitted, time.time(), stamps)
        return [report for _, report in stamped]

    def _tasks(self, function: HopFunction, wire: Serializer) -> JavaObject:
        """Return the (Scala) RDD of the output of a hop's tasks.

        They read (anchor, bundle) pairs, or the anchor alone if the last hop sent no block: that is
        less work for the JVM.
        """
        blocks = self._blocks
        if blocks is None:
            return self._jvm.python(self._anchor.rdd.rdd(), function, NoInput(), wire)
        received = (
            blocks.bundles
            if isinstance(blocks, Shuffle)
            else self._jvm.distribute(blocks, self.partitions)
        )
        parent = self._anchor.rdd.zip(received).rdd()
        return self._jvm.python(parent, function, TaskInput(), wire)

    def _hop_by_driver(self, function: HopFunction) -> list[tuple[Stamp, bytes]]:
        wire = ToDriver()
        rdd = self._tasks(function, wire)
        self._submitted = time.time()
        reports: list[tuple[Stamp, bytes]] = []
        sent: list[list[bytes]] = [[] for _ in range(self.partitions)]
        for destination, bundle in self._jvm.collect(rdd, wire):
            if destination < 0:
                reports.append(outcome(destination, Bundle.only_block(bundle)))
            else:
                sent[destination].append(bundle)
        if len(reports) != self.partitions:
            raise LostError(f"{len(reports)} of {self.partitions} partitions reported; run again")
        bundles = [bundle for row in sent for bundle in row]
        self._replace_blocks(None if all(map(Bundle.is_empty, bundles)) else bundles)
        return reports

    def _hop_by_shuffle(self, function: HopFunction) -> list[tuple[Stamp, bytes]]:
        rdd = self._tasks(function, ToShuffle())
        shuffle = Shuffle(self._jvm, rdd, self.partitions)
        self._reports.value = {}
        self._submitted = time.time()
        shuffle.write()
        reported = {
            partition: report
            for (hop, partition), report in self._reports.value.items()
            if hop == function.hop
        }
        try:
            if len(reported) != self.partitions:
                count = f"{len(reported)} of {self.partitions}"
                raise LostError(f"{count} partitions reported; run again")
            reports = [outcome(*reported[p]) for p in range(self.partitions)]
        except BaseException:
            shuffle.free()
            raise
        shuffle.cut(self._anchor.rdd)
        self._replace_blocks(shuffle)
        return reports

    def _replace_blocks(self, blocks: list[bytes] | Shuffle | None) -> None:
        """Replace the blocks that this hop has read by those that it sent."""
        if isinstance(self._blocks, Shuffle):
            self._blocks.free()
        self._blocks = blocks

    def close(self) -> None:
        """Free Spark's memory and disk; may be called twice."""
        with contextlib.suppress(Py4JError, ConnectionError):  # Spark may have stopped
            self._replace_blocks(None)
        _accumulatorRegistry.pop(self._reports.aid, None)

    def __enter__(self) -> JobExchange:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
