"""Looking at versions as wholes: walked and checked, compared, held while they are read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from vertexsdk.state._snapshots import Snapshots
from vertexsdk.state.audit import Audit, audit
from vertexsdk.state.difference import Difference, compare
from vertexsdk.state.errors import MissingError
from vertexsdk.state.leases import Lease
from vertexsdk.state.manifests import Manifest

__all__ = ["Inspection"]


class Inspection(Snapshots):
    """What a `Store` tells about its versions."""

    def verify(self) -> list[str]:
        """What is missing or corrupt in any version, after reading all: one line per thing."""
        found = self.audit()
        return [*found.missing, *found.corrupt]

    def audit(self) -> Audit:
        """Everything that is stored, walked and checked; also what no version refers to."""
        self.forget_tables()
        return audit(self)

    def diff(
        self,
        older: tuple[str, int | None],
        newer: tuple[str, int | None],
        *,
        trusted: bool = False,
    ) -> Difference:
        """What is different between two versions, each given as (loop, iteration or None).

        Raises:
            StateInputError: no such version.
            MissingError, CorruptError, StateError: as `segment`.
        """
        return compare(self, self.version(*older), self.version(*newer), trusted=trusted)

    @contextmanager
    def pin(self, loop: str, at: int | None = None, seconds: float = 600.0) -> Iterator[Manifest]:
        """Keep a version readable in this context, or for that long, even if it is dropped.

        Raises:
            StateInputError: no such version.

        Example:
            with store.pin("main", 7) as version:
                ranks = dict(store.read("main", version))
        """
        manifest = self.version(loop, at)
        lease = Lease.take(self.backend, seconds, [manifest.name])
        try:
            kept = self.backend.floor(loop, manifest.iteration)
            if kept is None or kept[1] != manifest.name:  # a sweep may not have seen the lease
                raise MissingError(f"version {manifest.iteration} of {loop!r} was just dropped")
            yield manifest
        finally:
            lease.release()
