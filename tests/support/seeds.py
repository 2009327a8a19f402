"""The seeds that tests draw from: each follows from the base of the run and the test's id.

The base is 0, or what `--seed` says. So a test draws the same in each run, whichever tests run
beside it and in whichever order, until another base is asked for.
"""

from __future__ import annotations

import os
import zlib

__all__ = ["BASE", "seed"]

BASE = "VERTEXSDK_TEST_SEED"  # the variable that processes which a test starts inherit


def seed() -> int:
    """Return the seed of the current test, 0 to 2**32 - 1, and print it."""
    base = os.environ.get(BASE, "0")
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    number = zlib.crc32(f"{base} {test}".encode())
    print(f"seed {number} (--seed {base})")
    return number
