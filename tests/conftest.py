"""What every test may ask for: one Spark session for the whole run, nothing else that is heavy."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on `local[2]`, as the SDK itself starts one. Tests must not stop it."""
    from vertexsdk.session import session

    started = session("local[2]", app="tests")
    yield started
    started.stop()
