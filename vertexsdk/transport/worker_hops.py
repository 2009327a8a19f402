"""The hops of one exchange as a worker runs them: which messages it waits for, and which are old.

Every worker sends one message to each worker, itself too, at the end of each superstep, and perhaps
some before. A message has a number: the attempt, the superstep, the worker that sent it, and how
many that one sent to this worker before it. So messages may come in any order, and more than once.
How they travel is up to the caller.
"""

from __future__ import annotations

import pickle
from collections import defaultdict
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeVar

from vertexsdk.transport.transport import PEERS, POSTS, Blocks, Task, require_all, run_task

_T = TypeVar("_T")
Waiting = Generator[None, None, _T]  # yields where it waits for messages


class Number(NamedTuple):
    """The number of a message.

    Attributes:
        source: the partition that sent it.
        order: how many messages it sent to the same destination before, in this superstep.
        ends: it is the last one of the superstep.
    """

    attempt: int
    superstep: int
    source: int
    order: int
    ends: bool


Send = Callable[[int, Number, list[bytes]], None]  # destination, number, and parts of a message


@dataclass(slots=True)
class _Channel:
    """The messages of one worker in one superstep.

    Attributes:
        posts: the posts that were not taken yet, by their order.
        taken: number of posts that were taken.
        end: the last message; no parts say that the task failed.
        posts_before_end: number of posts before it.
    """

    posts: dict[int, list[bytes]] = field(default_factory=dict)
    taken: int = 0
    end: list[bytes] | None = None
    posts_before_end: int = -1

    def put(self, number: Number, parts: list[bytes]) -> None:
        """Take a message, perhaps again."""
        if number.ends:
            self.end, self.posts_before_end = parts, number.order
        elif number.order >= self.taken:
            self.posts[number.order] = parts

    def take(self) -> list[bytes]:
        """Return the blocks of the posts that are next."""
        blocks: list[bytes] = []
        while self.taken in self.posts:
            blocks += self.posts.pop(self.taken)
            self.taken += 1
        return blocks

    @property
    def complete(self) -> bool:
        """True if all messages have come."""
        return self.end is not None and self.taken + len(self.posts) >= self.posts_before_end


class Aborted(Exception):
    """The task of another partition failed."""


class WorkerHops:
    """One exchange as a worker has it: the task, and the blocks that came for its next hop.

    Args:
        partition: the worker's partition.
        partitions: the number of partitions.
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
        self._posted = [0] * partitions  # messages in this superstep, by destination
        self._waits: bool | None = None  # for posts, as it said; None: for the superstep's end
        # By attempt and superstep, by source. Another worker may be one superstep ahead, or have
        # begun an attempt of which this one does not know yet.
        self._came: dict[tuple[int, int], dict[int, _Channel]] = {}

    def put(self, number: Number, parts: list[bytes]) -> None:
        """Take a message; one that was taken in before, or is of a failed attempt, is ignored."""
        at = number.attempt, number.superstep
        if at >= (self._attempt, self._taken):
            channels = self._came.setdefault(at, defaultdict(_Channel))
            channels[number.source].put(number, parts)

    @property
    def complete(self) -> bool:
        """True if all messages have come that the waiting steps need."""
        channels = self._came.get((self._attempt, self._taken), {})
        if self._waits is None:
            return len(channels) >= self.partitions and all(
                channel.complete for channel in channels.values()
            )
        return not self._waits or any(
            channel.taken in channel.posts or channel.end is not None
            for channel in channels.values()
        )

    @property
    def posts(self) -> bool:
        """True if the steps are within a superstep, so that messages may have come since."""
        return self._waits is not None

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
            self._posted, self._waits = [0] * self.partitions, None
            self._came = {at: came for at, came in self._came.items() if at[0] >= self._attempt}
        else:
            self._input, _ = yield from self.receive()
        reports: list[bytes] = []
        answer: Any = None
        try:
            task = iter(self.task(self.partition, decode(), list(self._input)))
            while True:
                pause = run_task(task, answer, self.partitions, reports)
                if pause.destination == POSTS:
                    answer = yield from self._post(pause.blocks, wait=pause.told)
                    continue
                told = pickle.dumps(pause.told) if pause.destination == PEERS else b""
                self.end_superstep([[told, *blocks] for blocks in pause.blocks])
                if pause.destination is None:
                    return b"".join(reports)
                answer = yield from self.receive()
                require_all(answer[1])
        except BaseException:
            self.end_superstep([[] for _ in range(self.partitions)])
            raise

    def end_superstep(self, parts: list[list[bytes]]) -> None:
        """Send a report and blocks to each partition; nothing says that the task failed."""
        for q, message in enumerate(parts):
            self._message(q, message, ends=True)
        self._posted = [0] * self.partitions
        self._ended += 1

    def _message(self, destination: int, parts: list[bytes], *, ends: bool) -> None:
        order = self._posted[destination]
        number = Number(self._attempt, self._ended, self.partition, order, ends)
        self._posted[destination] += 1
        if destination == self.partition:
            self.put(number, parts)
        else:
            self._send(destination, number, parts)

    def _post(self, outgoing: list[list[bytes]], *, wait: bool) -> Waiting[tuple[Blocks, bool]]:
        """Send blocks within the superstep; return those that came, and whether it is over.

        Raises:
            Aborted: the task of another partition failed.
        """
        for q, blocks in enumerate(outgoing):
            if blocks:
                self._message(q, blocks, ends=False)
        self._waits = wait
        if self._yields:
            yield
        while not self.complete:
            yield
        self._waits = None
        channels = sorted(self._came.get((self._attempt, self._taken), {}).items())
        if any(channel.end == [] for _, channel in channels):
            raise Aborted
        posts = [(source, block) for source, channel in channels for block in channel.take()]
        return posts, any(channel.end is not None for _, channel in channels)

    def receive(self) -> Waiting[tuple[Blocks, list[Any]]]:
        """Return what was sent in the superstep before: blocks, and the reports of all.

        Raises:
            Aborted: the task of another partition failed.
        """
        if self._ended == 0:
            return [], []
        if self._yields:
            yield
        while not self.complete:
            yield
        channels = sorted(self._came.pop((self._attempt, self._taken)).items())
        self._taken += 1
        if any(channel.end == [] for _, channel in channels):
            raise Aborted
        ends = [channel.end or [] for _, channel in channels]
        blocks = [
            (source, block)
            for (source, channel), end in zip(channels, ends, strict=True)
            for block in [*channel.take(), *end[1:]]
        ]
        return blocks, [pickle.loads(end[0]) if end[0] else None for end in ends]
