"""Heads, manifests and versions in one LMDB environment, where a commit is one transaction.

The table `references` has a key `TARGET\0REFERRER` for each manifest and each version that needs
something: what nothing refers to is found by its prefix, without a walk through other loops.
Whoever removes something holds the environment's only write lock, as whoever commits does.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from vertexsdk.backends._environment import Environment
from vertexsdk.state.contract import Backend, Head, SegmentKey
from vertexsdk.state.errors import MissingError
from vertexsdk.state.manifests import Manifest

__all__ = ["TABLES", "Catalog", "add_references", "loop_prefix", "referenced"]

TABLES = ("heads", "manifests", "versions", "references")
_LAST = (1 << 64) - 1


class Catalog(Backend):
    """The part of a backend that is in the environment `_catalog()`."""

    @abstractmethod
    def _catalog(self) -> Environment: ...

    @abstractmethod
    def _has_segment(self, key: SegmentKey) -> bool: ...

    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        catalog = self._catalog()
        catalog.write(lambda txn: _put(txn, catalog, name, data, references))

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

        catalog.write(work, frees=True)

    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        catalog = self._catalog()

        def work(txn: Any) -> list[str]:
            return [name for name in manifests if _release(txn, catalog, name, manifests[name])]

        return catalog.write(work, frees=True)

    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        catalog = self._catalog()
        table = catalog.tables["manifests"]
        start = prefix.encode()
        return iter(catalog.read(lambda t: [k.decode() for k, _ in _range(t, table, start)]))

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
        references: Iterable[str] = (),
        requires: Iterable[SegmentKey] = (),
    ) -> bool:
        catalog = self._catalog()
        references, requires = list(references), list(requires)

        def work(txn: Any) -> bool:
            moved = _swap(txn, catalog, loop, expected, head, restart)
            if moved:
                for key in requires:
                    if not self._has_segment(key):
                        raise MissingError.of_segment(key)
                _put(txn, catalog, name, data, references)
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

        return catalog.write(work, frees=True)

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
                    _forget_version(txn, catalog, loop, iteration)

        catalog.write(work, frees=True)


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
        _forget_version(txn, catalog, loop, head.iteration)
        version = _version(loop, head.iteration)
        txn.put(version, head.manifest.encode(), db=catalog.tables["versions"])
        _refer(txn, catalog, head.manifest, _referrer(loop, head.iteration))
    return True


def _forget(txn: Any, catalog: Environment, loop: str) -> None:
    table = catalog.tables["versions"]
    for key in [key for key, _ in _range(txn, table, loop_prefix(loop))]:
        _forget_version(txn, catalog, loop, int.from_bytes(key[-8:], "big"))


def _forget_version(txn: Any, catalog: Environment, loop: str, iteration: int) -> None:
    name = txn.pop(_version(loop, iteration), db=catalog.tables["versions"])
    if name is not None:
        key = _reference(name.decode(), _referrer(loop, iteration))
        txn.delete(key, db=catalog.tables["references"])


def _referrer(loop: str, iteration: int) -> str:
    return f"{iteration:020}:{loop}"


def _reference(target: str, referrer: str) -> bytes:
    return f"{target}\0{referrer}".encode()


def _refer(txn: Any, catalog: Environment, target: str, referrer: str) -> None:
    txn.put(_reference(target, referrer), b"", db=catalog.tables["references"])


def _put(txn: Any, catalog: Environment, name: str, data: bytes, references: Iterable[str]) -> None:
    txn.put(name.encode(), data, db=catalog.tables["manifests"])
    for target in references:
        _refer(txn, catalog, target, name)


def referenced(txn: Any, catalog: Environment, target: str) -> bool:
    """Whether a version or a manifest needs it."""
    start = _reference(target, "")
    return next(_range(txn, catalog.tables["references"], start), None) is not None


def _release(txn: Any, catalog: Environment, name: str, references: Iterable[str]) -> bool:
    if referenced(txn, catalog, name):
        return False
    for target in references:
        txn.delete(_reference(target, name), db=catalog.tables["references"])
    txn.delete(name.encode(), db=catalog.tables["manifests"])
    return True


def add_references(catalog: Environment) -> None:
    """Write the table `references` of a store that was made before there was one."""

    def work(txn: Any) -> None:
        for key, name in list(txn.cursor(db=catalog.tables["versions"])):
            loop, iteration = key[:-9].decode(), int.from_bytes(key[-8:], "big")
            _refer(txn, catalog, name.decode(), _referrer(loop, iteration))
        for key, data in list(txn.cursor(db=catalog.tables["manifests"])):
            name = key.decode()
            if "." not in name:
                _put(txn, catalog, name, data, Manifest.decode(name, data).references)

    catalog.write(work)
