"""The examples in docstrings of the store, its backends, arrays and the oracles are run."""

from __future__ import annotations

import doctest
import pkgutil
from importlib import import_module

import pytest

PACKAGES = (
    "vertexsdk.arrays",
    "vertexsdk.backends",
    "vertexsdk.state",
    "vertexsdk.testing",
)
# In modules of several examples none may lose its `>>>` unnoticed.
AT_LEAST = {
    "vertexsdk.arrays.buffers": 7,
    "vertexsdk.backends": 3,
    "vertexsdk.state.contract": 3,
    "vertexsdk.state.store": 6,
    "vertexsdk.testing.backends": 2,
    "vertexsdk.testing.oracles": 5,
}
MODULES = [
    *PACKAGES,
    *(
        f"{package}.{module.name}"
        for package in PACKAGES
        for module in pkgutil.iter_modules(import_module(package).__path__)
    ),
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = import_module(name)
    results = doctest.testmod(module)
    assert not results.failed
    assert results.attempted >= AT_LEAST.get(name, 0)
