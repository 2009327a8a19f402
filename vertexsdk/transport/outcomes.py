"""A task's answer to the driver: its report behind its times, or why it failed."""

from __future__ import annotations

import pickle
import traceback

from vertexsdk.errors import RunError, VertexError, typed_line
from vertexsdk.transport.task_times import Stamp

FAILURE, ABORTED = -2, -3


def describe(error: Exception) -> bytes:
    """Pickle a task's exception (if it is a VertexError), its first line, and its traceback."""
    picklable: Exception | None = error if isinstance(error, VertexError) else None
    try:
        if picklable is not None:
            pickle.loads(pickle.dumps(picklable))
    except Exception:
        picklable = None
    return pickle.dumps((picklable, typed_line(error), "".join(traceback.format_exception(error))))


def outcome(kind: int, stamped: bytes) -> tuple[Stamp, bytes]:
    """Return a partition's stamp and report, or raise its task's exception on the driver."""
    stamp, report = Stamp.split(stamped)
    if kind == FAILURE:
        raise _error(report)  # a variable of this frame would refer to its own traceback
    return stamp, report


def _error(report: bytes) -> Exception:
    """Return the exception that `describe` has pickled."""
    picklable, line, trace = pickle.loads(report)
    error: Exception = picklable if picklable is not None else RunError(line)
    error.add_note("In the Spark task:\n" + trace)
    return error
