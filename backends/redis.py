r"""`redis://host:port/db` and `rediss://` (TLS): shared between hosts, as durable as the server.

    PREFIX:format           the version of the format
    PREFIX:heads, :tokens   hashes loop → head as JSON, and → the token of its last swap
    PREFIX:versions:LOOP    a sorted set of `iteration:manifest`, for floor lookups
    PREFIX:manifests        a hash name → data
    PREFIX:leases           the same for manifests whose name has a dot
    PREFIX:references       a sorted set of `target\0referrer`, of manifests and versions
    PREFIX:segments:LOOP    a hash partition:iteration:attempt → the bytes, if they are few, or
                            how many chunks there are, and the token in their names
    PREFIX:chunk:TOKEN:N    bytes of a large segment
    PREFIX:loops            the set of loops that have segments

Chunks are sent in pipelines and expire after a day, unless the script that stores the segment makes
them persistent, so the chunks of a writer that dies do not stay.

Options in the URL: `?prefix=NAME`, `?retry=SECONDS`, and for TLS `?ca=FILE`, `?cert=FILE`,
`?key=FILE`. Not for Redis Cluster.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.corruption import damaged
from vertexsdk.backends import _redis_scripts as scripts
from vertexsdk.backends._format import FORMAT, MARK, check_version
from vertexsdk.backends._redis_server import RedisServer, durability_of
from vertexsdk.backends._server import ServerBackend
from vertexsdk.state.contract import (
    CanReadParts,
    Head,
    NewManifest,
    Parts,
    SegmentKey,
    new_attempt,
)
from vertexsdk.state.errors import MissingError, StateError, StateInputError

INLINE = 1 << 16  # bytes up to which a segment is kept in the hash
CHUNK = 1 << 23
_HEADER = struct.Struct("<16s32s16x")  # kind and number of chunks, token; keeps arrays aligned
_DAY = 86400


class RedisBackend(ServerBackend, CanReadParts):
    """A store in one database of a Redis (or Valkey) server.

    Raises:
        StateInputError: wrong URL, user or password; or no store there and not `create`.
        StateError: the server cannot be reached.
    """

    def __init__(self, server: RedisServer, *, create: bool = True) -> None:
        super().__init__(server)
        self._prefix = server.prefix
        key = self._key("format")
        stored = server.reach(lambda r: r.get(key))
        if stored is None:
            if not create:
                raise StateInputError(f"there is no store in {self.location}: check the URL")
            self._command("setnx", key, MARK + FORMAT)
            stored = self._command("get", key)
        version = _text(stored).removeprefix(MARK)
        check_version(self.location, version, "another database or ?prefix=")

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> RedisBackend:
        """The store named by `redis://[[user]:password@]host[:port][/db]` or `rediss://...`."""
        return cls(RedisServer(url), create=create)

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        size = sum(map(len, pieces))
        place, loops, field = self._segments(key.loop), self._key("loops"), _segment_field(key)
        chunk = self._key("chunk:")
        if size <= INLINE:
            value = _inline(pieces)
            self._script(scripts.PUT, [place, loops], key.loop, field, value, chunk, 0)
            return

        def upload(r: Any) -> tuple[bytes, int]:
            token = new_attempt().encode()
            sizes: list[int] = []
            pipeline, waiting = r.pipeline(transaction=False), 0
            for part in _chunks(pieces):
                pipeline.set(chunk + token + b":%d" % len(sizes), part, ex=_DAY)
                sizes.append(len(part))
                waiting += len(part)
                if waiting >= 4 * CHUNK:
                    pipeline.execute()
                    waiting = 0
            pipeline.execute()
            header = _HEADER.pack(b"C%015d" % len(sizes), token)
            return header + np.array(sizes, "<i8").tobytes(), len(sizes)

        stored = False
        while not stored:  # chunks may expire or be evicted before the script stores the segment
            value, count = self._run(upload)
            stored = self._script(scripts.PUT, [place, loops], key.loop, field, value, chunk, count)

    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        place, field = self._segments(key.loop), _segment_field(key)
        value: bytes | None = self._command("hget", place, field)
        if value is None:
            return None
        with damaged(f"segment {key} in {self.location}"):
            kind, token = _HEADER.unpack_from(value)
            if kind[:1] == b"I":
                return [np.frombuffer(value, np.uint8)[_HEADER.size :]]
            count = (len(value) - _HEADER.size) // 8
            if int(kind[1:]) != count:
                raise ValueError("another number of chunks")
        names = [self._key("chunk:") + token + b":%d" % n for n in range(count)]
        chunks = [self._command("get", name) for name in names]
        if any(chunk is None for chunk in chunks):
            return None
        return [np.frombuffer(chunk, np.uint8) for chunk in chunks]

    def open_segment(self, key: SegmentKey) -> Parts | None:
        place, field = self._segments(key.loop), _segment_field(key)
        value: bytes | None = self._command("hget", place, field)
        if value is None or value[:1] == b"I":
            return None
        with damaged(f"segment {key} in {self.location}"):
            _, token = _HEADER.unpack_from(value)
            ends = np.cumsum(np.frombuffer(value, "<i8", offset=_HEADER.size)).tolist()
        names = [self._key("chunk:") + token + b":%d" % n for n in range(len(ends))]

        def read(places: list[tuple[int, int]]) -> list[bytes]:
            def work(r: Any) -> list[bytes]:
                pipeline, counts = r.pipeline(transaction=False), []
                for low, high in places:
                    start, count = 0, 0
                    for name, end in zip(names, ends, strict=True):
                        if low < end and start < high:
                            pipeline.getrange(name, max(low - start, 0), min(high, end) - start - 1)
                            count += 1
                        start = end
                    counts.append(count)
                parts = iter(pipeline.execute())
                return [b"".join(next(parts) for _ in range(count)) for count in counts]

            return self._complete(self._run(work), places, key)

        return read

    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        loops: dict[str, list[bytes]] = {}
        for key in keys:
            loops.setdefault(key.loop, []).append(_segment_field(key))
        deleted_keys: list[SegmentKey] = []
        for loop, fields in loops.items():
            places = [self._segments(loop), self._key("loops"), self._key("references")]
            for low in range(0, len(fields), 1000):
                some = [loop, self._key("chunk:"), *fields[low : low + 1000]]
                deleted = self._script(scripts.DELETE, places, *some)
                deleted_keys += [_segment(loop, field) for field in deleted]
        return deleted_keys

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        if loop is None:
            loops = sorted(self._texts(self._command("smembers", self._key("loops"))))
        else:
            loops = [loop]
        for name in loops:
            fields = self._command("hkeys", self._segments(name))
            with damaged(f"the list of segments of loop {name!r} in {self.location}"):
                keys = sorted(_segment(name, field) for field in fields)
            yield from keys

    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        members = [_reference(target, name) for target in references]

        def work(r: Any) -> None:
            pipeline = r.pipeline(transaction=True)
            pipeline.hset(self._manifests(name), name, data)
            if members:
                pipeline.zadd(self._key("references"), dict.fromkeys(members, 0))
            pipeline.execute()

        self._run(work)

    def get_manifest(self, name: str) -> bytes | None:
        data: bytes | None = self._command("hget", self._manifests(name), name)
        return data

    def delete_manifests(self, names: Iterable[str]) -> None:
        tables: dict[bytes, list[str]] = {}
        for name in names:
            tables.setdefault(self._manifests(name), []).append(name)
        for table, some in tables.items():
            self._command("hdel", table, *some)

    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        arguments: list[Any] = []
        for name, references in manifests.items():
            arguments += [name, len(references), *references]
        keys = [self._key("manifests"), self._key("references")]
        return self._texts(self._script(scripts.RELEASE, keys, *arguments))

    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        tables = {self._manifests(prefix), self._key("leases")}
        names = [name for table in tables for name in self._texts(self._command("hkeys", table))]
        return iter([name for name in names if name.startswith(prefix)])

    def get_head(self, loop: str) -> Head | None:
        raw = self._command("hget", self._key("heads"), loop)
        return None if raw is None else Head.decode(raw)

    def drop_head(self, loop: str, expected: Head) -> bool:
        keys = [*map(self._key, ("heads", "tokens")), self._versions(loop), self._key("references")]
        return bool(self._script(scripts.DROP, keys, loop, _head(expected), new_attempt()))

    def list_heads(self) -> list[str]:
        return sorted(self._texts(self._command("hkeys", self._key("heads"))))

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        if iteration < 0:
            return None
        place, top = self._versions(loop), b"(" + _version(iteration) + b"\xff"
        members = self._command("zrevrangebylex", place, top, b"-", 0, 1)
        return self._split(members[0]) if members else None

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        return [self._split(raw) for raw in self._command("zrange", self._versions(loop), 0, -1)]

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        head, place = self.get_head(loop), self._versions(loop)
        forgotten = set(iterations) - {-1 if head is None else head.iteration}
        stored = self._command("zrange", place, 0, -1)
        members = [raw for raw in stored if self._split(raw)[0] in forgotten]
        if not members:
            return

        def work(r: Any) -> None:
            pipeline = r.pipeline(transaction=True)
            pipeline.zrem(place, *members)
            pipeline.zrem(self._key("references"), *(_used(raw, loop) for raw in members))
            pipeline.execute()

        self._run(work)

    def size(self) -> int:
        def work(r: Any) -> int:
            names = list(r.scan_iter(match=_literal(self._prefix) + b":*", count=1000))
            pipeline = r.pipeline(transaction=False)
            for name in names:
                pipeline.memory_usage(name, samples=0)
            return sum(size or 0 for size in pipeline.execute())

        return self._run(work)

    @staticmethod
    def _server_time(connection: Any) -> float:
        seconds, microseconds = connection.time()
        return float(seconds + microseconds / 1e6)

    def _durability(self) -> tuple[bool, str]:
        settings: dict[Any, Any] = {}
        with suppress(StateError, StateInputError):  # a user may not be allowed to read them
            names = ("appendonly", "appendfsync", "save", "maxmemory-policy", "maxmemory")
            settings = self._command("config_get", *names)
        return durability_of({_text(name): _text(value) for name, value in settings.items()})

    def _command(self, name: str, *arguments: Any) -> Any:
        """Run one command, by the name of the client's method."""
        return self._run(lambda r: getattr(r, name)(*arguments))

    def _script(self, body: str, keys: Sequence[bytes], *arguments: Any) -> Any:
        return self._command("eval", scripts.SHARED + body, len(keys), *keys, *arguments)

    def _texts(self, names: Iterable[bytes]) -> list[str]:
        with damaged(f"a list of names in {self.location}"):
            return [raw.decode() for raw in names]

    def _key(self, name: str) -> bytes:
        return f"{self._prefix}:{name}".encode()

    def _segments(self, loop: str) -> bytes:
        return self._key(f"segments:{loop}")

    def _split(self, member: bytes) -> tuple[int, str]:
        with damaged(f"version {member[:60]!r} in {self.location}"):
            return int(member[:20]), member[21:].decode()

    def _versions(self, loop: str) -> bytes:
        return self._key(f"versions:{loop}")

    def _manifests(self, name: str) -> bytes:
        return self._key("leases" if "." in name else "manifests")

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, new: NewManifest | None = None
    ) -> bool:
        new = new or NewManifest("", b"")
        version = _version(head.iteration) if head.manifest else b""
        member = version + head.manifest.encode() if head.manifest else b""
        places = [
            *map(self._key, ("heads", "tokens")),
            self._versions(loop),
            *map(self._key, ("manifests", "references", "loops")),
            *(self._segments(name) for name in (loop, *(key.loop for key in new.requires))),
        ]
        arguments: list[Any] = [loop, _head(expected), _head(head), new_attempt(), version, member]
        arguments += ["1" if new.restart else "0", new.name, new.data, len(new.references)]
        arguments += [*new.references, *map(_segment_field, new.requires)]
        for key, pieces in new.segments:
            if key.loop == loop and sum(map(len, pieces)) <= INLINE:
                arguments += [_segment_field(key), _inline(pieces)]
            else:
                self.put_segment(key, pieces)
        done: int = self._script(scripts.SWAP, places, *arguments)
        if done < 0:
            raise MissingError.of_segment(new.requires[-done - 1])
        return bool(done)


def _inline(pieces: Sequence[memoryview | bytes]) -> bytes:
    return b"".join([_HEADER.pack(b"I", b""), *pieces])


def _text(raw: Any) -> str:
    return raw.decode(errors="replace") if isinstance(raw, bytes) else str(raw)


def _reference(target: str, referrer: str) -> bytes:
    return f"{target}\0{referrer}".encode()


def _used(member: bytes, loop: str) -> bytes:
    """The reference of a version to its manifest."""
    return member[21:] + b"\0" + member[:21] + loop.encode()


def _head(head: Head | None) -> str:
    return "" if head is None else head.encode()


def _version(iteration: int) -> bytes:
    return b"%020d:" % iteration


def _literal(pattern: str) -> bytes:
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in pattern).encode()


def _segment_field(key: SegmentKey) -> bytes:
    return f"{key.partition}:{key.iteration}:{key.attempt}".encode()


def _segment(loop: str, field: bytes) -> SegmentKey:
    partition, iteration, attempt = field.decode().split(":")
    return SegmentKey(loop, int(partition), int(iteration), attempt)


def _chunks(pieces: Sequence[memoryview | bytes]) -> Iterator[memoryview | bytes]:
    """Parts of at most `CHUNK` bytes: small pieces are joined, large ones cut without a copy."""
    small: list[memoryview | bytes] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece).cast("B")
        if small and (len(view) > INLINE or size > CHUNK // 2):
            yield b"".join(small)
            small, size = [], 0
        if len(view) <= INLINE:
            small.append(view)
            size += len(view)
        else:
            yield from (view[low : low + CHUNK] for low in range(0, len(view), CHUNK))
    if small:
        yield b"".join(small)
