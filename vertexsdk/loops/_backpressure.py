"""What a loop does when its workers run out of memory: changes wait, then they are refused."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

from vertexsdk.engine.loop_engine import MUCH_MEMORY
from vertexsdk.errors import RunError

if TYPE_CHECKING:
    from vertexsdk.engine.loop_engine import LoopEngine

_log = logging.getLogger("vertexsdk")
FULL = 0.95  # share of the limit from which on changes and branches are refused
_WAIT_SECONDS = 10.0
_LOOK_SECONDS = 0.2


def await_memory(loop: str, engine: LoopEngine) -> None:
    """Wait for some seconds while a worker has used much of its memory.

    Raises:
        RunError: it has used nearly all of it.
    """
    used = engine.used_memory()
    if used < MUCH_MEMORY:
        return
    _log.warning("%s: %.0f %% of the memory limit is used; changes wait", loop, 100 * used)
    end = time.monotonic() + _WAIT_SECONDS
    while used >= MUCH_MEMORY and time.monotonic() < end:
        time.sleep(_LOOK_SECONDS)
        used = engine.used_memory()
    require_memory(loop, used, "take in more changes")


def require_memory(loop: str, used: float, what: str) -> None:
    """Refuse `what` where nearly all memory is used.

    Raises:
        RunError: so it is.
    """
    if used >= FULL:
        raise RunError(
            f"loop {loop!r} cannot {what}: {used:.0%} of the memory limit of its container is "
            "used; close branches, use more partitions, or raise the limit (on a cluster "
            "spark.executor.memoryOverhead)"
        )
