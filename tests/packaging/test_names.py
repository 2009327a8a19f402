"""The public names stay what they are, whatever of the package was imported before."""

from __future__ import annotations

import subprocess
import sys

import pytest

CODE = """
import pkgutil, importlib, vertexsdk
for module in pkgutil.walk_packages(vertexsdk.__path__, "vertexsdk."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
for name in vertexsdk.__all__:
    value = getattr(vertexsdk, name)
    assert callable(value) or isinstance(value, (int, float, str)), name
assert vertexsdk.state(1.5).default == 1.5  # not the package vertexsdk.state
"""


@pytest.mark.full
def test_a_sub_package_does_not_hide_a_public_name() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr
