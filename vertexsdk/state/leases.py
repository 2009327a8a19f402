"""Leases, which keep versions and segments from being deleted while they are read.

A lease is a small record among the manifests: which manifests and segments, and until when by the
store's clock. After taking a lease on a version, check that the version still exists: versions are
forgotten before leases are listed, so at least one of the two sides sees the other.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import astuple, dataclass

from vertexsdk.arrays.corruption import damaged
from vertexsdk.state.contract import Backend, SegmentKey, new_attempt
from vertexsdk.state.errors import FullError

_LEASE = "lease."


@dataclass(slots=True)
class Lease:
    """Keeps manifests and segments until it expires or is released."""

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
        """Take a lease for `seconds`; it has no effect on what was deleted before this returns."""
        name = _LEASE + new_attempt(backend.now())
        lease = cls(backend, name, tuple(manifests), tuple(segments), 0.0)
        lease.renew(seconds)
        return lease

    def renew(self, seconds: float) -> None:
        """Make it expire `seconds` from now."""
        self.until = self.backend.now() + seconds
        record = {"until": self.until, "manifests": self.manifests}
        self.backend.put_manifest(
            self.name,
            json.dumps({**record, "segments": list(map(astuple, self.segments))}).encode(),
        )

    def release(self) -> None:
        """End it."""
        self.backend.delete_manifests([self.name])


def is_lease(name: str) -> bool:
    """Whether this name of a manifest is that of a lease."""
    return name.startswith(_LEASE)


def active_leases(backend: Backend) -> tuple[set[str], set[SegmentKey]]:
    """The manifests and segments under a lease now; expired leases are deleted."""
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
