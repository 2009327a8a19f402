"""Values as the command line prints them."""

from __future__ import annotations

import base64
from typing import Any


def text_of(value: Any) -> str:
    """Return a value as text: bytes as base64, others as Python does.

    >>> text_of(7), text_of(b"be")
    ('7', 'YmU=')
    """
    return base64.b64encode(value).decode() if isinstance(value, bytes) else str(value)
