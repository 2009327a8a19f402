"""`postgresql://host/database`: shared between hosts, durable, and results can be read by SQL.

A segment is stored as rows of `bytea` of 256 KiB, sent by COPY; they are not compressed, so the
server can return a byte range of one without reading the rest. A commit is one transaction. The
newest version of a loop is shown as rows of the view

    vertex_state(loop, vertex, iteration, name, class, one typed column per field...)

which has an index on (loop, vertex). Options in the URL: `?schema=NAME`, `?retry=SECONDS`, and
those of libpq, such as `sslmode=verify-full` and `sslrootcert=FILE`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import astuple
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import errors

from vertexsdk.backends._format import check_version
from vertexsdk.backends._postgres_schema import (
    LATEST,
    create_tables,
    missing_rights,
    replace_rows,
    unusable,
)
from vertexsdk.backends._postgres_server import PostgresServer
from vertexsdk.backends._server import ServerBackend
from vertexsdk.state.contract import (
    CanQuery,
    CanReadParts,
    Head,
    NewManifest,
    Parts,
    SegmentKey,
    new_attempt,
)
from vertexsdk.state.errors import MissingError, StateInputError

PIECE = 1 << 18
_KEY = "loop = %s AND partition = %s AND iteration = %s AND attempt = %s"
_LOCK = (
    "SELECT attempt FROM vertex_segments JOIN unnest(%s::text[], %s::int[], %s::bigint[], "
    "%s::text[]) AS wanted(loop, partition, iteration, attempt) "
    "USING (loop, partition, iteration, attempt) "
    "ORDER BY loop, partition, iteration, attempt FOR {} OF vertex_segments"
)
_HEAD = "loop = %s AND manifest = %s AND iteration = %s AND epoch = %s"


class PostgresBackend(ServerBackend, CanQuery, CanReadParts):
    """A store in one schema of a database.

    Raises:
        StateInputError: wrong URL, user, password or database, no permission; or no store there
            and not `create`.
        StateError: the server cannot be reached.
    """

    def __init__(self, server: PostgresServer, *, create: bool = True) -> None:
        super().__init__(server)
        self.advice = server.advice
        version = server.reach(_version)
        if version is None and (hint := server.reach(lambda link: unusable(link, server.schema))):
            raise StateInputError(f"{self.location}: this user may not use the schema: {hint}")
        if version is None and not create:
            raise StateInputError(f"there is no store in {self.location}: check the URL")
        if version is not None:
            check_version(self.location, version, "another ?schema=", latest=LATEST)
        if version != LATEST:
            self._run(lambda link: create_tables(link, server.schema))
        self._may_write = False
        if create:
            self.check_rights()

    @classmethod
    def from_url(cls, url: str, *, create: bool = True) -> PostgresBackend:
        """The store named by `postgresql://[user[:password]@]host[:port]/database`."""
        return cls(PostgresServer(url), create=create)

    def check_rights(self) -> None:
        if self._may_write:
            return
        if hint := self._run(missing_rights):
            raise StateInputError(
                f"{self.location}: this user cannot add columns for new fields, as a run must: "
                f"{hint}; or open the store with create=False, to read it"
            )
        self._may_write = True

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        def work(link: Any) -> None:
            with link.transaction():
                _put_segment(link, key, pieces)

        self._run(work)

    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        def work(link: Any) -> list[NDArray[np.uint8]] | None:
            with link.cursor(binary=True) as cursor:
                rows = cursor.execute(
                    "SELECT s.bytes, p.data FROM vertex_segments s "
                    f"LEFT JOIN vertex_pieces p USING (number) WHERE {_KEY} ORDER BY p.piece",
                    astuple(key),
                ).fetchall()
            if not rows:
                return None
            segment = np.empty(rows[0][0], np.uint8)
            low = 0
            for _, data in rows if segment.size else ():
                segment[low : low + len(data)] = np.frombuffer(data, np.uint8)
                low += len(data)
            segment.flags.writeable = False
            return [segment]

        return self._run(work)

    def open_segment(self, key: SegmentKey) -> Parts | None:
        rows = self._all(f"SELECT number FROM vertex_segments WHERE {_KEY}", *astuple(key))
        if not rows:
            return None

        def read(places: list[tuple[int, int]]) -> list[bytes]:
            parts = [
                (k, piece, max(low - piece * PIECE, 0), min(high - piece * PIECE, PIECE))
                for k, (low, high) in enumerate(places)
                for piece in range(low // PIECE, -(-high // PIECE))
            ]
            values = [[part[0] for part in parts], [part[1] for part in parts]]
            values += [[low + 1 for *_, low, _ in parts], [high - low for *_, low, high in parts]]

            def work(link: Any) -> list[bytes]:
                if len(parts) == 1:  # a new connection would look up much to plan a join
                    ((_, piece, low, high),) = parts
                    with link.cursor(binary=True) as cursor:
                        cursor.execute(
                            "SELECT substring(data FROM %s FOR %s) FROM vertex_pieces "
                            "WHERE number = %s AND piece = %s",
                            [low + 1, high - low, rows[0][0], piece],
                        )
                        return [data for (data,) in cursor]
                ranges = [b""] * len(places)
                with link.cursor(binary=True) as cursor:
                    cursor.execute(
                        "SELECT r.k, substring(p.data FROM r.low FOR r.size) "
                        "FROM unnest(%s::int[], %s::int[], %s::int[], %s::int[]) "
                        "AS r(k, piece, low, size) JOIN vertex_pieces p "
                        "ON p.number = %s AND p.piece = r.piece ORDER BY 1, p.piece",
                        [*values, rows[0][0]],
                    )
                    for k, data in cursor:
                        ranges[k] += data
                return ranges

            return self._complete(self._run(work), places, key)

        return read

    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        wanted = list(keys)

        def work(link: Any) -> list[SegmentKey]:
            with link.transaction():
                # Waits for the commits that require them; those that come later wait for this.
                link.execute(_LOCK.format("UPDATE"), _key_columns(wanted))
                needed = link.execute(
                    "SELECT DISTINCT target FROM vertex_references WHERE target = ANY(%s)",
                    [[key.attempt for key in wanted]],
                ).fetchall()
                attempts = {target for (target,) in needed}
                unreferenced = [key for key in wanted if key.attempt not in attempts]
                for key in unreferenced:
                    _delete_segment(link, key)
                return unreferenced

        return self._run(work) if wanted else []

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        where = "" if loop is None else "WHERE loop = %s"
        rows = self._all(
            f"SELECT loop, partition, iteration, attempt FROM vertex_segments {where} "
            "ORDER BY 1, 2, 3, 4",
            *([] if loop is None else [loop]),
        )
        return (SegmentKey(*row) for row in rows)

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
                released: list[str] = []
                for name in names:
                    if needed[name] <= {*released}:
                        released.append(name)
                pairs = [(target, name) for name in released for target in manifests[name]]
                link.execute("DELETE FROM vertex_manifests WHERE name = ANY(%s)", [released])
                link.execute(
                    "DELETE FROM vertex_references USING unnest(%s::text[], %s::text[]) "
                    "AS gone(target, referrer) WHERE vertex_references.target = gone.target "
                    "AND vertex_references.referrer = gone.referrer",
                    [[target for target, _ in pairs], [name for _, name in pairs]],
                )
                return released

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
        self, loop: str, expected: Head | None, head: Head, new: NewManifest | None = None
    ) -> bool:
        token = new_attempt()
        row = [*astuple(head), token]

        def work(link: Any) -> bool:
            with link.transaction():
                if expected is None:
                    done = link.execute(
                        "INSERT INTO vertex_heads VALUES (%s, %s, %s, %s, %s) "
                        "ON CONFLICT DO NOTHING",
                        [loop, *row],
                    )
                else:
                    done = link.execute(
                        "UPDATE vertex_heads SET manifest = %s, iteration = %s, epoch = %s, "
                        f"token = %s WHERE {_HEAD}",
                        [*row, loop, *astuple(expected)],
                    )
                if not done.rowcount:  # or it was done by an attempt whose answer was lost
                    query = "SELECT 1 FROM vertex_heads WHERE loop = %s AND token = %s"
                    return link.execute(query, [loop, token]).fetchone() is not None
                if new is not None and new.restart:
                    link.execute("DELETE FROM vertex_versions WHERE loop = %s", [loop])
                if head.manifest:
                    link.execute(
                        "INSERT INTO vertex_versions VALUES (%s, %s, %s) ON CONFLICT "
                        "(loop, iteration) DO UPDATE SET manifest = EXCLUDED.manifest",
                        [loop, head.iteration, head.manifest],
                    )
                if new is not None:
                    _require(link, new.requires)
                    for key, pieces in new.segments:
                        _put_segment(link, key, pieces)
                    _put_manifest(link, new.name, new.data, new.references)
                return True

        return self._run(work)

    def drop_head(self, loop: str, expected: Head) -> bool:
        def work(link: Any) -> bool:
            with link.transaction():
                query = f"DELETE FROM vertex_heads WHERE {_HEAD}"
                done = link.execute(query, [loop, *astuple(expected)])
                if not done.rowcount:
                    return False
                for table in ("versions", "shown", "rows"):
                    link.execute(f"DELETE FROM vertex_{table} WHERE loop = %s", [loop])
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

    def size(self) -> int:
        query = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r' "
            "AND relname LIKE 'vertex\\_%'"
        )
        return int(self._all(query)[0][0])

    def show_rows(
        self,
        loop: str,
        manifest: str,
        iteration: int,
        parts: Iterable[Mapping[str, Any]],
        over: str | None = None,
    ) -> bool:
        rows = list(parts)  # a retry sends them again
        return self._run(lambda link: replace_rows(link, loop, manifest, iteration, rows, over))

    def shown(self, loop: str) -> str | None:
        rows = self._all("SELECT manifest FROM vertex_shown WHERE loop = %s", loop)
        return rows[0][0] if rows else None

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._run(lambda link: link.execute(query, values or None).fetchall())

    def _do(self, query: str, *values: Any) -> None:
        self._run(lambda link: link.execute(query, values))

    @staticmethod
    def _server_time(connection: Any) -> float:
        query = "SELECT extract(epoch FROM clock_timestamp())::float8"
        return float(connection.execute(query).fetchone()[0])

    def _durability(self) -> tuple[bool, str]:
        query = "SELECT current_setting('fsync'), current_setting('synchronous_commit')"
        fsync, commit = self._all(query)[0]
        if fsync != "on":
            return False, "a power cut can destroy the database: fsync is off"
        if commit == "off":
            return False, "a power cut loses the last second: synchronous_commit"
        return True, "every acknowledged commit survives a power cut"


def _version(link: Any) -> int | None:
    try:
        row = link.execute("SELECT version FROM vertex_format").fetchone()
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return None
    return row[0] if row else None


def _put_segment(link: Any, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
    _delete_segment(link, key)
    row = link.execute(
        "INSERT INTO vertex_segments (loop, partition, iteration, attempt, bytes) "
        "VALUES (%s, %s, %s, %s, %s) RETURNING number",
        [*astuple(key), sum(map(len, pieces))],
    ).fetchone()
    command = "COPY vertex_pieces FROM STDIN (FORMAT BINARY)"
    with link.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["int8", "int4", "bytea"])
        for index, parts in enumerate(_cut(pieces)):
            copy.write_row((row[0], index, b"".join(parts)))


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


def _require(link: Any, keys: Sequence[SegmentKey]) -> None:
    """Lock segments against deletion until the end of the transaction.

    Raises:
        MissingError: one of them does not exist.
    """
    if not keys:
        return
    rows = link.execute(_LOCK.format("KEY SHARE"), _key_columns(keys))
    existing = {attempt for (attempt,) in rows}
    for key in keys:
        if key.attempt not in existing:
            raise MissingError.of_segment(key)


def _key_columns(keys: Sequence[SegmentKey]) -> list[list[Any]]:
    """The loops, partitions, iterations and attempts of one key or more."""
    return [list(column) for column in zip(*map(astuple, keys), strict=True)]


def _delete_segment(link: Any, key: SegmentKey) -> None:
    link.execute(
        f"WITH gone AS (DELETE FROM vertex_segments WHERE {_KEY} RETURNING number) "
        "DELETE FROM vertex_pieces USING gone WHERE vertex_pieces.number = gone.number",
        astuple(key),
    )


def _cut(pieces: Sequence[memoryview | bytes]) -> Iterator[list[memoryview]]:
    """Cut the pieces into parts of `PIECE` bytes, each a list of views to be joined."""
    parts: list[memoryview] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece).cast("B")
        while len(view):
            part = view[: PIECE - size]
            parts.append(part)
            size, view = size + len(part), view[len(part) :]
            if size == PIECE:
                yield parts
                parts, size = [], 0
    if size:
        yield parts
