"""Wheels given to `spark-submit --py-files`, made importable on the executors.

Spark sends a wheel to every executor but puts only `.zip`, `.egg` and `.jar` files on the path of
its Python workers. A wheel is a zip: sent once more under that suffix, it is imported from there.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import zipimport
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["ship_wheels"]

_shipped: set[tuple[str, str]] = set()


def ship_wheels(context: SparkContext) -> list[str]:
    """Put the wheels of this application on the path of its Python workers, once.

    These are the wheels in `spark.submit.pyFiles`, and the one this package was imported from.
    Only what is started afterwards sees them.

    Args:
        context: the application's Spark context.

    Returns:
        File names of the wheels which were sent by this call.
    """
    wheels = [Path(name) for name in context.getConf().get("spark.submit.pyFiles", "").split(",")]
    loader = globals().get("__loader__")
    if isinstance(loader, zipimport.zipimporter):
        wheels.append(Path(loader.archive))
    sent = []
    for wheel in wheels:
        key = (context.applicationId, wheel.name)
        if wheel.suffix == ".whl" and key not in _shipped and wheel.is_file():
            directory = Path(tempfile.mkdtemp(prefix="vertexsdk-wheel-"))
            atexit.register(
                shutil.rmtree, directory, ignore_errors=True
            )  # executors fetch it later
            copy = directory / f"{wheel.stem}.zip"
            shutil.copyfile(wheel, copy)
            context.addPyFile(str(copy))
            _shipped.add(key)
            sent.append(wheel.name)
    return sent
