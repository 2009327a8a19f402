"""What the Structured Streaming jobs share: a session with RocksDB for their state."""

from __future__ import annotations

from typing import Any

from benchmarks.keyed.sizes import Sizes
from vertexsdk import session

_STATE = "spark.sql.streaming.stateStore"


def streaming_session(sizes: Sizes) -> Any:
    """Return a session with a slot and a shuffle partition for each core."""
    return session(
        f"local[{sizes.cores}]",
        **{
            f"{_STATE}.providerClass":
                "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
            f"{_STATE}.rocksdb.changelogCheckpointing.enabled": "true",
            "spark.sql.shuffle.partitions": str(sizes.cores),
            "spark.sql.adaptive.enabled": "false",
        },
    )  # fmt: skip
