"""The tests of stores that fail notice what is wrong with one: mutants, each caught by a seed."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.support.store_mutants import LOOP_MUTANTS, MUTANTS, mutated
from tests.support.store_scenarios import nth_failure
from tests.support.store_sessions import simulate_session

SEEDS = 60
FIRST = {"pins and leases are not looked at": 27, "any branch may be merged": 6}  # seeds tried
FAULTS = [("before", 0), ("after", 11), ("late", 11), ("after", 6), ("killed after", 4)]
FAULTS += [(kind, number) for number in (2, 4, 5, 8, 9, 12, 16) for kind in ("after", "late")]


@pytest.fixture(autouse=True)
def _silent() -> Iterator[None]:
    logging.disable(logging.CRITICAL)  # of what every mutant makes fail
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", MUTANTS)
def test_sessions_notice(name: str) -> None:
    for seed in [FIRST.get(name, 3), 5, *range(SEEDS)]:
        try:
            with mutated(MUTANTS[name]):
                simulate_session(seed, f"memory://mutant-{name.replace(' ', '-')}-{seed}")
        except Exception as error:
            print(f"seed {seed}: {error!r}")
            return
    pytest.fail(f"{name}: {SEEDS} sessions did not notice")


@pytest.mark.sample(2)
@pytest.mark.parametrize("name", LOOP_MUTANTS)
def test_a_fault_in_a_main_loop_notices(name: str) -> None:
    """The first one is that of no call, for what is wrong without a fault."""
    for kind, number in FAULTS:
        url = f"memory://mutant-{name.replace(' ', '-')}-{kind.replace(' ', '-')}-{number}"
        try:
            with mutated(LOOP_MUTANTS[name]):
                nth_failure(url, kind, number, methods={"swap_head"})
        except Exception as error:
            print(f"{kind} {number}: {error!r}")
            return
    pytest.fail(f"{name}: no fault made it noticed")
