"""Who holds on to what, so that nothing is removed under a reader.

A lease is a small record beside the manifests: until when, by the store's clock, and which versions
or segments. Who takes one for a version then looks whether the version is still there: versions
are forgotten before leases are looked for, so that at least one of the two sees the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass

from vertexsdk.arrays.column_table import damaged
from vertexsdk.state.contract import Backend, SegmentKey, new_attempt
from vertexsdk.state.errors import FullError

__all__ = ["Lease", "is_record", "leased"]

_LEASE = "lease."


@dataclass(slots=True)
class Lease:
    """A hold on manifests and segments, until it expires or is released."""

    backend: Backend
    name: str
    manifests: tuple[str, ...]
    segments: tuple[SegmentKey, ...]
    until: float

    @classmethod
    def take(
        cls,
        backend: Backend,
        seconds: float,
        manifests: Iterable[str] = (),
        segments: Iterable[SegmentKey] = (),
    ) -> Lease:
        """A new lease; it counts once this returns, unless what it names was gone before."""
        name = _LEASE + new_attempt(backend.now())
        lease = cls(backend, name, tuple(manifests), tuple(segments), 0.0)
        lease.renew(seconds)
        return lease

    def renew(self, seconds: float) -> None:
        """Let it end `seconds` from now."""
        self.until = self.backend.now() + seconds
        record = {"until": self.until, "manifests": self.manifests}
        self.backend.put_manifest(
            self.name,
            json.dumps({**record, "segments": list(map(astuple, self.segments))}).encode(),
        )

    def release(self) -> None:
        """End it."""
        self.backend.delete_manifests([self.name])


def is_record(name: str) -> bool:
    """Whether a name among the manifests is that of a lease."""
    return name.startswith(_LEASE)


def leased(backend: Backend) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments that are held now; leases that ended are removed."""
    manifests: set[str] = set()
    segments: set[SegmentKey] = set()
    for name in list(backend.list_manifests(_LEASE)):
        data = backend.get_manifest(name)
        if data is None:
            continue
        with damaged(f"{name} in {backend.location}"):
            record = json.loads(data)
            if record["until"] < backend.now():
                with suppress(FullError):
                    backend.delete_manifests([name])
                continue
            segments.update(SegmentKey(*key) for key in record["segments"])
            manifests.update(record["manifests"])
    return manifests, segments
