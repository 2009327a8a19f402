"""The conformance suite for backends: a class of tests that a backend's test file subclasses.

The tests hold a backend to the guarantees of `vertexsdk.state.contract`: first its own methods,
then the store on top of it, in random histories, crashes and races.

Example:
    >>> class TestMine(BackendSuite):
    ...     @pytest.fixture
    ...     def url(self, tmp_path):
    ...         return f"lmdb://{tmp_path}/store"  # here mine://...
    >>> len([name for name in dir(TestMine) if name.startswith("test_")]) > 15
    True
"""

from __future__ import annotations

import multiprocessing
import random
import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from hypothesis.stateful import run_state_machine_as_test

from vertexsdk.state import Backend, StateInputError, Store, open_store
from vertexsdk.testing._contract_suite import ContractSuite
from vertexsdk.testing._model import StoreMachine
from vertexsdk.testing._processes import (
    STEPS,
    commit_and_die,
    commit_for_ever,
    commit_slowly,
    put,
    run_together,
)


class BackendSuite(ContractSuite):
    """Subclass it and define the fixture `url`, the URL of a new, empty store for each test.

    The class attributes `kills` and `examples` set how many random crashes and histories are tried.
    """

    examples = 8
    """Random histories that are compared with a dictionary."""

    kills = 5
    """Random instants at which a writing process is killed."""

    @pytest.fixture
    def url(self) -> str:
        raise NotImplementedError("define the fixture `url` in the subclass of BackendSuite")

    @pytest.fixture
    def store(self, url: str) -> Iterator[Store]:
        store = open_store(url)
        yield store
        store.close()

    @pytest.fixture
    def backend(self, store: Store) -> Backend:
        return store.backend

    def test_it_does_what_a_dictionary_does(self, url: str) -> None:
        class Machine(StoreMachine):
            pass

        Machine.url = url
        options = settings(
            max_examples=self.examples, stateful_step_count=12, deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        )  # fmt: skip
        run_state_machine_as_test(Machine, settings=options)

    def test_orphans_are_swept_beside_a_slow_writer(self, store: Store) -> None:
        store.commit("main", iteration=0, segments=[put(store, "main", 0, 0.0)])
        orphan = put(store, "main", 9, 0.0)  # of a run that died
        assert store.audit().unreferenced == [f"segment {orphan.key}"]
        assert store.collect(3600).segments == 0
        with pytest.raises(StateInputError, match="grace period"):
            store.collect(1)
        address = store.backend.address
        work = [(address, "main", 12, 0.02), (address, "other", 12, 0.02)]
        codes = run_together(commit_slowly, work, meanwhile=lambda: store.collect(0.5, alone=True))
        assert codes == [0, 0]
        assert store.versions("main") == list(range(13))
        assert store.versions("other") == list(range(1, 13))
        assert store.verify() == []
        store.collect(0, alone=True)
        assert store.audit().unreferenced == []

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize("dies_before", [True, False], ids=["before", "after"])
    def test_killed_between_steps_of_a_commit(
        self, store: Store, step: str, dies_before: bool
    ) -> None:
        store.commit("loop", iteration=0, segments=[put(store, "loop", 0, 0.0)])
        work = [(store.backend.address, "loop", step, dies_before)]
        codes = run_together(commit_and_die, work)
        assert codes == [-9]
        committed = step == "swap_head" and not dies_before
        assert store.versions("loop") == ([0, 1] if committed else [0])
        ((_, state),) = store.read("loop")
        assert state["value"].tolist() == [float(committed)] * 10
        assert store.verify() == []
        newest = store.claim("loop")  # the next driver can continue
        again = put(store, "loop", 2, 0.0)
        assert store.commit("loop", iteration=2, segments=[again], parent=newest).iteration == 2

    def test_killed_at_random_instants(self, store: Store) -> None:
        context = multiprocessing.get_context("spawn")
        last = -1
        for _ in range(self.kills):
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(
                target=commit_for_ever, args=(store.backend.address, "loop", theirs)
            )
            process.start()
            theirs.close()
            last = max(last, ours.recv())
            time.sleep(random.uniform(0, 0.2))
            process.kill()
            process.join()
            process.close()
            while ours.poll():
                try:
                    last = ours.recv()
                except EOFError:
                    break
            ours.close()
            newest = store.claim("loop")  # what the dead one sent has landed, or never will
            assert newest is not None
            assert newest.iteration in (last, last + 1)
            assert store.versions("loop") == list(range(newest.iteration + 1))
            for at in {0, newest.iteration // 2, newest.iteration}:
                ((_, state),) = store.read("loop", at)
                assert (state["value"] == float(at)).all()
            assert store.verify() == []
