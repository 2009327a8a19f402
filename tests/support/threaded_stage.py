"""A Spark context whose tasks are threads of this process: processors with their real sockets."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any


class ThreadedStage:
    """What a `Launch` asks of a Spark context; its one job runs a task per partition."""

    def __init__(self) -> None:
        self.applicationId = f"threads-{uuid.uuid4().hex[:8]}"
        self._task: Callable[[int, Iterator[Any]], Iterator[Any]]
        self._partitions: range

    def __getattr__(self, name: str) -> Callable[..., Any]:
        return lambda *_: None  # tags, properties and cancelling: of no use to threads

    def getConf(self) -> dict[str, str]:
        return {"spark.driver.host": "127.0.0.1"}

    def parallelize(self, partitions: range, _: int) -> ThreadedStage:
        self._partitions = partitions
        return self

    def mapPartitionsWithIndex(self, task: Any) -> ThreadedStage:
        self._task = task
        return self

    def collect(self) -> list[Any]:
        with ThreadPoolExecutor(len(self._partitions)) as pool:
            return list(pool.map(lambda p: list(self._task(p, iter(()))), self._partitions))
