"""Where versions are kept, by the scheme of a URL.

`lmdb:///path` and `memory://name` are built in; other packages add theirs by an entry point of the
group `vertexsdk.backends`, whose name is the scheme and whose value is a class with
`from_url(url, *, create) -> Backend`.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

from vertexsdk.state.contract import Backend
from vertexsdk.state.errors import StateInputError

__all__ = ["open_backend", "schemes"]

_GROUP = "vertexsdk.backends"
_BUILT_IN = {
    "postgres": ("vertexsdk.backends.postgres", "PostgresBackend"),
    "postgresql": ("vertexsdk.backends.postgres", "PostgresBackend"),
    "lmdb": ("vertexsdk.backends.lmdb", "LmdbBackend"),
    "redis": ("vertexsdk.backends.redis", "RedisBackend"),
    "rediss": ("vertexsdk.backends.redis", "RedisBackend"),
    "memory": ("vertexsdk.backends.memory", "MemoryBackend"),
}


def schemes() -> list[str]:
    """The schemes that can be opened, ascending."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return sorted({*_BUILT_IN, *entry_points(group=_GROUP).names})


def open_backend(url: str, *, create: bool = True) -> Backend:
    """The backend named by a URL such as `lmdb:///var/lib/graphs`.

    Args:
        create: make the store if there is none.

    Raises:
        StateInputError: no such scheme or place; says which there are.
        StateError: it cannot be opened.
    """
    scheme, colon, _ = url.partition("://")
    if not colon or not scheme:
        raise StateInputError(f"{_shown(url)!r} is no backend URL: write lmdb:///path/to/directory")
    backend: Backend = _find(scheme).from_url(url, create=create)
    return backend


def _find(scheme: str) -> Any:
    if scheme in _BUILT_IN:
        module, name = _BUILT_IN[scheme]
        return getattr(import_module(module), name)
    from importlib.metadata import entry_points

    found = list(entry_points(group=_GROUP, name=scheme))
    if not found:
        raise StateInputError(
            f"no backend for {scheme}://, only for {', '.join(schemes())}: check the URL, or "
            f"install the package that adds it (entry point group {_GROUP})"
        )
    try:
        return found[0].load()
    except ImportError as error:
        raise StateInputError(
            f"the backend for {scheme}:// ({found[0].value}) cannot be imported: {error}"
        ) from error


def _shown(url: str) -> str:
    return url.rpartition("@")[2]  # whatever stands before it may be a password
