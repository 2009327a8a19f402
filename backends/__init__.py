"""Where versions are kept, by the scheme of a URL.

`lmdb:///path` and `memory://name` are built in; other packages add theirs by an entry point of the
group `vertexsdk.backends`, whose name is the scheme and whose value is a class with
`from_url(url, *, create) -> Backend`.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from pathlib import Path
from typing import Any

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
_said: set[str] = set()  # advice that was given in this process


def schemes() -> list[str]:
    """The schemes that can be opened, ascending."""
    from importlib.metadata import entry_points  # slow to import, and seldom needed

    return sorted({*_BUILT_IN, *entry_points(group=_GROUP).names})


def open_backend(url: str | Address, *, create: bool = True) -> Backend:
    """The backend named by a URL such as `lmdb:///var/lib/graphs`.

    Args:
        url: the URL, or "@FILE": it is the one line of this file.
        create: make the store if there is none.

    Raises:
        StateInputError: no such scheme or place; says which there are.
        StateError: it cannot be opened.
    """
    address = Address(url)
    text = address.reveal()
    if text.startswith("@"):
        text = _line_of(text[1:])
    scheme, colon, _ = text.partition("://")
    if not colon or not scheme or not _is_text(text):
        raise StateInputError(
            f"{redacted(text)!r} is no backend URL: write lmdb:///path/to/directory"
        )
    backend: Backend = _find(scheme).from_url(text, create=create)
    if backend.advice and not address.passed_on and backend.advice not in _said:
        _said.add(backend.advice)
        warnings.warn(backend.advice, stacklevel=3)
    return backend


def _line_of(path: str) -> str:
    try:
        lines = Path(path).expanduser().read_text().strip().splitlines()
    except (OSError, RuntimeError, ValueError) as error:
        why = error.strerror if isinstance(error, OSError) else "it is no text"
        raise StateInputError(f"@{path} cannot be read: {why}; name a file with one URL") from None
    if len(lines) != 1:
        raise StateInputError(f"@{path} has {len(lines)} lines: it must be one, the store's URL")
    return lines[0]


def _is_text(url: str) -> bool:
    """No control characters, some of which URL parsers drop, and no lone surrogates."""
    return not any(ord(c) < 32 or "\ud800" <= c <= "\udfff" for c in url)


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
