"""What every test may ask for: one Spark session for the whole run, nothing else that is heavy."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Every JVM that a test starts lives for seconds or minutes: what its second compiler and its
# parallel collector do to make it fast later is never won back, and takes the cores from others.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
os.environ["JAVA_TOOL_OPTIONS"] = f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} {SHORT_LIVED}".strip()


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session on `local[2]`, as the SDK itself starts one. Tests must not stop it."""
    from vertexsdk.session import session

    started = session("local[2]", app="tests")
    yield started
    started.stop()
