"""Segments in Redis: few bytes in a hash of the loop, many in chunks of their own.

Chunks are sent in pipelines and expire after a day, unless the script that makes the segment made
them stay: so a writer that dies leaves nothing for long.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk.arrays.column_table import damaged
from vertexsdk.backends import _redis_scripts as scripts
from vertexsdk.backends._redis_server import Server
from vertexsdk.state.contract import Backend, CanReadParts, Parts, SegmentKey, new_attempt
from vertexsdk.state.errors import MissingError

__all__ = ["RedisSegments", "segment_field"]

T = TypeVar("T")
INLINE = 1 << 16  # bytes up to which a segment is kept in the hash
CHUNK = 1 << 23
_HEADER = struct.Struct("<16s32s16x")  # kind and number of chunks, token; keeps arrays aligned
_DAY = 86400


class RedisSegments(Backend, CanReadParts):
    """The part of a backend that keeps segments."""

    _server: Server
    _prefix: str

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        size = sum(map(len, pieces))
        place, loops, field = self._segments(key.loop), self._key("loops"), segment_field(key)
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
        place, field = self._segments(key.loop), segment_field(key)
        value: bytes | None = self._run(lambda r: r.hget(place, field))
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
        found = [self._ask("get", name) for name in names]
        if any(part is None for part in found):
            return None
        return [np.frombuffer(part, np.uint8) for part in found]

    def open_segment(self, key: SegmentKey) -> Parts | None:
        place, field = self._segments(key.loop), segment_field(key)
        value: bytes | None = self._run(lambda r: r.hget(place, field))
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
                found = iter(pipeline.execute())
                return [b"".join(next(found) for _ in range(count)) for count in counts]

            return _whole(self._run(work), places, key, self.location)

        return read

    def delete_segments(self, keys: Iterable[SegmentKey]) -> None:
        self._delete(keys)

    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        return self._delete(keys, self._key("references"))

    def _delete(self, keys: Iterable[SegmentKey], *references: bytes) -> list[SegmentKey]:
        loops: dict[str, list[bytes]] = {}
        for key in keys:
            loops.setdefault(key.loop, []).append(segment_field(key))
        gone: list[SegmentKey] = []
        for loop, fields in loops.items():
            places = (self._segments(loop), self._key("loops"), *references)
            for low in range(0, len(fields), 1000):
                some = [loop, self._key("chunk:"), *fields[low : low + 1000]]
                found = self._ask("eval", scripts.DELETE, len(places), *places, *some)
                gone += [_segment(loop, field) for field in found]
        return gone

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        if loop is None:
            loops = sorted(self._texts(self._run(lambda r: r.smembers(self._key("loops")))))
        else:
            loops = [loop]
        for name in loops:
            fields = self._ask("hkeys", self._segments(name))
            with damaged(f"the list of segments of loop {name!r} in {self.location}"):
                found = sorted(_segment(name, field) for field in fields)
            yield from found

    def _run(self, work: Callable[[Any], T]) -> T:
        return self._server.run(work)

    def _ask(self, command: str, *given: Any) -> Any:
        return self._run(lambda r: getattr(r, command)(*given))

    def _texts(self, names: Iterable[bytes]) -> list[str]:
        with damaged(f"a list of names in {self.location}"):
            return [raw.decode() for raw in names]

    def _key(self, name: str) -> bytes:
        return f"{self._prefix}:{name}".encode()

    def _segments(self, loop: str) -> bytes:
        return self._key(f"segments:{loop}")


def _whole(
    found: list[bytes], places: list[tuple[int, int]], key: SegmentKey, location: str
) -> list[bytes]:
    if any(len(part) != high - low for part, (low, high) in zip(found, places, strict=True)):
        raise MissingError(f"segment {key} in {location} was dropped while it was read")
    return found


def segment_field(key: SegmentKey) -> bytes:
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
