"""Generated modules on disk, so that the next process uses what Numba compiled for them.

A module is named by the digest of its text, written once under the user's cache directory
(`VERTEXSDK_CACHE_DIR` overrides it), and never changed: what Numba compiled for it stays valid.
Both are run as they are read, so only this user may write there (`private_files`); where
others may, a process has a directory of its own, and compiles anew.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import tempfile
from pathlib import Path
from types import ModuleType

import numba

from vertexsdk.arrays import prefetch
from vertexsdk.arrays.private_files import NotPrivateError, cache_directory, open_file
from vertexsdk.compile import (
    _arithmetic,
    _delivery_kernels,
    _exact_arithmetic,
    _intrinsics,
    _method_kernels,
    _rewrite,
)


def _engine_digest() -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    modules = (
        _arithmetic, _delivery_kernels, _exact_arithmetic, _method_kernels, _rewrite, _intrinsics,
        prefetch,
    )  # fmt: skip
    for module in modules:
        loader = getattr(module, "__loader__", None)
        source = loader.get_source(module.__name__) if loader is not None else ""
        digest.update((source or "").encode())
    return digest.hexdigest()


_DIGEST = _engine_digest()


def load_module(source: str) -> ModuleType:
    """Return the generated module with this text; it is written to the cache if it is new.

    Args:
        source: text of the module, whose name is a digest of it.
    """
    digest = hashlib.sha256((_DIGEST + source).encode()).hexdigest()[:24]
    name = f"vertexsdk_kernels_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    path = cache_directory() / f"{name}.py"
    if not _has_text(path, source):
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".tmp")
        with os.fdopen(handle, "w") as f:
            f.write(source)
        os.replace(temporary, path)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    sys.modules[name] = module
    return module


def _has_text(path: Path, source: str) -> bool:
    try:
        with open(path, opener=open_file) as file:
            return file.read() == source
    except (OSError, UnicodeDecodeError, NotPrivateError):
        return False
