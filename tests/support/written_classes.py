"""Classes of text that a test makes: methods are read from files, so it is written to one."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any


def written_class(name: str, text: str, directory: Path) -> Any:
    """Write the text of a module that is named as its class, and return the class."""
    path = directory / f"{name}.py"
    path.write_text(text)
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # the class is pickled by its name
    spec.loader.exec_module(module)
    return getattr(module, name)
