"""What a graph and an engine ask of whatever runs their tasks: Spark, or this process."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeGuard, TypeVar

from vertexsdk.transport.task_times import HopTimes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = [
    "DRIVER",
    "Blocks",
    "Exchange",
    "Task",
    "Transport",
    "Workers",
    "is_dataframe",
    "transport_for",
]

DRIVER = -1  # the destination of a task's report

Blocks = list[tuple[int, bytes]]
Task = Callable[[int, Any, Blocks], Iterable[tuple[int, bytes]]]
Returned = TypeVar("Returned")


class Exchange(Protocol):
    """The hops of one loop: a task on every partition, and the blocks that they send each other.

    Attributes:
        times: of the last hop; None where there are no jobs to measure.
    """

    partitions: int
    times: HopTimes | None

    def hop(self, command: Any, *, via: Literal["driver", "shuffle"] = "driver") -> list[bytes]:
        """Run the task once on every partition; return their reports in partition order.

        Args:
            command: passed to the task.
            via: how the blocks of this hop travel to the next one.

        Raises:
            RunError: a task failed; the same hop may be run again. A `VertexError` that a task
                raised is raised as it is.
        """

    def close(self) -> None:
        """Free what the hops hold; may be called twice."""


class Workers(Protocol):
    """The places where the partitions of one graph are, until they are closed.

    A dataset that `records` or `route` returns has the methods `map`, `mapPartitions`,
    `mapPartitionsWithIndex` and `collect` of an RDD.
    """

    partitions: int

    @property
    def resident(self) -> bool:
        """Whether the tasks of an exchange run where those before did, so what they hold stays."""

    def exchange(self, task: Task, *, resident: bool = True) -> Exchange:
        """Return the hops of a task.

        Args:
            resident: False has nothing stay in tasks between hops.
        """

    def whole(self) -> bool:
        """Whether each partition is still where it was at first."""

    def watched(self) -> AbstractContextManager[None]:
        """Run datasets within; a lost place or a failed task is raised as one `RunError`."""

    def records(self) -> Any:
        """Return a dataset with a part for each partition, where that is."""

    def route(self, blocks: Any) -> Any:
        """Bring each (destination, block) of a dataset to partition `destination`, in any order."""

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function of the partition's number where each is; what it returns is pickled."""

    def forget(self, prefix: str) -> None:
        """Drop the arrays under a shared-memory key, wherever partitions are."""

    def close(self) -> None:
        """Let go of the places; may be called twice."""


class Transport(Protocol):
    """Starts workers, and carries commands and blocks to them.

    Attributes:
        name: "spark" or "local".
        spark: the session, or None.
        application: the first part of shared-memory keys.
        cores: that all tasks have together.
    """

    name: str
    application: str

    @property
    def spark(self) -> SparkSession | None: ...

    @property
    def cores(self) -> int: ...

    def default_partitions(self) -> int:
        """How many partitions a graph has for which nobody has said."""

    def workers(self, partitions: int) -> Workers:
        """Return places for so many partitions."""

    def broadcast(self, value: Any) -> Any:
        """Return a handle with the value as its `value`, which is sent to each process once."""

    def parallelize(self, items: Sequence[Any]) -> Any:
        """Return a dataset with a part for each item."""

    def collect(self, dataset: Any) -> list[Any]:
        """Return the records of a dataset; a failure is raised as one `RunError`."""

    def other_hosts(self) -> list[str]:
        """The hosts, other than this one, on which tasks run."""


def transport_for(spark: SparkSession | None) -> Transport:
    """Return the transport over a Spark session; None is this process.

    >>> transport_for(None).name
    'local'
    """
    if spark is None:
        from vertexsdk.transport.inprocess import InProcessTransport

        return InProcessTransport()
    from vertexsdk.transport.spark import SparkTransport

    return SparkTransport(spark)


def is_dataframe(value: object) -> TypeGuard[DataFrame]:
    """Whether a value is a DataFrame of Spark; does not import Spark."""
    if "pyspark.sql" not in sys.modules:
        return False
    from pyspark.sql import DataFrame

    return isinstance(value, DataFrame)
