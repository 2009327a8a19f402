"""Named values as JSON holds them: parameters and aggregates, which manifests keep."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["as_json", "to_scalars"]


def to_scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values with Python's own scalars in place of NumPy's."""
    return {k: x.item() if hasattr(x, "item") else x for k, x in values.items()}


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON holds them, and as its `repr` what it has no form for.

    >>> import numpy as np
    >>> as_json({"most": np.int64(3), "seen": {1}})
    {'most': 3, 'seen': '{1}'}
    """
    scalars = (bool, int, float, str, type(None))
    return {k: x if isinstance(x, scalars) else repr(x) for k, x in to_scalars(values).items()}
