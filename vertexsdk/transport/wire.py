"""The wire format of a hop: a Spark task's input and output, and the function it runs.

Spark moves length-prefixed byte records between its own process and a Python worker. Here a
record is one *bundle*: all blocks that one partition sends to one other, behind a header

    source int32 | number of blocks int32 | length int64 per block | the blocks

Each partition sends exactly one bundle (perhaps without blocks) to each, so a partition always
reads P bundles. Blocks are written from `bytes` and read into `bytes`, without pickling or joining.
"""

from __future__ import annotations

import gc
import pickle
import struct
import sys
import time
import traceback
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO

from pyspark.accumulators import Accumulator, AccumulatorParam
from pyspark.core.broadcast import Broadcast
from pyspark.serializers import Serializer

from vertexsdk.errors import RunError, VertexError, typed_line
from vertexsdk.transport.task_times import Clock, Stamp
from vertexsdk.transport.transport import DRIVER, Task, run_superstep

FAILURE, ABORTED = -2, -3
LARGEST_BUNDLE = 2**31 - 2**16  # Spark's record length is an int32

_INT = struct.Struct(">i")
_HEADER = struct.Struct(">ii")
_KEY = struct.Struct(">iq")
_END = -1  # Spark's mark of the end of a task's data


class Bundle:
    """The blocks from one partition to one other, as buffers to be written in turn."""

    __slots__ = ("buffers", "size")

    def __init__(self, source: int, blocks: Sequence[bytes]) -> None:
        lengths = struct.pack(f">{len(blocks)}q", *map(len, blocks))
        self.buffers: list[bytes] = [_HEADER.pack(source, len(blocks)) + lengths, *blocks]
        self.size = sum(map(len, self.buffers))
        if self.size > LARGEST_BUNDLE:
            raise RunError(
                f"partition {source} sends {self.size:,} bytes to one partition in one hop, "
                f"more than {LARGEST_BUNDLE:,}; use more partitions"
            )

    @staticmethod
    def is_empty(joined: bytes) -> bool:
        """Whether a joined bundle has no block."""
        return len(joined) == _HEADER.size

    @staticmethod
    def only_block(joined: bytes) -> bytes:
        """Return the block of a joined bundle of one."""
        return joined[_HEADER.size + 8 :]


def _read(stream: BinaryIO, size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise EOFError("Spark closed a stream before its end")
    return data


def _read_length(stream: BinaryIO, may_close: bool = False) -> int:
    head = stream.read(4)
    if not head and may_close:  # how Spark ends what it sends to the driver
        return _END
    if len(head) < 4:
        raise EOFError("Spark closed a stream before its end")
    length: int = _INT.unpack(head)[0]
    if length < _END:
        raise EOFError(f"Spark ended a stream with code {length}")
    return length


class Frames(Serializer):
    """Opaque byte records."""

    def dump_stream(self, iterator: Iterable[bytes], stream: BinaryIO) -> None:
        for record in iterator:
            stream.write(_INT.pack(len(record)))
            stream.write(record)

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        while (length := _read_length(stream, may_close=True)) != _END:
            yield _read(stream, length)


class Skip(Serializer):
    """Reads (anchor, bytes) pairs of records, and yields the bytes."""

    def load_stream(self, stream: BinaryIO) -> Iterator[bytes]:
        while (anchor := _read_length(stream)) != _END:
            _read(stream, anchor)
            yield _read(stream, _read_length(stream))


class KeyedFrames(Serializer):
    """Writes (destination, bytes) as the key and value that Spark's shuffle takes."""

    def dump_stream(self, iterator: Iterable[tuple[int, bytes]], stream: BinaryIO) -> None:
        for destination, block in iterator:
            stream.write(_KEY.pack(8, destination) + _INT.pack(len(block)))
            stream.write(block)


class TaskInput(Serializer):
    """Reads the (anchor, bundle) records of a task: (source, blocks) per bundle."""

    def load_stream(self, stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
        while (anchor := _read_length(stream)) != _END:
            _read(stream, anchor)
            _read_length(stream)
            source, count = _HEADER.unpack(_read(stream, 8))
            lengths = struct.unpack(f">{count}q", _read(stream, 8 * count))
            yield source, [_read(stream, length) for length in lengths]


class NoInput(Serializer):
    """Reads the anchor's records, one for each source, where no source sent a block."""

    def load_stream(self, stream: BinaryIO) -> Iterator[tuple[int, list[bytes]]]:
        for source, _ in enumerate(Frames().load_stream(stream)):
            yield source, []


class ToShuffle(Serializer):
    """Writes (destination, bundle) as the key and value that Spark's shuffle takes."""

    def dump_stream(self, iterator: Iterable[tuple[int, Bundle]], stream: BinaryIO) -> None:
        for destination, bundle in iterator:
            stream.write(_KEY.pack(8, destination) + _INT.pack(bundle.size))
            stream.writelines(bundle.buffers)


class ToDriver(Serializer):
    """(destination, bundle) as one record; the driver keeps the bundle as one `bytes`."""

    def dump_stream(self, iterator: Iterable[tuple[int, Bundle]], stream: BinaryIO) -> None:
        for destination, bundle in iterator:
            stream.write(_HEADER.pack(4 + bundle.size, destination))
            stream.writelines(bundle.buffers)

    def load_stream(self, stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
        while (length := _read_length(stream, may_close=True)) != _END:
            yield _INT.unpack(_read(stream, 4))[0], _read(stream, length - 4)


class Reports(AccumulatorParam[dict[tuple[int, int], tuple[int, bytes]]]):
    """Reports by (hop, partition), so that a task which Spark runs twice counts once."""

    def zero(self, value: dict[Any, Any]) -> dict[Any, Any]:
        return {}

    def addInPlace(self, value1: dict[Any, Any], value2: dict[Any, Any]) -> dict[Any, Any]:
        value1.update(value2)
        return value1


_tasks: dict[str, Task] = {}
_modules_frozen = 0


def _task(exchange: str, pickled: bytes) -> Task:
    """Unpickle an exchange's task once per worker process."""
    if exchange not in _tasks:
        if len(_tasks) >= 8:
            _tasks.clear()
        _tasks[exchange] = pickle.loads(pickled)
    return _tasks[exchange]


def _freeze() -> None:
    """Exclude imported modules from the `gc.collect()` that Spark calls after every task."""
    global _modules_frozen
    if len(sys.modules) != _modules_frozen:
        gc.collect()
        gc.freeze()
        _modules_frozen = len(sys.modules)


@dataclass(frozen=True, slots=True)
class HopFunction:
    """The function that Spark runs on each partition in one hop.

    Attributes:
        exchange: the name of the exchange.
        hop: the number of the hop.
        partitions: number of partitions.
        task: the pickled `Task`.
        command: the pickled command, or a broadcast of it.
        reports: where reports go if blocks go to the shuffle; None if both go to the driver.
    """

    exchange: str
    hop: int
    partitions: int
    task: bytes
    command: bytes | Broadcast[bytes]
    reports: Accumulator[Any] | None

    def __call__(
        self, partition: int, bundles: Iterable[tuple[int, list[bytes]]]
    ) -> Iterator[tuple[int, Bundle]]:
        clock = Clock()
        received = sorted(bundles, key=lambda bundle: bundle[0])
        if [source for source, _ in received] != list(range(self.partitions)):
            raise EOFError(f"partition {partition} did not get one bundle from each partition")
        kind, report = DRIVER, b""
        bundles_out: list[tuple[int, Bundle]] = []
        try:
            report, sent = self._run(partition, received, clock)
            bundles_out = [(q, Bundle(partition, blocks)) for q, blocks in enumerate(sent)]
        except Exception as error:
            kind, report = FAILURE, describe(error)
        with clock.importing():
            _freeze()
        report = clock.stamp().before(report)
        if self.reports is None:
            yield kind, Bundle(partition, [report])
        else:
            self.reports.add({(self.hop, partition): (kind, report)})
        yield from bundles_out

    def _run(
        self, partition: int, received: list[tuple[int, list[bytes]]], clock: Clock
    ) -> tuple[bytes, list[list[bytes]]]:
        """Return the task's report and the blocks for each partition."""
        with clock.importing():
            task = _task(self.exchange, self.task)
        pickled = self.command if isinstance(self.command, bytes) else self.command.value
        blocks = [(source, block) for source, sources in received for block in sources]
        reports: list[bytes] = []
        command = pickle.loads(pickled)
        clock.decoded = time.time()
        running = iter(task(partition, command, blocks))
        end, sent = run_superstep(running, None, self.partitions, reports)
        assert end is None, "a job is one superstep"
        return b"".join(reports), sent


def describe(error: Exception) -> bytes:
    """Pickle a task's exception (if it is a VertexError), its first line, and its traceback."""
    own: Exception | None = error if isinstance(error, VertexError) else None
    try:
        if own is not None:
            pickle.loads(pickle.dumps(own))
    except Exception:
        own = None
    return pickle.dumps((own, typed_line(error), "".join(traceback.format_exception(error))))


def outcome(kind: int, stamped: bytes) -> tuple[Stamp, bytes]:
    """Return a partition's stamp and report, or raise its task's exception on the driver."""
    stamp, report = Stamp.split(stamped)
    if kind != FAILURE:
        return stamp, report
    own, line, trace = pickle.loads(report)
    error = own if own is not None else RunError(line)
    error.add_note("In the Spark task:\n" + trace)
    raise error
