"""Makes the user's code importable on the executors: ships wheels, and modules by value.

On a local master, workers run this process's Python and import what it imports.

Spark sends a wheel of `spark-submit --py-files` to every executor, but puts only `.zip`, `.egg`
and `.jar` files on the path of its Python workers. A wheel is a zip file, so it is sent again with
that suffix.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shutil
import sys
import sysconfig
import tempfile
import zipimport
from collections.abc import Callable, Iterable
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

import cloudpickle

if TYPE_CHECKING:
    from pyspark import SparkContext

_PACKAGE = Path(__file__).parents[1]
_shipped: set[tuple[str, str]] = set()


def prepare_workers(context: SparkContext) -> None:
    """Have the Python workers of an application import what this process imports.

    They get the wheels of the application. Those of a local master run this Python, unless
    `PYSPARK_PYTHON` names another. Spark starts them by `python -m`, which looks into the working
    directory first, where a file, or a checkout of this package, hides what is installed; they look
    there only if this process does too.

    Args:
        context: the application's Spark context; only workers that start afterwards are changed.
    """
    ship_wheels(context)
    if (context.master or "").split("[")[0] not in ("local", "local-cluster"):
        return
    if "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable
    with contextlib.suppress(FileNotFoundError):  # the working directory was deleted
        here = os.getcwd()
        beside = os.path.realpath(os.path.join(here, _PACKAGE.name))
        hides = os.path.isdir(beside) and beside != os.path.realpath(_PACKAGE)
        if hides or here not in map(os.path.abspath, sys.path):
            context.environment.setdefault("PYTHONSAFEPATH", "1")


def ship_wheels(context: SparkContext) -> list[str]:
    """Put the wheels of this application on the path of its Python workers, once.

    These are the wheels in `spark.submit.pyFiles`, and the one that this package was imported from.
    Only workers that start afterwards see them.

    Args:
        context: the application's Spark context.

    Returns:
        File names of the wheels that this call sent.
    """
    wheels = [Path(name) for name in context.getConf().get("spark.submit.pyFiles", "").split(",")]
    loader = globals().get("__loader__")
    if isinstance(loader, zipimport.zipimporter):
        wheels.append(Path(loader.archive))
    shipped = []
    for wheel in wheels:
        key = (context.applicationId, wheel.name)
        if wheel.suffix == ".whl" and key not in _shipped and wheel.is_file():
            directory = Path(tempfile.mkdtemp(prefix="vertexsdk-wheel-"))
            # Executors fetch it later.
            atexit.register(shutil.rmtree, directory, ignore_errors=True)
            copy = directory / f"{wheel.stem}.zip"
            shutil.copyfile(wheel, copy)
            context.addPyFile(str(copy))
            _shipped.add(key)
            shipped.append(wheel.name)
    return shipped


def ship_by_value(classes: Iterable[type]) -> None:
    """Make cloudpickle send the user's modules by value, as workers may not be able to import them.

    Args:
        classes: their modules are sent, those of their bases, and modules in the same directories.
    """
    bases = {b for cls in classes for b in cls.__mro__}
    names = {b.__module__ for b in bases if not _installed(sys.modules.get(b.__module__))}
    if not names:
        return
    places = {
        str(Path(file).resolve().parent)
        for name in names
        if (file := getattr(sys.modules.get(name), "__file__", None))
    }
    for name, module in list(sys.modules.items()):
        if name == "__main__" or _installed(module):
            continue
        if name in names or str(Path(module.__file__ or "").resolve().parent) in places:
            cloudpickle.register_pickle_by_value(module)


def ship_function(function: Callable[..., object]) -> None:
    """Make cloudpickle send the module of a user's function by value."""
    module = sys.modules.get(getattr(function, "__module__", "") or "")
    if module is not None and module.__name__ != "__main__" and not _installed(module):
        cloudpickle.register_pickle_by_value(module)


def _installed(module: ModuleType | None) -> bool:
    """Return whether a module is part of Python, of this package, or of an installed one."""
    file = getattr(module, "__file__", None)
    if module is None or file is None or module.__name__.split(".")[0] == "vertexsdk":
        return True
    return bool(os.path.abspath(str(file)).startswith(_library_places()))


@cache
def _library_places() -> tuple[str, ...]:
    paths = (sysconfig.get_path(k) for k in ("stdlib", "platstdlib", "purelib", "platlib"))
    return tuple({os.path.join(p, "") for p in paths if p})
