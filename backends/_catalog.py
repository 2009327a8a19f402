"""Heads, manifests and versions in one LMDB environment, where a commit is one transaction."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

from vertexsdk.backends._environment import Environment
from vertexsdk.state.contract import Backend, Head

__all__ = ["TABLES", "Catalog", "loop_prefix"]

TABLES = ("heads", "manifests", "versions")
_LAST = (1 << 64) - 1


class Catalog(Backend):
    """The part of a backend that is in the environment `_catalog()`."""

    @abstractmethod
    def _catalog(self) -> Environment: ...

    def put_manifest(self, name: str, data: bytes) -> None:
        catalog = self._catalog()
        catalog.write(lambda txn: txn.put(name.encode(), data, db=catalog.tables["manifests"]))

    def get_manifest(self, name: str) -> bytes | None:
        catalog = self._catalog()
        found: bytes | None = catalog.read(
            lambda txn: txn.get(name.encode(), db=catalog.tables["manifests"])
        )
        return found

    def delete_manifests(self, names: Iterable[str]) -> None:
        catalog = self._catalog()

        def work(txn: Any) -> None:
            for name in names:
                txn.delete(name.encode(), db=catalog.tables["manifests"])

        catalog.write(work)

    def list_manifests(self) -> Iterator[str]:
        catalog = self._catalog()
        table = catalog.tables["manifests"]
        return iter(catalog.read(lambda t: [bytes(k).decode() for k, _ in t.cursor(db=table)]))

    def get_head(self, loop: str) -> Head | None:
        catalog = self._catalog()
        return catalog.read(lambda txn: _head(txn, catalog, loop))

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, *, restart: bool = False
    ) -> bool:
        catalog = self._catalog()
        return catalog.write(lambda txn: _swap(txn, catalog, loop, expected, head, restart))

    def publish(
        self,
        name: str,
        data: bytes,
        loop: str,
        expected: Head | None,
        head: Head,
        *,
        restart: bool = False,
    ) -> bool:
        catalog = self._catalog()

        def work(txn: Any) -> bool:
            moved = _swap(txn, catalog, loop, expected, head, restart)
            if moved:
                txn.put(name.encode(), data, db=catalog.tables["manifests"])
            return moved

        return catalog.write(work)

    def drop_head(self, loop: str, expected: Head) -> bool:
        catalog = self._catalog()

        def work(txn: Any) -> bool:
            if _head(txn, catalog, loop) != expected:
                return False
            txn.delete(loop_prefix(loop), db=catalog.tables["heads"])
            _forget(txn, catalog, loop)
            return True

        return catalog.write(work)

    def list_heads(self) -> list[str]:
        catalog = self._catalog()
        table = catalog.tables["heads"]
        return catalog.read(
            lambda txn: sorted(bytes(k[:-1]).decode() for k, _ in txn.cursor(db=table))
        )

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        catalog = self._catalog()

        def work(txn: Any) -> tuple[int, str] | None:
            wanted = _version(loop, min(iteration, _LAST)) if iteration >= 0 else b""
            cursor = txn.cursor(db=catalog.tables["versions"])
            if not wanted or not (cursor.set_range(wanted) or cursor.last()):
                return None
            if cursor.key() > wanted and not cursor.prev():
                return None
            key = cursor.key()
            if key[:-8] != loop_prefix(loop):
                return None
            return int.from_bytes(key[-8:], "big"), cursor.value().decode()

        return catalog.read(work)

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        catalog = self._catalog()
        return catalog.read(
            lambda txn: [
                (int.from_bytes(key[-8:], "big"), value.decode())
                for key, value in _range(txn, catalog.tables["versions"], loop_prefix(loop))
            ]
        )

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        catalog = self._catalog()

        def work(txn: Any) -> None:
            head = _head(txn, catalog, loop)
            for iteration in iterations:
                if head is None or iteration != head.iteration:
                    txn.delete(_version(loop, iteration), db=catalog.tables["versions"])

        catalog.write(work)


def loop_prefix(loop: str) -> bytes:
    """What the keys of a loop start with; no name contains the zero byte that ends it."""
    return loop.encode() + b"\0"


def _version(loop: str, iteration: int) -> bytes:
    return loop_prefix(loop) + iteration.to_bytes(8, "big")


def _range(txn: Any, table: Any, prefix: bytes) -> Iterator[tuple[bytes, bytes]]:
    cursor = txn.cursor(db=table)
    if cursor.set_range(prefix):
        for key, value in cursor:
            if not key.startswith(prefix):
                break
            yield key, value


def _head(txn: Any, catalog: Environment, loop: str) -> Head | None:
    raw = txn.get(loop_prefix(loop), db=catalog.tables["heads"])
    return None if raw is None else Head.decode(raw)


def _swap(
    txn: Any, catalog: Environment, loop: str, expected: Head | None, head: Head, restart: bool
) -> bool:
    if _head(txn, catalog, loop) != expected:
        return False
    if restart:
        _forget(txn, catalog, loop)
    txn.put(loop_prefix(loop), head.encode().encode(), db=catalog.tables["heads"])
    if head.manifest:
        version = _version(loop, head.iteration)
        txn.put(version, head.manifest.encode(), db=catalog.tables["versions"])
    return True


def _forget(txn: Any, catalog: Environment, loop: str) -> None:
    table = catalog.tables["versions"]
    for key in [key for key, _ in _range(txn, table, loop_prefix(loop))]:
        txn.delete(key, db=table)
