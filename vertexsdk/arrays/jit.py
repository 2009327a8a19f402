"""`njit` for every native kernel: releases the GIL, and caches compiled code on disk.

What Numba reads from its cache is a pickle, so it is run. Numba's own choice of a place, beside the
source file or in `~/.cache/numba`, may let other users write there; here all compiled code is kept
in this user's private directory, in one directory for each module, named by the module's text: the
same wheel that Spark unpacks elsewhere in every run finds it again. Without a private directory,
the code is compiled in each process.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from typing import Any, TypeVar, overload

import numba
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator

from vertexsdk.arrays.private_files import NotPrivateError, cache_directory, make_private

F = TypeVar("F", bound=Callable[..., Any])


@cache
def _digest(module: str, loader: Any) -> str | None:
    """Return the digest of a module's text; None for one without a file, as in a notebook."""
    with suppress(AttributeError, ImportError, OSError):
        return hashlib.sha256((module + loader.get_source(module)).encode()).hexdigest()[:24]
    return None


class _PrivateLocator(_CacheLocator):
    """The place of the compiled code of one function."""

    def __init__(self, function: Callable[..., Any], digest: str) -> None:
        self._py_file = function.__code__.co_filename  # Numba names it in warnings
        self._line = function.__code__.co_firstlineno
        self._digest = digest
        self._path = str(make_private(cache_directory() / digest))

    def get_cache_path(self) -> str:
        return self._path

    def get_source_stamp(self) -> str:
        return self._digest

    def get_disambiguator(self) -> str:
        return str(self._line)


class _PrivateFiles(CompileResultCacheImpl):
    """Numba's format of the files, without Numba's choice of their place."""

    def __init__(self, function: Callable[..., Any]) -> None:
        names = function.__globals__
        digest = _digest(names["__name__"], names.get("__loader__"))
        if digest is None:
            raise OSError("the source file is missing")
        self._lineno = function.__code__.co_firstlineno
        self._locator = _PrivateLocator(function, digest)
        self._filename_base = self.get_filename_base(  # type: ignore[no-untyped-call]
            function.__qualname__, sys.abiflags
        )


class _PrivateCache(FunctionCache):
    _impl_class = _PrivateFiles


@overload
def njit(function: F) -> F: ...
@overload
def njit(**options: Any) -> Callable[[F], F]: ...
def njit(function: F | None = None, **options: Any) -> F | Callable[[F], F]:
    """Compile `function` with Numba: `nogil`, and cached where no other user can write.

    `options` are those of `numba.njit`, without `cache`. A function must be defined in a module,
    not in another function. Numba sees a change of the function's own file, not of another file
    which it calls: keep a kernel and what it calls in one file.

    >>> @njit
    ... def twice(x):
    ...     return 2 * x
    >>> twice(4)
    8
    """

    def decorate(f: F) -> F:
        kernel = numba.njit(**{"nogil": True, **options})(f)
        with suppress(OSError, NotPrivateError):
            kernel._cache = _PrivateCache(f)  # type: ignore[no-untyped-call]
        return kernel  # type: ignore[no-any-return]

    return decorate(function) if function is not None else decorate


def njit_without_refcounts(function: Any = None, **options: Any) -> Any:
    """`njit` without Numba's reference counting, for kernels that allocate no arrays.

    Reference counts cost two atomic operations per array and call where Numba cannot prune them,
    which in a loop over edges is ten times the work itself. A function that needs them does not
    compile.
    """
    return njit(**{"_nrt": False, **options}) if function is None else njit(_nrt=False)(function)
