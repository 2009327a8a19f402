"""Rows of the newest version of a loop: `vertex_state(loop, vertex, iteration, name, class, ...)`.

A field is a column of its name and type; where two programs have fields of one name and different
types, the second's column is called `name_type`, as is that of a field with the name of a system
column. Rows are sent by COPY in its binary format, built by numpy where every column is of numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray
from psycopg import sql

from vertexsdk.backends._postgres_schema import OWN, SYSTEM, make_view

__all__ = ["replace_rows"]

_TYPES = {"b": ("boolean", 16, "?"), "i": ("bigint", 20, ">i8"), "u": ("bigint", 20, ">i8")}
_TYPES |= {"f": ("double precision", 701, ">f8")}
_AT_ONCE = 1 << 16  # rows


def replace_rows(
    link: Any,
    loop: str,
    manifest: str,
    iteration: int,
    parts: Iterable[Mapping[str, Any]],
    over: str | None,
) -> bool:
    """In one transaction, make the rows of the loop those that the parts have.

    Args:
        over: the parts have only what changed since this version; False if it is not shown now.
    """
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(7023582, hashtext(%s))", [loop])
        if over is None:
            link.execute("DELETE FROM vertex_rows WHERE loop = %s", [loop])
        else:
            query = "SELECT manifest FROM vertex_shown WHERE loop = %s"
            row = link.execute(query, [loop]).fetchone()
            if row is None or row[0] not in (over, manifest):
                return False
        for part in parts:
            if over is not None:
                _remove(link, loop, part)
            fields = {n: a for n, a in part.items() if n not in ("id", "name", "class")}
            fields = {n: a for n, a in fields.items() if _type(a) is not None}
            columns = _columns(link, {n: str(_type(a)) for n, a in fields.items()})
            _send(link, loop, part, fields, columns)
        link.execute(
            "INSERT INTO vertex_shown VALUES (%s, %s, %s) ON CONFLICT (loop) DO UPDATE "
            "SET manifest = EXCLUDED.manifest, iteration = EXCLUDED.iteration",
            [loop, manifest, iteration],
        )
    return True


def _remove(link: Any, loop: str, part: Mapping[str, Any]) -> None:
    """The rows of the part's vertices; all vertices of a part have one class."""
    kind = part["class"][0] if len(part.get("class", ())) else ""
    link.execute(
        "DELETE FROM vertex_rows WHERE loop = %s AND class = %s AND vertex = ANY(%s)",
        [loop, kind, part["id"].tolist()],
    )


def _type(array: NDArray[Any]) -> str | None:
    if array.dtype.kind in "OU":
        return "text"
    if array.dtype.kind not in _TYPES:
        return None  # complex numbers
    return _TYPES[array.dtype.kind][0] + ("[]" if array.ndim == 2 else "")


def _columns(link: Any, fields: dict[str, str]) -> dict[str, str]:
    """field → column; columns that are not there yet are added to the table and the view."""
    known = {(f, t): c for f, t, c in link.execute("SELECT field, type, col FROM vertex_fields")}
    if any(item not in known for item in fields.items()):
        link.execute("SELECT pg_advisory_xact_lock(7023581)")
        known = {
            (f, t): c for f, t, c in link.execute("SELECT field, type, col FROM vertex_fields")
        }
        for name, kind in fields.items():
            if (name, kind) in known:
                continue
            taken = {*known.values(), *OWN, *SYSTEM}
            short = name.encode()[:40].decode(errors="ignore")
            column = name if name == short and name not in taken else ""
            tail = kind.replace(" precision", "").replace("[]", "s")
            column = column or f"{short}_{tail}"
            while column in taken:
                column += "_"
            link.execute(
                sql.SQL("ALTER TABLE vertex_rows ADD COLUMN {} {}").format(
                    sql.Identifier(column), sql.SQL(kind)
                )
            )
            link.execute(
                "INSERT INTO vertex_fields (field, type, col) VALUES (%s, %s, %s)",
                [name, kind, column],
            )
            known[name, kind] = column
        make_view(link)
    return {name: known[name, kind] for name, kind in fields.items()}


def _send(
    link: Any,
    loop: str,
    part: Mapping[str, Any],
    fields: dict[str, NDArray[Any]],
    columns: dict[str, str],
) -> None:
    count = len(part["id"])
    own: dict[str, Any] = {"loop": loop, "vertex": part["id"]}
    own |= {name: part[name] for name in ("name", "class") if name in part}
    sent = {**own, **{columns[name]: array for name, array in fields.items()}}
    names = sql.SQL(", ").join(map(sql.Identifier, sent))
    numeric = all(not isinstance(a, np.ndarray) or a.dtype.kind != "O" for a in sent.values())
    binary = sql.SQL(" (FORMAT BINARY)" if numeric else "")
    command = sql.SQL("COPY vertex_rows ({}) FROM STDIN{}").format(names, binary)
    with link.cursor() as cursor, cursor.copy(command) as copy:
        if numeric:
            copy.write(b"PGCOPY\n\xff\r\n\0" + bytes(8))
            for low in range(0, count, _AT_ONCE):
                copy.write(_packed(sent, low, min(low + _AT_ONCE, count)).data.cast("B"))
            copy.write(b"\xff\xff")
        else:
            for row in _rows(sent, count):
                copy.write_row(row)


def _packed(sent: dict[str, Any], low: int, high: int) -> NDArray[Any]:
    """Rows low..high in the binary format of COPY, as one structured array."""
    layout: list[tuple[Any, ...]] = [("count", ">i2")]
    values: dict[str, Any] = {"count": len(sent)}
    for number, given in enumerate(sent.values()):
        size, value = f"s{number}", f"v{number}"
        if isinstance(given, str):
            raw = given.encode()
            layout += [(size, ">i4"), (value, f"V{len(raw)}")]
            values |= {size: len(raw), value: np.void(raw)}
        elif given.ndim == 1:
            kind = np.dtype(_TYPES[given.dtype.kind][2])
            layout += [(size, ">i4"), (value, kind)]
            values |= {size: kind.itemsize, value: given[low:high]}
        else:
            _, oid, code = _TYPES[given.dtype.kind]
            width, length = np.dtype(code).itemsize, given.shape[1]
            item = np.dtype([("size", ">i4"), ("value", code)])
            head = np.array([1, 0, oid, length, 1], ">i4")
            layout += [(size, ">i4"), (f"h{number}", ">i4", 5), (value, item, (length,))]
            items = np.empty((high - low, length), item)
            items["size"], items["value"] = width, given[low:high]
            values |= {size: 20 + length * item.itemsize, f"h{number}": head, value: items}
    rows = np.empty(high - low, np.dtype(layout))
    for name, value in values.items():
        rows[name] = value
    return rows


def _rows(sent: dict[str, Any], count: int) -> Iterator[tuple[Any, ...]]:
    lists = [
        given.tolist() if isinstance(given, np.ndarray) else [given] * count
        for given in sent.values()
    ]
    return zip(*(_clean(values) for values in lists), strict=True)


def _clean(values: list[Any]) -> list[Any]:
    """Text as the server takes it: without zero bytes and lone surrogates."""
    return [
        v.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
        if isinstance(v, str)
        else v
        for v in values
    ]
