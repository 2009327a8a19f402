"""A driver killed at any instant: what it acknowledged is there, once, and another goes on."""

from __future__ import annotations

import random
from pathlib import Path

from tests.support.soak_stream import soak_stream


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    seed = random.randrange(1 << 32)
    print(f"seed {seed}")  # pytest shows it when the test fails: put it here to kill as then
    outcome = soak_stream(f"lmdb://{tmp_path}/state", 4, random.Random(seed), spark=False)
    assert outcome.startswith("4 drivers killed over ")
