"""A store driven at random beside a dictionary of dictionaries, with which it must agree."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from vertexsdk.arrays.id_hash import hash_partition
from vertexsdk.state import Store, open_store

LOOPS = st.sampled_from(["main", "branch", "other"])
STATES = st.dictionaries(st.integers(-5, 5), st.floats(allow_nan=False), max_size=6)
P = 2


class StoreMachine(RuleBasedStateMachine):
    """`model[loop][iteration]` is the state of a version.

    Subclass it with a `url`; a run ends by deleting all loops, which must leave nothing.
    """

    url: str

    def __init__(self) -> None:
        super().__init__()
        self.store: Store = open_store(self.url)
        self.model: dict[str, dict[int, dict[int, float]]] = {}
        self.forked: dict[str, tuple[str, int]] = {}  # and its origin has not moved since

    def teardown(self) -> None:
        for loop in self.model:
            self.store.delete(loop)
        assert list(self.store.backend.list_segments()) == []
        assert list(self.store.backend.list_manifests()) == []
        self.store.close()

    def _put(self, loop: str, iteration: int, kind: Any, state: dict[int, float]) -> list[Any]:
        ids = np.array(sorted(state), np.int64)
        values = np.array([state[i] for i in ids.tolist()], np.float64)
        of = hash_partition(ids, P)
        return [
            self.store.put_segment(
                loop, p, iteration, kind, {"id": ids[of == p], "value": values[of == p]}
            )
            for p in range(P)
            if kind == "base" or (of == p).any()
        ]

    def _moved(self, loop: str) -> None:
        self.forked = {k: v for k, v in self.forked.items() if v[0] != loop and k != loop}

    @rule(loop=LOOPS, iteration=st.integers(0, 3), state=STATES)
    def start(self, loop: str, iteration: int, state: dict[int, float]) -> None:
        refs = self._put(loop, iteration, "base", state)
        self.store.commit(loop, iteration=iteration, segments=refs, partitions=P)
        self.model[loop] = {iteration: state}
        self._moved(loop)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), step=st.integers(0, 3), state=STATES, base=st.booleans())
    def step(self, data: Any, step: int, state: dict[int, float], base: bool) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        last = max(self.model[loop])
        refs = self._put(loop, last + step, "base" if base else "delta", state)
        parent = self.store.head(loop)
        self.store.commit(loop, iteration=last + step, segments=refs, parent=parent)
        previous = {} if base else self.model[loop][last]
        self.model[loop][last + step] = previous | state
        self.forked = {k: v for k, v in self.forked.items() if v[0] != loop}

    @precondition(lambda self: self.model)
    @rule(data=st.data(), to=LOOPS)
    def fork(self, data: Any, to: str) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        at = data.draw(st.sampled_from(sorted(self.model[loop])))
        if to not in self.model:
            self.store.fork(loop, to, at)
            self.model[to] = {at: self.model[loop][at]}
            if at == max(self.model[loop]):
                self.forked[to] = (loop, at)

    @precondition(lambda self: len(self.model) > 1)
    @rule(data=st.data())
    def merge(self, data: Any) -> None:
        branch, into = data.draw(st.permutations(sorted(self.model)))[:2]
        if self.forked.get(branch, ("", 0))[0] == into:
            merged = self.store.merge(branch, into)
            self.model[into][merged.iteration] = self.model[branch][max(self.model[branch])]
            self._moved(into)

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def compact(self, data: Any) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        old = self.store.head(loop)
        new = self.store.compact(loop)
        assert new.iteration == max(self.model[loop])
        if old != new:
            self._moved(loop)
        kinds = [ref.kind for ref in self.store.segments(new)]
        assert "delta" not in kinds or "base" not in kinds

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def delete(self, data: Any) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        self.store.delete(loop)
        del self.model[loop]
        self._moved(loop)

    @precondition(lambda self: self.model)
    @rule(data=st.data(), keep=st.integers(1, 3))
    def prune(self, data: Any, keep: int) -> None:
        loop = data.draw(st.sampled_from(sorted(self.model)))
        newest = sorted(self.model[loop])[-keep:]
        self.store.prune(loop, keep)
        self.model[loop] = {at: self.model[loop][at] for at in newest}
        self._moved(loop)

    @rule(state=STATES)
    def die_before_a_commit(self, state: dict[int, float]) -> None:
        self._put("main", 9, "base", state)
        assert self.store.collect(0, alone=True).segments == P

    @rule()
    def reopen(self) -> None:
        address = self.store.backend.address
        self.store.close()
        self.store = open_store(address, create=False)

    @invariant()
    def everything_is_read_as_it_was(self) -> None:
        assert self.store.loops() == sorted(self.model)
        for loop, versions in self.model.items():
            assert self.store.versions(loop) == sorted(versions)
            for at, state in versions.items():
                stored: dict[int, float] = {}
                for _, columns in self.store.read(loop, at):
                    ids, values = columns["id"].tolist(), columns["value"].tolist()
                    stored |= dict(zip(ids, values, strict=True))
                assert stored == state
                rows = self.store.lookup(loop, range(-6, 7), at)
                assert rows == {i: {"value": state[i]} for i in sorted(state)}

    @invariant()
    def nothing_else_is_kept(self) -> None:
        audit = self.store.audit()
        assert (audit.missing, audit.corrupt, audit.unreferenced) == ([], [], [])
