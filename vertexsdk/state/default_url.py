"""What holds where the user says nothing."""

from __future__ import annotations

import os
from pathlib import Path

from vertexsdk.state.address import Address

__all__ = ["chosen_backend"]


def chosen_backend(named: str | Address | None = None) -> Address:
    """The store that is named, else that of `VERTEXSDK_BACKEND`, else LMDB in this directory."""
    url = named or os.environ.get("VERTEXSDK_BACKEND")
    return Address(url or f"lmdb://{Path.cwd() / 'vertexsdk-state'}")
