"""What a task tells the driver of its failure."""

from __future__ import annotations

import pickle

from vertexsdk.errors import RunError
from vertexsdk.transport.outcomes import describe


def test_the_frames_of_a_users_method_come_along() -> None:
    error = RunError("f.py:3: Bad.gather: KeyError: 3")
    error.user_frames = (("f.py", 3, "gather"), ("g.py", 7, "looked_up"))
    own, line, _ = pickle.loads(describe(error))
    assert own.user_frames == error.user_frames
    assert own._render_traceback_() == [
        '  File "f.py", line 3, in gather',
        '  File "g.py", line 7, in looked_up',
        line,
    ]
