"""A stateful class on partitions answers as a plain object of it does, also after a resume."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from tests.stateful.histories import CALLS, History
from tests.support.seeds import draws, seed
from vertexsdk import Stateful, StatefulLoop

PARTITIONS = (1, 2, 7)


def run_history(cls: type[Stateful], url: str, chance: random.Random, spark: Any = None) -> None:
    """Make calls, with resumes, snapshots, forks and other numbers of partitions in between."""
    partitions = chance.choice(PARTITIONS)
    options: dict[str, Any] = {
        "backend": url, "spark": spark, "snapshot_every": chance.choice([None, 1, 20, 200]),
        "snapshots": chance.choice(["asynchronous", "synchronous"]),
    }  # fmt: skip
    history = History(cls, StatefulLoop(cls, partitions=partitions, **options), chance)
    for k in range(chance.choice([2, 4])):
        for _ in range(draws(6, 15)):
            history.step()
            event = chance.random()
            if event < 0.1:
                history.flow.snapshot()
            elif event < 0.2:
                history.flow.rescale(chance.choice(PARTITIONS))
        fork = history.fork(chance.choice([None, f"fork-{k}"]))
        history.check()
        if chance.random() < 0.7:
            history.flow.close()
        else:  # as if the driver had ended: what is in the log is not in a snapshot
            history.flow._end(ValueError("the driver ended"))
        fork.step()
        fork.check()
        fork.flow.close()
        partitions = chance.choice(PARTITIONS)
        history.flow = StatefulLoop.resume(cls, partitions=partitions, **options)
        history.check()
        if not fork.flow._temporary and chance.random() < 0.5:
            fork.flow = StatefulLoop.resume(
                cls, loop=fork.flow.loop, partitions=chance.choice(PARTITIONS), **options
            )
            fork.step()
            fork.check()
            fork.flow.close()
    history.flow.close()


@pytest.mark.parametrize("cls", CALLS)
@pytest.mark.parametrize("partitions", PARTITIONS)
def test_answers_are_those_of_a_plain_object(cls: type[Stateful], partitions: int) -> None:
    chance = random.Random(seed())
    url = f"memory://oracle-{cls.__name__}-{partitions}"
    with StatefulLoop(cls, backend=url, partitions=partitions) as flow:
        history = History(cls, flow, chance)
        for _ in range(draws(25, 80)):
            history.step()
        history.check()
    assert history.raised or not {"set_name", "seen"} & CALLS[cls].keys()


@pytest.mark.parametrize("cls", CALLS)
@pytest.mark.parametrize("backend", ["memory", "lmdb"])
def test_resumed_loops_continue(cls: type[Stateful], backend: str, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/store" if backend == "lmdb" else f"memory://resumed-{cls.__name__}"
    run_history(cls, url, random.Random(seed()))
