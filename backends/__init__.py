"""Backends of the versioned store, selected by the scheme of a URL.

`lmdb`, `redis`, `rediss`, `postgres`, `postgresql` and `memory` are built in. Other packages add a
backend by an entry point of the group `vertexsdk.backends`, whose name is the scheme and whose
value is a class with `from_url(url, *, create) -> Backend`.
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

from vertexsdk.errors import warn_caller
from vertexsdk.state.address import Address, redacted
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
_advised: set[str] = set()  # advice already shown in this process


def schemes() -> list[str]:
    """The schemes that can be opened, ascending.

    Example:
        >>> "lmdb" in schemes()
        True
    """
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return sorted({*_BUILT_IN, *entry_points(group=_GROUP).names})


def open_backend(url: str | Address, *, create: bool = True) -> Backend:
    """Open the backend of a URL such as `lmdb:///var/lib/graphs`.

    Args:
        url: the URL, or "@FILE" for a file that contains it in one line.
        create: create the store if there is none.

    Returns:
        The backend. Most programs use `vertexsdk.state.open_store`, which wraps it in a `Store`.

    Raises:
        StateInputError: the scheme is unknown, or no store exists; the message says what exists.
        StateError: the store cannot be opened.

    Example:
        >>> backend = open_backend("memory://example")
        >>> backend.durability
        'it is gone when the process that made it ends'
    """
    address = Address(url)
    text = address.reveal()
    if text.startswith("@"):
        text = _line_of(text[1:])
    scheme, colon, _ = text.partition("://")
    if not colon or not scheme or not _is_text(text):
        raise StateInputError(
            f"{redacted(text)!r} is not a backend URL: write lmdb:///path/to/directory"
        )
    try:
        backend: Backend = _find(scheme).from_url(text, create=create)
    except ValueError as error:  # of urllib or the system; its text may have the password
        raise StateInputError(
            f"{redacted(text)!r} is not a URL: write %5B and %5D for [ and ], and no %00"
        ) from error
    if backend.advice and not address.passed_on and backend.advice not in _advised:
        _advised.add(backend.advice)
        warn_caller(backend.advice)
    return backend


def _line_of(path: str) -> str:
    try:
        lines = Path(path).expanduser().read_text().strip().splitlines()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is not text"
        raise StateInputError(f"@{path} cannot be read: {why}; name a file with one URL") from None
    if len(lines) != 1:
        raise StateInputError(f"@{path} has {len(lines)} lines: write the store's URL in one line")
    return lines[0]


def _is_text(url: str) -> bool:
    """Return whether it has no control characters, which URL parsers drop, or lone surrogates."""
    return not any(ord(c) < 32 or "\ud800" <= c <= "\udfff" for c in url)


def _find(scheme: str) -> Any:
    if scheme in _BUILT_IN:
        module, name = _BUILT_IN[scheme]
        return getattr(import_module(module), name)
    from importlib.metadata import entry_points

    plugins = list(entry_points(group=_GROUP, name=scheme))
    if not plugins:
        raise StateInputError(
            f"no backend for {scheme}://, only for {', '.join(schemes())}: check the URL, or "
            f"install the package that adds it (entry point group {_GROUP})"
        )
    try:
        return plugins[0].load()
    except ImportError as error:
        raise StateInputError(
            f"the backend for {scheme}:// ({plugins[0].value}) cannot be imported: {error}"
        ) from error
