"""The transport of a graph: Spark where it has a session with a JVM, else this process."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vertexsdk.transport.inprocess import InProcessTransport
from vertexsdk.transport.transport import Transport, is_remote

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def transport_for(spark: SparkSession | None) -> Transport:
    """Return the transport over a Spark session; this process for None, or a remote session.

    >>> transport_for(None).name
    'local'
    """
    if spark is None or is_remote(spark):
        return InProcessTransport(spark)
    from vertexsdk.transport.spark import SparkTransport

    return SparkTransport(spark)
