"""What a main loop does with event time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, Self

from vertexsdk.loops._diff import ReadableLoop
from vertexsdk.loops._history import LoopHistory
from vertexsdk.loops.branch_loop import OpenBranches
from vertexsdk.loops.result import Result
from vertexsdk.loops.windows.as_of import answer_at_time, answer_at_version, require_one
from vertexsdk.loops.windows.durations import seconds_of, time_of
from vertexsdk.loops.windows.rolling import RollingLoop, rolling_answers
from vertexsdk.loops.windows.window import advance, set_window


class WindowedLoop(ReadableLoop):
    """The methods of `MainLoop` about event time."""

    _history: LoopHistory
    _branches: OpenBranches

    @property
    def windowed(self) -> bool:
        """Whether the loop has a `window`."""
        return self._history.ledger.window is not None

    @property
    def event_time(self) -> float | None:
        """The newest time of a change, in seconds; None before the first, or without a window."""
        window = self._history.ledger.window
        return None if window is None else window["clock"]

    def window(self, length: str | float | timedelta) -> Self:
        """Have edges expire: keep those whose newest change is younger than `length`.

        Age is in event time: relative to the newest time of any change so far. From here on every
        change needs its time, see `ingest`. A change that is as old as the window or older is
        `late` and ignored; one that is older than the newest change of its edge is `overtaken` and
        ignored. Edges that no change with a time has named do not expire. The window is part of the
        loop's versions: `resume` continues with it.

        Args:
            length: "7d", "12h", "30m", "10s", a timedelta, or a number in the unit of the times.
                Another length than before holds from now on.

        Returns:
            This loop.

        Raises:
            InputError: it is no length of time.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> options = {"backend": "memory://window", "loop": "window"}
            >>> main = MainLoop(ConnectedComponents, Graph.empty(), **options).window("7d")
            >>> day = 86400
            >>> _ = main.ingest([("+", 1, 2), ("+", 2, 3)], time=[0 * day, 4 * day])
            >>> _ = main.ingest([("+", 5, 6)], time=8 * day)
            >>> main.query().to_dict()
            {2: 2, 3: 2, 5: 5, 6: 5}
            >>> main.close()
        """
        set_window(self._history, seconds_of(length))
        return self

    def advance(self, time: str | float | datetime) -> int:
        """Move event time on although no change comes, so that edges expire.

        Args:
            time: seconds, a datetime or an ISO 8601 string; one that is past does nothing.

        Returns:
            How many edges expired.

        Raises:
            InputError: the loop has no window, or it is no time.
        """
        with self._history.config.turns.ingest():
            return advance(self._history, time_of(time))

    def at(
        self, version: int | None = None, *, time: str | float | datetime | None = None
    ) -> Result:
        """Return the exact answer for the graph as it was.

        The answer is computed from `init`, in a branch; the newest `retain` versions can be asked.

        Args:
            version: as `iteration` gives it; the newest before it, if there is none.
            time: seconds, a datetime or an ISO 8601 string. With a `window` it is event time: of
                the batch in which that time lies, the changes up to then count, and edges have
                expired as they had by then; a time to come is that of a stream which is silent
                until then. Without a window it is when versions were committed.

        Returns:
            The answer, for the caller to close.

        Raises:
            StateInputError: there is no such version any more.
            InputError: both or neither were given.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> graph = Graph.from_arrays([1], [2])
            >>> main = MainLoop(ConnectedComponents, graph, backend="memory://at")
            >>> before = main.iteration
            >>> _ = main.ingest([("+", 2, 3)])
            >>> main.at(before).to_dict(), main.query().to_dict()
            ({1: 1, 2: 1}, {1: 1, 2: 1, 3: 1})
            >>> main.close()
        """
        require_one(version, time)
        with self._history.counters.doing("fork"):
            if version is not None:
                return answer_at_version(self._history, self._branches, version)
            assert time is not None
            return answer_at_time(self._history, self._branches, time_of(time))

    def rolling(
        self: RollingLoop,
        step: str | float | timedelta,
        changes: Any,
        *,
        time: Any = None,
        time_column: int | None = None,
    ) -> Iterator[tuple[float, Result]]:
        """Ingest changes with times, and iterate over the exact answers after each step of time.

        Answers are of the multiples of `step` (with "1d": midnight, UTC), up to the step in which
        the changes end; each is of the changes up to and including its time. A change that comes
        after the answer of its step counts from the next one on.

        Args:
            step: "1d", "6h", "10s", a timedelta, or a number in the unit of the times.
            changes: change files, directories or globs; a batch as `ingest` takes it; or an
                iterator of `Changes` that have times.
            time: those of a batch, as for `ingest`.
            time_column: of files, the number of the field with the time, from 1.

        Yields:
            The time, in seconds, and the answer, for the caller to close.

        Raises:
            InputError: changes without times, or see `ingest`.

        Example:
            >>> from vertexsdk import Graph, MainLoop
            >>> from vertexsdk.algorithms import ConnectedComponents
            >>> options = {"backend": "memory://rolling", "loop": "rolling"}
            >>> main = MainLoop(ConnectedComponents, Graph.empty(), **options).window(2)
            >>> changes = [("+", 1, 2), ("+", 2, 3), ("+", 5, 6)]
            >>> for time, answer in main.rolling(1, changes, time=[1, 2, 3]):
            ...     print(time, answer.to_dict())
            1.0 {1: 1, 2: 1}
            2.0 {1: 1, 2: 1, 3: 1}
            3.0 {2: 2, 3: 2, 5: 5, 6: 5}
            >>> main.close()
        """
        return rolling_answers(self, seconds_of(step), changes, time, time_column)
