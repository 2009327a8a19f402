"""What docs/changing-graphs.md shows is what runs, and prints what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "changing-graphs.md").read_text()


def test_changing_graphs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```(python|text)\n(.*?)^```", PAGE, re.M | re.S)
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
