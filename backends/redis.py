"""`redis://host:port/db` and `rediss://` (TLS): shared between hosts, as durable as the server.

    PREFIX:format           which format this is
    PREFIX:heads, :tokens   hashes loop → head as JSON, and → the token of its last swap
    PREFIX:versions:LOOP    a sorted set of `iteration:manifest`, for floor lookups
    PREFIX:manifests        a hash name → data
    PREFIX:segments:LOOP    a hash partition:iteration:attempt → the bytes, if they are few, or
                            how many chunks there are, and the token in their names
    PREFIX:chunk:TOKEN:N    bytes of a large segment
    PREFIX:loops            the set of loops that have segments

Options in the URL: `?prefix=NAME`,
`?retry=SECONDS`, and of TLS `?ca=FILE`, `?cert=FILE`, `?key=FILE`. Not for Redis Cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from vertexsdk.backends import _redis_scripts as scripts
from vertexsdk.backends._redis_segments import RedisSegments
from vertexsdk.backends._redis_server import Server
from vertexsdk.encoded import damaged
from vertexsdk.state.address import Address
from vertexsdk.state.contract import Head, new_attempt
from vertexsdk.state.errors import FormatError, StateInputError

__all__ = ["RedisBackend"]

FORMAT = 1


class RedisBackend(RedisSegments):
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
    def address(self) -> Address:
        return Address(self._server.url)

    @property
    def durable(self) -> bool:  # type: ignore[override]
        return self._server.durability()[0]

    @property
    def durability(self) -> str:  # type: ignore[override]
        return self._server.durability()[1]

    def put_manifest(self, name: str, data: bytes) -> None:
        self._run(lambda r: r.hset(self._key("manifests"), name, data))

    def get_manifest(self, name: str) -> bytes | None:
        found: bytes | None = self._run(lambda r: r.hget(self._key("manifests"), name))
        return found

    def delete_manifests(self, names: Iterable[str]) -> None:
        if some := list(names):
            self._run(lambda r: r.hdel(self._key("manifests"), *some))

    def list_manifests(self) -> Iterator[str]:
        return iter(self._texts(self._run(lambda r: r.hkeys(self._key("manifests")))))

    def get_head(self, loop: str) -> Head | None:
        raw = self._run(lambda r: r.hget(self._key("heads"), loop))
        return None if raw is None else Head.decode(raw)

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
        return sorted(self._texts(self._run(lambda r: r.hkeys(self._key("heads")))))

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        if iteration < 0:
            return None
        place, top = self._versions(loop), b"(" + _version(iteration) + b"\xff"
        found = self._run(lambda r: r.zrevrangebylex(place, top, b"-", 0, 1))
        return self._split(found[0]) if found else None

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        place = self._versions(loop)
        return [self._split(raw) for raw in self._run(lambda r: r.zrange(place, 0, -1))]

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        gone = set(iterations)
        head = self.get_head(loop)
        place = self._versions(loop)
        members = [
            raw
            for raw in self._run(lambda r: r.zrange(place, 0, -1))
            if self._split(raw)[0] in gone
        ]
        members = [raw for raw in members if head is None or self._split(raw)[0] != head.iteration]
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

    def _split(self, member: bytes) -> tuple[int, str]:
        with damaged(f"version {member[:60]!r} in {self.location}"):
            return int(member[:20]), member[21:].decode()

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


def _head(head: Head | None) -> str:
    return "" if head is None else head.encode()


def _version(iteration: int) -> bytes:
    return b"%020d:" % iteration


def _literal(pattern: str) -> bytes:
    return "".join(f"\\{c}" if c in "*?[]\\^" else c for c in pattern).encode()
