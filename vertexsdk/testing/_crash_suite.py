"""Tests of processes that die at any instant or race for a loop, and of bits that change."""

from __future__ import annotations

import multiprocessing
import pickle
import random
import struct
import time

import pytest

from vertexsdk.state import CorruptError, FencedError, Store, open_store
from vertexsdk.testing._contract_suite import content
from vertexsdk.testing._processes import STEPS, commit_and_die, commit_for_ever, put, run_together

__all__ = ["CrashSuite"]


class CrashSuite:
    """Kills, races and flipped bits; needs the fixtures of `BackendSuite`."""

    kills = 5
    """Random instants at which a writing process is killed."""

    @pytest.mark.parametrize("step", STEPS)
    @pytest.mark.parametrize("before", [True, False], ids=["before", "after"])
    def test_killed_between_steps_of_a_commit(self, store: Store, step: str, before: bool) -> None:
        store.commit("loop", iteration=0, segments=[put(store, "loop", 0, 0.0)])
        codes = run_together(commit_and_die, [(store.backend.address, "loop", step, before)])
        assert codes == [-9]
        committed = step == "swap_head" and not before
        assert store.versions("loop") == ([0, 1] if committed else [0])
        ((_, state),) = store.read("loop")
        assert state["value"].tolist() == [float(committed)] * 10
        assert store.verify() == []
        newest = store.claim("loop")  # and whoever comes next can go on
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

    def test_the_older_of_two_drivers_is_fenced(self, store: Store) -> None:
        store.claim("loop")
        other: Store = pickle.loads(pickle.dumps(store))
        refs = [put(s, "loop", 0, 0.0) for s in (store, other)]
        assert other.commit("loop", iteration=0, segments=refs[1:]).iteration == 0
        with pytest.raises(FencedError, match="another driver"):
            store.commit("loop", iteration=0, segments=refs[:1])
        newest = store.head("loop")
        assert newest is not None
        assert newest.segments == (refs[1],)
        other.close()

    @pytest.mark.parametrize("rows", [10, 100_000])
    def test_a_flipped_bit_is_found_and_named(self, store: Store, rows: int) -> None:
        ref = put(store, "loop", 0, 1.0, rows)
        store.commit("loop", iteration=0, segments=[ref])
        bad = bytearray(content(store.backend, ref.key))
        bad[bad.rindex(struct.pack("<d", 1.0))] ^= 4  # the value in the last row
        ((_, state),) = store.read("loop")
        last = int(state["id"][-1])
        store.backend.put_segment(ref.key, [bytes(bad)])
        with open_store(store.backend.address) as fresh:
            with pytest.raises(CorruptError, match="'value'"):
                fresh.lookup("loop", [last])
            with pytest.raises(CorruptError, match=ref.key.attempt):
                list(fresh.read("loop"))
            (problem,) = fresh.verify()
        assert ref.key.attempt in problem
