"""A loop of protocol components, their network and their master; every step is checked.

The network delivers in any order, and twice; a loss with a resend is a delay. Components compute
capped distances from vertex 0, of which the fixed point is known. Beside them is kept, from what
their methods are called for alone, what is true; `Violation` is raised where that, or what the
components do, is against Tornado's section 4.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from tests.support.protocol import (
    Announcement,
    Component,
    Event,
    Frontier,
    Input,
    Message,
    Prepare,
    Update,
)
from tests.support.protocol_method import Distances
from tests.support.protocol_rules import Truth, check_calls, check_sent, check_termination

__all__ = ["Change", "Report", "World"]


@dataclass(frozen=True, slots=True)
class Change:
    """An input from outside: edge `source` to `target` gets this length, or None: it goes."""

    source: int
    target: int
    length: int | None


@dataclass(frozen=True, slots=True)
class Report:
    """What a partition tells the master after a step. Its updates leave when the master has it."""

    partition: int
    low: int | None
    heard: int
    received: tuple[int, ...]  # iterations of the updates and inputs taken in
    updates: tuple[Update, ...]


class World:
    """The state of a loop. An action is one of `actions`, and `act` does it.

    Args:
        graph: lengths of edges, by source and target; vertices are 0, 1, 2, ...
        vertices: how many.
        bound: the delay bound B.
        partitions: vertex v is of partition v modulo this.
        changes: inputs that come in during the run, in this order.
        instant: reports reach the master at once.
        component: the class under test.
        frontier: the class under test.
    """

    def __init__(
        self,
        graph: Mapping[tuple[int, int], int],
        vertices: int,
        bound: int,
        partitions: int = 1,
        changes: Iterable[Change] = (),
        instant: bool = False,
        component: type[Component] = Component,
        frontier: type[Frontier] = Frontier,
    ) -> None:
        self.graph = dict(graph)
        self.bound = bound
        self.partitions = partitions
        self.instant = instant
        self.methods = [Distances(v == 0) for v in range(vertices)]
        self.components = [component(v, bound, self.methods[v]) for v in range(vertices)]
        self.truths = [Truth() for _ in range(vertices)]
        self.frontier = frontier(partitions, bound)
        self.heard = [0] * partitions
        self.net: list[Message] = []
        self.announcements: list[tuple[int, Announcement]] = []
        self.reports: list[tuple[Report, ...]] = [()] * partitions
        self.inboxes: list[tuple[Input, ...]] = [()] * vertices  # inputs come in order
        self.changes = tuple(changes)
        self.again: set[Message] = set()  # those in the net that came already
        self.steps = self.prepares = self.commits = self.patience = 0
        for partition in range(partitions):
            self.frontier.report(partition, None, 0)
        for v in range(vertices):
            lengths = {t: length for (s, t), length in self.graph.items() if s == v}
            self._send_input(v, Input(0, tuple(lengths.items()), tuple(lengths)))
        self.frontier.advance()

    # Actions -------------------------------------------------------------------------------------

    def actions(self) -> list[tuple[str, int]]:
        """Everything that may happen next; nothing is left to happen in the end."""
        found = [("deliver", i) for i in range(len(self.net))]
        found += [("announce", i) for i in range(len(self.announcements))]
        found += [("report", p) for p, reports in enumerate(self.reports) if reports]
        found += [("input", v) for v, inbox in enumerate(self.inboxes) if inbox]
        return [*found, ("change", 0)] if self.changes else found

    def touched(self, kind: str, number: int) -> range:
        """The vertices that handle something in this action."""
        if kind == "deliver" or kind == "copy":
            target = self.net[number].target
            return range(target, target + 1)
        if kind == "announce":
            return range(self.announcements[number][0], len(self.components), self.partitions)
        return range(number, number + 1) if kind == "input" else range(0)

    def act(self, kind: str, number: int) -> None:
        """Do an action, or `copy` instead of `deliver`: the message stays, to come again.

        Raises:
            Violation: something is against the rules after it, or was in it.
        """
        self.steps += 1
        vertices = self.touched(kind, number)
        if kind == "deliver" or kind == "copy":
            message = self.net[number]
            received = self._received(message)
            if kind == "copy":
                self.again.add(message)
            else:
                del self.net[number]
                self.again.discard(message)
            self._step(vertices, message, received)
        elif kind == "announce":
            partition, announcement = self.announcements[number]
            self.announcements = [  # what says nothing new after this one need not come
                (p, said)
                for p, said in self.announcements
                if p != partition or said.tau > announcement.tau or said.last > announcement.last
            ]
            self.heard[partition] = max(self.heard[partition], announcement.tau)
            self._step(vertices, announcement)
        elif kind == "report":
            report, *rest = self.reports[number]
            self.reports[number] = tuple(rest)
            self._take(report)
        elif kind == "input":
            given, *others = self.inboxes[number]
            self.inboxes[number] = tuple(others)
            self._step(vertices, given, (given.iteration,))
        else:
            self._change()
        check_termination(self)

    def _change(self) -> None:
        change, *rest = self.changes
        self.changes = tuple(rest)
        edge = change.source, change.target
        given = Input(self.frontier.tau, ((change.target, change.length),))
        if change.length is None:
            self.graph.pop(edge, None)
            given = replace(given, removed=(change.target,))
        else:
            self.graph[edge] = change.length
            given = replace(given, added=(change.target,))
        self._send_input(change.source, given)

    def _send_input(self, v: int, given: Input) -> None:
        self.frontier.sent(v % self.partitions, given.iteration)
        self.inboxes[v] = (*self.inboxes[v], given)

    def _received(self, message: Message) -> tuple[int, ...]:
        """The iteration of an update that comes for the first time."""
        if not isinstance(message, Update) or message.value is None or message in self.again:
            return ()
        return (message.iteration,)

    def _step(self, vertices: range, event: Event, received: tuple[int, ...] = ()) -> None:
        """Vertices of one partition handle an event, and it reports."""
        updates: list[Update] = []
        partition = vertices[0] % self.partitions
        for v in vertices:
            sent = self.components[v].handle(event)
            check_calls(self, v)
            for message in sent:
                check_sent(self, v, message)
                if isinstance(message, Update) and message.value is not None:
                    updates.append(message)
                else:
                    self.prepares += isinstance(message, Prepare)
                    self.net.append(message)
        lows = [component.low for component in self.components[partition :: self.partitions]]
        low = min((low for low in lows if low is not None), default=None)
        report = Report(partition, low, self.heard[partition], received, tuple(updates))
        if self.instant:
            self._take(report)
        else:
            self.reports[partition] = (*self.reports[partition], report)

    def _take(self, report: Report) -> None:
        """The master takes in a report and lets its updates leave."""
        for update in report.updates:
            self.frontier.sent(update.target % self.partitions, update.iteration)
        for iteration in report.received:
            self.frontier.received(report.partition, iteration)
        self.frontier.report(report.partition, report.low, report.heard)
        self.net += report.updates
        if self.frontier.advance():
            said = Announcement(self.frontier.tau, self.frontier.last)
            self.announcements += [(partition, said) for partition in range(self.partitions)]

    def under_way(self) -> list[Update]:
        """The updates that are in transit, or held."""
        found = [u for u in self.net if self._received(u) and isinstance(u, Update)]
        for reports in self.reports:
            for report in reports:
                found += report.updates
        return found + [u for component in self.components for u in component.held]
