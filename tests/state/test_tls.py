"""Stores behind TLS: encrypted where asked for, refused where the certificate is not trusted.

The servers are built without TLS, so a proxy ends it in front of them. The certificates in `tls`
are self-signed, for these tests only, and last a hundred years.
"""

from __future__ import annotations

import inspect
import pickle
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.support.servers import PostgresServer, RedisServer
from tests.support.tls import TlsProxy
from vertexsdk.errors import StateError
from vertexsdk.state import Store, open_store

pytestmark = pytest.mark.full  # starts servers

PLACE = Path(__file__).parent / "tls"
OURS, OTHER = PLACE / "server.pem", PLACE / "other.pem"


@pytest.fixture
def redis_tls(redis_server: RedisServer) -> Iterator[TlsProxy]:
    with TlsProxy(redis_server.port, str(OURS), str(PLACE / "server.key")) as proxy:
        yield proxy


@pytest.fixture
def postgres_tls(postgres_server: PostgresServer) -> Iterator[TlsProxy]:
    key = str(PLACE / "server.key")
    with TlsProxy(postgres_server.port, str(OURS), key, asked=True) as proxy:
        yield proxy


def used(url: str) -> Store:
    """A store that has been written to and read from, by two processes' worth of connections."""
    store = open_store(url)
    columns = {"id": np.arange(200_000), "value": np.arange(200_000.0)}
    ref = store.put_segment("loop", 0, 1, "base", columns)
    store.commit("loop", iteration=1, segments=[ref])
    other = pickle.loads(pickle.dumps(store))
    assert other.lookup("loop", [123_456]) == {123_456: {"value": 123_456.0}}
    other.close()
    return store


def test_redis_with_a_certificate_of_ours(redis_tls: TlsProxy) -> None:
    place = f"rediss://localhost:{redis_tls.port}/9?retry=0.5"
    store = used(f"{place}&ca={OURS}")
    assert redis_tls.taken >= 2
    assert store.backend.location == f"rediss://localhost:{redis_tls.port}/9"
    assert store.verify() == []
    store.close()
    for url in (place, f"{place}&ca={OTHER}"):  # not signed by any that this system trusts
        with pytest.raises(StateError, match=r"cannot be reached .*certificate") as caught:
            open_store(url)
        assert "\n" not in str(caught.value)


def test_redis_with_a_certificate_of_another_host(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is trusted, but for another name: nothing is sent, with any release of the client."""
    import redis

    real = inspect.unwrap(redis.Redis.__init__)
    given = dict(inspect.signature(real).parameters)
    defaults = [
        False if name == "ssl_check_hostname" else one.default  # as before 6
        for name, one in given.items()
        if one.default is not inspect.Parameter.empty
    ]
    monkeypatch.setattr(real, "__defaults__", tuple(defaults))
    elsewhere = str(PLACE / "elsewhere.pem")
    with TlsProxy(redis_server.port, elsewhere, str(PLACE / "elsewhere.key")) as proxy:
        url = f"rediss://me:s3cret@localhost:{proxy.port}/9?ca={elsewhere}&retry=0.5"
        with pytest.raises(StateError, match=r"cannot be reached .*Hostname mismatch") as caught:
            open_store(url)
        assert "\n" not in str(caught.value)
        assert proxy.taken == 0


def test_postgres_with_a_certificate_of_another_host(postgres_server: PostgresServer) -> None:
    elsewhere = str(PLACE / "elsewhere.pem")
    key = str(PLACE / "elsewhere.key")
    with TlsProxy(postgres_server.port, elsewhere, key, asked=True) as proxy:
        place = f"postgresql://tester:s3cret@localhost:{proxy.port}/postgres?schema=tls"
        with pytest.raises(StateError, match=r"elsewhere.example.* does not match"):
            open_store(f"{place}&sslmode=verify-full&sslrootcert={elsewhere}")


def test_redis_without_tls_where_it_was_asked_for(redis_server: RedisServer) -> None:
    with pytest.raises(StateError, match="cannot be reached") as caught:
        open_store(f"rediss://localhost:{redis_server.port}/9?ca={OURS}&retry=0.5")
    assert "\n" not in str(caught.value)


def test_postgres_with_a_certificate_of_ours(postgres_tls: TlsProxy) -> None:
    place = f"postgresql://tester@localhost:{postgres_tls.port}/postgres?schema=tls&retry=0.5"
    used(f"{place}&sslmode=require").close()
    store = used(f"{place}2&sslmode=verify-full&sslrootcert={OURS}")
    assert postgres_tls.taken >= 4
    assert store.verify() == []
    store.close()
    for wrong in (f"verify-full&sslrootcert={OTHER}", "verify-ca&sslrootcert=/absent.pem"):
        with pytest.raises(StateError, match="certificate") as caught:
            open_store(f"{place}&sslmode={wrong}")
        assert "\n" not in str(caught.value)


def test_postgres_without_tls_where_it_was_asked_for(postgres_server: PostgresServer) -> None:
    url = f"{postgres_server.url()}?schema=tls&retry=0.5&sslmode=require"
    with pytest.raises(StateError, match=r"does not support SSL") as caught:
        open_store(url)
    assert "\n" not in str(caught.value)
