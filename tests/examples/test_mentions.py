"""The window of mentions: after each slide, groups, sizes and topics are those of its messages."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import ModuleType
from typing import Any

import networkx as nx
import pytest

from tests.support.example_modules import example_module


@pytest.fixture
def example() -> ModuleType:
    module: ModuleType = example_module("mentions")
    return module


@pytest.mark.parametrize("gap", [False, True])
def test_every_slide(
    example: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, gap: bool
) -> None:
    rows = example.generate(people=30, seconds=600)
    if gap:  # in which the window is empty
        rows = [row for row in rows if not 310 < row[0] - rows[0][0] < 400]
    path = tmp_path / "messages.txt"
    path.write_text("# who whom when\n" + "".join(f"{a} {b} {t} {x}\n" for t, a, b, x in rows))
    assert example.read(str(path)) == rows
    windows: list[Any] = []
    seen = 0

    class Window(example.Window):  # type: ignore[misc, name-defined]
        def __init__(self, *args: Any) -> None:
            super().__init__(*args)
            windows.append(self)

    def largest(groups: Any, count: int) -> Any:
        nonlocal seen
        seen += 1
        inside = windows[0].rows[windows[0].first : windows[0].stop]
        if inside:
            graph = nx.DiGraph([row[1:3] for row in inside])
            expected = {frozenset(c) for c in nx.strongly_connected_components(graph)}
            members: dict[int, set[int]] = {}
            for person, group in groups.group.items():
                members.setdefault(group, set()).add(person)
            assert {frozenset(m) for m in members.values()} == expected
            assert groups.sizes == {group: len(m) for group, m in members.items()}
            for group, m in members.items():
                assert +groups.topics[group] == Counter(row[3] for row in inside if row[1] in m)
        return shown(groups, count)

    shown = example.Groups.largest
    monkeypatch.setattr(example, "Window", Window)
    monkeypatch.setattr(example.Groups, "largest", largest)
    options = ["--window", "40", "--steps", "1,9", "--slides", "12"]
    groups = example.main([str(path), *options])
    assert seen == 48
    assert sum(groups.sizes.values()) > 10
