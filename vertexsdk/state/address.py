"""The URL of a store, which may hold a password, and the text of it that may be shown."""

from __future__ import annotations

import re
from typing import Any

__all__ = ["Address", "redacted", "scrubbed"]

_HIDDEN = "***"
_PLAIN_OPTIONS = {
    *("prefix", "schema", "retry", "map", "directory"),
    *("host", "hostaddr", "port", "dbname", "user", "sslmode", "connect_timeout"),
}


class Address:
    """The URL of a store; whatever prints, joins or dumps it does not get the password.

    It is no `str`: JSON refuses it, and it can be neither sliced nor concatenated. A pickle holds
    the password, because tasks open the store with it.

    Args:
        url: a URL, or "@FILE" for a file which holds one.

    Attributes:
        passed_on: it came from another process, whose user was told what there is to tell.

    Example:
        >>> print(Address("redis://me:secret@host/0?password=secret"))
        redis://me:***@host/0?password=***
    """

    __slots__ = ("_url", "passed_on")

    def __init__(self, url: str | Address, *, passed_on: bool = False) -> None:
        self._url: str = url._url if isinstance(url, Address) else url
        self.passed_on: bool = url.passed_on if isinstance(url, Address) else passed_on

    def reveal(self) -> str:
        """The URL with its password: for what connects, and for nothing else."""
        return self._url

    def __str__(self) -> str:
        return redacted(self._url)

    def __repr__(self) -> str:
        return f"Address({str(self)!r})"

    def __format__(self, spec: str) -> str:
        return format(str(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Address) and self._url == other._url

    def __hash__(self) -> int:
        return hash(self._url)

    def __reduce__(self) -> tuple[Any, ...]:
        return _passed_on, (self._url,)


def _passed_on(url: str) -> Address:
    return Address(url, passed_on=True)


def redacted(url: str) -> str:
    """The URL without a password: what may be one is replaced by ***.

    Of options only the values of those that are known to be harmless stay. Where a password holds
    characters that it must not hold in a URL, more is hidden rather than less.
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
    """The text without what looks like a password in a URL, wherever it came from."""
    text = re.sub(r"(://[^\s:/@]*):\S*@", rf"\1:{_HIDDEN}@", text)
    return re.sub(r"(password=)[^&\s'\"]*", rf"\1{_HIDDEN}", text)


def _option(text: str) -> str:
    name, equals, _ = text.partition("=")
    if not equals:
        return _HIDDEN
    return text if name in _PLAIN_OPTIONS else f"{name}={_HIDDEN}"
