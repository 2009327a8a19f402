"""A store does what a dictionary of dictionaries does, whatever the order of calls."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings

from vertexsdk.state import MissingError, open_store
from vertexsdk.testing._model import StoreMachine


class Machine(StoreMachine):
    """Longer histories than the suite has time for, where a step is cheapest."""

    url = "memory://model"


TestStore = Machine.TestCase
TestStore.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)


def test_a_reader_of_a_dropped_version_is_told(tmp_path: Path) -> None:
    with open_store(f"lmdb://{tmp_path}/store") as store:
        columns = {"id": np.arange(3), "value": np.zeros(3)}
        for iteration in range(2):
            ref = store.put_segment("loop", 0, iteration, "base", columns)
            parent = store.head("loop")
            store.commit("loop", iteration=iteration, segments=[ref], parent=parent)
        old = store.version("loop", 0)
        store.prune("loop")
        with pytest.raises(MissingError, match="dropped while it was read"):
            list(store.read("loop", old))
