"""Stores that are shared by users: what each may do, and names that must not meet."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psycopg
import pytest
import redis

from tests.support.servers import PostgresServer, RedisServer
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import Store, open_store

SYSTEM = ("tableoid", "xmin", "cmin", "xmax", "cmax", "ctid", "oid")


def commit(store: Store, loop: str, **fields: Any) -> None:
    columns = {"id": np.arange(4), **{k: np.asarray(v) for k, v in fields.items()}}
    ref = store.put_segment(loop, 0, 0, "base", columns)
    store.commit(loop, iteration=0, segments=[ref])


@pytest.fixture
def admin(postgres_server: PostgresServer) -> Iterator[psycopg.Connection[Any]]:
    with psycopg.connect(postgres_server.url(), autocommit=True) as link:
        yield link


def test_a_role_that_may_not_add_columns(
    postgres_server: PostgresServer, admin: psycopg.Connection[Any]
) -> None:
    url = f"{postgres_server.url()}?schema=shared&retry=1"
    with open_store(url) as store:
        commit(store, "loop", rank=np.zeros(4))
    admin.execute(
        "CREATE ROLE writer LOGIN; GRANT USAGE ON SCHEMA shared TO writer;"
        "GRANT ALL ON ALL TABLES IN SCHEMA shared TO writer;"
        "GRANT ALL ON ALL SEQUENCES IN SCHEMA shared TO writer"
    )
    theirs = url.replace("tester", "writer")
    with pytest.raises(StateInputError, match="cannot add columns") as caught:
        open_store(theirs)
    assert "\n" not in str(caught.value)
    reader = open_store(theirs, create=False)
    assert reader.lookup("loop", [3]) == {3: {"rank": 0.0}}
    with pytest.raises(StateInputError, match="cannot add columns"):
        reader.claim("loop")
    reader.close()
    for statement in re.findall(r"GRANT [\w ]+", str(caught.value)):
        admin.execute(statement.encode())
    with open_store(theirs) as store:
        commit(store, "loop", rank=np.zeros(4), hops=np.arange(4))
    assert admin.execute("SELECT sum(hops) FROM shared.vertex_state").fetchone() == (6,)


def test_the_roles_that_the_docs_advise(
    postgres_server: PostgresServer, admin: psycopg.Connection[Any]
) -> None:
    admin.execute(
        "CREATE ROLE graphs; CREATE SCHEMA graphs AUTHORIZATION graphs;"
        "CREATE ROLE alice LOGIN; CREATE ROLE bob LOGIN; GRANT graphs TO alice, bob;"
        "CREATE ROLE reader LOGIN; GRANT USAGE ON SCHEMA graphs TO reader"
    )
    url = f"{postgres_server.url()}?schema=graphs&retry=1&options=-c%20role=graphs"
    for name in ("alice", "bob"):
        with open_store(url.replace("tester", name)) as store:
            commit(store, "loop", **{name: np.arange(4)})
    admin.execute("GRANT SELECT ON ALL TABLES IN SCHEMA graphs TO reader")
    theirs = url.partition("&options")[0].replace("tester", "reader")
    reader = open_store(theirs, create=False)
    assert reader.lookup("loop", [3]) == {3: {"bob": 3}}
    assert reader.verify() == []
    with pytest.raises(StateInputError, match="cannot add columns"):
        reader.claim("loop")
    reader.close()
    admin.execute("REVOKE USAGE ON SCHEMA graphs FROM reader")
    for create in (True, False):
        with pytest.raises(StateInputError, match="GRANT USAGE ON SCHEMA graphs TO reader"):
            open_store(theirs, create=create)


def test_fields_called_as_system_columns(postgres_url: str, admin: psycopg.Connection[Any]) -> None:
    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    with open_store(postgres_url) as store:
        commit(store, "loop", **{name: np.arange(4) * k for k, name in enumerate(SYSTEM)})
    query = f"SELECT {', '.join(f'{name}_bigint' for name in SYSTEM)} FROM {schema}.vertex_state"
    rows = admin.execute(f"{query} WHERE vertex = 2".encode()).fetchall()
    assert rows == [tuple(2 * k for k in range(len(SYSTEM)))]


def test_names_that_the_server_would_cut(postgres_server: PostgresServer) -> None:
    longest = "s" * 63
    open_store(f"{postgres_server.url()}?schema={longest}").close()
    for url in (
        f"{postgres_server.url()}?schema={longest}t",
        f"{postgres_server.url()}?schema={'é' * 32}",
        f"{postgres_server.url()[:-8]}{'d' * 64}",
        f"{postgres_server.url()}?schema=a%00b",
    ):
        with pytest.raises(StateInputError, match="PostgreSQL cuts names above 63 bytes"):
            open_store(url)


def test_a_key_that_is_there_already_is_not_a_lost_server(
    postgres_url: str, admin: psycopg.Connection[Any]
) -> None:
    """As after a dump was loaded without the state of its sequences."""
    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    url = postgres_url.partition("&retry")[0]
    with open_store(url) as store:
        for _ in range(20):
            store.put_segment("loop", 0, 0, "base", {"id": np.arange(4)})
        admin.execute(f"ALTER SEQUENCE {schema}.vertex_segment_number RESTART".encode())
        began = time.monotonic()
        with pytest.raises(StateError, match=r"conflicting transactions.* duplicate key") as caught:
            store.put_segment("loop", 0, 0, "base", {"id": np.arange(4)})
        assert "lost" not in str(caught.value)
        assert "\n" not in str(caught.value)
        assert time.monotonic() - began < 10  # and not the 15 s for which a lost server is tried


def test_redis_prefixes_share_no_keys(redis_server: RedisServer) -> None:
    with open_store(f"{redis_server.url(11)}?prefix=a") as store:
        commit(store, "heads", rank=np.zeros(4))
        for prefix in ("a:segments", "a:versions", "a:", ":"):
            with pytest.raises(StateInputError, match="prefix= takes a name without ':'"):
                open_store(f"{redis_server.url(11)}?prefix={prefix}")
        assert store.verify() == []


def test_the_redis_users_that_the_docs_advise(redis_server: RedisServer) -> None:
    place = redis_server.url(12).replace("redis://", "redis://NAME:s3cret@")
    rights = {
        "team": ["~team:*", "+@read", "+@write", "+@scripting", "+@connection", "+time"],
        "reads": ["%R~team:*", "+@read", "+@connection"],
    }
    with redis.Redis(port=redis_server.port) as client:
        try:
            for name, some in rights.items():
                client.execute_command("ACL", "SETUSER", name, "reset", "on", ">s3cret", *some)
            with open_store(f"{place}?prefix=team".replace("NAME", "team")) as store:
                commit(store, "loop", rank=np.zeros(4))
                columns = {"id": np.arange(200_000), "rank": np.zeros(200_000)}
                ref = store.put_segment("loop", 0, 1, "base", columns)
                store.commit("loop", iteration=1, segments=[ref])
                assert store.backend.size() > 0
                store.fork("loop", "other")
                store.delete("loop")
                store.collect(0, alone=True)
                assert store.verify() == []
            with open_store(f"{place}?prefix=team".replace("NAME", "reads"), create=False) as reads:
                assert reads.lookup("other", [3]) == {3: {"rank": 0.0}}
                assert reads.verify() == []
                with pytest.raises(StateInputError, match="does not permit"):
                    commit(reads, "other", rank=np.zeros(4))
            with pytest.raises(StateInputError, match="does not permit"):
                open_store(f"{place}?prefix=others".replace("NAME", "team"))
        finally:
            for name in rights:
                client.execute_command("ACL", "DELUSER", name)
