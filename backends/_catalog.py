"""Heads, manifests and versions in one LMDB environment, where a commit is one transaction.

The table `references` has a key `TARGET\\0REFERRER` for each manifest and each version that needs
something: a prefix search shows whether anything still refers to a target, without a walk through
other loops. Deletes and commits hold the environment's only write lock.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from vertexsdk.backends._environment import Environment
from vertexsdk.state.contract import Head

TABLES = ("heads", "manifests", "versions", "references", "segments")
_LAST = (1 << 64) - 1


class Catalog:
    """The tables of the catalog within one transaction.

    Args:
        environment: the environment that has the `TABLES`.
        transaction: one of its transactions.

    Attributes:
        segments: the table of the segments that were stored with their manifest.
    """

    def __init__(self, environment: Environment, transaction: Any) -> None:
        self.transaction = self._txn = transaction
        self._heads, self._manifests, self._versions, self._references, self.segments = (
            environment.tables[name] for name in TABLES
        )

    def manifest(self, name: str) -> bytes | None:
        """The data of a manifest, or None."""
        data: bytes | None = self._txn.get(name.encode(), db=self._manifests)
        return data

    def put_manifest(self, name: str, data: bytes, references: Iterable[str]) -> None:
        """Store a manifest and its references."""
        self._txn.put(name.encode(), data, db=self._manifests)
        for target in references:
            self._refer(target, name)

    def delete_manifests(self, names: Iterable[str]) -> None:
        """Delete manifests, but not their references."""
        for name in names:
            self._txn.delete(name.encode(), db=self._manifests)

    def release_manifests(self, manifests: Mapping[str, Iterable[str]]) -> list[str]:
        """Delete the manifests that nothing refers to, in this order; return their names."""
        released = []
        for name, references in manifests.items():
            if not self.is_referenced(name):
                for target in references:
                    self._txn.delete(_reference(target, name), db=self._references)
                released.append(name)
                self.delete_manifests([name])
        return released

    def manifests(self, prefix: str) -> list[str]:
        """The names with this prefix."""
        return [key.decode() for key, _ in self._range(self._manifests, prefix.encode())]

    def is_referenced(self, target: str) -> bool:
        """Return whether a version or a manifest refers to a manifest or to a segment's attempt."""
        return next(self._range(self._references, _reference(target, "")), None) is not None

    def head(self, loop: str) -> Head | None:
        """The head of a loop, or None."""
        raw = self._txn.get(loop_prefix(loop), db=self._heads)
        return None if raw is None else Head.decode(raw)

    def heads(self) -> list[str]:
        """The loops that have a head, ascending."""
        return sorted(key[:-1].decode() for key, _ in self._txn.cursor(db=self._heads))

    def swap_head(self, loop: str, expected: Head | None, head: Head, restart: bool) -> bool:
        """Set the head and its version if the head is `expected`; else return False."""
        if self.head(loop) != expected:
            return False
        if restart:
            self.forget_versions(loop, [iteration for iteration, _ in self.versions(loop)])
        self._txn.put(loop_prefix(loop), head.encode().encode(), db=self._heads)
        if head.manifest:
            self.forget_versions(loop, [head.iteration])
            key = _version(loop, head.iteration)
            self._txn.put(key, head.manifest.encode(), db=self._versions)
            self._refer(head.manifest, _referrer(loop, head.iteration))
        return True

    def drop_head(self, loop: str, expected: Head) -> bool:
        """Delete the head and all versions if the head is `expected`; else return False."""
        if self.head(loop) != expected:
            return False
        self._txn.delete(loop_prefix(loop), db=self._heads)
        self.forget_versions(loop, [iteration for iteration, _ in self.versions(loop)])
        return True

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        """The newest version at or before `iteration`, or None."""
        if iteration < 0:
            return None
        wanted = _version(loop, min(iteration, _LAST))
        cursor = self._txn.cursor(db=self._versions)
        if not (cursor.set_range(wanted) or cursor.last()):
            return None
        if cursor.key() > wanted and not cursor.prev():
            return None
        key = cursor.key()
        if key[:-8] != loop_prefix(loop):
            return None
        return int.from_bytes(key[-8:], "big"), cursor.value().decode()

    def versions(self, loop: str) -> list[tuple[int, str]]:
        """All versions of the loop, ascending."""
        return [
            (int.from_bytes(key[-8:], "big"), value.decode())
            for key, value in self._range(self._versions, loop_prefix(loop))
        ]

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        """Delete versions of the map, and their references to their manifests."""
        for iteration in iterations:
            name = self._txn.pop(_version(loop, iteration), db=self._versions)
            if name is not None:
                key = _reference(name.decode(), _referrer(loop, iteration))
                self._txn.delete(key, db=self._references)

    def _refer(self, target: str, referrer: str) -> None:
        self._txn.put(_reference(target, referrer), b"", db=self._references)

    def _range(self, table: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
        cursor = self._txn.cursor(db=table)
        if cursor.set_range(prefix):
            for key, value in cursor:
                if not key.startswith(prefix):
                    break
                yield key, value


def loop_prefix(loop: str) -> bytes:
    """The prefix of a loop's keys; no name contains the zero byte that ends it."""
    return loop.encode() + b"\0"


def _version(loop: str, iteration: int) -> bytes:
    return loop_prefix(loop) + iteration.to_bytes(8, "big")


def _referrer(loop: str, iteration: int) -> str:
    return f"{iteration:020}:{loop}"


def _reference(target: str, referrer: str) -> bytes:
    return f"{target}\0{referrer}".encode()
