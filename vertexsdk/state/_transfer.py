"""Copying a loop to another store on any backend: versions with all that they refer to.

Segments and manifests keep their names, so what the target already has is not copied again, loops
go on sharing segments, and a copy that was interrupted continues where it stopped.
"""

from __future__ import annotations

from dataclasses import dataclass

from vertexsdk.state._validation import check_name
from vertexsdk.state._version_reader import VersionReader
from vertexsdk.state.contract import Head
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.leases import Lease
from vertexsdk.state.manifests import Manifest

_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Copied:
    """The number of versions of the new loop, and the segments and bytes copied for them."""

    versions: int
    segments: int
    bytes: int


def copy_loop(
    source: VersionReader, loop: str, target: VersionReader, name: str, *, newest: bool
) -> Copied:
    """Make loop `name` of `target` equal to `loop` of `source`; see `Store.copy`."""
    check_name(name)
    if target.backend.get_head(name) is not None:
        raise StateInputError(
            f"there is a loop {name!r} in {target.backend.location} already: choose another name"
        )
    versions = source.backend.list_versions(loop)
    if not versions:
        raise source.unknown_loop(loop)
    versions = versions[-1:] if newest else versions
    lease = Lease.take(source.backend, _HOUR, [version for _, version in versions])
    manifests = [source.manifest(version) for _, version in versions]
    wanted = {ref.key: ref for manifest in manifests for ref in source.segments(manifest)}
    links = _links(source, manifests)
    target_lease = Lease.take(target.backend, _HOUR, links, wanted)
    present = set(target.backend.list_segments())
    known = set(target.backend.list_manifests())
    count = size = 0
    try:
        for ref in wanted.values():
            if ref.key in present:
                continue
            source.check_segment(ref)
            pieces = source.backend.get_segment(ref.key)
            if pieces is None:
                raise MissingError(f"segment {ref.key} was dropped while it was copied")
            target.backend.put_segment(ref.key, [piece.data for piece in pieces])
            count, size = count + 1, size + ref.bytes
        for link, manifest in links.items():
            if link not in known:
                target.backend.put_manifest(link, manifest.encode(), manifest.references)
        head: Head | None = None
        for manifest in manifests:
            new = Head(manifest.name, manifest.iteration, 1)
            if not manifest.publish(target.backend, name, head, new, source.segments(manifest)):
                raise StateInputError(f"another process created loop {name!r}: choose another name")
            head = new
    finally:
        lease.release()
        target_lease.release()
    return Copied(len(versions), count, size)


def _links(source: VersionReader, manifests: list[Manifest]) -> dict[str, Manifest]:
    """These manifests, and those below them on which they are laid, by name."""
    links: dict[str, Manifest] = {}
    for manifest in manifests:
        while manifest.name not in links:
            links[manifest.name] = manifest
            if manifest.complete or manifest.parent is None:
                break
            manifest = source.manifest(manifest.parent)
    return links
