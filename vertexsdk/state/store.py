"""The versioned store: any loop's any retained version, at pointer cost, on any backend.

Nothing that a version refers to is ever changed. A read of a version gives the same bytes until
the version is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from vertexsdk.state._commits import Commits
from vertexsdk.state._compaction import compact
from vertexsdk.state._inspection import Inspection
from vertexsdk.state._merging import merge
from vertexsdk.state._sql_view import show
from vertexsdk.state._transfer import Copied, copy_loop
from vertexsdk.state._validation import check_name
from vertexsdk.state.address import Address
from vertexsdk.state.contract import CanQuery, Head
from vertexsdk.state.errors import StateInputError
from vertexsdk.state.garbage import Collected, collect
from vertexsdk.state.manifests import Manifest

__all__ = ["Store", "open_store"]


def open_store(url: str | Address, *, create: bool = True) -> Store:
    """The store named by a URL: `lmdb:///path`, `redis://host`, `postgresql://host/db`,
    `memory://name`, or another backend's.

    Args:
        url: the URL, or "@FILE": it is the one line of this file.
        create: make it if there is none; a reader says False.

    Raises:
        StateInputError: the URL is wrong, or there is no store.
        StateError: it cannot be opened.

    Example:
        >>> with open_store("memory://example") as store:
        ...     store.loops()
        []
    """
    from vertexsdk.backends import open_backend

    return Store(open_backend(url, create=create))


_SHORTEST = 120.0  # seconds of a grace period, beside runs


def _reopen(address: str | Address) -> Store:
    return open_store(address, create=False)


class Store(Commits, Inspection):
    """Loops and their versions in one backend.

    Reading is described in `Snapshots` and `Inspection`, writing in `Commits`.

    A store can be pickled: another process gets the same one, opened anew.

    Attributes:
        backend: where everything is kept.
    """

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopen, (self.backend.address,)

    def __enter__(self) -> Store:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        if kind is None and isinstance(self.backend, CanQuery):
            for loop in list(self._claims):
                self.show(loop)
        self.close()

    def fork(self, source: str, name: str, at: int | None = None) -> Manifest:
        """Make loop `name` stand at a version of `source`; costs a pointer at any size.

        Raises:
            StateInputError: no such version, or `name` exists.
        """
        check_name(name)
        manifest = self.version(source, at)
        head = Head(manifest.name, manifest.iteration, 1)
        if not self.backend.swap_head(name, None, head):
            raise StateInputError(f"there is a loop {name!r} already: choose another name")
        kept = self.backend.floor(source, manifest.iteration)
        if kept is None or kept[1] != manifest.name:  # a sweep may not have seen the new head
            self.backend.drop_head(name, head)
            return self.fork(source, name, at)
        return manifest

    def merge(self, branch: str, into: str, iteration: int | None = None) -> Manifest:
        """Make the newest version of `branch` the newest of `into`; costs a pointer.

        What was in flight in either is dropped. The branch stays as it is.

        Args:
            iteration: of the new version (DESIGN: τ + B); defaults to the least that fits.

        Raises:
            StateInputError: no such loops, or `into` went on since the branch was forked.
            OwnerError: they belong to different programs.
        """
        return merge(self, branch, into, iteration)

    def compact(self, loop: str, deltas: int = 1) -> Manifest:
        """Replace base and deltas of the newest version by an equal base, beside its driver.

        Args:
            deltas: leave a partition that has fewer.

        Raises:
            StateInputError: no such loop.
            MissingError, CorruptError: as `segment`.
        """
        return compact(self, loop, deltas)

    def copy(
        self, loop: str, target: Store, name: str | None = None, *, newest: bool = False
    ) -> Copied:
        """Copy a loop to another store, on any backend: all retained versions, or the newest.

        Every segment is checked before it is written.

        Raises:
            StateInputError: no such loop here, or the target has one of that name.
            MissingError, CorruptError: as `segment`.
        """
        return copy_loop(self, loop, target, name or loop, newest=newest)

    def show(self, loop: str) -> bool:
        """Make the newest version readable by SQL, where the backend is for that.

        Returns:
            False where it is not. A store used by `with` does this at its end, for each loop that
            it committed to.

        Raises:
            StateInputError: no such loop.
        """
        return show(self, loop)

    def delete(self, loop: str) -> None:
        """Forget the loop, and everything in it that no other loop shares.

        Raises:
            StateInputError: no such loop.
        """
        head = self.backend.get_head(loop)
        if head is None:
            raise self.unknown_loop(loop)
        dropped = [name for _, name in self.backend.list_versions(loop)]
        while not self.backend.drop_head(loop, head):
            head = self.backend.get_head(loop)
            if head is None:
                return
        self._claims.pop(loop, None)
        self.sweep(dropped)

    def prune(self, loop: str, keep: int | Iterable[int] = 1) -> list[int]:
        """Drop versions: all but the newest `keep`, or but those iterations and the newest.

        A reader that is in the middle of a dropped version gets a `MissingError`.

        Returns:
            The iterations that were dropped.
        """
        versions = self.backend.list_versions(loop)
        if isinstance(keep, int):
            kept = {iteration for iteration, _ in versions[-max(keep, 1) :]}
        else:
            kept = {*keep, *(iteration for iteration, _ in versions[-1:])}
        dropped = [(iteration, name) for iteration, name in versions if iteration not in kept]
        self.backend.forget_versions(loop, [iteration for iteration, _ in dropped])
        self.sweep([name for _, name in dropped])
        return [iteration for iteration, _ in dropped]

    def collect(self, grace: float = 3600.0, *, alone: bool = False) -> Collected:
        """Delete what no version or lease needs and is older than `grace` seconds.

        Args:
            grace: longer than any run waits between writing a segment and committing it.
            alone: nobody else uses the store now, so that any grace will do.

        Raises:
            StateInputError: a grace of less than two minutes, and not `alone`.
        """
        if grace < _SHORTEST and not alone:
            raise StateInputError(
                f"a grace period of {grace:g} s would take from runs what they are about to "
                f"commit: give {_SHORTEST:g} s or more, or stop the runs and say so"
            )
        return collect(self, grace)
