"""Spark's exceptions as errors of one line."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

from vertexsdk.errors import LostError, RunError
from vertexsdk.transport._spark_internals import java_cause

_LOST = "vertexsdk.errors.LostError: "  # how a worker's traceback ends


@contextlib.contextmanager
def spark_failure() -> Iterator[None]:
    """Turn Spark's exceptions into a `RunError` of one line, with the full text in its notes.

    Raises:
        LostError: an executor was lost with what it held.
        RunError: another failure.
    """
    try:
        yield
    except (Py4JError, PySparkException, ConnectionError, EOFError) as error:
        reason = _reason(_causes(error))
        lost = reason.startswith(_LOST)
        run_error = LostError(reason.removeprefix(_LOST)) if lost else RunError(reason)
        with contextlib.suppress(Exception):  # the text comes from a JVM which may have died
            run_error.add_note(str(error))
        raise run_error from None


def _causes(error: Exception) -> list[str]:
    """Return the messages of the Java exceptions behind an error, outermost first."""
    java = java_cause(error)
    messages: list[str] = []
    with contextlib.suppress(Py4JError, ConnectionError):
        while java is not None and len(messages) < 20:
            messages.append(java.toString())
            java = java.getCause()
    if not messages and isinstance(error, PySparkException):  # such as a remote session's
        messages = [str(error)]
    return messages


def _reason(causes: list[str]) -> str:
    """Return the line of a Spark failure that gives the reason."""
    text = "\n".join(causes)
    if "Traceback (most recent call last)" in text:
        trace = text[text.index("Traceback (most recent call last)") :].splitlines()[1:]
        for line in trace:
            if line and not line[0].isspace():
                return line.removeprefix("vertexsdk.errors.RunError: ").strip()
    if "Checkpoint block" in text:  # of a hop by a shuffle
        return f"{_LOST}an executor was lost with its messages; run again from the last version"
    if "Python worker exited unexpectedly" in text or "Python worker failed" in text:
        return (
            "a Python worker died during the run (killed, or out of memory); "
            "use more partitions or give the machine more memory"
        )
    if "cancelled" in text:
        return "the run was cancelled"
    if "ExecutorLostFailure" in text:
        return "executors were lost repeatedly during the run; see the cluster's logs"
    lines = [line.strip() for cause in reversed(causes) for line in cause.splitlines()]
    first = next((line for line in lines if line and not line.startswith("at ")), None)
    return f"Spark: {first}" if first else "Spark stopped during the run; start the session again"
