"""Passwords: nowhere in what is printed, joined, dumped or logged, wherever in a URL they stand."""

from __future__ import annotations

import json
import logging
import pickle
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.servers import PostgresServer, RedisServer
from vertexsdk import backends
from vertexsdk.backends._postgres_server import PostgresServer as PostgresConnection
from vertexsdk.errors import StateError, StateInputError
from vertexsdk.state import open_store
from vertexsdk.state.address import Address, redacted, scrubbed

SECRET = "s3cret"
URLS = {
    "redis://host/0?prefix=team": "redis://host/0?prefix=team",
    "redis://:s3cret@host:6379/0": "redis://:***@host:6379/0",
    "redis://me:s3cret@host?password=s3cret": "redis://me:***@host?password=***",
    "redis://me:a/s3cret@host/0": "redis://me:***@host/0",
    "redis://me:a?s3cret@host/0": "redis://***",
    "redis://me:a#s3cret@host/0": "redis://***",
    "redis://host/0?s3cret": "redis://host/0?***",
    "redis://host/0#s3cret": "redis://host/0#***",
    "postgresql://me@host/db?sslmode=require&sslpassword=s3cret&sslkey=/k": (
        "postgresql://me@host/db?sslmode=require&sslpassword=***&sslkey=***"
    ),
    "postgresql:///db?host=h&user=me&password=s3cret": (
        "postgresql:///db?host=h&user=me&password=***"
    ),
    "postgresql://host/db?password=a@s3cret": "postgresql://***",
    "postgresql://host/db?PASSWORD=s3cret": "postgresql://host/db?PASSWORD=***",
    "host=h password=s3cret": "***",
    "redis:/me:s3cret@host": "***",
    "lmdb:///home/me@work/state": "lmdb:///home/me@work/state",
    "state": "state",
    "@/run/secrets/store": "@/run/secrets/store",
}


@pytest.mark.parametrize("url", URLS)
def test_the_url_that_is_shown(url: str) -> None:
    assert redacted(url) == URLS[url]


def texts(value: Any) -> Iterator[str]:
    """What a value turns into where nobody thinks of the password."""
    yield from (str(value), repr(value), f"{value}", f"{value!s:>60}", f"{[value]} {(value,)}")
    yield json.dumps({"backend": value}, default=str)
    yield "%s" % value  # noqa: UP031
    for misuse in (
        lambda: json.dumps(value),
        lambda: value[3:],
        lambda: value + "&x=1",
        lambda: "--backend " + value,
        lambda: "".join([value]),
        lambda: value.encode(),
    ):
        with pytest.raises((TypeError, AttributeError)) as caught:
            misuse()
        yield str(caught.value)


def test_an_address_shows_no_password() -> None:
    address = Address("redis://me:s3cret@host/0?prefix=team")
    for one in (address, pickle.loads(pickle.dumps(address)), Address(address)):
        assert SECRET not in "".join(texts(one))
        assert one.reveal() == "redis://me:s3cret@host/0?prefix=team"
        assert one == address
        assert hash(one) == hash(address)
    assert address != "redis://me:s3cret@host/0?prefix=team"


def test_errors_of_wrong_urls_show_no_password() -> None:
    for url in (
        "redis://localhost/0?password=s3cret",
        "rediss://localhost/0?ssl_password=s3cret&x=1",
        "redis://me:s3cret@localhost/0?retry=soon",
        "redis://me:s3/s3cret@localhost/0",
        "redis://me:12/s3cret@localhost/0",
        "redis://localhost/0?prefix=a:b&x=s3cret",
        "postgresql://localhost/db?sslpassword=s3cret&retry=soon",
        "postgresql://localhost/db?password=s3cret&nonsense=1",
        "postgresql://me:12/s3cret@localhost/db",
        "postgresql://me:a?s3cret@localhost/db",
        "lmdb:///tmp/x?password=s3cret",
        "lmdb://?password=s3cret",
        "redos://me:s3cret@host",
        "host=localhost password=s3cret",
        "redis:/me:s3cret@host",
    ):
        with pytest.raises(StateInputError) as caught:
            open_store(url)
        assert SECRET not in str(caught.value), url
        assert "\n" not in str(caught.value)


@pytest.mark.full
def test_a_password_among_the_options(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    with PostgresServer(password=SECRET) as server:
        place = f"postgresql://127.0.0.1:{server.port}/postgres?user=tester&retry=0.1"
        with open_store(f"{place}&password={SECRET}") as store:
            shown = [store.backend.location, store.backend.address, vars(store), store.backend]
            shown += [vars(store.backend), store.backend._server]  # type: ignore[attr-defined]
            assert SECRET not in "".join(f"{one} {one!r}" for one in shown)
            again = pickle.loads(pickle.dumps(store))
            assert again.loops() == []
            again.close()
        with pytest.raises(StateInputError, match="refuses the user name or password") as caught:
            open_store(f"{place}&password={SECRET}x")
        assert SECRET not in str(caught.value)
    with pytest.raises(StateError, match="cannot be reached") as caught_lost:
        open_store(f"{place}&password={SECRET}")
    assert SECRET not in str(caught_lost.value)
    assert SECRET not in caplog.text


def test_what_looks_like_a_password_is_scrubbed() -> None:
    said = "unrecognized arguments: --backnd redis://me:s3cret@h/0?x=1 p://h?password=s3cret&y=1"
    assert scrubbed(said) == (
        "unrecognized arguments: --backnd redis://me:***@h/0?x=1 p://h?password=***&y=1"
    )
    assert scrubbed("see https://host:8080/page and a@b") == "see https://host:8080/page and a@b"


def test_a_url_in_a_file(tmp_path: Path, redis_server: RedisServer, redis_url: str) -> None:
    file = tmp_path / "store-url"
    file.write_text(f"{redis_url}\n")
    store = open_store(f"@{file}")
    assert store.backend.address == Address(redis_url)
    store.close()
    for text, said in (
        (None, r"store-url cannot be read: No such file"),
        ("", "has 0 lines: write the store's URL in one line"),
        ("redis://:s3cret@a\nredis://:s3cret@b\n", "has 2 lines: write the store's URL"),
        (b"\xff\xfe", "it is not text"),
        ("state", "'state' is not a backend URL"),
    ):
        file.unlink(missing_ok=True)
        if text is not None:
            file.write_bytes(text if isinstance(text, bytes) else text.encode())
        with pytest.raises(StateInputError, match=said) as caught:
            open_store(f"@{file}")
        assert SECRET not in str(caught.value)
        assert "\n" not in str(caught.value)


def test_urls_that_are_no_text() -> None:
    for url in ("redis://h\n/0", "redis://h/0?prefix=\ud800", "lmdb:///tmp/\udcff", "lmdb:///a\0b"):
        with pytest.raises(StateInputError, match="not a backend URL"):
            open_store(url)


ADVICE = {
    "postgresql://me:s3cret@db.example/x": True,
    "postgresql://me@db.example/x?password=s3cret": True,
    "postgresql://db.example/x?sslrootcert=/ca.pem&password=s3cret": True,
    "postgresql://me:s3cret@localhost,db.example/x": True,
    "postgresql://me:s3cret@db.example/x?sslmode=prefer": False,
    "postgresql://me:s3cret@db.example/x?sslmode=verify-full": False,
    "postgresql://me@db.example/x": False,
    "postgresql://me:s3cret@localhost/x": False,
    "postgresql://me:s3cret@127.0.0.1:5432/x": False,
    "postgresql://me:s3cret@[::1]/x": False,
    "postgresql:///x?host=/run/postgresql&password=s3cret": False,
}


@pytest.mark.parametrize("url", ADVICE)
def test_a_password_to_another_host_without_sslmode(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("PGSSLMODE", "PGPASSWORD", "PGHOST"):
        monkeypatch.delenv(name, raising=False)
    advice = PostgresConnection(url).advice
    assert bool(advice) == ADVICE[url]
    if advice:
        assert "sslmode=verify-full" in advice
        assert SECRET not in advice
        assert "\n" not in advice
        monkeypatch.setenv("PGSSLMODE", "verify-full")
        assert not PostgresConnection(url).advice


def test_advice_is_said_once_and_not_by_tasks(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server is on this host: what counts as local is narrowed, so that it is another."""
    import vertexsdk.backends._postgres_server as module

    monkeypatch.delenv("PGSSLMODE", raising=False)
    monkeypatch.setattr(module, "_LOCAL", set())
    monkeypatch.setattr(backends, "_advised", set())
    url = f"postgresql://tester:{SECRET}@localhost:{postgres_server.port}/postgres?schema=advice"
    with pytest.warns(UserWarning, match="a password goes there by sslmode=prefer") as said:
        store = open_store(url)
    assert len(said) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        open_store(url).close()
        backends._advised.clear()  # as in a task's process
        pickle.loads(pickle.dumps(store)).close()
    store.close()
