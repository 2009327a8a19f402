"""Segments in PostgreSQL: rows of `bytea` of 256 KiB, not compressed, sent by COPY.

Of a piece that is not compressed the server can give a few bytes without reading the rest.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from vertexsdk.backends._postgres_server import Server
from vertexsdk.state.contract import Backend, CanReadParts, Parts, SegmentKey
from vertexsdk.state.errors import MissingError

__all__ = ["PostgresSegments", "require"]

T = TypeVar("T")
PIECE = 1 << 18
_ROW = struct.Struct(">hiqiii")  # of COPY: 3 values, number, piece, length of the data
_KEY = "loop = %s AND partition = %s AND iteration = %s AND attempt = %s"


_LOCK = (
    "SELECT attempt FROM vertex_segments JOIN unnest(%s::text[], %s::int[], %s::bigint[], "
    "%s::text[]) AS wanted(loop, partition, iteration, attempt) "
    "USING (loop, partition, iteration, attempt) "
    "ORDER BY loop, partition, iteration, attempt FOR {} OF vertex_segments"
)


class PostgresSegments(Backend, CanReadParts):
    """The part of a backend that keeps segments."""

    _server: Server

    def put_segment(self, key: SegmentKey, pieces: Sequence[memoryview | bytes]) -> None:
        place = [key.loop, key.partition, key.iteration, key.attempt]
        size = sum(map(len, pieces))

        def work(link: Any) -> None:
            with link.transaction():
                _delete(link, place)
                row = link.execute(
                    "INSERT INTO vertex_segments (loop, partition, iteration, attempt, bytes) "
                    "VALUES (%s, %s, %s, %s, %s) RETURNING number",
                    [*place, size],
                ).fetchone()
                command = "COPY vertex_pieces FROM STDIN (FORMAT BINARY)"
                with link.cursor() as cursor, cursor.copy(command) as copy:
                    copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
                    for index, (length, parts) in enumerate(_cut(pieces)):
                        head = _ROW.pack(3, 8, row[0], 4, index, length)
                        copy.write(b"".join([head, *parts]))
                    copy.write(b"\xff\xff")

        self._run(work)

    def get_segment(self, key: SegmentKey) -> list[NDArray[np.uint8]] | None:
        place = [key.loop, key.partition, key.iteration, key.attempt]

        def work(link: Any) -> list[NDArray[np.uint8]] | None:
            with link.cursor(binary=True) as cursor:
                rows = cursor.execute(
                    "SELECT s.bytes, p.data FROM vertex_segments s "
                    f"LEFT JOIN vertex_pieces p USING (number) WHERE {_KEY} ORDER BY p.piece",
                    place,
                ).fetchall()
            if not rows:
                return None
            whole = np.empty(rows[0][0], np.uint8)
            low = 0
            for _, data in rows if whole.size else ():
                whole[low : low + len(data)] = np.frombuffer(data, np.uint8)
                low += len(data)
            whole.flags.writeable = False
            return [whole]

        return self._run(work)

    def open_segment(self, key: SegmentKey) -> Parts | None:
        place = (key.loop, key.partition, key.iteration, key.attempt)
        rows = self._all(f"SELECT number FROM vertex_segments WHERE {_KEY}", *place)
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
                found = [b""] * len(places)
                if len(parts) == 1:  # what a join needs is much for a new connection to look up
                    ((_, piece, low, high),) = parts
                    with link.cursor(binary=True) as cursor:
                        cursor.execute(
                            "SELECT substring(data FROM %s FOR %s) FROM vertex_pieces "
                            "WHERE number = %s AND piece = %s",
                            [low + 1, high - low, rows[0][0], piece],
                        )
                        return [data for (data,) in cursor]
                with link.cursor(binary=True) as cursor:
                    cursor.execute(
                        "SELECT r.k, substring(p.data FROM r.low FOR r.size) "
                        "FROM unnest(%s::int[], %s::int[], %s::int[], %s::int[]) "
                        "AS r(k, piece, low, size) JOIN vertex_pieces p "
                        "ON p.number = %s AND p.piece = r.piece ORDER BY 1, p.piece",
                        [*values, rows[0][0]],
                    )
                    for k, data in cursor:
                        found[k] += data
                return found

            found = self._run(work)
            if [len(part) for part in found] != [high - low for low, high in places]:
                raise MissingError(
                    f"segment {key} in {self.location} was dropped while it was read"
                )
            return found

        return read

    def delete_segments(self, keys: Iterable[SegmentKey]) -> None:
        places = [[key.loop, key.partition, key.iteration, key.attempt] for key in keys]

        def work(link: Any) -> None:
            with link.transaction():
                for place in places:
                    _delete(link, place)

        if places:
            self._run(work)

    def delete_unreferenced(self, keys: Iterable[SegmentKey]) -> list[SegmentKey]:
        wanted = list(keys)

        def work(link: Any) -> list[SegmentKey]:
            with link.transaction():
                # Waits for the commits that require them; those that come later wait for this.
                link.execute(_LOCK.format("UPDATE"), _columns(wanted))
                needed = link.execute(
                    "SELECT DISTINCT target FROM vertex_references WHERE target = ANY(%s)",
                    [[key.attempt for key in wanted]],
                ).fetchall()
                attempts = {target for (target,) in needed}
                gone = [key for key in wanted if key.attempt not in attempts]
                for key in gone:
                    _delete(link, [key.loop, key.partition, key.iteration, key.attempt])
                return gone

        return self._run(work) if wanted else []

    def list_segments(self, loop: str | None = None) -> Iterator[SegmentKey]:
        where = "" if loop is None else "WHERE loop = %s"
        rows = self._all(
            f"SELECT loop, partition, iteration, attempt FROM vertex_segments {where} "
            "ORDER BY 1, 2, 3, 4",
            *([] if loop is None else [loop]),
        )
        return (SegmentKey(*row) for row in rows)

    def _run(self, work: Callable[[Any], T]) -> T:
        return self._server.run(work)

    def _all(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        return self._run(lambda link: link.execute(query, values or None).fetchall())

    def _do(self, query: str, *values: Any) -> None:
        self._run(lambda link: link.execute(query, values))


def require(link: Any, keys: Sequence[SegmentKey]) -> None:
    """Keep segments until the end of the transaction.

    Raises:
        MissingError: one of them is not there.
    """
    if not keys:
        return
    there = {attempt for (attempt,) in link.execute(_LOCK.format("KEY SHARE"), _columns(keys))}
    for key in keys:
        if key.attempt not in there:
            raise MissingError.of_segment(key)


def _columns(keys: Sequence[SegmentKey]) -> list[list[Any]]:
    return [
        [key.loop for key in keys],
        [key.partition for key in keys],
        [key.iteration for key in keys],
        [key.attempt for key in keys],
    ]


def _delete(link: Any, place: list[Any]) -> None:
    link.execute(
        f"WITH gone AS (DELETE FROM vertex_segments WHERE {_KEY} RETURNING number) "
        "DELETE FROM vertex_pieces USING gone WHERE vertex_pieces.number = gone.number",
        place,
    )


def _cut(pieces: Sequence[memoryview | bytes]) -> Iterator[tuple[int, list[memoryview]]]:
    """The pieces as parts of `PIECE` bytes, each as its length and views to be joined."""
    parts: list[memoryview] = []
    size = 0
    for piece in pieces:
        view = memoryview(piece).cast("B")
        while len(view):
            part = view[: PIECE - size]
            parts.append(part)
            size, view = size + len(part), view[len(part) :]
            if size == PIECE:
                yield size, parts
                parts, size = [], 0
    if size:
        yield size, parts
