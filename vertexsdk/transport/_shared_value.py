"""Values that each process gets once: by a Spark broadcast, or with a message to a processor."""

from __future__ import annotations

import contextvars
from dataclasses import dataclass
from typing import Any

import cloudpickle
from pyspark import SparkContext

_by_value = contextvars.ContextVar("_by_value", default=False)


@dataclass(frozen=True)
class _Received:
    value: Any


class SharedValue:
    """A broadcast whose `value` can be read wherever it is unpickled.

    Args:
        sc: the context of the broadcast.
        value: what is sent.
    """

    def __init__(self, sc: SparkContext, value: Any) -> None:
        self.value = value
        self._broadcast = sc.broadcast(value)

    def __reduce__(self) -> Any:
        if _by_value.get():
            return _Received, (self.value,)
        return _same, (self._broadcast,)


def _same(broadcast: Any) -> Any:
    return broadcast


def pickled_by_value(message: Any) -> bytes:
    """Pickle a message to a processor: Spark does not bring broadcasts to a task that runs."""
    token = _by_value.set(True)
    try:
        pickled: bytes = cloudpickle.dumps(message)
        return pickled
    finally:
        _by_value.reset(token)
