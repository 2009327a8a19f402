"""Every message of docs/troubleshooting.md is one that the code has."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "troubleshooting.md").read_text()


def texts() -> str:
    """All strings of the code; what an f-string puts in is left out."""
    files = (f for room in ("vertexsdk", "backends") for f in (ROOT / room).rglob("*.py"))
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    return "\n".join(
        n.value for n in nodes if isinstance(n, ast.Constant) and isinstance(n.value, str)
    )


def test_messages_are_those_of_the_code() -> None:
    tables = PAGE.split("## Programs")[1]
    messages = re.findall(r"^\| `([^`]+)` \|", tables, re.M)
    assert len(messages) > 40
    code = texts()
    parts = {(m, part.strip(" '():?")) for m in messages for part in m.split("...")}
    assert not sorted(m for m, part in parts if part not in code)
