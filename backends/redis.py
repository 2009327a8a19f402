"""`redis://host:port/db` and `rediss://` (TLS): shared between hosts, as durable as the server.

    PREFIX:format           which format this is
    PREFIX:heads, :tokens   hashes loop → head as JSON, and → the token of its last swap
    PREFIX:versions:LOOP    a sorted set of `iteration:manifest`, for floor lookups
    PREFIX:manifests        a hash name → data
    PREFIX:segments:LOOP    a hash partition:iteration:attempt → the bytes, if they are few, or
                            how many chunks there are, and the token in their names
    PREFIX:chunk:TOKEN:N    bytes of a large segment
    PREFIX:loops            the set of loops that have segments

Chunks are sent in pipelines and expire after a day, unless the script that makes the segment made
them stay: so a writer that dies leaves nothing for long. Options in the URL: `?prefix=NAME`,
`?retry=SECONDS`, and of TLS `?ca=FILE`, `?cert=FILE`, `?key=FILE`. Not for Redis Cluster.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from vertexsdk.backends import _redis_scripts as scripts
from vertexsdk.backends._redis_server import Server

from vertexsdk.state.contract import (
    Address,
    Backend,
    CanReadParts,
    Head,
    Parts,
    SegmentKey,
    new_attempt,
)
from vertexsdk.state.errors import FormatError, MissingError, StateInputError

__all__ = ["RedisBackend"]

T = TypeVar("T")
FORMAT = 1
INLINE = 1 << 16  # bytes up to which a segment is kept in the hash
CHUNK = 1 << 23
_HEADER = struct.Struct("<16s32s16x")  # kind and number of chunks, token; keeps arrays aligned
_DAY = 86400


class RedisBackend(Backend, CanReadParts):
    """A store in one database of a Redis (or Valkey) server.

    Raises:
        StateInputError: wrong URL, user or password; or no store there and not `create`.
        StateError: the server cannot be reached.
    """

    shared = True

    def __init__(self, server: Server, *, create: bool = True) -> None:
        self._server = server
        self.location = server.location
        self._prefix = server.prefix
        made = f"vertexsdk state, format {FORMAT}".encode()
        place = self._key("format")
        found = server.reach(lambda r: r.get(place))
        if found is None:
            if not create:
                raise StateInputError(f"there is no store in {self.location}: check --backend")
            self._run(lambda r: r.set(place, made, nx=True))
            found = self._run(lambda r: r.get(place))
        if found != made:
            raise FormatError(
                f"{self.location} has another format than this version of vertexsdk writes "
                f"({FORMAT}): choose another database or ?prefix=, or the version that wrote it"
            )

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> RedisBackend:
        """The store named by `redis://[[user]:password@]host[:port][/db]` or `rediss://...`."""
        return cls(Server.from_url(url), create=create)

    @property
    def address(self) -> str:
        return Address(self._server.url)

    @property
    def durable(self) -> bool:  # type: ignore[override]
        return self._server.durability()[0]

    @property
    def durability(self) -> str:  # type: ignore[override]
        return self._server.durability()[1]

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        size = sum(map(len, pieces))
        place, loops, field = self._segments(key.loop), self._key("loops"), _field(key)
        chunk = self._key("chunk:")
        if size <= INLINE:
            value = b"".join([_HEADER.pack(b"I", b""), *pieces])
            self._run(
                lambda r: r.eval(scripts.PUT, 2, place, loops, key.loop, field, value, chunk, 0)
            )
            return

        def work(r: Any) -> int:
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
            count = len(sizes)
            value = _HEADER.pack(b"C%015d" % count, token) + np.array(sizes, "<i8").tobytes()
            done: int = r.eval(scripts.PUT, 2, place, loops, key.loop, field, value, chunk, count)
            return done

        while not self._run(work):
            pass  # chunks expired or were evicted before the segment was made

    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        place, field = self._segments(key.loop), _field(key)
        value: bytes | None = self._run(lambda r: r.hget(place, field))
        if value is None:
            return None
        kind, token = _HEADER.unpack_from(value)
        if kind[:1] == b"I":
            return [np.frombuffer(value, np.uint8)[_HEADER.size :]]
        names = [self._key("chunk:") + token + b":%d" % n for n in range(int(kind[1:]))]
        found = [self._ask("get", name) for name in names]
        if any(part is None for part in found):
            return None
        return [np.frombuffer(part, np.uint8) for part in found]

    def open_segment(self, key: SegmentKey) -> Parts | None:
        place, field = self._segments(key.loop), _field(key)
        value: bytes | None = self._run(lambda r: r.hget(place, field))
        if value is None or value[:1] == b"I":
            return None
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
                found = iter(pipeline.execute())
                return [b"".join(next(found) for _ in range(count)) for count in counts]

            return _whole(self._run(work), places, key, self.location)

        return read

    def delete_segments(self, keys: Iterable[SegmentKey]) -> None:
        loops: dict[str, list[bytes]] = {}
        for key in keys:
            loops.setdefault(key.loop, []).append(_field(key))
        for loop, fields in loops.items():
            for low in range(0, len(fields), 1000):
                some = [loop, self._key("chunk:"), *fields[low : low + 1000]]
                places = (self._segments(loop), self._key("loops"))
                self._ask("eval", scripts.DELETE, 2, *places, *some)

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        loops = [loop]
        if loop is None:
            loops = sorted(
                raw.decode() for raw in self._run(lambda r: r.smembers(self._key("loops")))
            )
        for name in loops:
            assert name is not None
            fields = self._ask("hkeys", self._segments(name))
            yield from sorted(_segment(name, field) for field in fields)

    def put_manifest(self, name: str, data: bytes) -> None:
        self._run(lambda r: r.hset(self._key("manifests"), name, data))

    def get_manifest(self, name: str) -> bytes | None:
        found: bytes | None = self._run(lambda r: r.hget(self._key("manifests"), name))
        return found

    def delete_manifests(self, names: Iterable[str]) -> None:
        if some := list(names):
            self._run(lambda r: r.hdel(self._key("manifests"), *some))

    def list_manifests(self) -> Iterator[str]:
        return iter([raw.decode() for raw in self._run(lambda r: r.hkeys(self._key("manifests")))])

    def get_head(self, loop: str) -> Head | None:
        raw = self._run(lambda r: r.hget(self._key("heads"), loop))
        return None if raw is None else Head(**json.loads(raw))

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, *, restart: bool = False
    ) -> bool:
        return self._swap(loop, expected, head, restart, "", b"")

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
        return self._swap(loop, expected, head, restart, name, data)

    def drop_head(self, loop: str, expected: Head) -> bool:
        places = [*map(self._key, ("heads", "tokens")), self._versions(loop)]
        given = [loop, _head(expected), new_attempt()]
        return bool(self._run(lambda r: r.eval(scripts.DROP, 3, *places, *given)))

    def list_heads(self) -> list[str]:
        return sorted(raw.decode() for raw in self._run(lambda r: r.hkeys(self._key("heads"))))

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        if iteration < 0:
            return None
        place, top = self._versions(loop), b"(" + _version(iteration) + b"\xff"
        found = self._run(lambda r: r.zrevrangebylex(place, top, b"-", 0, 1))
        return _split(found[0]) if found else None

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        place = self._versions(loop)
        return [_split(raw) for raw in self._run(lambda r: r.zrange(place, 0, -1))]

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        gone = set(iterations)
        head = self.get_head(loop)
        place = self._versions(loop)
        members = [
            raw for raw in self._run(lambda r: r.zrange(place, 0, -1)) if _split(raw)[0] in gone
        ]
        members = [raw for raw in members if head is None or _split(raw)[0] != head.iteration]
        if members:
            self._run(lambda r: r.zrem(place, *members))

    def statistics(self) -> dict[str, Any]:
        def work(r: Any) -> int:
            names = list(r.scan_iter(match=_literal(self._prefix) + b":*", count=1000))
            pipeline = r.pipeline(transaction=False)
            for name in names:
                pipeline.memory_usage(name, samples=0)
            return sum(size or 0 for size in pipeline.execute())

        return {"bytes": self._run(work), "durability": self.durability}

    def close(self) -> None:
        self._server.close()

    def _run(self, work: Callable[[Any], T]) -> T:
        return self._server.run(work)

    def _ask(self, command: str, *given: Any) -> Any:
        return self._run(lambda r: getattr(r, command)(*given))

    def _key(self, name: str) -> bytes:
        return f"{self._prefix}:{name}".encode()

    def _segments(self, loop: str) -> bytes:
        return self._key(f"segments:{loop}")

    def _versions(self, loop: str) -> bytes:
        return self._key(f"versions:{loop}")

    def _swap(
        self,
        loop: str,
        expected: Head | None,
        head: Head,
        restart: bool,
        name: str,
        data: bytes,
    ) -> bool:
        version = _version(head.iteration) if head.manifest else b""
        member = version + head.manifest.encode() if head.manifest else b""
        places = [
            *map(self._key, ("heads", "tokens")),
            self._versions(loop),
            self._key("manifests"),
        ]
        given = [loop, _head(expected), _head(head), new_attempt(), version, member]
        given += ["1" if restart else "0", name, data]
        return bool(self._run(lambda r: r.eval(scripts.SWAP, 4, *places, *given)))


def _whole(
    found: list[bytes], places: list[tuple[int, int]], key: SegmentKey, location: str
) -> list[bytes]:
    if any(len(part) != high - low for part, (low, high) in zip(found, places, strict=True)):
        raise MissingError(f"segment {key} in {location} was dropped while it was read")
    return found


def _head(head: Head | None) -> str:
    return "" if head is None else json.dumps(asdict(head), separators=(",", ":"))


def _version(iteration: int) -> bytes:
    return b"%020d:" % iteration


def _split(member: bytes) -> tuple[int, str]:
    return int(member[:20]), member[21:].decode()


def _field(key: SegmentKey) -> bytes:
    return f"{key.partition}:{key.iteration}:{key.attempt}".encode()


def _segment(loop: str, field: bytes) -> SegmentKey:
    partition, iteration, attempt = field.decode().split(":")
    return SegmentKey(loop, int(partition), int(iteration), attempt)


def _chunks(pieces: Sequence[memoryview | bytes]) -> Iterator[memoryview | bytes]:
    """Parts of at most `CHUNK` bytes; small pieces are joined, large ones cut, at no copy."""
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


def _literal(pattern: str) -> bytes:
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in pattern).encode()
