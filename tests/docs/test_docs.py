"""What the pages of docs/ show is what runs, and prints what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("page", ["attributes", "changing-graphs", "delay-bound", "processors"])
def test_page(page: str, tmp_path: Path) -> None:
    told = (ROOT / "docs" / f"{page}.md").read_text()
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", told, re.M | re.S)
    assert blocks
    script = tmp_path / "page.py"
    script.write_text("\n".join(text for kind, text in blocks if kind == "python"))
    done = subprocess.run(
        [sys.executable, script],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "examples"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "".join(text for kind, text in blocks if kind == "text")
