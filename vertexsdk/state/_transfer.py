"""Copying a loop to another store on any backend: versions with all that they refer to.

Segments and manifests keep their names, so what the target already has is not copied again, loops
go on sharing segments, and a copy that was interrupted continues where it stopped.
"""

from __future__ import annotations

from contextlib import ExitStack, closing
from dataclasses import dataclass

from vertexsdk.state._version_reader import VersionReader
from vertexsdk.state.contract import Head, check_name, new_epoch
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.pins import Lease

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
    with ExitStack() as leases:
        names = [version for _, version in versions]
        leases.enter_context(closing(Lease(source.backend, _HOUR, names)))
        manifests = [source.manifest(version) for version in names]
        wanted = {ref.key: ref for manifest in manifests for ref in source.segments(manifest)}
        links = {link.name: link for manifest in manifests for link in source.chain(manifest)}
        leases.enter_context(closing(Lease(target.backend, _HOUR, links, wanted)))
        present = set(target.backend.list_segments())
        copied = [ref for ref in wanted.values() if ref.key not in present]
        for ref in copied:
            source.check_segment(ref)
            pieces = source.backend.get_segment(ref.key)
            if pieces is None:
                raise MissingError(f"segment {ref.key} was dropped while it was copied")
            target.backend.put_segment(ref.key, [piece.data for piece in pieces])
        for link in links.keys() - target.backend.list_manifests():
            manifest = links[link]
            target.backend.put_manifest(link, manifest.encode(), manifest.references)
        head: Head | None = None
        epoch = new_epoch()
        for manifest in manifests:
            new = Head(manifest.name, manifest.iteration, epoch)
            if not manifest.publish(target.backend, name, head, new, source.segments(manifest)):
                raise StateInputError(f"another process created loop {name!r}: choose another name")
            head = new
    return Copied(len(versions), len(copied), sum(ref.bytes for ref in copied))
