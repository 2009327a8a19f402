"""`postgresql://host/database`: shared between hosts, durable, and results can be read by SQL.

A segment is kept as rows of `bytea` of 256 KiB, not compressed, sent by COPY; a commit is one
transaction. The newest version of a loop is shown as rows of the view

    vertex_state(loop, vertex, iteration, name, class, one typed column per field...)

which has an index on (loop, vertex). Options in the URL: `?schema=NAME`, `?retry=SECONDS`, and
those of libpq, such as `sslmode=verify-full` and `sslrootcert=FILE`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

from psycopg import errors, sql

from vertexsdk.backends._postgres_rows import replace_rows
from vertexsdk.backends._postgres_schema import LATEST, migrate, missing_rights, unusable
from vertexsdk.backends._postgres_segments import PostgresSegments, require
from vertexsdk.backends._postgres_server import Server
from vertexsdk.backends._retry import Clock
from vertexsdk.state.address import Address
from vertexsdk.state.contract import CanQuery, Head, SegmentKey, new_attempt
from vertexsdk.state.errors import FormatError, StateInputError

__all__ = ["PostgresBackend"]

_HEAD = "loop = %s AND manifest = %s AND iteration = %s AND epoch = %s"


class PostgresBackend(PostgresSegments, CanQuery):
    """A store in one schema of a database.

    Raises:
        StateInputError: wrong URL, user, password or database, no permission; or no store there
            and not `create`.
        StateError: the server cannot be reached.
    """

    shared = True
    queryable = True

    def __init__(self, server: Server, *, create: bool = True) -> None:
        self._server = server
        self.location, self.advice = server.location, server.advice
        self._clock = Clock(self._time)
        version = server.reach(_version)
        if version is None and (hint := server.reach(lambda link: unusable(link, server.schema))):
            raise StateInputError(f"{self.location}: this user may not use the schema: {hint}")
        if version is None and not create:
            raise StateInputError(f"there is no store in {self.location}: check --backend")
        if version is None or (version < LATEST and create):
            self._run(lambda link: migrate(link, server.schema))
        elif version < LATEST:
            raise FormatError(
                f"{self.location} has format {version}, an older one: a run by this version of "
                "vertexsdk brings it up to date; or read it with the version that wrote it"
            )
        elif version > LATEST:
            raise FormatError(
                f"{self.location} has format {version}, this version of vertexsdk reads {LATEST}: "
                "use the version that wrote it, or another ?schema="
            )
        self._settings: tuple[bool, str] | None = None
        self._may_write = False
        if create:
            self.check_rights()

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> PostgresBackend:
        """The store named by `postgresql://[user[:password]@]host[:port]/database`."""
        return cls(Server.from_url(url), create=create)

    @property
    def address(self) -> Address:
        return Address(self._server.url)

    @property
    def durable(self) -> bool:  # type: ignore[override]
        return self._asked()[0]

    @property
    def durability(self) -> str:  # type: ignore[override]
        return self._asked()[1]

    def check_rights(self) -> None:
        if self._may_write:
            return
        if hint := self._run(missing_rights):
            raise StateInputError(
                f"{self.location}: this user cannot add columns for new fields, as a run must: "
                f"{hint}; or open the store with create=False, to read it"
            )
        self._may_write = True

    def now(self) -> float:
        return self._clock.now()

    def put_manifest(self, name: str, data: bytes, references: Iterable[str] = ()) -> None:
        targets = list(references)

        def work(link: Any) -> None:
            with link.transaction():
                _put_manifest(link, name, data, targets)

        self._run(work)

    def get_manifest(self, name: str) -> bytes | None:
        rows = self._all("SELECT data FROM vertex_manifests WHERE name = %s", name)
        return bytes(rows[0][0]) if rows else None

    def delete_manifests(self, names: Iterable[str]) -> None:
        if some := list(names):
            self._do("DELETE FROM vertex_manifests WHERE name = ANY(%s)", some)

    def release_manifests(self, manifests: Mapping[str, Sequence[str]]) -> list[str]:
        names = list(manifests)

        def work(link: Any) -> list[str]:
            with link.transaction():
                needed = {name: set[str]() for name in names}
                for name, referrer in link.execute(
                    "SELECT target, referrer FROM vertex_references WHERE target = ANY(%s) "
                    "UNION ALL SELECT manifest, '' FROM vertex_versions WHERE manifest = ANY(%s)",
                    [names, names],
                ):
                    needed[name].add(referrer)
                gone: list[str] = []
                for name in names:
                    if needed[name] <= {*gone}:
                        gone.append(name)
                pairs = [(target, name) for name in gone for target in manifests[name]]
                link.execute("DELETE FROM vertex_manifests WHERE name = ANY(%s)", [gone])
                link.execute(
                    "DELETE FROM vertex_references USING unnest(%s::text[], %s::text[]) "
                    "AS gone(target, referrer) WHERE vertex_references.target = gone.target "
                    "AND vertex_references.referrer = gone.referrer",
                    [[target for target, _ in pairs], [name for _, name in pairs]],
                )
                return gone

        return self._run(work)

    def list_manifests(self, prefix: str = "") -> Iterator[str]:
        query = "SELECT name FROM vertex_manifests WHERE name >= %s AND name < %s"
        return iter([name for (name,) in self._all(query, prefix, prefix + "\U0010ffff")])

    def get_head(self, loop: str) -> Head | None:
        rows = self._all(
            "SELECT manifest, iteration, epoch FROM vertex_heads WHERE loop = %s", loop
        )
        return Head(*rows[0]) if rows else None

    def swap_head(
        self, loop: str, expected: Head | None, head: Head, *, restart: bool = False
    ) -> bool:
        return self._swap(loop, expected, head, restart, lambda link: None)

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
        targets, keys = list(references), list(requires)

        def put(link: Any) -> None:
            require(link, keys)
            _put_manifest(link, name, data, targets)

        return self._swap(loop, expected, head, restart, put)

    def drop_head(self, loop: str, expected: Head) -> bool:
        def work(link: Any) -> bool:
            with link.transaction():
                place = [loop, expected.manifest, expected.iteration, expected.epoch]
                done = link.execute(f"DELETE FROM vertex_heads WHERE {_HEAD}", place)
                if not done.rowcount:
                    return False
                for table in ("versions", "shown", "rows"):
                    name = sql.Identifier(f"vertex_{table}")
                    link.execute(sql.SQL("DELETE FROM {} WHERE loop = %s").format(name), [loop])
                return True

        return self._run(work)

    def list_heads(self) -> list[str]:
        return [loop for (loop,) in self._all("SELECT loop FROM vertex_heads ORDER BY 1")]

    def floor(self, loop: str, iteration: int) -> tuple[int, str] | None:
        rows = self._all(
            "SELECT iteration, manifest FROM vertex_versions WHERE loop = %s AND iteration <= %s "
            "ORDER BY iteration DESC LIMIT 1",
            loop,
            min(iteration, (1 << 63) - 1),
        )
        return (rows[0][0], rows[0][1]) if rows else None

    def list_versions(self, loop: str) -> list[tuple[int, str]]:
        query = "SELECT iteration, manifest FROM vertex_versions WHERE loop = %s ORDER BY 1"
        return [(iteration, name) for iteration, name in self._all(query, loop)]

    def forget_versions(self, loop: str, iterations: Iterable[int]) -> None:
        self._do(
            "DELETE FROM vertex_versions v WHERE loop = %s AND iteration = ANY(%s) AND NOT EXISTS "
            "(SELECT 1 FROM vertex_heads h WHERE h.loop = v.loop AND h.iteration = v.iteration)",
            loop,
            list(iterations),
        )

    def statistics(self) -> dict[str, Any]:
        query = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
            "AND relname LIKE 'vertex\\_%'"
        )
        return {"bytes": int(self._all(query)[0][0]), "durability": self.durability}

    def close(self) -> None:
        self._server.close()

    def show_rows(
        self,
        loop: str,
        manifest: str,
        iteration: int,
        parts: Iterable[Mapping[str, Any]],
        over: str | None = None,
    ) -> bool:
        kept = list(parts)  # a retry sends them again
        return self._run(lambda link: replace_rows(link, loop, manifest, iteration, kept, over))

    def shown(self, loop: str) -> str | None:
        rows = self._all("SELECT manifest FROM vertex_shown WHERE loop = %s", loop)
        return rows[0][0] if rows else None

    def _time(self) -> float:
        query = "SELECT extract(epoch FROM clock_timestamp())::float8"
        return float(self._all(query)[0][0])

    def _asked(self) -> tuple[bool, str]:
        if self._settings is None:
            names = ("fsync", "synchronous_commit", "full_page_writes")
            query = "SELECT current_setting(%s), current_setting(%s), current_setting(%s)"
            fsync, commit, _ = self._all(query, *names)[0]
            self._settings = (True, "every acknowledged commit survives a power cut")
            if fsync != "on":
                self._settings = (False, "a power cut can destroy the database: fsync is off")
            elif commit == "off":
                self._settings = (False, "a power cut loses the last second: synchronous_commit")
        return self._settings

    def _swap(
        self,
        loop: str,
        expected: Head | None,
        head: Head,
        restart: bool,
        put: Callable[[Any], None],
    ) -> bool:
        token = new_attempt()
        new = [head.manifest, head.iteration, head.epoch, token]

        def work(link: Any) -> bool:
            with link.transaction():
                if expected is None:
                    done = link.execute(
                        "INSERT INTO vertex_heads VALUES (%s, %s, %s, %s, %s) "
                        "ON CONFLICT DO NOTHING",
                        [loop, *new],
                    )
                else:
                    old = [loop, expected.manifest, expected.iteration, expected.epoch]
                    done = link.execute(
                        "UPDATE vertex_heads SET manifest = %s, iteration = %s, epoch = %s, "
                        f"token = %s WHERE {_HEAD}",
                        [*new, *old],
                    )
                if not done.rowcount:  # or it was done by an attempt whose answer was lost
                    query = "SELECT 1 FROM vertex_heads WHERE loop = %s AND token = %s"
                    return link.execute(query, [loop, token]).fetchone() is not None
                if restart:
                    link.execute("DELETE FROM vertex_versions WHERE loop = %s", [loop])
                if head.manifest:
                    link.execute(
                        "INSERT INTO vertex_versions VALUES (%s, %s, %s) ON CONFLICT "
                        "(loop, iteration) DO UPDATE SET manifest = EXCLUDED.manifest",
                        [loop, head.iteration, head.manifest],
                    )
                put(link)
                return True

        return self._run(work)


def _version(link: Any) -> int | None:
    try:
        row = link.execute("SELECT version FROM vertex_format").fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    return row[0] if row else None


def _put_manifest(link: Any, name: str, data: bytes, references: Sequence[str]) -> None:
    link.execute(
        "INSERT INTO vertex_manifests VALUES (%s, %s) "
        "ON CONFLICT (name) DO UPDATE SET data = EXCLUDED.data",
        [name, data],
    )
    if references:
        link.execute(
            "INSERT INTO vertex_references SELECT unnest(%s::text[]), %s ON CONFLICT DO NOTHING",
            [references, name],
        )
