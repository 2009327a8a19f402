"""What goes into a component of the protocol and what comes out of it. Tornado, section 4.2."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

__all__ = [
    "Acknowledge",
    "Announcement",
    "Event",
    "Input",
    "Message",
    "Method",
    "Prepare",
    "Time",
    "Update",
]


class Time(NamedTuple):
    """A Lamport time, totally ordered: by clock, then by vertex (4.2).

    The times of one vertex only grow, and each of its updates has one. So a time also tells the
    receiver which of two messages of a producer is newer, and whether it had this one before.
    """

    clock: int
    vertex: int


@dataclass(frozen=True, slots=True)
class Update:
    """UPDATE: `source` has committed in `iteration` (Figure 3, line 38).

    A `value` of None carries nothing to gather: the value did not change. It is sent only to
    consumers that were sent PREPARE, which it releases from that preparation.
    """

    source: int
    target: int
    time: Time
    iteration: int
    value: Any


@dataclass(frozen=True, slots=True)
class Prepare:
    """PREPARE: `source` wants to commit an update of Lamport time `time` (Figure 3, line 15)."""

    source: int
    target: int
    time: Time


@dataclass(frozen=True, slots=True)
class Acknowledge:
    """ACKNOWLEDGE of the PREPARE of time `time`, by its consumer (Figure 3, lines 23 and 41).

    `iteration` is that of the consumer's last commit, not the one raised by what it has gathered
    since: only commits bind the producer (rule 3), and the next one waits for the producer's
    update. `clock` is the consumer's Lamport clock, so that a vertex is overtaken by each of its
    producers at most once.
    """

    source: int
    target: int
    time: Time
    iteration: int
    clock: int


@dataclass(frozen=True, slots=True)
class Input:
    """Something from outside, for one vertex: data, or a change of the dependency graph (4.2).

    `iteration` is τ as the master knew it when the input came in. `added` become consumers and
    `removed` cease to be; these are told of it by the update that follows, as the last they get.
    Inputs of one vertex come once and in order, which is for the ingester to see to.
    """

    iteration: int
    value: Any
    added: tuple[int, ...] = ()
    removed: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Announcement:
    """The master's word (4.3, 4.4): `tau` has not terminated, none may commit after `last`."""

    tau: int
    last: int


Message = Update | Prepare | Acknowledge
Event = Message | Input | Announcement


class Method(Protocol):
    """What a vertex computes (appendix B): called by its component, at the right moments."""

    def gather(self, iteration: int, source: int | None, value: Any) -> None:
        """Take in a producer's update made in `iteration`, or an input (`source` is None).

        Of one producer, updates come in the order of its commits, each once. A program whose
        `gather` changes its consumers does so by an input to itself.
        """

    def scatter(self, iteration: int) -> Mapping[int, Any]:
        """Commit in `iteration`; the new values by consumer, without those that did not change."""
