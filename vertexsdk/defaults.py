"""What holds where the user says nothing."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["default_backend"]


def default_backend() -> str:
    """The store of a run which names none: `VERTEXSDK_BACKEND`, else LMDB in this directory."""
    return os.environ.get("VERTEXSDK_BACKEND") or f"lmdb://{Path.cwd() / 'vertexsdk-state'}"
