"""Arrays that tasks change in place are for this user alone."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

from vertexsdk.engine.loop._arena import Arena
from vertexsdk.errors import RunError


@pytest.fixture
def arena(tmp_path: Path) -> Arena:
    before = os.umask(0)
    try:
        made = Arena(tmp_path, fresh=True)
        made.begin()
        made.put("ids", np.arange(5))
        made.commit(1)
        made.begin()
    finally:
        os.umask(before)
    return made


def test_files_are_for_this_user_alone(arena: Arena) -> None:
    modes = {p.name: p.stat().st_mode & 0o777 for p in arena.path.iterdir()}
    assert modes == {"ids-0": 0o600, "meta.json": 0o600, "changing": 0o600}


@pytest.mark.parametrize("name", ["ids-0", "meta.json"])
def test_a_file_that_others_can_write_is_refused(arena: Arena, name: str) -> None:
    arena.commit(2)
    (arena.path / name).chmod(0o622)
    with pytest.raises(RunError, match=f"{name} has mode 622: other users can open it"):
        Arena(arena.path)["ids"]
