"""Learning that never stops: instances arrive and are withdrawn, and the model follows.

`LinearSVM`, `LogisticSGD` and `LinearSGD` are linear models, `KMeans` finds centres,
`MatrixFactorisation` recommends.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vertexsdk.algorithms.learning._learner import Learner, Receipt
    from vertexsdk.algorithms.learning.factorisation import MatrixFactorisation
    from vertexsdk.algorithms.learning.kmeans import KMeans
    from vertexsdk.algorithms.learning.linear import (
        LinearModel,
        LinearSGD,
        LinearSVM,
        LogisticSGD,
    )

# By module, which is imported when it is needed: executors have no scikit-learn.
_MODULES = {
    "_learner": ("Learner", "Receipt"),
    "factorisation": ("MatrixFactorisation",),
    "kmeans": ("KMeans",),
    "linear": ("LinearModel", "LinearSGD", "LinearSVM", "LogisticSGD"),
}

__all__ = [
    "KMeans",
    "Learner",
    "LinearModel",
    "LinearSGD",
    "LinearSVM",
    "LogisticSGD",
    "MatrixFactorisation",
    "Receipt",
]


def __getattr__(name: str) -> Any:
    for module, names in _MODULES.items():
        if name in names:
            return getattr(importlib.import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
