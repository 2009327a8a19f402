"""The hops of one exchange as a worker runs them: which messages it waits for, and which are old.

Every worker sends one message to each worker, itself too, at the end of each superstep. A message
has a number: the attempt, the superstep, and the worker that sent it. So messages may come in any
order, and more than once. How they travel is up to the caller.
"""

from __future__ import annotations

import pickle
from collections.abc import Callable, Generator
from typing import Any, TypeVar

from vertexsdk.transport.transport import Blocks, Task, require_all, run_superstep

Number = tuple[int, int, int]  # attempt, superstep, partition that sent it
Send = Callable[[Number, list[list[bytes]]], None]  # the parts of the message to each partition

_T = TypeVar("_T")
Waiting = Generator[None, None, _T]  # yields where it waits for messages


class Aborted(Exception):
    """The task of another partition failed."""


class WorkerHops:
    """One exchange as a worker has it: the task, and the blocks that came for its next hop.

    Args:
        partition: of the worker.
        partitions: how many there are.
        send: sends the messages of a superstep to all other workers.
        yields: steps yield after every superstep, also where no message is missing.
    """

    def __init__(
        self, task: Task, partition: int, partitions: int, send: Send, *, yields: bool = False
    ) -> None:
        self.task, self.partition, self.partitions = task, partition, partitions
        self._send, self._yields = send, yields
        self._attempt = 0
        self._ended = 0  # supersteps of this attempt
        self._taken = 0  # supersteps of this attempt whose messages were taken in
        self._input: Blocks = []  # of the last hop, in case it is run again
        # By attempt and superstep, by source. Another worker may be one superstep ahead, or have
        # begun an attempt of which this one does not know yet.
        self._came: dict[tuple[int, int], dict[int, list[bytes]]] = {}

    def put(self, number: Number, parts: list[bytes]) -> None:
        """Take a message; one that was taken in before, or is of a failed attempt, is ignored."""
        attempt, superstep, source = number
        if (attempt, superstep) >= (self._attempt, self._taken):
            self._came.setdefault((attempt, superstep), {})[source] = parts

    @property
    def complete(self) -> bool:
        """Whether all messages have come that steps which have yielded wait for."""
        return len(self._came.get((self._attempt, self._taken), ())) >= self.partitions

    def run(self, decode: Callable[[], Any], *, again: bool = False) -> Waiting[bytes]:
        """Run the task once; return its report.

        Args:
            decode: makes the command.
            again: the last hop failed; this one is in its place.

        Raises:
            Aborted: the task of another partition failed.
        """
        if again:
            self._attempt, self._ended, self._taken = self._attempt + 1, 0, 0
            self._came = {at: came for at, came in self._came.items() if at[0] >= self._attempt}
        else:
            self._input, _ = yield from self.receive()
        reports: list[bytes] = []
        answer: Any = None
        try:
            task = iter(self.task(self.partition, decode(), list(self._input)))
            while True:
                end, sent = run_superstep(task, answer, self.partitions, reports)
                told = b"" if end is None else pickle.dumps(end)
                self.end_superstep([[told, *blocks] for blocks in sent])
                if end is None:
                    return b"".join(reports)
                answer = yield from self.receive()
                require_all(answer[1])
        except BaseException:
            self.end_superstep([[] for _ in range(self.partitions)])
            raise

    def end_superstep(self, parts: list[list[bytes]]) -> None:
        """Send a report and blocks to each partition; nothing says that the task failed."""
        number = self._attempt, self._ended, self.partition
        self._send(number, parts)
        self.put(number, parts[self.partition])
        self._ended += 1

    def receive(self) -> Waiting[tuple[Blocks, list[Any]]]:
        """Return what was sent in the superstep before: blocks, and the reports of all.

        Raises:
            Aborted: the task of another partition failed.
        """
        if self._ended == 0:
            return [], []
        at = self._attempt, self._taken
        came = self._came.setdefault(at, {})
        if self._yields:
            yield
        while len(came) < self.partitions:
            yield
        del self._came[at]
        self._taken += 1
        if not all(came.values()):
            raise Aborted
        blocks = [(source, block) for source in sorted(came) for block in came[source][1:]]
        told = [came[source][0] for source in sorted(came)]
        return blocks, [pickle.loads(end) if end else None for end in told]
