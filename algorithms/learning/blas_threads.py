"""BLAS with one thread, where it is given many small matrices.

Its threads wait for each other in each product. Where other programs have the cores, they wait for
as long as these run: sums that take 0.1 s by one thread took 28 s by two.
"""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

_lock = threading.Lock()
_users: list[Any] = []  # of one thread: what restores the others, once for each user


@cache
def _controller() -> Any:
    """Return what sets the number of threads; None on executors that have no scikit-learn."""
    try:
        controller = importlib.import_module("threadpoolctl").ThreadpoolController()
    except ImportError:
        return None
    return controller.select(user_api="blas")


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Have BLAS use one thread; the old number is restored when the last such block ends."""
    controller = _controller()
    if controller is None:
        yield
        return
    with _lock:
        limits = _users[0] if _users else controller.limit(limits=1)
        _users.append(limits)
    try:
        yield
    finally:
        with _lock:
            _users.pop()
            if not _users:
                limits.restore_original_limits()
