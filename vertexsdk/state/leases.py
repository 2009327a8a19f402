"""Who holds on to what, so that nothing is collected under a reader or a slow writer.

A lease is a small record beside the manifests: until when, and which version or segments. A
collector writes a record too before it looks for leases; who takes a lease looks for a collector
after writing it. Whatever the order of the two writes, at least one of the two sees the other:
the collector spares what is leased, or the other waits until the collector has gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass

from vertexsdk.encoded import damaged
from vertexsdk.state.contract import Backend, SegmentKey, new_attempt, written_at
from vertexsdk.state.errors import MissingError

__all__ = ["SLOW", "Lease", "collecting", "holding", "is_record", "leased"]

SLOW = 60.0  # seconds after which a segment that is to be committed is leased first
_LEASE, _COLLECTOR = "lease.", "collector."
_LONGEST = 120.0  # seconds for which a collector's record counts, if it died


@dataclass(slots=True)
class Lease:
    """A hold on a version or on segments, until it expires or is released."""

    backend: Backend
    name: str
    manifest: str | None
    segments: tuple[SegmentKey, ...]
    until: float

    @classmethod
    def take(
        cls,
        backend: Backend,
        seconds: float,
        manifest: str | None = None,
        segments: Iterable[SegmentKey] = (),
    ) -> Lease:
        """A new lease; it counts once this returns, unless what it names was gone before."""
        lease = cls(backend, _LEASE + new_attempt(), manifest, tuple(segments), 0.0)
        lease.renew(seconds)
        return lease

    def renew(self, seconds: float) -> None:
        """Let it end `seconds` from now."""
        self.until = time.time() + seconds
        record = {"until": self.until, "manifest": self.manifest}
        self.backend.put_manifest(
            self.name,
            json.dumps({**record, "segments": list(map(astuple, self.segments))}).encode(),
        )

    def release(self) -> None:
        """End it."""
        self.backend.delete_manifests([self.name])


def is_record(name: str) -> bool:
    """Whether a name among the manifests is one of a lease or a collector."""
    return name.startswith((_LEASE, _COLLECTOR))


def leased(backend: Backend) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments that are held now; leases that ended are removed."""
    manifests: set[str] = set()
    segments: set[SegmentKey] = set()
    for name in [name for name in backend.list_manifests() if name.startswith(_LEASE)]:
        data = backend.get_manifest(name)
        if data is None:
            continue
        with damaged(f"{name} in {backend.location}"):
            record = json.loads(data)
            if record["until"] < time.time():
                backend.delete_manifests([name])
                continue
            segments.update(SegmentKey(*key) for key in record["segments"])
            if record["manifest"]:
                manifests.add(record["manifest"])
    return manifests, segments


@contextmanager
def collecting(backend: Backend) -> Iterator[float]:
    """Be seen to collect; gives the time at which to stop."""
    name = _COLLECTOR + new_attempt()
    backend.put_manifest(name, b"")
    try:
        yield time.time() + _LONGEST / 2
    finally:
        backend.delete_manifests([name])


@contextmanager
def holding(backend: Backend, segments: list[SegmentKey]) -> Iterator[None]:
    """Hold segments that were written a while ago, while they are committed.

    Raises:
        MissingError: one of them was collected: it had waited longer than the grace period.
    """
    lease = Lease.take(backend, 2 * _LONGEST, segments=segments)
    try:
        while any(_collects(name) for name in backend.list_manifests()):
            time.sleep(0.01)
        for loop in {key.loop for key in segments}:
            there = set(backend.list_segments(loop))
            for key in segments:
                if key.loop == loop and key not in there:
                    raise MissingError(
                        f"segment {key} was collected before it was committed: run this again, "
                        "and collect with a longer --grace"
                    )
        yield
    finally:
        lease.release()


def _collects(name: str) -> bool:
    if not name.startswith(_COLLECTOR):
        return False
    return time.time() - written_at(name.removeprefix(_COLLECTOR)) < _LONGEST
