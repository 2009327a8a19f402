"""Subscriptions to loops whose versions are on servers."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.support.seeds import seed
from tests.support.subscribed_loops import follow


@pytest.mark.parametrize("server", ["redis", "postgres"])
@pytest.mark.parametrize("history", range(3))
def test_rows_add_up_to_the_state_of_every_version(
    server: str, history: int, request: pytest.FixtureRequest
) -> None:
    happened = Counter[str]()
    follow(seed() + history, request.getfixturevalue(f"{server}_url"), happened)
    assert happened["versions"]
