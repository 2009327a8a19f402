"""The processors of a graph and their driver in one thread, from one seed, with faults.

It takes the place of the in-process transport, and does what the resident one does: processors get
numbered commands, answer them, and exchange the blocks of supersteps as `WorkerHops` says. Which of
them goes on next and when each message comes is drawn from the seed, and so are the faults. When a
processor is lost its launch has ended: all that it held is gone, the command ends with a
`LostError`, and whoever uses the graph loads it again or resumes the loop from its store.

>>> with Simulator(7).installed():  # doctest: +SKIP
...     run(ConnectedComponents, Graph.from_arrays([1, 2], [2, 3], partitions=3))
"""

from __future__ import annotations

import itertools
import math
import pickle
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from random import Random
from typing import Any, TypeVar
from unittest import mock

import cloudpickle

from tests.support.simulated_clocks import Clock, in_step_of, simulated_time
from tests.support.simulated_network import Connection, Events, Faults
from vertexsdk.engine import loop_task
from vertexsdk.errors import LostError, RunError, VertexError, typed_line
from vertexsdk.transport import select
from vertexsdk.transport.inprocess import (
    InProcessExchange,
    InProcessTransport,
    InProcessWorkers,
)
from vertexsdk.transport.task_times import HopTimes
from vertexsdk.transport.transport import Blocks, BlockSource, Exchange, Task
from vertexsdk.transport.worker_hops import Aborted, Number, Waiting, WorkerHops

__all__ = ["Deadlock", "Simulator", "exchange_in_process"]

Returned = TypeVar("Returned")
Observer = Callable[[Any, int, Number, list[bytes]], None]

ROUGH = Faults(late=0.05, repeated=0.1, disconnected=0.03, slow=0.02)
_NOTICE = 12  # steps of others, at most, before the loss of a processor is noticed
_TICKS = (0.0, 1e-5, 1e-3, 0.03)  # seconds that pass with a look at a clock, in one step
_installed: list[Simulator] = []


class Deadlock(AssertionError):
    """A command is not answered by all processors, and nothing is left to happen."""


class Simulator:
    """What decides, what happened, and the time.

    Args:
        seed: the same one has the same things happen.
        faults: how often things go wrong.
        clocks: every processor has another clock.

    Attributes:
        trace: what happened, a line each.
        observers: called with the exchange's task, destination, number and parts of each message
            that a processor sends to another one.
        running: the partition whose step it is; None while it is the driver's turn.
        messages: how many were sent between processors.
        losses: how many processors were lost.
    """

    def __init__(self, seed: int, faults: Faults = ROUGH, *, clocks: bool = True) -> None:
        self.chance, self.faults, self.clocks = Random(seed), faults, clocks
        self.driver = Clock(0.0, 1.0)
        self.lock = threading.RLock()  # loops may run in several threads
        self.trace: list[str] = []
        self.observers: list[Observer] = []
        self.running: int | None = None
        self.messages = self.losses = 0
        self.faulted: dict[str, int] = {}
        self._calm = 0  # commands in which no processor is lost

    @contextmanager
    def installed(self) -> Iterator[Simulator]:
        """Have graphs without Spark use this simulator."""
        with ExitStack() as stack:
            stack.enter_context(simulated_time(self.driver))
            make = partial(SimulatedTransport, self)
            stack.enter_context(mock.patch.object(select, "InProcessTransport", make))
            # A share of this machine's memory, which changes wait for.
            stack.enter_context(mock.patch.object(loop_task, "used_memory", return_value=0.0))
            _installed.append(self)
            stack.callback(_installed.remove, self)
            yield self

    def note(self, *what: object) -> None:
        """Add a line to the trace."""
        self.trace.append(" ".join(map(str, what)))

    def fault(self, kind: str) -> None:
        """Note a fault."""
        self.faulted[kind] = self.faulted.get(kind, 0) + 1
        self.trace.append(kind)

    def clock(self) -> Clock:
        """Return the clock of a new processor."""
        if not self.clocks:
            return Clock(0.0, 1.0)
        return Clock(self.chance.uniform(-1e6, 1e6), 10 ** self.chance.uniform(-1.5, 1.5))

    def draw_loss(self, partitions: int) -> tuple[int, int] | None:
        """Return which processor is lost in the next command, after how many steps of all."""
        if self._calm:
            self._calm -= 1
        elif self.chance.random() < self.faults.lost:
            self._calm = self.faults.calm
            steps = 1 + int(self.chance.expovariate(1 / (6 * partitions)))
            return self.chance.randrange(partitions), steps
        return None


class _Processor:
    """One partition's process: it carries out commands one by one, and discards repeated ones."""

    def __init__(self, launch: _Launch, partition: int) -> None:
        self.launch, self.partition = launch, partition
        self.clock = launch.simulator.clock()
        self.exchanges: dict[int, WorkerHops] = {}
        self.steps: Waiting[bytes] | None = None  # of the command which it carries out
        self.waking = False  # its next step is to come already
        self.number = 0  # of the newest command

    def receive_command(self, message: tuple[int, int, bool, bytes]) -> None:
        """Take a command."""
        number, exchange, again, command = message
        if number <= self.number or exchange not in self.exchanges:
            return
        self.number = number
        hops = self.exchanges[exchange]
        self.steps = hops.run(partial(pickle.loads, command), again=again)
        self.wake()

    def receive(self, message: tuple[int, Number, list[bytes]]) -> None:
        """Take a message of another processor."""
        exchange, number, parts = message
        if (hops := self.exchanges.get(exchange)) is not None:  # else it was dropped
            hops.put(number, parts)
            self.wake()

    def wake(self) -> None:
        """Have it go on soon."""
        if not self.waking and self.steps is not None:
            self.waking = True
            events, chance = self.launch.events, self.launch.simulator.chance
            seconds = chance.expovariate(2000.0)
            if chance.random() < self.launch.simulator.faults.slow:
                self.launch.simulator.fault("slow")
                seconds += chance.expovariate(1.0)
            events.at(max(events.now, self.clock.now) + seconds, self.step)

    def step(self) -> None:
        """Go on until the command is carried out, or messages are missing."""
        self.waking = False
        launch, steps = self.launch, self.steps
        if steps is None:
            return
        simulator = launch.simulator
        self.clock.now = launch.events.now
        self.clock.tick = simulator.chance.choice(_TICKS)
        reply: tuple[str, bytes] = ("done", b"")
        simulator.running = self.partition
        try:
            with in_step_of(self.clock):
                next(steps)
            return
        except StopIteration as ended:
            reply = "done", ended.value
        except Aborted:
            reply = "aborted", b""
        except Exception as error:
            reply = "failed", _failure(error)
        finally:
            simulator.running = None
        self.steps = None
        simulator.note(self.partition, reply[0], self.number)
        launch.answers[self.partition].send((self.partition, self.number, *reply), self.clock.now)

    def send(self, exchange: int, destination: int, number: Number, parts: list[bytes]) -> None:
        """Send a message to another processor."""
        launch = self.launch
        if not launch.alive:
            return
        parts = [bytes(part) for part in parts]
        simulator = launch.simulator
        simulator.messages += 1
        simulator.note(self.partition, destination, exchange, *number, zlib.crc32(b"".join(parts)))
        for observer in simulator.observers:
            observer(self.exchanges[exchange].task, destination, number, parts)
        message = exchange, number, parts
        launch.channels[self.partition, destination].send(message, self.clock.now)

    def end(self) -> None:
        """Forget everything."""
        steps, self.steps = self.steps, None
        if steps is not None:
            with in_step_of(self.clock):
                steps.close()
        for hops in self.exchanges.values():
            _forget(hops.task, self.partition)
        self.exchanges.clear()


class _Launch:
    """The processors of one graph, until one of them is lost or the graph lets go of them."""

    def __init__(self, simulator: Simulator, partitions: int) -> None:
        self.simulator, self.partitions = simulator, partitions
        self.alive = True
        self.events = Events()
        self.numbers, self.exchanges = itertools.count(1), itertools.count(1)
        self.processors = [_Processor(self, p) for p in range(partitions)]
        make = partial(Connection, self.events, simulator.chance, simulator.faults)
        everyone = range(partitions)
        self.commands = [make(self.processors[p].receive_command, self._note) for p in everyone]
        self.answers = [make(self._take, self._note) for _ in everyone]
        self.channels = {
            (p, q): make(self.processors[q].receive, self._note)
            for p, q in itertools.permutations(everyone, 2)
        }
        self._replies: dict[int, tuple[str, bytes]] = {}
        self._number = 0

    def _note(self, kind: str) -> None:
        self.simulator.fault(kind)

    def _take(self, message: tuple[int, int, str, bytes]) -> None:
        partition, number, kind, report = message
        if number == self._number:
            self._replies[partition] = kind, report

    def add(self, task: Task) -> int:
        """Give the processors the task of a new exchange; return the exchange's number."""
        self.require_alive()
        exchange = next(self.exchanges)
        for processor in self.processors:
            send = partial(processor.send, exchange)
            processor.exchanges[exchange] = WorkerHops(
                task, processor.partition, self.partitions, send
            )
        return exchange

    def drop(self, exchange: int) -> None:
        """Have the processors forget an exchange."""
        for processor in self.processors:
            processor.exchanges.pop(exchange, None)

    def require_alive(self) -> None:
        """Raise `LostError` if it has ended."""
        if not self.alive:
            raise LostError("a processor was lost with its partition: its launch has ended")

    def ask(self, exchange: int, again: bool, command: bytes) -> list[bytes]:
        """Send a command to all processors; return their reports.

        Raises:
            LostError: a processor was lost; the launch has ended.
            VertexError: of a task.
            Deadlock: some do not answer.
        """
        simulator, events = self.simulator, self.events
        with simulator.lock:
            self.require_alive()
            self._number, self._replies = next(self.numbers), {}
            events.now = max(events.now, simulator.driver.now)
            simulator.note("command", self._number, exchange, "again" if again else "")
            loss = simulator.draw_loss(self.partitions)
            message = self._number, exchange, again, command
            for connection in self.commands:
                connection.send(message, events.now)
            try:
                self._run(loss)
            except BaseException:
                self.end()
                raise
            finally:
                simulator.driver.now = max(simulator.driver.now, events.now)
            return self._reports()

    def _run(self, loss: tuple[int, int] | None) -> None:
        """Have things happen until all have answered, or the loss of one is noticed."""
        victim, left = (-1, math.inf) if loss is None else loss
        while len(self._replies) < self.partitions:
            if left == 0 and victim >= 0:
                self.simulator.losses += 1
                self.simulator.note("lost", victim)
                self.processors[victim].end()
                victim, left = -1, self.simulator.chance.randint(0, _NOTICE)
            elif left == 0:
                self.end()
                raise LostError("a processor was lost with its partition: it does not answer")
            if not self.events.step():
                if victim < 0 and loss is not None:
                    left = 0
                    continue
                raise Deadlock(
                    f"processors {sorted(set(range(self.partitions)) - set(self._replies))} do not "
                    f"answer command {self._number}, and no message is on its way"
                )
            left -= 1
        if victim < 0 and loss is not None:
            self.end()

    def _reports(self) -> list[bytes]:
        kinds = [self._replies[p][0] for p in range(self.partitions)]
        if "failed" in kinds:  # the others were aborted, perhaps
            raise _raised(self._replies[kinds.index("failed")][1])
        assert "aborted" not in kinds
        return [self._replies[p][1] for p in range(self.partitions)]

    def end(self) -> None:
        """End the processors."""
        self.alive = False
        for processor in self.processors:
            processor.end()


class SimulatedExchange:
    """See `Exchange`."""

    def __init__(self, launch: _Launch, task: Task) -> None:
        self.partitions, self._launch = launch.partitions, launch
        self.times: HopTimes | None = None
        self._number = launch.add(task)
        self._again = False

    def hop(self, command: Any) -> list[bytes]:
        """See `Exchange`."""
        pickled = _pickled(command)
        again, self._again = self._again, True
        reports = self._launch.ask(self._number, again, pickled)
        self._again = False
        return reports

    def close(self) -> None:
        """See `Exchange`."""
        self._launch.drop(self._number)


class SimulatedWorkers(InProcessWorkers):
    """See `Workers`."""

    def __init__(self, simulator: Simulator, partitions: int) -> None:
        super().__init__(partitions)
        self._simulator, self._launch = simulator, _Launch(simulator, partitions)

    def exchange(  # type: ignore[override]
        self, task: Task, *, resident: bool = True, blocks: BlockSource | None = None
    ) -> Exchange:
        """See `Workers`: blocks come in any order."""
        if blocks is not None:
            loaded: list[Blocks] = [[] for _ in range(self.partitions)]
            for destination, block in blocks.collect(lambda _, blocks: blocks):
                loaded[destination].append((0, block))
            for part in loaded:
                self._simulator.chance.shuffle(part)
            task = partial(_with_loaded, loaded, task)
        return SimulatedExchange(self._launch, task)

    def intact(self) -> bool:
        """See `Workers`."""
        return self._launch.alive

    def run(self, function: Callable[[int], Returned]) -> list[Returned]:
        """See `Workers`."""
        self._launch.require_alive()
        return super().run(function)

    def close(self) -> None:
        """See `Workers`."""
        with self._simulator.lock:
            self._launch.end()


class SimulatedTransport(InProcessTransport):
    """See `Transport`."""

    def __init__(self, simulator: Simulator, spark: Any = None) -> None:
        super().__init__(spark)
        self._simulator = simulator

    def workers(self, partitions: int, *, by_jobs: bool = False) -> SimulatedWorkers:
        """See `Transport`."""
        return SimulatedWorkers(self._simulator, partitions)


def _with_loaded(
    loaded: list[Blocks], task: Task, partition: int, command: Any, blocks: Blocks
) -> Any:
    blocks += loaded[partition]
    loaded[partition] = []
    return task(partition, command, blocks)


def exchange_in_process(partitions: int, task: Task) -> Exchange:
    """Return the hops of a task in this process, under the simulator if one is installed."""
    if _installed:
        return SimulatedExchange(_Launch(_installed[-1], partitions), task)
    return InProcessExchange(partitions, task)


def _pickled(value: Any) -> bytes:
    try:
        return pickle.dumps(value)
    except (pickle.PicklingError, AttributeError, TypeError):  # a function, or a local class
        pickled: bytes = cloudpickle.dumps(value)
        return pickled


def _failure(error: Exception) -> bytes:
    """Pickle what a task raised, as a processor does."""
    own: Exception | None = error if isinstance(error, VertexError) else None
    try:
        pickle.loads(pickle.dumps(own))
    except Exception:
        own = None
    return pickle.dumps((own, typed_line(error), "".join(traceback.format_exception(error))))


def _raised(failure: bytes) -> Exception:
    own, line, trace = pickle.loads(failure)
    error: Exception = RunError(line) if own is None else own
    error.add_note("In the processor:\n" + trace)
    return error


def _forget(task: Any, partition: int) -> None:
    """Free what a task holds of a partition outside of its exchange."""
    if isinstance(task, loop_task.LoopTask):
        loop_task._partitions.pop((task.key, partition), None)
