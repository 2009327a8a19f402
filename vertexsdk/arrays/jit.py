"""`njit` for every native kernel: releases the GIL, and caches compiled code on disk.

Numba caches compiled code beside the source file, or in the user's cache directory when that is
read-only. It has no cache for a module inside a wheel, as `spark-submit --py-files` ships it, so
such a module gets one here, named by the wheel's contents: every worker of every run with the same
wheel shares it. Where nothing can be written, the code is compiled in each process.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, overload

import numba
from numba.core.caching import CacheImpl, _CacheLocator

from vertexsdk.arrays.private_files import NotPrivateError, make_private

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _digest(archive: str) -> str:
    return hashlib.sha256(Path(archive).read_bytes()).hexdigest()[:24]


def _archive_of(file: str) -> str | None:
    """Return the archive that `file` lies in, or None for a plain file."""
    path = Path(file)
    if path.exists():
        return None
    return next((str(p) for p in path.parents if p.is_file()), None)


class _ArchiveCacheLocator(_CacheLocator):
    """Where Numba keeps the code of a function whose module lies in a wheel."""

    def __init__(self, function: Callable[..., Any], file: str, archive: str) -> None:
        self._line = function.__code__.co_firstlineno
        self._digest = _digest(archive)
        module = hashlib.sha256(os.path.relpath(file, archive).encode()).hexdigest()[:12]
        home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
        self._path = os.path.join(home, "vertexsdk", self._digest, module)

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)

    @classmethod
    def from_function(cls, function: Callable[..., Any], file: str) -> _ArchiveCacheLocator | None:
        archive = _archive_of(file)
        if archive is None:
            return None
        try:
            locator = cls(function, file, archive)
            locator._path = str(make_private(locator._path))  # what is read there is run
            locator.ensure_cache_path()  # type: ignore[no-untyped-call]
        except (OSError, NotPrivateError):
            return None
        return locator


if not any(c.__name__ == "_ArchiveCacheLocator" for c in CacheImpl._locator_classes):
    # Before Numba's own, which names a zip by its place: a new one in every Spark run.
    CacheImpl._locator_classes.insert(0, _ArchiveCacheLocator)  # type: ignore[arg-type]


@overload
def njit(function: F) -> F: ...
@overload
def njit(**options: Any) -> Callable[[F], F]: ...
def njit(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Compile `function` with Numba: `nogil`, and `cache` wherever a cache can be written.

    `options` are those of `numba.njit`. A function must be defined in a module, not in another
    function. Numba sees a change of the function's own file, not of another file which it
    calls: keep a kernel and what it calls in one file.

    >>> @njit
    ... def twice(x):
    ...     return 2 * x
    >>> twice(4)
    8
    """

    def decorate(f: F) -> F:
        settings = {"nogil": True, "cache": True, **options}
        try:
            return numba.njit(**settings)(f)  # type: ignore[no-any-return]
        except RuntimeError:  # nowhere to keep the compiled code
            return numba.njit(**{**settings, "cache": False})(f)  # type: ignore[no-any-return]

    return decorate(function) if function is not None else decorate


def njit_without_refcounts(function: Any = None, **options: Any) -> Any:
    """`njit` without Numba's reference counting, for kernels that allocate no arrays.

    Reference counts cost two atomic operations per array and call where Numba cannot prune them,
    which in a loop over edges is ten times the work itself. A function that needs them does not
    compile.
    """
    return njit(**{"_nrt": False, **options}) if function is None else njit(_nrt=False)(function)
