"""Names of string ids, as interpreted methods see them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pyarrow as pa

from vertexsdk.engine._processor import names_of
from vertexsdk.graph.string_ids import StringIds
from vertexsdk.transport.select import transport_for


def test_graphs_one_after_the_other_have_names_of_their_own() -> None:
    """A graph's names may be where those of one before it were in memory."""
    for k in range(50):
        ids = StringIds.of(pa.array([f"v{k}"], pa.large_string()))
        plan: Any = SimpleNamespace(names=transport_for(None).broadcast(ids))
        names = names_of(plan)
        assert names is not None
        assert names.decode(0) == f"v{k}"
        del plan, names
