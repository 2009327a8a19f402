"""What the pages of docs/ show is what runs, and prints what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.full  # runs the pages of docs/

ROOT = Path(__file__).parents[2]
PAGES = (
    "attributes", "changing-graphs", "coming-from", "delay-bound", "keyed-state", "learning",
    "notebooks", "processors", "triggers", "what-survives", "windows",
)  # fmt: skip
# One process for all pages, as it starts a JVM: each is a main program with names of its own.
RUN = "import runpy, sys\nfor page in sys.argv[1:]: runpy.run_path(page, run_name='__main__')\n"


def test_pages(tmp_path: Path) -> None:
    scripts, expected = [], []
    for page in PAGES:
        blocks = re.findall(
            r"^```(python|text)\n(.*?)^```", (ROOT / "docs" / f"{page}.md").read_text(), re.M | re.S
        )
        code = [text for kind, text in blocks if kind == "python"]
        assert code, page
        scripts.append(tmp_path / f"{page}.py")
        scripts[-1].write_text("\n".join([*code, f"print({page!r})\n"]))
        expected += [*(text for kind, text in blocks if kind == "text"), f"{page}\n"]
    done = subprocess.run(
        [sys.executable, "-c", RUN, *scripts],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT / "examples"), str(ROOT)])},
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout == "".join(expected)
