"""The transport of a graph: Spark where it has a session, else this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vertexsdk.transport.inprocess import InProcessTransport
from vertexsdk.transport.transport import Transport

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def transport_for(spark: SparkSession | None) -> Transport:
    """Return the transport over a Spark session; None is this process.

    >>> transport_for(None).name
    'local'
    """
    if spark is None:
        return InProcessTransport()
    from vertexsdk.transport.spark import SparkTransport

    return SparkTransport(spark)
