"""The contract between the store and its backends.

A backend stores four kinds of things, and never looks into them:

- *segments*, blobs under a `SegmentKey`, written once, by any process;
- *manifests*, small blobs under a name, written once, by the driver, each with its *references*:
  the attempts of segments and the names of manifests that must be kept as long as it is;
- *heads*, one small record per loop, changed only by compare-and-set;
- *versions*, per loop a map iteration → manifest name, changed in the same step as the head, so it
  never names a manifest that was not committed.

Every backend guarantees, and `vertexsdk.testing.backends` tests:

1. When `put_segment`, `put_manifest` or `swap_head` return, what they wrote is as durable as the
   backend declares, whatever process dies next.
2. A put is whole or absent. Two puts of one key leave one of them, whole.
3. Of any number of racing `swap_head` that expect the same head, exactly one returns True.
4. `swap_head` never stores a manifest that needs a segment which `delete_unreferenced` removed or
   removes.
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

from vertexsdk.arrays.corruption import damaged
from vertexsdk.state.address import Address
from vertexsdk.state.errors import StateInputError

LONGEST_NAME = 200  # bytes of UTF-8 in a loop's name: it is part of keys that backends limit


def check_name(loop: str) -> None:
    """Refuse what cannot be a loop's name on every backend.

    Raises:
        StateInputError: it is empty, longer than 200 bytes of UTF-8, or has control characters.
    """
    try:
        size = len(loop.encode())
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= LONGEST_NAME or any(ord(c) < 32 or ord(c) == 127 for c in loop):
        raise StateInputError(
            f"{loop[:40]!r} cannot name a loop: use 1 to {LONGEST_NAME} bytes of UTF-8 without "
            "control characters"
        )


@dataclass(frozen=True, slots=True, order=True)
class SegmentKey:
    """The name of a segment.

    Attributes:
        attempt: 32 hex digits of `new_attempt`, new for every attempt of a task.

    Example:
        >>> print(SegmentKey("main", 3, 7, 32 * "0"))
        main/3/7/00000000000000000000000000000000
    """

    loop: str
    partition: int
    iteration: int
    attempt: str

    def __str__(self) -> str:
        return f"{self.loop}/{self.partition}/{self.iteration}/{self.attempt}"


@dataclass(frozen=True, slots=True)
class Head:
    """The newest version of a loop, and who may commit the next.

    Attributes:
        manifest: name of the newest manifest, "" when the loop was claimed and has none yet.
        iteration: the iteration of that manifest, -1 when it has none.
        epoch: raised by each driver that claims the loop; a commit needs the newest.

    Example:
        >>> Head.decode(Head("m", 7, 1).encode().encode())
        Head(manifest='m', iteration=7, epoch=1)
    """

    manifest: str
    iteration: int
    epoch: int

    def encode(self) -> str:
        """JSON, equal for equal heads, which `decode` reads."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def decode(cls, raw: bytes) -> Head:
        """The head that `encode` encoded.

        Raises:
            CorruptError: the bytes are not an encoded head.
        """
        with damaged(f"the head {raw[:40]!r}"):
            head = cls(**json.loads(raw))
            if [type(x) for x in (head.manifest, head.iteration, head.epoch)] != [str, int, int]:
                raise TypeError("a value of another type")
            return head


@dataclass(frozen=True, slots=True)
class NewManifest:
    """A manifest that is stored in the step in which it becomes a loop's newest version.

    Attributes:
        references: attempts of segments and names of manifests that this one keeps.
        requires: segments that must exist.
        segments: segments that are stored in the same step, or before it if they are large.
        restart: all other versions of the loop are forgotten.
    """

    name: str
    data: bytes
    references: Sequence[str] = ()
    requires: Sequence[SegmentKey] = ()
    segments: Sequence[tuple[SegmentKey, Sequence[memoryview | bytes]]] = ()
    restart: bool = False


def new_attempt(now: float | None = None) -> str:
    """A unique name of 32 hex digits; the first 12 are milliseconds since 1970.

    Args:
        now: seconds since 1970 by `Backend.now`; defaults to this host's clock.

    Example:
        >>> written_at(new_attempt(now=1.5))
        1.5
    """
    milliseconds = int(1000 * (time.time() if now is None else now))
    return f"{milliseconds:012x}{os.urandom(10).hex()}"


def new_epoch(head: Head | None = None) -> int:
    """An epoch after that of a head, or a first one; no two drivers choose the same one.

    So a head tells who has set it, also where a loop was deleted and another one has its name.

    Example:
        >>> new_epoch() < new_epoch(Head("m", 7, 1 << 40))
        True
    """
    return (0 if head is None else head.epoch) + 1 + int.from_bytes(os.urandom(4))


def written_at(name: str) -> float:
    """The time in a name of `new_attempt`, in seconds since 1970; 0 for any other name."""
    try:
        return int(name[:12], 16) / 1000 if len(name) == 32 else 0.0
    except ValueError:
        return 0.0


class Backend(ABC):
    """Storage of segments, manifests and heads: the base class of backends.

    A backend also has a class method `from_url(url, *, create)`. `vertexsdk.testing.backends` tests
    a backend against this contract.

    Attributes:
        durable: acknowledged writes survive a power cut.
        durability: the same in words, for `vertexsdk state ls`.
        shared: processes on other hosts can open it.
        location: where the store is, for messages; without credentials.
        advice: a setting to change, in one line; shown once when the store is opened, not by tasks.
    """

    durable: bool = False
    durability: str = "nothing survives the processes that use it"
    shared: bool = False
    location: str
    advice: str = ""

    @property
    def address(self) -> Address:
        """The URL, with its password, by which another process opens the same store."""
        return Address(self.location)

    def check_rights(self) -> None:  # noqa: B027 (most backends have no users)
        """Check what a commit needs; called before a loop is claimed.

        Raises:
            StateInputError: the user lacks a right; the message says which.
        """

    def now(self) -> float:
        """Seconds since 1970 by the one clock of this store: the server's, if it has one.

        The default is this host's clock, for a store that only one host opens.
        """
        return time.time()

    @abstractmethod
    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        """Store the concatenation of `pieces`; called in tasks and in the driver.

        Raises:
            FullError: the backend is full; nothing was stored.
        """

    @abstractmethod
    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        """The segment as read-only arrays uint8[...] to be concatenated, or None if absent.

        They are not copied if possible, and stay valid while referenced, also after `close`.
        """

    @abstractmethod
    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        """Delete the segments that no manifest refers to; atomic with regard to `swap_head`.

        Must also work when the backend is full, as must `forget_versions`, `drop_head`,
        `release_manifests` and `delete_manifests`.

        Returns:
            The keys that are absent now.
        """

    @abstractmethod
    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        """The keys of one loop's segments, or of all, ascending by (loop, partition, iteration)."""

    @abstractmethod
    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        """Store a manifest with its references: attempts of segments and names of manifests.

        Raises:
            FullError: the backend is full; nothing was stored.
        """

    @abstractmethod
    def get_manifest(self, name: str) -> bytes | None:
        """The manifest, or None."""

    @abstractmethod
    def delete_manifests(self, names: Iterable[str]) -> None:
        """Delete manifests that were put without references; absent names are ignored."""

    @abstractmethod
    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        """Delete manifests, in this order, unless a version or another manifest refers to them.

        Args:
            manifests: name → references; a manifest precedes its parent.

        Returns:
            The names that are absent now; their references are deleted too.
        """

    @abstractmethod
    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        """The names of all manifests with this prefix; fast for leases, whose names have a dot."""

    @abstractmethod
    def get_head(self, loop: str) -> Head | None:
        """The head of the loop, or None."""

    @abstractmethod
    def swap_head(
        self, loop: str, expected: Head | None, head: Head, new: NewManifest | None = None
    ) -> bool:
        """Set the head to `head` if it is `expected` (None: there is none); else return False.

        In the same atomic step `head.manifest` becomes the version `head.iteration` (unless it
        is ""), and `new` is stored, with its segments unless they are large: a commit of a few
        changes waits for the disk, or the server, once.

        Returns:
            False if the head is not `expected`; nothing changed.

        Raises:
            MissingError: a segment that `new` requires was deleted; nothing changed.
            FullError: the backend is full; nothing changed.
        """

    @abstractmethod
    def drop_head(self, loop: str, expected: Head) -> bool:
        """Delete the head and all versions of the loop if the head is `expected`; else False."""

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
        """Remove versions other than the head's from the map; their manifests stay."""

    @abstractmethod
    def size(self) -> int:
        """The bytes that the store takes."""

    @abstractmethod
    def close(self) -> None:
        """Close files and connections; arrays that were read stay valid."""


Parts: TypeAlias = Callable[[list[tuple[int, int]]], list[bytes]]


class CanReadParts(ABC):
    """A backend that can read byte ranges of a large segment."""

    @abstractmethod
    def open_segment(self, key: SegmentKey) -> Parts | None:
        """A function that reads byte ranges `(low, high)` of the segment in one round trip.

        Returns:
            None if the segment is absent, or small enough to be read whole.

        Raises:
            MissingError: by the function, when the segment was deleted meanwhile.
        """


class CanBeDiscarded(ABC):
    """A backend whose store ends with this process, and may be deleted before."""

    @abstractmethod
    def discard(self) -> None:
        """Delete the store, which has no users any more."""


class CanQuery(ABC):
    """A backend that shows the newest version of a loop as rows that can be queried by SQL."""

    @abstractmethod
    def show_rows(
        self,
        loop: str,
        manifest: str,
        iteration: int,
        parts: Iterable[Mapping[str, Any]],
        over: str | None = None,
    ) -> bool:
        """Replace the rows of `loop` by those of a version, in one transaction.

        Args:
            parts: for each partition and group, columns of equal length: "id", "name" if vertices
                have names, "class" if there are several, and the fields.
            over: the parts only hold what changed since this version.

        Returns:
            False if `over` is not the version shown; nothing changed then.
        """

    @abstractmethod
    def shown(self, loop: str) -> str | None:
        """The name of the manifest whose rows are shown, or None."""
