"""A store does what a dictionary of dictionaries does, whatever the order of calls."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vertexsdk.partition import owner
from vertexsdk.state import MissingError, Store, open_store

LOOPS = st.sampled_from(["main", "branch", "other"])
STATES = st.dictionaries(st.integers(-5, 5), st.floats(allow_nan=False), max_size=6)
P = 2
_numbers = count()


class StoreMachine(RuleBasedStateMachine):
    """`model[loop][iteration]` is the state of a version."""

    def __init__(self) -> None:
        super().__init__()
        self.store: Store = open_store(f"memory://model-{next(_numbers)}")
        self.model: dict[str, dict[int, dict[int, float]]] = {}

    def teardown(self) -> None:
        directory = self.store.backend.location.partition("?directory=")[2]
        self.store.close()
        shutil.rmtree(directory)

    def _put(self, loop: str, iteration: int, kind: Any, state: dict[int, float]) -> list[Any]:
        ids = np.array(sorted(state), np.int64)
        values = np.array([state[i] for i in ids.tolist()], np.float64)
        of = owner(ids, P)
        return [
            self.store.put_segment(
                loop, p, iteration, kind, {"id": ids[of == p], "value": values[of == p]}
            )
            for p in range(P)
            if kind == "base" or (of == p).any()
        ]

    @rule(loop=LOOPS, iteration=st.integers(0, 3), state=STATES)
    def start(self, loop: str, iteration: int, state: dict[int, float]) -> None:
        refs = self._put(loop, iteration, "base", state)
        self.store.commit(loop, iteration=iteration, segments=refs, partitions=P)
        self.model[loop] = {iteration: state}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), step=st.integers(0, 3), state=STATES, base=st.booleans())
    def step(self, data: Any, step: int, state: dict[int, float], base: bool) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        last = max(self.model[loop])
        refs = self._put(loop, last + step, "base" if base else "delta", state)
        parent = self.store.head(loop)
        self.store.commit(loop, iteration=last + step, segments=refs, parent=parent)
        before = {} if base else self.model[loop][last]
        self.model[loop][last + step] = before | state

    @precondition(lambda self: self.model)
    @rule(data=st.data(), to=LOOPS)
    def fork(self, data: Any, to: str) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        at = data.draw(st.sampled_from(sorted(self.model[loop])))
        if to not in self.model:
            self.store.fork(loop, to, at)
            self.model[to] = {at: self.model[loop][at]}

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        self.store.delete(loop)
        del self.model[loop]

    @precondition(lambda self: self.model)
    @rule(data=st.data(), keep=st.integers(1, 3))
    def prune(self, data: Any, keep: int) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        kept = sorted(self.model[loop])[-keep:]
        self.store.prune(loop, keep)
        self.model[loop] = {at: self.model[loop][at] for at in kept}

    @rule()
    def reopen(self) -> None:
        location = self.store.backend.location
        self.store.close()
        self.store = open_store(location, create=False)

    @invariant()
    def everything_is_read_as_it_was(self) -> None:
        assert self.store.loops() == sorted(self.model)
        for loop, versions in self.model.items():
            assert self.store.versions(loop) == sorted(versions)
            for at, state in versions.items():
                found: dict[int, float] = {}
                for _, columns in self.store.read(loop, at):
                    ids, values = columns["id"].tolist(), columns["value"].tolist()
                    found |= dict(zip(ids, values, strict=True))
                assert found == state
                wanted = range(-6, 7)
                single = self.store.lookup(loop, wanted, at)
                assert single == {i: {"value": state[i]} for i in sorted(state)}

    @invariant()
    def nothing_else_is_kept(self) -> None:
        manifests, segments = set(), set()
        for loop in self.model:
            for at in self.store.versions(loop):
                manifest = self.store.version(loop, at)
                while True:
                    manifests.add(manifest.name)
                    segments |= {ref.key for ref in manifest.segments}
                    if manifest.complete or manifest.parent is None:
                        break
                    manifest = self.store.manifest(manifest.parent)
        assert set(self.store.backend.list_manifests()) == manifests
        assert set(self.store.backend.list_segments()) == segments


TestStore = StoreMachine.TestCase
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
