"""The tests of the protocol notice what is wrong with it: each mutant breaks a rule in them."""

from __future__ import annotations

import random
from typing import Any

import pytest

from tests.engine.protocol.mutants import COMPONENTS, FRONTIERS
from tests.engine.protocol.worlds import small_world
from tests.support.protocol import Component, Frontier
from tests.support.protocol_rules import Violation
from tests.support.protocol_search import search
from tests.support.protocol_simulator import random_world, run

MUTANTS = [{"component": c} for c in COMPONENTS] + [{"frontier": f} for f in FRONTIERS]
RUNS = 1500

# Where a search of all interleavings finds them: world, delay bound, partitions, duplicates.
FOUND = {
    "NoLamportTest": ("ring", 2, 3, 0),
    "NoPendingList": ("ring", 2, 3, 0),
    "NoPrepareList": ("triangle", 2, 1, 0),
    "PreparesTooFar": ("ring", 1, 3, 0),
    "PreparesTooLittle": ("triangle", 2, 1, 0),
    "NoHolding": ("ring", 2, 3, 0),
    "HoldsTooMuch": ("ring", 1, 3, 0),
    "NoDiscarding": ("ring", 2, 1, 1),
    "NewestOnly": ("ring", 2, 3, 0),
    "NoRelease": ("ring", 2, 3, 0),
    "TakesInputsAlways": ("joins", 2, 1, 0),
    "TakesLateAcknowledges": ("shrinks", 2, 1, 0),
    "IgnoresAcknowledgedIterations": ("triangle", 3, 1, 0),
    "LowIsRaised": ("ring", 3, 1, 0),
    "NoLow": ("ring", 1, 3, 0),
    "BoundTooLarge": ("ring", 1, 3, 0),
    "BoundTooSmall": ("ring", 1, 3, 0),
    "QuietTooSoon": ("ring", 1, 3, 0),
    "NeverQuiet": ("ring", 1, 3, 0),
    "TerminatesTooSoon": ("ring", 1, 3, 0),
    "MovesOnUnasked": ("triangle", 2, 1, 0),
}


def name(mutant: dict[str, type[Component | Frontier]]) -> str:
    return next(iter(mutant.values())).__name__


def many_runs(mutant: dict[str, Any]) -> None:
    for seed in range(RUNS):
        chance = random.Random(seed)
        run(random_world(chance, **mutant), chance)


@pytest.mark.sample(11)
@pytest.mark.parametrize("mutant", MUTANTS, ids=name)
def test_random_runs_notice(mutant: dict[str, Any]) -> None:
    with pytest.raises(Violation):
        many_runs(mutant)


@pytest.mark.parametrize("mutant", [m for m in MUTANTS if name(m) in FOUND], ids=name)
def test_a_search_of_all_interleavings_notices(mutant: dict[str, Any]) -> None:
    world, bound, partitions, copies = FOUND[name(mutant)]
    with pytest.raises(Violation):
        search(small_world(world, bound, partitions, **mutant), copies)


def test_all_that_are_to_be_found_are_mutants() -> None:
    assert FOUND.keys() <= {name(mutant) for mutant in MUTANTS}
