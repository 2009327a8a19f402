"""Servers that are down, die, are full, or refuse: said in one line, without a password in it."""

from __future__ import annotations

import copy
import logging
import pickle
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from tests.support.servers import PostgresServer, RedisServer
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import ConnectedComponents
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import FencedError, FormatError, FullError, Manifest, Store, open_store

pytestmark = pytest.mark.full  # starts servers

SECRET = "s3cret/p@ss:w"
Server = RedisServer | PostgresServer
KINDS: list[Callable[..., Any]] = [RedisServer, PostgresServer]


def commit(store: Store, iteration: int, rows: int = 1000, parent: Any = None) -> Manifest:
    columns = {"id": np.arange(rows), "value": np.full(rows, float(iteration))}
    ref = store.put_segment("loop", 0, iteration, "base", columns)
    parent = parent or store.head("loop")
    return store.commit("loop", iteration=iteration, segments=[ref], parent=parent)


def values(store: Store, at: int | None = None) -> set[float]:
    ((_, state),) = store.read("loop", at)
    return set(state["value"].tolist())


@contextmanager
def refused(kind: type[Exception], said: str) -> Iterator[None]:
    with pytest.raises(kind, match=said) as caught:
        yield
    chain: BaseException | None = caught.value
    assert "\n" not in str(chain)
    while chain is not None and not chain.__suppress_context__:
        assert SECRET not in repr(chain)
        chain = chain.__cause__ or chain.__context__
    assert SECRET not in str(caught.value)


@pytest.fixture(params=KINDS, ids=["redis", "postgres"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param(password=SECRET) as server:
        yield server


def test_a_server_from_start_to_death(server: Server, caplog: pytest.LogCaptureFixture) -> None:
    """One test, as a server takes a while to start: password, restart, loss, and no secret."""
    caplog.set_level(logging.DEBUG)
    url = server.url() + "?retry=20"
    with refused(StateInputError, "refuses the user name or password"):
        open_store(url.replace("s3cret", "wrong"))
    if isinstance(server, PostgresServer):
        with refused(StateInputError, "refuses|does not exist"):
            open_store(url.replace("/postgres?", "/absent?"))
    with refused(StateInputError, "no store"):
        open_store(url, create=False)

    store = open_store(url)
    first = commit(store, 0)
    for shown in (store.backend.location, store.backend.address, store.backend, vars(store)):
        for text in (f"{shown}", repr(shown), str(shown)):
            assert "s3cret" not in text
    assert b"s3cret" not in b"".join(store.backend.get_manifest(first.name) or b"" for _ in "1")
    again = pickle.loads(pickle.dumps(store))
    assert values(again) == {0.0}
    assert copy.copy(store.backend.address) == store.backend.address
    again.close()

    server.kill()  # and it comes back while a commit waits for it
    began = time.monotonic()
    threading.Timer(0.7, server.start).start()
    second = commit(store, 1, parent=first)
    assert time.monotonic() - began > 0.3
    assert (values(store), values(store, 0)) == ({1.0}, {0.0})

    server.kill()
    store.close()
    with refused(StateError, "cannot be reached"):
        open_store(url)
    server.start()
    store = open_store(server.url() + "?retry=0.5")
    assert store.versions("loop") == [0, 1]
    assert store.claim("loop") == second
    server.kill()
    with refused(StateError, "lost .* could not reach it again"):
        commit(store, 2, parent=second)
    server.start()
    assert store.versions("loop") == [0, 1]
    assert commit(store, 2).iteration == 2
    assert store.verify() == []
    store.close()
    assert "s3cret" not in caplog.text


def test_a_main_loop_goes_on_when_its_server_does(
    server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    """It is not resumed by hand: the next call restores it, once the server is back."""

    def groups(main: MainLoop) -> dict[int, int]:
        with main.query(persist=True) as answer:
            return dict(answer.to_dict())

    def ingest(edge: int) -> int:
        counts = main.ingest([("+", edge, edge + 1)], source="s", offset=edge)
        return counts["added"] + counts.get("repeated", 0)

    graph = Graph.from_arrays([1], [2])
    with MainLoop(ConnectedComponents, graph, backend=f"{server.url()}?retry=3") as main:
        assert ingest(2) == 1
        assert groups(main) == {1: 1, 2: 1, 3: 1}
        server.kill()
        with refused(StateError, "lost .* could not reach it again for 3 s"):
            ingest(3)
        (line,) = [r.getMessage() for r in caplog.records if "does not answer" in r.getMessage()]
        assert "trying again for 3 s" in line
        assert "\n" not in line
        server.start()
        assert ingest(3) == 1
        assert groups(main) == {1: 1, 2: 1, 3: 1, 4: 1}
    patient = f"{server.url()}?retry=100"
    with MainLoop.resume(None, ConnectedComponents, backend=patient) as main:
        server.kill()  # and it comes back while the loop waits
        starting = threading.Timer(0.5, server.start)
        starting.start()
        assert ingest(4) == 1
        starting.join()
        assert groups(main)[5] == 1
        assert (main.changes, main.offsets) == (3, {"s": 4})


def test_a_swap_whose_answer_is_lost_is_done_once(
    redis_url: str, postgres_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server did it, and died before it said so: the second attempt must know."""
    from vertexsdk.backends._server import ConnectionLost

    for url in (redis_url, postgres_url):
        store = open_store(url)
        server: Any = store.backend._server  # type: ignore[attr-defined]
        real = server._once
        lost: list[int] = []

        def once(work: Any, real: Any = real, lost: Any = lost) -> Any:
            result = real(work)
            if len(lost) < 1000 and len(lost) % 2 == 0:
                lost.append(1)
                raise ConnectionLost("the connection broke")
            lost.append(0)
            return result

        server._once = once
        commit(store, 0)
        for iteration in range(1, 4):
            commit(store, iteration)
        other = open_store(url)
        assert other.versions("loop") == [0, 1, 2, 3]
        other.claim("loop")
        with pytest.raises(FencedError):
            commit(store, 4)
        assert other.verify() == []
        other.close()
        store.close()


def test_a_server_without_memory(tmp_path: Any) -> None:
    import redis

    with RedisServer("--maxmemory", "6mb", "--maxmemory-policy", "noeviction") as server:
        store = open_store(server.url())
        commit(store, 0)
        with refused(FullError, "no memory left"):
            for iteration in range(1, 100):
                commit(store, iteration, rows=100_000)
        assert values(store, 0) == {0.0}
        assert store.verify() == []
        versions = store.versions("loop")
        store.fork("loop", "fork", 0)
        client = redis.Redis(port=server.port)
        client.config_set("maxmemory", 1 << 20)  # less than it has taken
        with refused(FullError, "no memory left"):
            commit(store, 100)
        assert store.prune("loop", 1) == versions[:-1]
        assert values(store) == {float(versions[-1])}
        store.delete("loop")
        store.collect(0, alone=True)
        assert store.loops() == ["fork"]
        assert store.audit().unreferenced == []
        client.config_set("maxmemory", 6 << 20)
        client.close()
        commit(store, 0)
        store.close()


def test_what_a_redis_server_makes_durable(redis_server: RedisServer, redis_url: str) -> None:
    import redis

    client = redis.Redis(port=redis_server.port)
    said = {}
    try:
        for fsync in ("always", "everysec", "no"):
            client.config_set("appendfsync", fsync)
            store = open_store(redis_url)
            said[fsync] = (store.backend.durable, store.backend.durability)
            store.close()
    finally:
        client.config_set("appendfsync", "always")
        client.close()
    assert said["always"] == (True, "every acknowledged commit survives a power cut")
    assert not said["everysec"][0]
    assert "second" in said["everysec"][1]
    assert "not written out" in said["no"][1]


@pytest.mark.parametrize(
    ("database", "setting", "value", "loses"),
    [
        (901, "appendfsync", "everysec", "the last second or two: set appendfsync always"),
        (902, "appendonly", "no", "everything: set appendonly yes and appendfsync always"),
    ],
)
def test_a_main_loop_says_once_that_changes_are_not_durable(
    redis_server: RedisServer, database: int, setting: str, value: str, loses: str
) -> None:
    import redis

    def open_and_resume() -> None:
        graph = Graph.from_arrays([1], [2])
        MainLoop(ConnectedComponents, graph, backend=url).close()
        MainLoop.resume(None, ConnectedComponents, backend=url).close()

    url = redis_server.url(database)

    with redis.Redis(port=redis_server.port) as client:
        try:
            client.config_set(setting, value)
            with pytest.warns(UserWarning, match="acknowledged, not durable") as said:
                open_and_resume()
        finally:
            client.config_set("appendonly", "yes")
            client.config_set("appendfsync", "always")
    (line,) = [str(warning.message) for warning in said]
    assert line.startswith(f"{url}: changes are acknowledged")
    assert line.endswith(loses)
    assert "\n" not in line
    open_and_resume()


def test_other_formats_are_refused(
    redis_url: str, postgres_url: str, redis_server: RedisServer, postgres_server: PostgresServer
) -> None:
    import psycopg
    import redis

    for url in (redis_url, postgres_url):
        open_store(url).close()
    prefix = redis_url.partition("prefix=")[2].partition("&")[0]
    with redis.Redis(port=redis_server.port) as client:
        client.set(f"{prefix}:format", "vertexsdk state, format 99")
    with refused(FormatError, "format 99"):
        open_store(redis_url)
    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    with psycopg.connect(postgres_server.url(), autocommit=True) as link:
        link.execute(f"UPDATE {schema}.vertex_format SET version = 99".encode())
    with refused(FormatError, "format 99"):
        open_store(postgres_url)


def test_a_user_who_may_not(postgres_server: PostgresServer) -> None:
    import psycopg

    with psycopg.connect(postgres_server.url(), autocommit=True) as link:
        link.execute("CREATE ROLE guest LOGIN")
    url = postgres_server.url().replace("tester", "guest")
    with refused(StateInputError, "does not permit"):
        open_store(f"{url}?schema=forbidden")


def test_a_redis_user_who_may_not(redis_server: RedisServer, redis_url: str) -> None:
    import redis

    place = redis_url.replace("redis://", "redis://guest:s3cret@")
    with open_store(redis_url) as store:
        commit(store, 0)
    with redis.Redis(port=redis_server.port) as client:
        rights = ["reset", "on", ">s3cret", "~*", "+@read"]
        client.execute_command("ACL", "SETUSER", "guest", *rights)
        try:
            store = open_store(place)
            assert values(store) == {0.0}
            assert "may not read" in store.backend.durability
            with refused(StateInputError, "does not permit"):
                commit(store, 1)
            store.close()
            client.execute_command("ACL", "SETUSER", "guest", "resetkeys", "~other:*")
            with refused(StateInputError, "does not permit"):
                open_store(place)
            with refused(StateInputError, "refuses the user name or password"):
                open_store(place.replace("s3cret", "wrong"))
        finally:
            client.execute_command("ACL", "DELUSER", "guest")
    with open_store(redis_url) as store:
        assert store.versions("loop") == [0]
        assert store.verify() == []


def test_a_redis_server_without_disk() -> None:
    import redis

    server = RedisServer("--save", "3600 1000000", "--appendonly", "no")
    with server, open_store(server.url()) as store:
        commit(store, 0)
        shutil.rmtree(server.directory)
        with redis.Redis(port=server.port) as client:
            client.bgsave()
            while client.info("persistence")["rdb_last_bgsave_status"] == "ok":
                time.sleep(0.05)
        with refused(FullError, "cannot write to its disk"):
            commit(store, 1)
        assert values(store) == {0.0}
        assert store.versions("loop") == [0]
        server.kill()  # it would not stop without saving


@pytest.mark.parametrize("table", ["vertex_pieces", "vertex_manifests", "vertex_heads"])
def test_a_postgres_server_without_disk(
    postgres_server: PostgresServer, postgres_url: str, table: str
) -> None:
    import psycopg

    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    store = open_store(postgres_url)
    first = commit(store, 0)
    with psycopg.connect(
        postgres_server.url(), autocommit=True, options=f"-c search_path={schema}"
    ) as link:
        link.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN "
            "RAISE EXCEPTION USING ERRCODE = 'disk_full', MESSAGE = 'could not extend file'; "
            "END $$"
        )
        link.execute(
            f"CREATE TRIGGER full_disk BEFORE INSERT OR UPDATE ON {table} "
            "FOR EACH ROW EXECUTE FUNCTION full_disk()".encode()
        )
        with refused(FullError, "no room left .could not extend file"):
            commit(store, 1, parent=first)
        assert store.versions("loop") == [0]
        assert values(store) == {0.0}
        link.execute(f"DROP TRIGGER full_disk ON {table}".encode())
    commit(store, 1, parent=first)
    assert values(store) == {1.0}
    assert store.verify() == []
    store.close()


def test_wrong_urls_of_servers() -> None:
    for url, said in [
        (f"redis://:{'x' * 3}s3cret@host:port/0", "not a Redis URL"),
        ("redis://u:s3cret@host/zero", "not a Redis URL"),
        ("redis://u:s3cret@host/0?retry=often", "number of seconds"),
        ("redis://u:s3cret@host/0?color=red", "no option 'color'"),
        ("redis://host/0?ca=file", "no option 'ca'"),
        ("postgresql://u:s3cret@host:port/db", "not a URL of PostgreSQL"),
        ("postgresql://u:s3cret@host/db?color=red", "not a URL of PostgreSQL"),
    ]:
        with pytest.raises(StateInputError, match=said) as caught:
            open_store(url)
        assert "s3cret" not in str(caught.value)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("url", ["redis://u:s3cret@127.0.0.1:1/0", "postgresql://127.0.0.1:1/db"])
def test_no_server_there(url: str) -> None:
    began = time.monotonic()
    with refused(StateError, "cannot be reached"):
        open_store(url)
    assert time.monotonic() - began < 5
