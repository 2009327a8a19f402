"""The tables of a store in PostgreSQL, the rights that a user needs on them, and the rows to query.

The newest version of a loop is rows of the view `vertex_state(loop, vertex, iteration, name, class,
...)`. A field is a column of its name and type; where two programs have fields of one name and
different types, the second's column is called `name_type`, as is that of a field with the name of a
system column. Rows are sent by COPY in its binary format.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from numpy.typing import NDArray
from psycopg import sql

LATEST = 4
_TABLES = """
    CREATE TABLE IF NOT EXISTS vertex_heads (
        loop text COLLATE "C" PRIMARY KEY, manifest text NOT NULL, iteration bigint NOT NULL,
        epoch bigint NOT NULL, token text NOT NULL
    );
    CREATE TABLE IF NOT EXISTS vertex_versions (
        loop text COLLATE "C", iteration bigint, manifest text NOT NULL,
        PRIMARY KEY (loop, iteration)
    );
    CREATE INDEX IF NOT EXISTS vertex_versions_manifest ON vertex_versions (manifest);
    CREATE TABLE IF NOT EXISTS vertex_manifests (
        name text COLLATE "C" PRIMARY KEY, data bytea NOT NULL
    );
    CREATE TABLE IF NOT EXISTS vertex_references (
        target text COLLATE "C", referrer text COLLATE "C", PRIMARY KEY (target, referrer)
    );
    CREATE SEQUENCE IF NOT EXISTS vertex_segment_number;
    CREATE TABLE IF NOT EXISTS vertex_segments (
        loop text COLLATE "C", partition integer, iteration bigint, attempt text COLLATE "C",
        number bigint NOT NULL DEFAULT nextval('vertex_segment_number'), bytes bigint NOT NULL,
        PRIMARY KEY (loop, partition, iteration, attempt)
    );
    CREATE TABLE IF NOT EXISTS vertex_pieces (
        number bigint, piece integer, data bytea NOT NULL, PRIMARY KEY (number, piece)
    );
    ALTER TABLE vertex_pieces ALTER data SET STORAGE EXTERNAL;
    CREATE TABLE IF NOT EXISTS vertex_shown (
        loop text COLLATE "C" PRIMARY KEY, manifest text NOT NULL, iteration bigint
    );
    CREATE TABLE IF NOT EXISTS vertex_fields (
        field text COLLATE "C", type text, col text NOT NULL UNIQUE, place serial,
        PRIMARY KEY (field, type)
    );
    CREATE TABLE IF NOT EXISTS vertex_rows (
        loop text COLLATE "C", vertex bigint, class text NOT NULL DEFAULT '', name text,
        PRIMARY KEY (loop, vertex, class)
    );
    CREATE INDEX IF NOT EXISTS vertex_rows_name ON vertex_rows (loop, name) WHERE name IS NOT NULL;
    CREATE TABLE IF NOT EXISTS vertex_format (version integer NOT NULL);
"""
_OWN = ("loop", "vertex", "iteration", "name", "class")  # the columns before the fields
_SYSTEM = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "oid")  # of every table
_TYPES = {"b": "boolean", "i": "bigint", "u": "bigint", "f": "double precision", "S": "bytea"}
_TYPES |= {"O": "text", "U": "text"}  # by the kind of a dtype; complex numbers have no type


def create_tables(link: Any, schema: str) -> None:
    """Create the tables that are not there; if processes race, one of them does it."""
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(7023581)")
        query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if link.execute(query, [schema]).fetchone() is None:
            link.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        link.execute(_TABLES)
        _make_view(link)
        query = "INSERT INTO vertex_format SELECT %s WHERE NOT EXISTS (SELECT 1 FROM vertex_format)"
        link.execute(query, [LATEST])


def unusable(link: Any, schema: str) -> str:
    """The statement that lets this user use the schema; "" if it may, or without a schema."""
    query = (
        "SELECT format('GRANT USAGE ON SCHEMA %%I TO %%I', nspname, current_user) "
        "FROM pg_namespace WHERE nspname = %s AND NOT has_schema_privilege(oid, 'USAGE')"
    )
    row = link.execute(query, [schema]).fetchone()
    return row[0] if row else ""


def missing_rights(link: Any) -> str:
    """The statements that let this user change the store's tables and view; "" if it may.

    Only the owner of a table can add columns, and replacing a view also needs the right to create
    in its schema. The owner has all other rights.
    """
    statements = link.execute(
        "SELECT DISTINCT format('GRANT %I TO %I', pg_get_userbyid(relowner), current_user) "
        "FROM pg_class WHERE relnamespace = current_schema()::regnamespace "
        "AND relname LIKE 'vertex\\_%' AND relkind IN ('r', 'v', 'S') "
        "AND NOT pg_has_role(relowner, 'USAGE') UNION ALL "
        "SELECT format('GRANT CREATE ON SCHEMA %I TO %I', current_schema(), current_user) "
        "WHERE NOT has_schema_privilege(current_schema(), 'CREATE')"
    ).fetchall()
    return "; ".join(statement for (statement,) in statements)


def _make_view(link: Any) -> None:
    """Replace `vertex_state` by a view with a column for every field."""
    names = link.execute("SELECT col FROM vertex_fields ORDER BY place").fetchall()
    columns = [sql.Identifier("shown" if n == "iteration" else "rows", n) for n in _OWN]
    columns += [sql.Identifier("rows", name) for (name,) in names]
    link.execute(
        sql.SQL(
            "CREATE OR REPLACE VIEW vertex_state AS SELECT {} FROM vertex_rows AS rows "
            "JOIN vertex_shown AS shown ON shown.loop = rows.loop"
        ).format(sql.SQL(", ").join(columns))
    )


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
    if name == "text" and isinstance(next((v for v in array.flat if v is not None), None), bytes):
        name = "bytea"
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
            used = {*known.values(), *_OWN, *_SYSTEM}
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
        _make_view(link)
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
    arrays = {"vertex": part["id"]} | {
        name: part[name] for name in ("name", "class") if name in part
    }
    arrays |= {columns[name]: array for name, array in fields.items()}
    names = sql.SQL(", ").join(map(sql.Identifier, ["loop", *arrays]))
    command = sql.SQL("COPY vertex_rows ({}) FROM STDIN (FORMAT BINARY)").format(names)
    with link.cursor() as cursor, cursor.copy(command) as copy:
        copy.set_types(["text", *(str(_type(array)) for array in arrays.values())])
        lists = [_values(array) for array in arrays.values()]
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
