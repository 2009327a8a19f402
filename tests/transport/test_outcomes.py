"""What a task tells the driver of its failure."""

from __future__ import annotations

import gc
import pickle
import weakref

from vertexsdk.errors import RunError
from vertexsdk.transport.outcomes import FAILURE, describe, outcome
from vertexsdk.transport.task_times import Clock


def test_the_frames_of_a_users_method_come_along() -> None:
    error = RunError("/absent/f.py:3: Bad.gather: KeyError: 3")
    error.user_frames = (("/absent/f.py", 3, "gather"), ("/absent/g.py", 7, "looked_up"))
    own, line, _ = pickle.loads(describe(error))
    assert own.user_frames == error.user_frames
    assert own._render_traceback_() == [
        '  File "/absent/f.py", line 3, in gather',
        '  File "/absent/g.py", line 7, in looked_up',
        line,
    ]


def test_an_error_is_freed_when_nobody_refers_to_it() -> None:
    """Its traceback has the frames of the caller, and so the graph of the run that failed."""
    failure = Clock().stamp().prepend_to(describe(RunError("no")))

    def fail() -> weakref.ref[RunError] | None:
        try:
            outcome(FAILURE, failure)
        except RunError as raised:
            return weakref.ref(raised)
        return None

    gc.disable()
    try:
        error = fail()
        assert error is not None
        assert error() is None
    finally:
        gc.enable()
