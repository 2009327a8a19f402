"""Parameters and aggregates as values that JSON can represent, for manifests."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any


def to_scalars(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values with Python scalars in place of NumPy scalars.

    Example:
        >>> import numpy as np
        >>> to_scalars({"damping": np.float64(0.85)})
        {'damping': 0.85}
    """
    return {k: x.item() if hasattr(x, "item") else x for k, x in values.items()}


def as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values as JSON scalars; a value of any other type becomes its `repr`.

    Example:
        >>> import numpy as np
        >>> as_json({"most": np.int64(3), "seen": {1}})
        {'most': 3, 'seen': '{1}'}
    """
    scalars = (bool, int, float, str, type(None))
    return {k: x if isinstance(x, scalars) else repr(x) for k, x in to_scalars(values).items()}
