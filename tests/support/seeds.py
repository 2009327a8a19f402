"""The seeds that tests draw from: each follows from the base of the run and the test's id.

The base is 0, or what `--seed` says. So a test draws the same in each run, whichever tests run
beside it and in whichever order, until another base is asked for.
"""

from __future__ import annotations

import os
import zlib
from collections.abc import Iterator, Mapping

__all__ = ["BASE", "draws", "seed", "seeds_until"]

BASE = "VERTEXSDK_TEST_SEED"  # the variable that processes which a test starts inherit


def seed() -> int:
    """Return the seed of the current test, 0 to 2**32 - 1, and print it."""
    base = os.environ.get(BASE, "0")
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rpartition(" (")[0]
    number = zlib.crc32(f"{base} {test}".encode())
    print(f"seed {number} (--seed {base})")
    return number


def draws(gate: int, everywhere: int) -> int:
    """Return how many cases a test draws: `gate` with the base 0, else `everywhere`."""
    return gate if os.environ.get(BASE, "0") == "0" else everywhere


def seeds_until(
    happened: Mapping[str, int], enough: Mapping[str, int], least: int
) -> Iterator[int]:
    """Yield seeds for what a test draws, until enough of each kind has happened.

    So what has to happen a few times is not a matter of luck.

    Args:
        happened: how often each kind has, which the caller counts.
        enough: how often each kind has to.
        least: how many seeds at least; there are 20 times as many at most.

    Raises:
        AssertionError: all seeds together were not enough.
    """
    first = seed()
    for k in range(20 * least):
        if k >= least and _is_enough(happened, enough):
            return
        yield first + k
    assert _is_enough(happened, enough), f"{dict(happened)} in {20 * least} draws, not {enough}"


def _is_enough(happened: Mapping[str, int], enough: Mapping[str, int]) -> bool:
    return all(happened.get(kind, 0) >= number for kind, number in enough.items())
