"""The tables of a store in PostgreSQL, and the rights that a user needs on them."""

from __future__ import annotations

from typing import Any

from psycopg import sql

LATEST = 4
EARLIER = (2, 3)  # segments are no Arrow tables; 2 has no references either
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
OWN = ("loop", "vertex", "iteration", "name", "class")  # the columns before the fields
SYSTEM = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "oid")  # of every table


def create_tables(link: Any, schema: str) -> None:
    """Create the tables that are not there; if processes race, one of them does it."""
    with link.transaction():
        link.execute("SELECT pg_advisory_xact_lock(7023581)")
        query = "SELECT 1 FROM pg_namespace WHERE nspname = %s"
        if link.execute(query, [schema]).fetchone() is None:
            link.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
        link.execute(_TABLES)
        make_view(link)
        query = "INSERT INTO vertex_format SELECT %s WHERE NOT EXISTS (SELECT 1 FROM vertex_format)"
        link.execute(query, [LATEST])


def finish_upgrade(link: Any) -> None:
    """Mark the tables as of the latest format, which leaves out the states of vertices."""
    with link.transaction():
        query = "UPDATE vertex_format SET version = %s WHERE version < %s"
        if link.execute(query, [LATEST, LATEST]).rowcount:
            link.execute("DELETE FROM vertex_shown")
            link.execute("DELETE FROM vertex_rows")


def unusable(link: Any, schema: str) -> str:
    """The statement that lets this user use the schema; "" if it may, or there is no schema."""
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


def make_view(link: Any) -> None:
    """Replace `vertex_state` by a view with a column for every field."""
    names = link.execute("SELECT col FROM vertex_fields ORDER BY place").fetchall()
    columns = [sql.Identifier("shown" if n == "iteration" else "rows", n) for n in OWN]
    columns += [sql.Identifier("rows", name) for (name,) in names]
    link.execute(
        sql.SQL(
            "CREATE OR REPLACE VIEW vertex_state AS SELECT {} FROM vertex_rows AS rows "
            "JOIN vertex_shown AS shown ON shown.loop = rows.loop"
        ).format(sql.SQL(", ").join(columns))
    )
