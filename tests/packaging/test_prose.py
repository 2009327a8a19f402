"""The lint of names and prose: each pattern is met, and plain text is not."""

from __future__ import annotations

import pytest

from tests.support.prose import ADVICE, LIMITS, places

LINES = {
    "argument": 'def f(x):\n    """Do.\n\n    Args:\n        x: of the loop.\n    """',
    "question": 'def f():\n    """Whether it ends."""',
    "reference": "# see `Loop`",
    "negation": "# it is no vertex",
    "continue": "# it goes on",
    "person": "# Nobody reads it",
    "identifier": "self.before = 1",
}


@pytest.mark.parametrize("pattern", LIMITS)
def test_each_pattern_is_found(pattern: str) -> None:
    assert [p.pattern for p in places("x.py", LINES[pattern])] == [pattern]
    assert ADVICE[pattern]


def test_plain_text_is_left_alone() -> None:
    text = (
        'def previous(loop):\n    """Return whether the loop is no longer open.\n\n'
        '    Args:\n        loop: the loop.\n    """'
    )
    assert not list(places("x.py", text))
