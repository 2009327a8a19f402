"""`lmdb:///path`: the embedded default backend, for any number of processes of one host.

    path/FORMAT       the version of the format
    path/catalog/     heads, manifests, versions, and the small segments that are stored with a
                      manifest, in one environment: a commit is one transaction
    path/shard-NN/    other small segments, of the partitions p with p % 16 == NN, so that
                      partitions write side by side; an environment has one writer at a time
    path/large/       segments of a megabyte and more, a file each (`_files`)

Options in the URL: `?map=BYTES`, the initial size of memory maps, where address space is limited.
"""

from __future__ import annotations

import contextlib
import os
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar
from urllib.parse import parse_qs, quote, unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from vertexsdk.backends._catalog import TABLES, Catalog, loop_prefix
from vertexsdk.backends._environment import Environment, open_environment
from vertexsdk.backends._files import LARGE, Files
from vertexsdk.backends._format import check_format
from vertexsdk.state.address import redacted
from vertexsdk.state.contract import Backend, Head, NewManifest, SegmentKey
from vertexsdk.state.errors import CorruptError, MissingError, StateInputError

T = TypeVar("T")
SHARDS = 16
_WITH_COMMIT = 1 << 18  # bytes of a segment up to which it is stored in the catalog
_PLACE = struct.Struct(">IQ16sH")  # partition, iteration, attempt, piece


class LmdbBackend(Backend):
    """A store in a directory of this host.

    Args:
        path: the directory; created with its parents if `create`.
        create: create the store if there is none.
        map_size: initial bytes of each memory map.

    Raises:
        CorruptError: files are missing or truncated.
        FormatError: the directory holds something else, or a store of another format.
        StateInputError: no store exists and not `create`, or no permission.
    """

    durable = True
    durability = "every acknowledged commit survives a power cut"

    def __init__(self, path: str, *, create: bool = True, map_size: int | None = None) -> None:
        self.path = os.path.abspath(path)
        option = f"?map={map_size}" if map_size else ""
        self.location = f"lmdb://{quote(self.path)}{option}"
        self._map_size = map_size
        self._process = os.getpid()
        self._environments: dict[str, Environment] = {}
        self._files = Files(os.path.join(self.path, "large"), self.durable)
        check_format(self.path, create)
        self._refuse_lost_catalog()

    def _refuse_lost_catalog(self) -> None:
        """Create a new store's catalog; `collect` would empty an old store without its catalog."""
        catalog = os.path.join(self.path, "catalog", "data.mdb")
        if os.path.exists(catalog) and os.path.getsize(catalog):
            return
        beside = [n for n in os.listdir(self.path) if n == "large" or n.startswith("shard-")]
        if beside:
            raise CorruptError(
                f"the catalog of the store in {self.path} is lost, and {min(beside)} is not: "
                "restore the directory from a backup, or choose another store"
            )
        self._environment("catalog", TABLES)

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> LmdbBackend:
        """The store named by `lmdb:///absolute/path` or `lmdb://relative/path`."""
        parts = urlsplit(url)
        path = unquote(parts.netloc + parts.path)
        options = parse_qs(parts.query)
        if not path.strip("/"):
            raise StateInputError(
                f"{redacted(url)} has no directory: write lmdb:///path/to/directory"
            )
        try:
            size = int(options.pop("map", ["0"])[0])
        except ValueError:
            raise StateInputError(f"{redacted(url)}: map= takes a number of bytes") from None
        if options:
            wrong = next(iter(options))
            raise StateInputError(f"{redacted(url)}: no option {wrong!r}, only map=BYTES")
        root = "/" + parts.netloc
        meant = not os.path.exists(path) and parts.netloc and os.path.isdir(root)
        absolute = f"{redacted(url)} is {os.path.abspath(path)}; for {unquote(root + parts.path)} "
        absolute += f"write {redacted(url).replace('://', ':///', 1)}"
        if meant and not create:
            raise StateInputError(f"there is no store: {absolute}")
        backend = cls(path, create=create, map_size=size or None)
        backend.advice = absolute if meant else ""
        return backend

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        if sum(map(len, pieces)) >= LARGE:
            return self._files.put(key, pieces)
        value = b"".join(pieces)
        self._shard(key).write(lambda txn: txn.put(_segment(key, 0), value))
        self._files.discard(key)

    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        large = self._files.get(key)
        if large is not None:
            return [large]

        def work(txn: Any) -> list[memoryview]:
            values: list[memoryview] = []
            while (value := txn.get(_segment(key, len(values)))) is not None:
                values.append(value)
            return values

        return self._shard(key).arrays(work) or self._read_catalog(partial(_committed, key=key))

    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        candidates = list(keys)

        def work(catalog: Catalog) -> list[SegmentKey]:  # its write lock keeps commits out
            unreferenced = [key for key in candidates if not catalog.is_referenced(key.attempt)]
            _delete(catalog.transaction, unreferenced, catalog.segments)
            self._delete_segments(unreferenced)
            return unreferenced

        return self._write_catalog(work, frees=True)

    def _delete_segments(self, keys: Iterable[SegmentKey]) -> None:
        shards: dict[int, list[SegmentKey]] = {}
        for key in keys:
            shards.setdefault(key.partition % SHARDS, []).append(key)
        # The files first: that needs no room on the disk.
        self._files.delete(key for some in shards.values() for key in some)
        for some in shards.values():
            environment = self._shard(some[0])
            environment.write(partial(_delete, keys=some), frees=True)
            environment.forget_snapshot()

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        prefix = b"" if loop is None else loop_prefix(loop)
        keys = set(self._files.keys(loop))
        for number in range(SHARDS):
            if os.path.isdir(os.path.join(self.path, f"shard-{number:02}")):
                environment = self._environment(f"shard-{number:02}")
                keys.update(environment.read(lambda txn: list(_scan(txn, prefix))))
        keys.update(self._read_catalog(lambda c: list(_scan(c.transaction, prefix, c.segments))))
        return iter(sorted(keys))

    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        targets = list(references)
        self._write_catalog(lambda catalog: catalog.put_manifest(name, data, targets))

    def get_manifest(self, name: str) -> bytes | None:
        return self._read_catalog(lambda catalog: catalog.manifest(name))

    def delete_manifests(self, names: Iterable[str]) -> None:
        some = list(names)
        self._write_catalog(lambda catalog: catalog.delete_manifests(some), frees=True)

    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        return self._write_catalog(lambda c: c.release_manifests(manifests), frees=True)

    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        return iter(self._read_catalog(lambda catalog: catalog.manifests(prefix)))

    def get_head(self, loop: str) -> Head | None:
        return self._read_catalog(lambda catalog: catalog.head(loop))

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, new: NewManifest | None = None
    ) -> bool:
        small: list[tuple[SegmentKey, bytes]] = []
        for key, pieces in () if new is None else new.segments:
            if sum(map(len, pieces)) > _WITH_COMMIT:
                self.put_segment(key, pieces)
            else:
                small.append((key, b"".join(pieces)))

        def work(catalog: Catalog) -> bool:
            restart = new is not None and new.restart
            moved = catalog.swap_head(loop, expected, head, restart)
            if moved and new is not None:
                for key in new.requires:
                    if not self._has_segment(key, catalog):
                        raise MissingError.of_segment(key)
                for key, value in small:
                    catalog.transaction.put(_segment(key, 0), value, db=catalog.segments)
                catalog.put_manifest(new.name, new.data, new.references)
            return moved

        return self._write_catalog(work)

    def drop_head(self, loop: str, expected: Head) -> bool:
        return self._write_catalog(lambda catalog: catalog.drop_head(loop, expected), frees=True)

    def list_heads(self) -> list[str]:
        return self._read_catalog(lambda catalog: catalog.heads())

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        return self._read_catalog(lambda catalog: catalog.floor(loop, iteration))

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        return self._read_catalog(lambda catalog: catalog.versions(loop))

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        iterations = set(iterations)

        def work(catalog: Catalog) -> None:
            head = catalog.head(loop)
            newest = -1 if head is None else head.iteration
            catalog.forget_versions(loop, iterations - {newest})

        self._write_catalog(work, frees=True)

    def _has_segment(self, key: SegmentKey, catalog: Catalog) -> bool:
        if self._files.has(key) or _committed(catalog, key) is not None:
            return True
        return self._shard(key).read(lambda txn: txn.get(_segment(key, 0)) is not None)

    def _read_catalog(self, work: Callable[[Catalog], T]) -> T:
        """Run `work` in a read transaction of the catalog."""
        environment = self._environment("catalog", TABLES)
        return environment.read(lambda txn: work(Catalog(environment, txn)))

    def _write_catalog(self, work: Callable[[Catalog], T], *, frees: bool = False) -> T:
        """Run `work` in a write transaction of the catalog, as `Environment.write` does."""
        environment = self._environment("catalog", TABLES)
        return environment.write(lambda txn: work(Catalog(environment, txn)), frees=frees)

    def size(self) -> int:
        size = 0
        for folder, _, files in os.walk(self.path):
            for name in files:
                with contextlib.suppress(OSError):
                    size += os.stat(os.path.join(folder, name)).st_blocks * 512
        return size

    def close(self) -> None:
        self._environments = {}

    def _shard(self, key: SegmentKey) -> Environment:
        return self._environment(f"shard-{key.partition % SHARDS:02}")

    def _environment(self, name: str, tables: tuple[str, ...] = ()) -> Environment:
        if self._process != os.getpid():
            self._environments = {}  # the parent's: `_environment` keeps them, unused
            self._process = os.getpid()
        environment = self._environments.get(name)
        if environment is None:
            environment = open_environment(
                os.path.join(self.path, name),
                tables=tables,
                size=self._map_size,
                sync=self.durable,
            )
            self._environments[name] = environment
        return environment


def _segment(key: SegmentKey, piece: int) -> bytes:
    place = _PLACE.pack(key.partition, key.iteration, bytes.fromhex(key.attempt), piece)
    return loop_prefix(key.loop) + place


def _committed(catalog: Catalog, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
    """A segment that was stored with its manifest."""
    value: bytes | None = catalog.transaction.get(_segment(key, 0), db=catalog.segments)
    return None if value is None else [np.frombuffer(value, np.uint8)]


def _scan(txn: Any, prefix: bytes, table: Any = None) -> Iterator[SegmentKey]:
    cursor = txn.cursor(db=table)
    more = cursor.set_range(prefix)
    while more and (key := cursor.key()).startswith(prefix):
        loop = key[: -_PLACE.size - 1].decode()
        partition, iteration, attempt, piece = _PLACE.unpack(key[-_PLACE.size :])
        if piece == 0:
            yield SegmentKey(loop, partition, iteration, attempt.hex())
        more = cursor.next()


def _delete(txn: Any, keys: list[SegmentKey], table: Any = None) -> None:
    for key in keys:
        piece = 0
        while txn.delete(_segment(key, piece), db=table):
            piece += 1
