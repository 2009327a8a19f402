"""What a backend does; everything else about versions is written once, above it.

A backend keeps four things, and knows nothing of what is in them:

- *segments*, blobs under a `SegmentKey`, written once, by any process;
- *manifests*, small blobs under a name, written once, by the driver, each with its *references*:
  the attempts of segments and the names of manifests that must stay as long as it does;
- *heads*, one small record per loop, moved only by compare-and-set;
- *versions*, per loop a map iteration → manifest name, kept by the same step that moves the head,
  so that it never names a manifest that was not committed.

Invariants that every backend keeps, and `vertexsdk.testing.backends` tests:

1. When `put_segment`, `put_manifest`, `publish` or `swap_head` return, what they wrote is as
   durable as the backend declares, whatever process dies next.
2. A put is whole or absent. Two puts of one key leave one of them, whole.
3. Of any number of racing `swap_head` that expect the same head, exactly one returns True.
4. `publish` never refers to a segment that `delete_unreferenced` removed or removes.
5. What was put can be read by every process that opened the same `location`.
"""

from __future__ import annotations

import json
import os
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import damaged
from vertexsdk.state.address import Address

__all__ = ["LONGEST_NAME", "Backend", "CanQuery", "CanReadParts", "Head", "SegmentKey"]
__all__ += ["new_attempt", "written_at"]

LONGEST_NAME = 200  # bytes of UTF-8 in a loop's name: it is part of keys that backends limit


@dataclass(frozen=True, slots=True, order=True)
class SegmentKey:
    """The name of a segment; `attempt` is 32 hex digits, fresh for every attempt of a task."""

    loop: str
    partition: int
    iteration: int
    attempt: str

    def __str__(self) -> str:
        return f"{self.loop}/{self.partition}/{self.iteration}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class Head:
    """Where a loop stands.

    Attributes:
        manifest: name of the newest manifest, "" when the loop was claimed and has none yet.
        iteration: the iteration of that manifest, -1 when it has none.
        epoch: raised by each driver that takes the loop over; a commit needs the newest.
    """

    manifest: str
    iteration: int
    epoch: int

    def encode(self) -> str:
        """JSON, always the same for equal heads; `decode` is the way back."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, raw: bytes) -> Head:
        """The head.

        Raises:
            CorruptError: no head was encoded to this.
        """
        with damaged(f"the head {raw[:40]!r}"):
            return cls(**json.loads(raw))


def new_attempt(now: float | None = None) -> str:
    """32 hex digits that no other call returns, in any process; the first 12 tell the time.

    Args:
        now: seconds since 1970, of `Backend.now`; by default of this host.
    """
    milliseconds = int(1000 * (time.time() if now is None else now))
    return f"{milliseconds:012x}{os.urandom(10).hex()}"


def written_at(name: str) -> float:
    """When a name of `new_attempt` was made, in seconds since 1970; 0 for any other name."""
    try:
        return int(name[:12], 16) / 1000 if len(name) == 32 else 0.0
    except ValueError:
        return 0.0


class Backend(ABC):
    """A place for segments, manifests and heads.

    Attributes:
        durable: what was acknowledged survives a power cut.
        durability: the same in plain words.
        shared: processes on other hosts can open it.
        queryable: results can be read by SQL; then it is a `CanQuery` too.
        location: where the store is, for messages; no credentials.
        advice: what the user had better set, in one line; said once by who opens it, not by tasks.
    """

    durable: bool = False
    durability: str = "nothing survives the processes that use it"
    shared: bool = False
    queryable: bool = False
    location: str
    advice: str = ""

    @property
    def address(self) -> Address:
        """The URL that opens the same store from another process, with its password if any."""
        return Address(self.location)

    def check_rights(self) -> None:  # noqa: B027 (most backends have no users)
        """Called before a loop is claimed.

        Raises:
            StateInputError: the user lacks a right that a commit needs; says which.
        """

    def now(self) -> float:
        """Seconds since 1970, by the one clock that all who use this store go by.

        That is the server's. By default it is this host's, for a store that only one host opens.
        """
        return time.time()

    @abstractmethod
    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        """Store the concatenation of `pieces`; called in tasks and in the driver.

        Raises:
            FullError: no room; nothing was stored.
        """

    @abstractmethod
    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        """Read-only pieces whose concatenation was put, or None; at no copy where possible.

        The arrays stay valid as long as they are referenced, also after `close`.
        """

    @abstractmethod
    def delete_segments(self, keys: Iterable[SegmentKey]) -> None:
        """Forget them, whatever refers to them; absent ones are ignored."""

    @abstractmethod
    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        """Forget those that no manifest refers to; in one atomic step with `publish`.

        Works where there is no room left for `put_segment`, as `forget_versions`, `drop_head`,
        `release_manifests` and `delete_manifests` do.

        Returns:
            The keys that are not there now.
        """

    @abstractmethod
    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        """The keys of one loop's segments, or of all, ascending by (loop, partition, iteration)."""

    @abstractmethod
    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        """Store a manifest, and what it refers to: attempts of segments, names of manifests.

        Raises:
            FullError: no room; nothing was stored.
        """

    @abstractmethod
    def get_manifest(self, name: str) -> bytes | None:
        """The manifest, or None."""

    @abstractmethod
    def delete_manifests(self, names: Iterable[str]) -> None:
        """Forget manifests that were put without references; absent ones are ignored."""

    @abstractmethod
    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        """Forget manifests, in this order, unless a version or another manifest refers to them.

        Args:
            manifests: what each refers to, by its name; a manifest stands before its parent.

        Returns:
            The names of those that are not there now; what they referred to, they do no more.
        """

    @abstractmethod
    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        """The names of all manifests that start so; quick for those of leases, which have a dot."""

    @abstractmethod
    def get_head(self, loop: str) -> Head | None:
        """Where the loop stands, or None."""

    @abstractmethod
    def swap_head(
        self, loop: str, expected: Head | None, head: Head, *, restart: bool = False
    ) -> bool:
        """Move the head to `head` if it is `expected` now (None: there is none); else False.

        In the same atomic step the version `head.iteration` becomes `head.manifest` (unless that
        is ""), and with `restart` every other version of the loop is forgotten.
        """

    @abstractmethod
    def publish(
        self,
        name: str,
        data: bytes,
        loop: str,
        expected: Head | None,
        head: Head,
        *,
        restart: bool = False,
        references: Iterable[str] = (),
        requires: Iterable[SegmentKey] = (),
    ) -> bool:
        """`put_manifest` and `swap_head` in one atomic step.

        Args:
            requires: segments which must be there, if the head is `expected`.

        Raises:
            MissingError: one of these was removed; nothing changed.
            FullError: no room; nothing changed.
        """

    @abstractmethod
    def drop_head(self, loop: str, expected: Head) -> bool:
        """Forget the head and all versions of the loop, if the head is `expected`; else False."""

    @abstractmethod
    def list_heads(self) -> list[str]:
        """The loops that have a head, ascending."""

    @abstractmethod
    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        """The newest version `(iteration, manifest)` at or before `iteration`, or None."""

    @abstractmethod
    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        """All versions `(iteration, manifest)` of the loop, ascending."""

    @abstractmethod
    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        """Drop versions other than the head's from the map; their manifests stay."""

    @abstractmethod
    def statistics(self) -> dict[str, Any]:
        """At least `bytes`: what the store takes where it is kept."""

    @abstractmethod
    def close(self) -> None:
        """Let go of files and connections; arrays that were read stay valid."""


Parts: TypeAlias = Callable[[list[tuple[int, int]]], list[bytes]]


class CanReadParts(ABC):
    """A backend that can read a few bytes of a large segment without the rest."""

    @abstractmethod
    def open_segment(self, key: SegmentKey) -> Parts | None:
        """What reads the bytes low..high of each of some places in one round trip, or None."""


class CanQuery(ABC):
    """A backend that shows the newest version of a loop as rows, to whoever reads it by SQL."""

    @abstractmethod
    def show_rows(
        self,
        loop: str,
        manifest: str,
        iteration: int,
        parts: Iterable[Mapping[str, Any]],
        over: str | None = None,
    ) -> bool:
        """Make the rows of `loop` those of the version, in one transaction.

        Args:
            parts: columns of equal length: "id"; where there are, "name" and "class"; and fields.
            over: the parts are only what changed since this version.

        Returns:
            False if `over` is not what is shown; nothing changed then.
        """

    @abstractmethod
    def shown(self, loop: str) -> str | None:
        """The name of the version whose rows are shown, or None."""
