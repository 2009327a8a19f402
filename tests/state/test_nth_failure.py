"""A fault at the first, the second, ... call to the store: nothing is lost, doubled or wrong."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from tests.support.seeds import seed, seeds_until
from tests.support.store_faults import KINDS, METHODS, NthFault, public_methods, wrapped
from tests.support.store_scenarios import nth_failure
from tests.support.store_sessions import nth_store_failure
from vertexsdk.backends import open_backend
from vertexsdk.state import Backend, StateError
from vertexsdk.state.contract import CanQuery, CanReadParts

CALLS = 120  # more than the steps have of any kind
DRAWN = 10  # faults of each backend which a run of the tests makes; `./dev soak faults` makes all


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1)
def test_every_call_of_a_store(kind: str) -> None:
    """On the backend where a call is cheapest."""
    number = 1
    while nth_store_failure(f"memory://nth-{kind.replace(' ', '-')}", kind, number).fired:
        number += 1
        assert number < 1000
    assert number > 20


@pytest.mark.parametrize("backend", ["lmdb", "redis", "postgres"])
def test_calls_of_other_backends(backend: str, request: Any, tmp_path: Path) -> None:
    url = (
        f"lmdb://{tmp_path}/store" if backend == "lmdb"
        else request.getfixturevalue(f"{backend}_url")
    )  # fmt: skip
    happened: Counter[str] = Counter()
    for drawn in seeds_until(happened, {"fault": 1}, DRAWN):
        chance = random.Random(drawn)
        kind, number = chance.choice(sorted(KINDS)), chance.randint(1, CALLS)
        print(kind, number)
        happened["fault"] += bool(nth_store_failure(url, kind, number).fired)


def test_calls_of_a_main_loop() -> None:
    chance = random.Random(seed())
    for k in range(DRAWN):
        kind = chance.choice(sorted(KINDS))
        methods = {"swap_head"} if chance.random() < 0.5 else None
        number = chance.randint(1, 30 if methods else CALLS)
        print(kind, number, methods)
        nth_failure(f"memory://nth-loop-{k}", kind, number, methods=methods)


@pytest.mark.parametrize("ability", [Backend, CanReadParts, CanQuery])
def test_every_method_of_a_backend_can_fail(ability: type) -> None:
    assert public_methods(ability) <= METHODS
    for name in public_methods(ability) - {"close"}:
        faults = NthFault("before", 1)
        inner: Any = type("Inner", (ability,), dict.fromkeys(public_methods(ability)))()
        backend: Any = wrapped(inner, faults)
        with pytest.raises(StateError, match=f"lost the store in {name}"):
            getattr(backend, name)()


def test_a_wrapped_backend_is_the_one_in_it() -> None:
    inner = open_backend("memory://wrapped")
    backend = wrapped(inner, NthFault("before", 0))
    for name in ("location", "address", "durable", "durability", "shared", "advice"):
        assert str(getattr(backend, name)) == str(getattr(inner, name))
