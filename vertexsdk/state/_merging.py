"""A branch's result made the newest version of the loop that it was forked from."""

from __future__ import annotations

from vertexsdk.state._commits import Commits
from vertexsdk.state._snapshots import Snapshots
from vertexsdk.state.errors import MissingError, StateInputError
from vertexsdk.state.manifests import Manifest

__all__ = ["merge"]


def merge(store: Commits, branch: str, into: str, iteration: int | None) -> Manifest:
    """Commit to `into` a version that shares every segment of the branch's newest one."""
    theirs = store.version(branch)
    ours = store.claim(into, program=theirs.program, schema=theirs.schema)
    if ours is None:
        raise store.unknown_loop(into)
    if not _descends(store, theirs, ours.name):
        raise StateInputError(
            f"loop {into!r} went on since {branch!r} was forked from it: fork again, so that "
            "nothing that was committed meanwhile is lost"
        )
    at = max(ours.iteration + 1, theirs.iteration) if iteration is None else iteration
    return store.commit(
        into,
        iteration=at,
        segments=[],
        parent=ours,
        content=theirs,
        aggregates=theirs.aggregates,
        statistics=theirs.statistics,
        offsets=ours.offsets,
    )


def _descends(store: Snapshots, manifest: Manifest, ancestor: str) -> bool:
    while manifest.name != ancestor:
        if manifest.parent is None:
            return False
        try:
            manifest = store.manifest(manifest.parent)
        except MissingError:  # dropped, and so it is no version of any loop
            return False
    return True
