"""A version's base and deltas, replaced by one equal base per partition.

What a reader gets is the same to the last bit; it gets it from one segment per partition. Older
versions keep their deltas. A driver that is committing meanwhile is not disturbed: its commit is
laid over the compacted version, which equals the one it was made for. Partitions that hold pickled
objects stay as they are, as nobody said that they may be unpickled.
"""

from __future__ import annotations

from dataclasses import replace

from vertexsdk.state._commits import Commits
from vertexsdk.state.contract import Head, new_attempt
from vertexsdk.state.errors import StateInputError
from vertexsdk.state.manifests import Manifest, SegmentRef
from vertexsdk.state.reading import overlay

__all__ = ["compact"]


def compact(store: Commits, loop: str, deltas: int) -> Manifest:
    """Compact each partition of the newest version that has at least `deltas` deltas."""
    while True:
        head = store.backend.get_head(loop)
        if head is None or not head.manifest:
            raise store.unknown_loop(loop)
        manifest = store.manifest(head.manifest)
        whole = store.segments(manifest)
        layers: dict[tuple[int, str], list[SegmentRef]] = {}
        for ref in whole:
            if ref.kind in ("base", "delta"):
                layers.setdefault((ref.key.partition, ref.group), []).append(ref)
        merged = {
            ref.key: place
            for place, refs in layers.items()
            if len(refs) > max(deltas, 1) and refs[0].kind == "base" and not _pickled(store, refs)
            for ref in refs
        }
        if not merged:
            return manifest
        kept = [ref for ref in whole if ref.key not in merged]
        made = [_base(store, loop, manifest, layers[p]) for p in sorted(set(merged.values()))]
        new = replace(
            manifest,
            name=new_attempt(store.backend.now()),
            segments=(*kept, *made),
            complete=True,
            depth=0,
        )
        if store.backend.publish(
            new.name,
            new.encode(),
            loop,
            head,
            Head(new.name, head.iteration, head.epoch),
            references=new.references,
            requires=[ref.key for ref in made],
        ):
            store.remember(new)
            store.sweep([manifest.name])
            return new
        store.backend.delete_segments([ref.key for ref in made])  # the loop went on: again


def _base(store: Commits, loop: str, manifest: Manifest, refs: list[SegmentRef]) -> SegmentRef:
    first = refs[0]
    columns = overlay([store.segment(ref) for ref in refs])
    if "name.offsets" in store.table(first) and "name.offsets" not in columns:
        raise StateInputError(
            f"loop {loop!r}: its deltas have no names where its base has: commit a base instead"
        )
    return store.put_segment(
        loop, first.key.partition, manifest.iteration, "base", columns, group=first.group
    )


def _pickled(store: Commits, refs: list[SegmentRef]) -> bool:
    return any(table.is_pickled(n) for table in map(store.table, refs) for n in table.names)
