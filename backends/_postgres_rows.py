"""Rows of the newest version of a loop: `vertex_state(loop, vertex, iteration, name, class, ...)`.

A field is a column of its name and type; where two programs have fields of one name and different
types, the second's column is called `name_type`, as is that of a field with the name of a system
column. Rows are sent by COPY in its binary format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray
from psycopg import sql

from vertexsdk.backends._postgres_schema import OWN, SYSTEM, make_view

_TYPES = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double precision"}
_TYPES |= {"O": "text", "U": "text"}  # by the kind of a dtype; complex numbers have no type


def replace_rows(
    link: Any,
    loop: str,
    manifest: str,
    iteration: int,
    parts: Iterable[Mapping[str, Any]],
    over: str | None,
) -> bool:
    """Replace the rows of a loop by those of the parts, in one transaction.

    Args:
        over: the version that the rows show, where the parts only have what changed since.

    Returns:
        False if the rows show another version than `over`; nothing changed then.
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
    """Delete the rows of a part's vertices, all of which have one class."""
    kind = part["class"][0] if len(part.get("class", ())) else ""
    link.execute(
        "DELETE FROM vertex_rows WHERE loop = %s AND class = %s AND vertex = ANY(%s)",
        [loop, kind, part["id"].tolist()],
    )


def _type(array: NDArray[Any]) -> str | None:
    name = _TYPES.get(array.dtype.kind)
    return f"{name}[]" if name and array.ndim == 2 else name


def _columns(link: Any, fields: dict[str, str]) -> dict[str, str]:
    """Return the column of each field; new columns are added to the table and the view."""
    known = _known_columns(link)
    if any(item not in known for item in fields.items()):
        link.execute("SELECT pg_advisory_xact_lock(7023581)")
        known = _known_columns(link)
        for name, kind in fields.items():
            if (name, kind) in known:
                continue
            used = {*known.values(), *OWN, *SYSTEM}
            short = name.encode()[:40].decode(errors="ignore")
            column = name if name == short and name not in used else ""
            tail = kind.replace(" precision", "").replace("[]", "s")
            column = column or f"{short}_{tail}"
            while column in used:
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


def _known_columns(link: Any) -> dict[tuple[str, str], str]:
    rows = link.execute("SELECT field, type, col FROM vertex_fields")
    return {(field, kind): column for field, kind, column in rows}


def _send(
    link: Any,
    loop: str,
    part: Mapping[str, Any],
    fields: dict[str, NDArray[Any]],
    columns: dict[str, str],
) -> None:
    sent = {"vertex": part["id"]} | {name: part[name] for name in ("name", "class") if name in part}
    sent |= {columns[name]: array for name, array in fields.items()}
    names = sql.SQL(", ").join(map(sql.Identifier, ["loop", *sent]))
    command = sql.SQL("COPY vertex_rows ({}) FROM STDIN (FORMAT BINARY)").format(names)
    with link.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["text", *(str(_type(array)) for array in sent.values())])
        lists = [_values(array) for array in sent.values()]
        for row in zip(*lists, strict=True):
            copy.write_row((loop, *row))


def _values(array: NDArray[Any]) -> list[Any]:
    """Python values; of text without the zero bytes and lone surrogates that no server takes."""
    if array.dtype.kind not in "OU":
        return list(array.tolist())
    return [
        v.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace").decode()
        if isinstance(v, str)
        else v
        for v in array.tolist()
    ]
