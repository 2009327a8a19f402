"""A driver killed at any instant: what it acknowledged is there, once, and another goes on."""

from __future__ import annotations

import random
from pathlib import Path

from vertexsdk.testing.soak_stream import soak_stream


def test_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    said = soak_stream(f"lmdb://{tmp_path}/state", 4, random.Random(), spark=False)
    assert said.startswith("4 drivers killed over ")
