"""Kinds of snapshot, whose loops take turns in one process, so that other load meets them all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

KINDS = ("none", "asynchronous", "synchronous")
NEVER = 1 << 62  # changes: by default a loop takes a snapshot when its log is long


def snapshot_options(kind: str, every: float) -> dict[str, Any]:
    """Return the arguments of a loop with this kind of snapshot, every so many seconds."""
    if kind == "none":
        return {"snapshot_every": NEVER}
    return {"snapshot_every": f"{every:g}s", "snapshots": kind}


def there_and_back(kinds: Sequence[str], turn: int) -> Sequence[str]:
    """Return the kinds in the order of a turn, which is turned round in every second one."""
    return kinds if turn % 2 == 0 else kinds[::-1]
