"""The URL of a store: its default, and how it is printed without the password in it."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

_HIDDEN = "***"
_PLAIN_OPTIONS = {
    *("prefix", "schema", "retry", "map", "directory"),
    *("host", "hostaddr", "port", "dbname", "user", "sslmode", "connect_timeout"),
}


class Address:
    """The URL of a store, whose text never contains the password.

    It is not a `str`, so it cannot be sliced, concatenated or dumped as JSON by accident. A pickle
    contains the password, because tasks open the store with it.

    Args:
        url: a URL, or "@FILE" for a file that contains one.

    Attributes:
        passed_on: it was unpickled, so the process it came from has already shown any advice.

    Example:
        >>> print(Address("redis://me:secret@host/0?password=secret"))
        redis://me:***@host/0?password=***
    """

    __slots__ = ("_url", "passed_on")

    def __init__(self, url: str | Address, *, passed_on: bool = False) -> None:
        self._url: str = url._url if isinstance(url, Address) else url
        self.passed_on: bool = url.passed_on if isinstance(url, Address) else passed_on

    def reveal(self) -> str:
        """The URL with its password; only for code that connects to the store."""
        return self._url

    def __str__(self) -> str:
        return redacted(self._url)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __reduce__(self) -> tuple[Any, ...]:
        return _passed_on, (self._url,)


def _passed_on(url: str) -> Address:
    return Address(url, passed_on=True)


def address_or_default(url: str | Address | None = None) -> Address:
    """The address of `url`, else of `$VERTEXSDK_BACKEND`, else of LMDB in the working directory."""
    default = os.environ.get("VERTEXSDK_BACKEND") or f"lmdb://{Path.cwd() / 'vertexsdk-state'}"
    return Address(url or default)


def redacted(url: str) -> str:
    """The URL with whatever may be a password replaced by ***.

    Option values are shown only for options known to be harmless. Where an unescaped character
    makes the URL ambiguous, more is hidden rather than less.

    Example:
        >>> redacted("postgresql://me:secret@host/db?schema=graphs")
        'postgresql://me:***@host/db?schema=graphs'
    """
    if url.startswith("@"):
        return url
    scheme, separator, rest = url.partition("://")
    if not separator:
        return url if not set("@=?") & set(url) else _HIDDEN
    cut = min((rest.find(mark) for mark in "?#" if mark in rest), default=len(rest))
    place, options = rest[:cut], rest[cut + 1 :]
    if "@" in options and "@" not in place:  # an unescaped ? or # in a password, perhaps
        return f"{scheme}://{_HIDDEN}"
    account, at, host = place.rpartition("@")
    user, colon, _ = account.partition(":")
    secret = f":{_HIDDEN}" if colon else ""
    shown = "&".join(map(_option, options.split("&"))) if options else ""
    return f"{scheme}://{user}{secret}{at}{host}{rest[cut : cut + 1]}{shown}"


def scrubbed(text: str) -> str:
    """The text with everything that looks like a password in a URL replaced by ***."""
    text = re.sub(r"(://[^\s:/@]*):\S*@", rf"\1:{_HIDDEN}@", text)
    return re.sub(r"(password=)[^&\s'\"]*", rf"\1{_HIDDEN}", text)


def _option(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not equals:
        return _HIDDEN
    return text if name in _PLAIN_OPTIONS else f"{name}={_HIDDEN}"
