"""Plausible mistakes of commits, logs, fencing and collection, each put in by a patch.

`MUTANTS` has them by name, as a list of `(object, attribute, replacement)` each; those of
`LOOP_MUTANTS` are mistakes of main loops, the others of the store and its catalog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import Any
from unittest import mock

from vertexsdk.backends._catalog import Catalog
from vertexsdk.backends.lmdb import LmdbBackend
from vertexsdk.loops import change_log, main_loop
from vertexsdk.loops.history import LoopHistory
from vertexsdk.state import Store, garbage, version_reader
from vertexsdk.state import store as store_module
from vertexsdk.state.errors import StateError
from vertexsdk.state.manifests import Manifest
from vertexsdk.state.version_history import VersionHistory
from vertexsdk.state.version_reader import VersionReader

__all__ = ["LOOP_MUTANTS", "MUTANTS", "mutated"]

Patch = tuple[Any, str, Any]


def _around(owner: Any, name: str, new: Callable[..., Any]) -> list[Patch]:
    """A function that takes the original one first."""
    original = vars(owner)[name]

    def replacement(*args: Any, **options: Any) -> Any:
        return new(original, *args, **options)

    return [(owner, name, replacement)]


def _ignores_the_head(swap: Any, self: Any, loop: str, expected: Any, *rest: Any) -> Any:
    return swap(self, loop, self.head(loop), *rest)


def _ignores_epochs(swap: Any, self: Any, loop: str, expected: Any, *rest: Any) -> Any:
    head = self.head(loop)
    if head is not None and expected is not None:
        expected = replace(expected, epoch=head.epoch)
    return swap(self, loop, expected, *rest)


def _in_two_steps(
    swap: Any, self: Any, loop: str, expected: Any, head: Any, new: Any = None
) -> Any:
    moved = swap(self, loop, expected, head)
    if moved and new is not None:
        for key, pieces in new.segments:
            self.put_segment(key, pieces)
        self.put_manifest(new.name, new.data, new.references)
    return moved


def _without(**fields: Any) -> Callable[..., Any]:
    """A commit that lacks something."""

    def publish(swap: Any, self: Any, loop: str, expected: Any, head: Any, new: Any = None) -> Any:
        return swap(self, loop, expected, head, new and replace(new, **fields))

    return publish


def _drops_earlier_deltas(live: Any, before: Any, added: Any, *rest: Any) -> Any:
    new = list(added)
    if any(ref.kind == "delta" for ref in new):
        before = [ref for ref in before if ref.kind != "delta"]
    return live(before, new, *rest)


def _compacts_less(overlay: Any, layers: Any) -> Any:
    return overlay(layers[:-1] if len(layers) > 1 else layers)


def _first_only(chain: Any, self: Any, manifest: Manifest) -> Iterator[Manifest]:
    yield manifest


def _merges_in_place(merge: Any, self: Any, branch: str, into: str, iteration: Any = None) -> Any:
    return merge(self, branch, into, self.version(into).iteration)


def _half_a_branch(whole: Any, self: Any, manifest: Any, parent: Any, content: Any) -> Any:
    if content is not None:
        refs = self.segments(content)
        added = replace(manifest, segments=tuple(refs[:1]), complete=True, depth=0)
        return added, refs[:1]
    return whole(self, manifest, parent, content)


MUTANTS: dict[str, list[Patch]] = {
    "swap ignores the head": _around(Catalog, "swap_head", _ignores_the_head),
    "swap ignores epochs": _around(Catalog, "swap_head", _ignores_epochs),
    "a claim keeps the epoch": [
        (store_module, "new_epoch", lambda head=None: 1 if head is None else head.epoch)
    ],
    "the head moves before the manifest is stored": _around(
        LmdbBackend, "swap_head", _in_two_steps
    ),
    "segments are not stored with the commit": _around(
        LmdbBackend, "swap_head", _without(segments=())
    ),
    "references are not stored": _around(LmdbBackend, "swap_head", _without(references=())),
    "required segments are not looked for": _around(
        LmdbBackend, "swap_head", _without(requires=())
    ),
    "a manifest does not refer to its parent": [
        (Manifest, "references", property(lambda self: [r.key.attempt for r in self.segments]))
    ],
    "a manifest refers only to its parent": [
        (Manifest, "references", property(lambda self: [self.below] if self.below else []))
    ],
    "deletes what is referred to": [(Catalog, "is_referenced", lambda self, target: False)],
    "never deletes": [(Catalog, "is_referenced", lambda self, target: True)],
    "a delta replaces the one before": [
        *_around(store_module, "live_segments", _drops_earlier_deltas),
        *_around(version_reader, "live_segments", _drops_earlier_deltas),
    ],
    "compaction leaves out the last delta": _around(store_module, "overlay", _compacts_less),
    "a version does not refer to its manifest": [
        (Catalog, "_refer", lambda self, target, referrer: None)
    ],
    "pins and leases are not looked at": [
        (garbage, "active_leases", lambda backend: (set(), set())),
        (garbage, "spare", lambda location, names: set()),
        (garbage, "pinned", lambda location: set()),
    ],
    "names of attempts come again": [
        (store_module, "new_attempt", lambda now=None: 32 * "0")
    ],
    "the walk from a version ends at its manifest": _around(VersionReader, "chain", _first_only),
    "any branch may be merged": [(Store, "_descends", lambda self, manifest, ancestor: True)],
    "a merge takes the place of the version": _around(Store, "merge", _merges_in_place),
    "a merge takes a part of the branch": _around(Store, "_completed", _half_a_branch),
    "a sweep takes the segments of any parent": _around(
        LmdbBackend, "delete_unreferenced",
        lambda delete, self, keys: (self._delete_segments(list(keys)), list(keys))[1],
    ),
}  # fmt: skip


def _keeps_what_it_has(recover: Any, self: Any) -> Any:
    newest = self.store.version

    def own(loop: str, at: Any = None) -> Any:
        return self.manifest if at is None else newest(loop, at)

    with mock.patch.object(self.store, "version", own):
        return recover(self)


def _with_an_engine_that_is_ahead(commit: Any, self: Any, *args: Any, **options: Any) -> Any:
    try:
        return commit(self, *args, **options)
    except StateError:
        self.stale = self._in_doubt = False
        raise


def _behind(commit: Any, self: Any, *args: Any, **options: Any) -> Any:
    return commit(self, *args, **{**options, "behind": True})


def _changed(**fields: Callable[[Any], Any]) -> Callable[..., Any]:
    """A commit with other arguments, by position or name."""
    places = {"segments": 0, "log": 1, "ledger": 2, "iteration": 3, "offsets": 4, "content": 5}

    def commit(real: Any, self: Any, *args: Any, **options: Any) -> Any:
        given = list(args)
        for name, change in fields.items():
            if places[name] < len(given):
                given[places[name]] = change(given[places[name]])
            elif name in options:
                options[name] = change(options[name])
        return real(self, *given, **options)

    return commit


def _no_changes(segments: Any) -> Any:
    return [ref for ref in segments if ref.kind != "changes"]


def _less_topology(segments: Any) -> Any:
    last = max((ref.key.partition for ref in segments if ref.kind == "topology"), default=0)
    return [ref for ref in segments if ref.kind != "topology" or ref.key.partition < max(last, 1)]


def _half_a_batch(
    write: Any, self: Any, store: Any, loop: str, at: int, batch: Any, *rest: Any
) -> Any:
    if len(batch) > 1:
        batch = change_log.replace(
            batch, kind=batch.kind[:-1], source=batch.source[:-1], target=batch.target[:-1],
            value=batch.value[:-1],
        )  # fmt: skip
    return write(self, store, loop, at, batch, *rest)


def _swallows(write: Any, self: Any, publish: Any) -> Any:
    try:
        return write(self, publish)
    except StateError:
        return self.manifest


def _merges_without_its_ledger(merge: Any, self: Any, branch: Any, received: int) -> Any:
    ours = self.ledger
    real = LoopHistory._commit

    def commit(self: Any, segments: Any, log: Any, ledger: Any, *rest: Any, **options: Any) -> Any:
        return real(self, segments, log, replace(ledger, received=ours.received), *rest, **options)

    with mock.patch.object(LoopHistory, "_commit", commit):
        return merge(self, branch, received)


def _merges_without_its_content(merge: Any, self: Any, branch: Any, received: int) -> Any:
    real = LoopHistory._commit

    def commit(self: Any, *args: Any, content: Any = None, **options: Any) -> Any:
        return real(self, *args, **options)

    with mock.patch.object(LoopHistory, "_commit", commit):
        return merge(self, branch, received)


def _resumes_without_a_claim(resume: Any, *args: Any, **options: Any) -> Any:
    def claim(self: Store, loop: str, **_: Any) -> Any:
        head = self.backend.get_head(loop)
        assert head is not None
        self._claims[loop], self._epochs[loop] = head, {head.epoch}
        return self.head(loop)

    with mock.patch.object(Store, "claim", claim):
        return resume(*args, **options)


LOOP_MUTANTS: dict[str, list[Patch]] = {
    "a doubtful commit may come later": [(Store, "renew_claim", lambda self, loop: None)],
    "recovers what it remembers": _around(LoopHistory, "recover", _keeps_what_it_has),
    "goes on after a commit that failed": _around(
        LoopHistory, "_commit", _with_an_engine_that_is_ahead
    ),
    "acknowledges before it is durable": _around(LoopHistory, "_commit", _behind),
    "changes are not in the log": _around(LoopHistory, "_commit", _changed(segments=_no_changes)),
    "a batch is logged in part": _around(change_log.ChangeLog, "write", _half_a_batch),
    "offsets are not committed": _around(
        LoopHistory, "_commit", _changed(offsets=lambda offsets: None)
    ),
    "a repeated batch is taken again": [(VersionHistory, "repeats", lambda *args: False)],
    "a snapshot lacks a partition": _around(
        LoopHistory, "_commit", _changed(segments=_less_topology)
    ),
    "a commit that failed is acknowledged": _around(VersionHistory, "_write_version", _swallows),
    "a merge keeps the number of changes": _around(
        LoopHistory, "merge", _merges_without_its_ledger
    ),
    "a merge without the content": _around(LoopHistory, "merge", _merges_without_its_content),
    "a loop is resumed without a claim": _around(
        main_loop, "resume_main_loop", _resumes_without_a_claim
    ),
}


@contextmanager
def mutated(patches: list[Patch]) -> Iterator[None]:
    """Put a mistake in."""
    with ExitStack() as stack:
        for owner, name, replacement in patches:
            stack.enter_context(mock.patch.object(owner, name, replacement))
        yield
