"""Processors that live: the tasks of one Spark stage stay, and a hop is a message to each.

Spark schedules, places and isolates them. A launch is one start of a graph's processors. When one
of its tasks is lost the launch is over, and what it held is gone: its user gets a `RunError`,
loads the graph again, and starts another.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import os
import pickle
import threading
import time
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import cloudpickle
import zmq
from py4j.protocol import Py4JError
from pyspark import SparkContext, TaskContext

from vertexsdk.arrays import shared_memory
from vertexsdk.errors import LostError, RunError
from vertexsdk.transport._descriptions import described
from vertexsdk.transport._spark_internals import stop_progress_bar
from vertexsdk.transport.block_receiver import HEADER, close_receivers, open_receiver, received
from vertexsdk.transport.channels import (
    CHUNK,
    Keys,
    Lost,
    beat,
    context,
    disconnected,
    join,
    local_address,
    split,
)
from vertexsdk.transport.inprocess import LocalValue
from vertexsdk.transport.outcomes import FAILURE, outcome
from vertexsdk.transport.resident_worker import is_own_socket, serve
from vertexsdk.transport.spark_failures import spark_failure
from vertexsdk.transport.task_times import HopTimes
from vertexsdk.transport.transport import Blocks, BlockSource, Task

Returned = TypeVar("Returned")

IDLE_SECONDS = 600.0  # without a command, after which processors end
START_SECONDS = 60.0
SLOT_SECONDS = 8.0  # for Spark to give each processor a slot
_POLL_MS = 250  # between looks at whether the stage has failed, or a processor is lost
_LOOK_SECONDS = 0.5  # between looks at whether a processor is lost, while loader tasks run
_LOST = "a processor was lost with its partition"
_launches: weakref.WeakSet[Launch] = weakref.WeakSet()
lost_at: dict[str, float] = {}  # by application, when it lost a processor last; monotonic
_by_value = contextvars.ContextVar("_by_value", default=False)


class SharedValue:
    """A broadcast whose `value` can be read wherever it is unpickled.

    Args:
        sc: the context of the broadcast.
        value: what is sent.
    """

    def __init__(self, sc: SparkContext, value: Any) -> None:
        self.value = value
        self._broadcast = sc.broadcast(value)

    def __reduce__(self) -> Any:
        if _by_value.get():
            return LocalValue, (self.value,)
        return _same, (self._broadcast,)


def _same(broadcast: Any) -> Any:
    return broadcast


def pickled_by_value(message: Any) -> bytes:
    """Pickle a message to a processor: Spark does not bring broadcasts to a task that runs."""
    token = _by_value.set(True)
    try:
        pickled: bytes = cloudpickle.dumps(message)
        return pickled
    finally:
        _by_value.reset(token)


class Launch:
    """The processors of one graph: a stage of `partitions` tasks which run until `close`.

    Args:
        sc: the Spark context.
        partitions: how many there are.

    Attributes:
        application: the id of the Spark application whose slots they have.

    Raises:
        RunError: they did not start.
    """

    def __init__(self, sc: SparkContext, partitions: int) -> None:
        self.partitions, self._sc, self._process = partitions, sc, os.getpid()
        self.application = sc.applicationId
        self._closed = False
        self._lock = threading.RLock()  # of the socket
        self._turn = threading.Lock()  # held by the thread that gets the lock next
        self._wake = os.pipe()  # has a byte while a thread wants to send
        weakref.finalize(self, _close_pipe, self._wake)
        self._replies: dict[bytes, dict[bytes, tuple[int, bytes]]] = {}  # by message and route
        self._numbers = itertools.count(1)
        self._failure: RunError | None = None
        self._answered = time.monotonic()
        self._tag = f"vertexsdk-{uuid.uuid4().hex}"
        keys, secret = Keys.fresh()
        self._keys = keys
        self._context, self._authenticator = context(keys)
        self._socket = self._context.socket(zmq.ROUTER)
        self._socket.router_mandatory = True
        keys.serve(self._socket, secret)
        self._host = host = local_address(sc.getConf().get("spark.driver.host") or "127.0.0.1")
        port = self._socket.bind_to_random_port(f"tcp://{host}")
        self._poller = zmq.Poller()
        self._poller.register(self._socket, zmq.POLLIN)
        self._poller.register(self._wake[0], zmq.POLLIN)
        self._routes: list[bytes] = []
        stop_progress_bar(sc)
        _close_before_stop(sc)
        self._place = f"{shared_memory.application(self.application)}/sockets-{self._tag[-8:]}"
        where = f"tcp://{host}:{port}"
        task = partial(serve, self.partitions, where, keys, IDLE_SECONDS, self._place)
        self._ended = threading.Event()
        self._dropped: deque[bytes] = deque()  # exchanges that were closed
        thread = threading.Thread(target=self._run, args=(task,), daemon=True, name=self._tag)
        try:
            thread.start()
            self._register()
            self.ask(b"peers", pickle.dumps(self._addresses))
        except BaseException:
            self.close()
            raise
        _launches.add(self)

    @property
    def alive(self) -> bool:
        """True if no processor is known to be lost, and they are not closed."""
        return not self._closed and not self._ended.is_set()

    @property
    def _forked(self) -> bool:
        """True if this is a copy in a forked process; the sockets are its parent's."""
        return os.getpid() != self._process

    def _run(self, task: Any) -> None:
        """Run the stage; in a thread, as it ends with the launch only."""
        sc = self._sc
        try:
            with spark_failure():
                sc.addJobTag(self._tag)
                sc.setLocalProperty("spark.jobGroup.id", self._tag)
                name = f"{self.partitions} processor{'s' * (self.partitions > 1)} of a graph"
                with described(sc, name):
                    stage = sc.parallelize(range(self.partitions), self.partitions)
                    stage.mapPartitionsWithIndex(task).collect()
        except RunError as error:
            self._failure = error
        except Exception:  # of PySpark's own cleaning up: Spark was stopped
            self._failure = RunError("Spark was stopped")
        finally:
            self._ended.set()

    def _register(self) -> None:
        """Wait until every processor has said where it is, and tell them of each other."""
        started: dict[int, tuple[bytes, Any]] = {}
        began = time.monotonic()
        while len(started) < self.partitions:
            waited = time.monotonic() - began
            if waited > SLOT_SECONDS and self._waits():
                raise RunError(
                    f"not all of {self.partitions} processors got a slot in {SLOT_SECONDS:.0f} s, "
                    "as other tasks of the session have them"
                )
            if waited > START_SECONDS:
                raise RunError(
                    f"{len(started)} of {self.partitions} processors started in "
                    f"{START_SECONDS:.0f} s; can executors reach the driver by its ports?"
                )
            if not self._socket.poll(_POLL_MS):
                self._check()
                continue
            route, *frames = self._socket.recv_multipart()
            partition, address = pickle.loads(join(frames)[1])
            if partition not in started or started[partition][1] != address:  # else it came again
                started[partition] = route, address
        self._routes = [started[p][0] for p in range(self.partitions)]
        self._addresses = [started[p][1] for p in range(self.partitions)]

    def _waits(self) -> bool:
        """Return whether tasks of the stage wait for a slot."""
        tracker = self._sc.statusTracker()
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(self._tag)]
        stages = [tracker.getStageInfo(k) for job in jobs if job is not None for k in job.stageIds]
        return any(s is not None and s.numActiveTasks < self.partitions for s in stages)

    def _check(self) -> None:
        """Raise what ended the stage, if it has ended, or if a processor's connection is gone."""
        if self._ended.is_set():
            raise self._lost()
        self._send([b"0", b"alive"])  # which fails where one is gone

    def _lost(self) -> RunError:
        """End the launch; return the error that says why."""
        self._ended.wait(1.0)  # for Spark to say it
        reason = str(self._failure) if self._failure is not None else "it does not answer"
        if self._ended.is_set() and self._failure is None:
            idle = time.monotonic() - self._answered >= IDLE_SECONDS
            reason = f"it had no command for {IDLE_SECONDS:.0f} s" if idle else "it was cut off"
        self._end(wait=0.0)
        if not self._routes:
            return RunError(reason)
        lost_at[self.application] = time.monotonic()
        return LostError(f"{_LOST}: {reason}")

    def ask(self, kind: bytes, *parts: bytes) -> list[tuple[Any, bytes]]:
        """Send a message to every processor; return the stamp and the report of each.

        Raises:
            RunError: one of them is lost; the launch is over then. What a task raised is raised
                when all have answered.
        """
        if self._forked:
            raise RunError(
                "a process that was forked cannot use the graphs of its parent that are on Spark; "
                "run the program in the parent, or make the graph without Spark"
            )
        number = str(next(self._numbers)).encode()
        try:
            with self._sending():
                self._require_open()
                self._replies[number] = {}
                while self._dropped:
                    self._send([b"0", b"drop", self._dropped.popleft()])
                self._send([number, kind, *parts])
            replies = self._collect(number)
            self._answered = time.monotonic()
            return replies
        except Exception:
            raise
        except BaseException:  # Ctrl-C, or an exit from a signal: tasks may take long still
            self.close()
            raise
        finally:
            self._replies.pop(number, None)

    def _require_open(self) -> None:
        if self._closed:
            raise LostError(f"{_LOST}: its launch has ended")

    @contextlib.contextmanager
    def _sending(self) -> Iterator[None]:
        """Hold the lock of the socket; a thread that waits for replies lets go of it at once."""
        if not self._lock.acquire(blocking=False):
            os.write(self._wake[1], b"x")
            with self._turn:
                self._lock.acquire()
            os.read(self._wake[0], 1)
        try:
            yield
        finally:
            self._lock.release()

    def drop(self, exchange: bytes) -> None:
        """Have processors drop an exchange, when they are asked something next."""
        self._dropped.append(exchange)

    def _send(self, message: Sequence[bytes]) -> None:
        try:
            frames = split(message)
            for route in self._routes:
                self._socket.send_multipart([route, *frames], copy=False)
        except zmq.ZMQError:
            raise self._lost() from None

    def _collect(self, number: bytes) -> list[tuple[Any, bytes]]:
        """Wait for the replies to a message, and keep those to messages of other threads."""
        replies = self._replies[number]
        while len(replies) < self.partitions:
            with self._turn:
                self._lock.acquire()
            try:
                self._require_open()
                if len(replies) < self.partitions:
                    self._receive()
            finally:
                self._lock.release()
        codes = [replies[route][0] for route in self._routes]
        first = codes.index(FAILURE) if FAILURE in codes else 0  # why the others were aborted
        return [outcome(*replies[route]) for route in self._routes[first:] + self._routes[:first]]

    def _receive(self) -> None:
        """Take what has come, or wait for a while, or until another thread sends."""
        ready = dict(self._poller.poll(_POLL_MS))
        if not ready:
            self._check()
        if self._socket not in ready:
            return
        route, *frames = self._socket.recv_multipart()
        number, *reply = join(frames)
        if number == b"register":  # of one that holds nothing: Spark has started a task again
            self._check()
        replies = self._replies.get(number)
        if replies is not None and route in self._routes:  # else it came again, by another way
            replies[route] = pickle.loads(reply[0]), reply[1]

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """Call a function with each partition's number on its processor; results are pickled."""
        replies = self.ask(b"call", pickled_by_value(function))
        return [pickle.loads(report) for _, report in replies]

    def load(self, blocks: BlockSource) -> tuple[str, Mapping[int, int]]:
        """Have loader tasks bring blocks to the processors, where `received` returns them.

        Returns:
            The name of the load, and the attempt at each part that has succeeded.

        Raises:
            LostError: a processor was lost; the launch is over.
            RunError: a loader task failed.
        """
        name = uuid.uuid4().hex[:8]
        addresses = self.run(partial(open_receiver, name, self._keys, self._host, self._place))
        loader = Loader(self._keys, tuple(addresses))
        failures: list[RunError] = []
        ended = threading.Event()
        tag = f"vertexsdk-{name}"
        watch = threading.Thread(target=self._watch, args=(tag, ended, failures), daemon=True)
        try:
            with spark_failure():
                self._sc.addJobTag(tag)
                watch.start()
                try:
                    attempts = blocks.collect(loader)
                finally:
                    ended.set()
                    watch.join()
                    self._sc.removeJobTag(tag)
        except RunError:
            if failures:
                raise failures[0] from None
            self.run(_drop_blocks)
            raise
        if None in attempts:  # of a loader that has met no processor, or lost it
            raise failures[0] if failures else self._lost_by_loader()
        return name, dict(attempts)

    def _watch(self, tag: str, ended: threading.Event, failures: list[RunError]) -> None:
        """Cancel the jobs with a tag when a processor is lost, until `ended`."""
        while not ended.wait(_LOOK_SECONDS):
            try:
                with self._sending():
                    self._require_open()
                    self._check()
            except RunError as error:
                failures.append(error)
                with contextlib.suppress(Py4JError, ConnectionError, AttributeError):
                    self._sc.cancelJobsWithTag(tag)
                return

    def _lost_by_loader(self) -> RunError:
        with self._sending():
            return LostError(_LOST) if self._closed else self._lost()

    def close(self, wait: float = 2.0) -> None:
        """End the processors; may be called twice.

        Args:
            wait: seconds for them to end by themselves, after which Spark ends them.
        """
        if self._forked:
            return
        with self._sending():
            self._end(wait)

    def _end(self, wait: float) -> None:
        """End the processors; the lock is held."""
        if self._closed:
            return
        self._closed = True
        for route in self._routes:
            with contextlib.suppress(zmq.ZMQError):  # it is gone already
                self._socket.send_multipart([route, *split([b"0", b"end"])])
        if not self._ended.wait(wait):
            # Spark may have stopped.
            with contextlib.suppress(Py4JError, ConnectionError, AttributeError):
                self._sc.cancelJobsWithTag(self._tag)
        self._authenticator.stop()
        self._context.destroy(linger=0)


def _close_before_stop(sc: SparkContext) -> None:
    """Have processors end before the session is stopped; Spark would log each as a failure."""
    if "stop" in vars(sc):
        return
    stop = sc.stop

    def close_and_stop() -> None:
        for launch in [*_launches]:
            if launch._sc is sc:
                launch.close()
        stop()

    sc.stop = close_and_stop  # type: ignore[method-assign]


def _close_pipe(pipe: tuple[int, int]) -> None:
    for end in pipe:
        os.close(end)


class ResidentExchange:
    """An exchange whose hops are messages to every processor; blocks travel between these."""

    def __init__(self, launch: Launch, task: Task, blocks: BlockSource | None = None) -> None:
        self.partitions, self._launch = launch.partitions, launch
        self.times: HopTimes | None = None
        self._name = uuid.uuid4().hex.encode()
        self._again = b""  # whether the last hop failed
        if blocks is not None:
            task = partial(_with_loaded, *launch.load(blocks), task)
        launch.ask(b"task", self._name, pickled_by_value(task))
        self._finalizer = weakref.finalize(self, launch.drop, self._name)

    def hop(self, command: Any) -> list[bytes]:
        """Run the task once on every processor; return their reports in partition order."""
        began = time.time()
        pickled = pickled_by_value(command)
        submitted = time.time()
        again, self._again = self._again, b"again"
        stamped = self._launch.ask(b"hop", self._name, again, pickled)
        self._again = b""
        self.times = HopTimes(began, submitted, time.time(), [stamp for stamp, _ in stamped])
        return [report for _, report in stamped]

    def close(self) -> None:
        """Free the blocks of the hops."""
        self._finalizer()


def _with_loaded(
    name: str,
    attempts: Mapping[int, int],
    task: Task,
    partition: int,
    command: Any,
    blocks: Blocks,
) -> Iterable[tuple[int, Any]]:
    """Run a task, in its first hop with the blocks of a load."""
    blocks += [(0, bytes_like) for bytes_like in received(name, attempts)]  # type: ignore[misc]
    return task(partition, command, blocks)


def _drop_blocks(partition: int) -> None:
    close_receivers()


# How loader tasks bring blocks to processors: straight to their sockets, with bounded bytes ahead.
#
# A loader is a task of an ordinary Spark job, or the driver itself where it has the edges.

WINDOW = 4 * CHUNK  # bytes ahead of what a processor has acknowledged
_LOADER_POLL_MS = 500


@dataclass(frozen=True)
class Loader:
    """Sends the blocks of parts to the processors of a launch; picklable.

    Attributes:
        keys: the launch's keys.
        addresses: the addresses of each processor's `BlockReceiver`.
        wait: seconds without an acknowledgement after which a processor is lost.
    """

    keys: Keys
    addresses: tuple[tuple[str, str], ...]
    wait: float = 30.0

    def __call__(
        self, part: int, blocks: Iterable[tuple[int, bytes]]
    ) -> Iterator[tuple[int, int] | None]:
        """Send the blocks of a part.

        Yields:
            The part and the attempt, when all blocks have come; None where a processor is lost:
            Spark would run a task that raises again, to fail again.
        """
        task = TaskContext.get()
        attempt = 0 if task is None else int(task.taskAttemptId())
        with contextlib.closing(_Sender(self)) as sender:
            try:
                for number, (destination, block) in enumerate(blocks):
                    sender.send(destination, (part, attempt, number), block)
                sender.flush()
                yield part, attempt
            except Lost:
                yield None
        for _ in blocks:
            pass  # Spark ends a worker which has not read its input


class _Sender:
    def __init__(self, loader: Loader) -> None:
        self._loader, self._context = loader, zmq.Context()
        self._context.setsockopt(zmq.IPV6, 1)
        self._sockets: dict[int, zmq.Socket[bytes]] = {}
        self._monitors: dict[int, zmq.Socket[bytes]] = {}
        self._ahead: dict[int, int] = {}  # bytes that were not acknowledged yet

    def send(self, destination: int, number: tuple[int, int, int], block: bytes) -> None:
        """Send a block in chunks.

        Raises:
            Lost: the processor is gone.
        """
        sock = self._sockets.get(destination) or self._connect(destination)
        view = memoryview(block)
        for place in range(0, max(len(block), 1), CHUNK):
            chunk = view[place : place + CHUNK]
            self._await(destination, WINDOW - len(chunk))
            header = HEADER.pack(*number, len(block), place)
            sock.send_multipart([header, chunk], copy=False)
            self._ahead[destination] += max(len(chunk), 1)

    def flush(self) -> None:
        """Wait until all blocks have come.

        Raises:
            Lost: a processor is gone.
        """
        for destination in self._sockets:
            self._await(destination, 0)

    def _connect(self, destination: int) -> zmq.Socket[bytes]:
        address, path = self._loader.addresses[destination]
        sock = self._sockets[destination] = self._context.socket(zmq.DEALER)
        self._monitors[destination] = sock.get_monitor_socket(
            zmq.EVENT_DISCONNECTED | zmq.EVENT_CLOSED
        )
        self._ahead[destination] = 0
        if is_own_socket(path):
            beat(sock)
            sock.reconnect_ivl = -1
            sock.connect(f"ipc://{path}")
        else:
            self._loader.keys.connect(sock, self._loader.keys.public)
            sock.connect(address)
        return sock

    def _await(self, destination: int, most: int) -> None:
        """Wait until at most so many bytes are ahead."""
        sock, silent = self._sockets[destination], 0
        while self._ahead[destination] > most:
            if sock.poll(_LOADER_POLL_MS):
                self._ahead[destination] -= int.from_bytes(sock.recv(), "big")
                silent = 0
                continue
            silent += _LOADER_POLL_MS
            if disconnected(self._monitors[destination]) or silent > 1000 * self._loader.wait:
                raise Lost

    def close(self) -> None:
        """Close the sockets."""
        for sock in self._sockets.values():
            sock.disable_monitor()
        self._context.destroy(linger=0)
