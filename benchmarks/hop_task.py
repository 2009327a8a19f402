"""The task of hops that do nothing but send; pickled by value, so it imports nothing of its own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def sending(partition: int, command: Any, blocks: Any) -> Iterator[tuple[int, bytes]]:
    """Send as many bytes to each partition as the command, (partitions, bytes), says."""
    partitions, size = command
    yield -1, b"%d" % sum(len(block) for _, block in blocks)
    for other in range(partitions):
        yield other, bytes(size)
