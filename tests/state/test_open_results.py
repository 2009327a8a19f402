"""A result reads its own version until it is closed, whatever is run and deleted meanwhile."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psycopg
import pytest
import redis

import vertexsdk
from tests.support.servers import PostgresServer, RedisServer
from vertexsdk import Graph, MainLoop
from vertexsdk.algorithms import BreadthFirstSearch, ConnectedComponents, Degree
from vertexsdk.state import MissingError, Store, open_store, pins
from vertexsdk.state.contract import Backend

pytestmark = pytest.mark.full  # other processes, and leases that end

FIRST, SECOND = {1: 1, 2: 2, 3: 1}, {1: 2, 3: 2, 5: 2, 6: 2}


@pytest.fixture(params=["memory", "lmdb", "redis", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store that is new."""
    if request.param == "memory":
        return f"memory://{tmp_path.name}"
    if request.param == "lmdb":
        return f"lmdb://{tmp_path}/state"
    return str(request.getfixturevalue(f"{request.param}_url"))


def first(spark: Any = None) -> Graph:
    return Graph.from_arrays([1, 2], [2, 3], spark=spark)


def second(spark: Any = None) -> Graph:
    return Graph.from_arrays([1, 1, 5, 6], [5, 6, 3, 3], spark=spark)


def test_an_exact_answer_by_the_process_of_the_loop(url: str) -> None:
    with MainLoop(ConnectedComponents, first(), backend=url, loop="loop") as main:
        main.serve_queries()
        main.ingest([("-", 1, 2), ("+", 2, 4)])
        with vertexsdk.read(url, "loop", exact=True) as answer:
            main.ingest([("-", 2, 4)])
            assert answer.to_dict() == {2: 2, 3: 2, 4: 2}
    in_store(url, collected)


def in_store(url: str, work: Callable[[Store], Any]) -> Any:
    with closing(open_store(url)) as store:
        return work(store)


def collected(store: Store) -> None:
    """Nothing is left of what no version refers to."""
    store.collect(0, alone=True)
    assert store.audit().unreferenced == []
    assert store.verify() == []


def eventually(true: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_second_run_of_the_same_name(url: str) -> None:
    a = vertexsdk.run(Degree, first(), backend=url)
    b = vertexsdk.run(Degree, second(), backend=url)
    c = vertexsdk.read(url, "degree-run")
    again = vertexsdk.run(Degree, first(), backend=url, commit_every=1)
    in_store(url, lambda store: store.compact("degree-run"))
    in_store(url, collected)
    assert (a.to_dict(), b.to_dict(), c.to_dict()) == (FIRST, SECOND, SECOND)
    assert (a.lookup([1, 5], "degree"), b.lookup([1, 5], "degree")) == (
        {1: {"degree": 1}}, {1: {"degree": 2}, 5: {"degree": 2}},
    )  # fmt: skip
    name, other = a.manifest.name, b.manifest.name
    a.close()
    b.close()
    assert in_store(url, lambda store: store.backend.get_manifest(name)) is None
    assert in_store(url, lambda store: store.backend.get_manifest(other)) is not None  # c has it
    in_store(url, lambda store: store.delete("degree-run"))
    assert (c.to_dict(), again.to_dict()) == (SECOND, FIRST)
    c.close()
    again.close()
    in_store(url, collected)
    assert in_store(url, lambda store: [*store.backend.list_manifests()]) == []


def test_runs_on_spark(spark: Any, tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    a = vertexsdk.run(Degree, first(spark), backend=url)
    b = vertexsdk.run(Degree, second(spark), backend=url)
    assert (a.to_dict(), b.to_dict()) == (FIRST, SECOND)
    assert {row.id: row.degree for row in a.dataframe().collect()} == FIRST
    a.close()
    b.close()
    in_store(url, collected)


def test_answers_and_branches(url: str) -> None:
    main = MainLoop(BreadthFirstSearch, first(), params={"origin": 1}, backend=url, loop="l")
    one = main.query()
    branch = main.fork("what-if")
    branch.apply([("+", 1, 3)])
    what_if = branch.result()
    branch.close(forget=True)
    main.ingest([("+", 1, 9)])
    before = main.read()  # of a version which the query replaces
    two = main.query()
    in_store(url, lambda store: [store.delete(name) for name in ("l-1", "l-2")])
    main.close()
    options: Any = {"params": {"origin": 1}, "backend": url, "loop": "l", "replace": True}
    anew = MainLoop(BreadthFirstSearch, second(), **options)
    anew.query().close()
    in_store(url, collected)
    assert (one.to_dict(), what_if.to_dict()) == ({1: 0, 2: 1, 3: 2}, {1: 0, 2: 1, 3: 1})
    assert (before.to_dict(), two.to_dict()) == (one.to_dict(), {1: 0, 2: 1, 3: 2, 9: 1})
    for result in (one, what_if, before, two):
        result.close()
    anew.close()
    in_store(url, collected)


OTHER = """
import sys
import vertexsdk
from tests.state.test_open_results import collected, second
from vertexsdk.algorithms import Degree
from vertexsdk.state import open_store
vertexsdk.run(Degree, second(), backend=sys.argv[1]).close()
with open_store(sys.argv[1]) as store:
    for loop in sys.argv[2:]:
        store.delete(loop)
    store.collect(0, alone=True)
"""


def elsewhere(url: str, code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, url, *arguments], check=True, timeout=120)


@pytest.mark.parametrize("url", ["lmdb", "redis"], indirect=True)
def test_another_process_runs_and_collects(url: str) -> None:
    with MainLoop(ConnectedComponents, first(), backend=url, loop="wcc") as main:
        answer = main.query()
        a = vertexsdk.run(Degree, first(), backend=url)
        leases = in_store(url, lambda store: len([*store.backend.list_manifests("lease.")]))
        assert leases == 1  # the answer has a loop of its own, so its lease can wait
        eventually(lambda: in_store(url, lambda s: len([*s.backend.list_manifests("lease.")])) == 2)
    elsewhere(url, OTHER, "wcc", "wcc-1")
    assert a.to_dict() == FIRST
    assert answer.to_dict() == {1: 1, 2: 1, 3: 1}
    names = [a.manifest.name, answer.manifest.name]
    a.close()
    answer.close()
    with closing(open_store(url)) as store:
        assert [store.backend.get_manifest(name) for name in names] == [None, None]
        assert [*store.backend.list_manifests("lease.")] == []
        collected(store)


@dataclass
class Clock:
    """How far the clocks of this process and of its stores are ahead.

    Attributes:
        seconds: so far.
    """

    seconds: float = 0.0


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """A clock that leases go by, instead of waiting for them to end."""
    ahead = Clock()
    monotonic = SimpleNamespace(monotonic=lambda: time.monotonic() + ahead.seconds)
    monkeypatch.setattr(pins, "time", monotonic)
    monkeypatch.setattr(Backend, "now", lambda backend: time.time() + ahead.seconds)
    return ahead


DIES = """
import os, sys
from vertexsdk.state import open_store
store = open_store(sys.argv[1])
store.hold("degree-run", seconds=float(sys.argv[2]))
os.kill(os.getpid(), 9)
"""


def test_the_lease_of_a_process_that_died_ends(tmp_path: Path, clock: Clock) -> None:
    url = f"lmdb://{tmp_path}/state"
    vertexsdk.run(Degree, first(), backend=url).close()
    with pytest.raises(subprocess.CalledProcessError, match="SIGKILL"):
        elsewhere(url, DIES, "600")
    with closing(open_store(url)) as store:
        name = store.version("degree-run").name
        vertexsdk.run(Degree, second(), backend=url).close()
        assert store.backend.get_manifest(name) is not None
        clock.seconds = 601
        store.collect(0, alone=True)
        assert store.backend.get_manifest(name) is None
        collected(store)


def test_a_lease_is_renewed_while_it_is_held(tmp_path: Path, clock: Clock) -> None:
    url = f"lmdb://{tmp_path}/state"
    vertexsdk.run(Degree, first(), backend=url).close()
    with closing(open_store(url)) as store, store.pin("degree-run", seconds=600) as version:
        (pin,) = (p for p in pins._pins if p.location == store.backend.location)
        for _ in range(3):
            clock.seconds += 500
            pin.tend(ending=False)  # as the thread does each second
        assert pins.active_leases(store.backend)[0] == {version.name}  # as other processes see it
        vertexsdk.run(Degree, second(), backend=url).close()
        assert sorted(dict(store.read("degree-run", version))[0]["degree"]) == [1, 1, 2]


def test_a_result_that_nobody_has_any_more(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    a = vertexsdk.run(Degree, first(), backend=url)
    name = a.manifest.name
    vertexsdk.run(Degree, second(), backend=url).close()
    with closing(open_store(url)) as store:
        assert store.backend.get_manifest(name) is not None
        del a
        gc.collect()
        eventually(lambda: store.backend.get_manifest(name) is None)
        collected(store)


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_process_lets_go_of_nothing(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    with closing(vertexsdk.run(Degree, first(), backend=url)) as a:
        child = os.fork()
        if not child:
            a.close()
            os._exit(0)
        assert os.waitpid(child, 0) == (child, 0)
        elsewhere(url, OTHER)
        assert a.to_dict() == FIRST


def test_a_user_who_may_only_read(
    redis_server: RedisServer, redis_url: str, postgres_server: PostgresServer, postgres_url: str
) -> None:
    with redis.Redis(port=redis_server.port) as client:
        client.execute_command("ACL", "SETUSER", "looker", "on", ">x", "~*", "+@read", "+time")
    schema = postgres_url.partition("schema=")[2].partition("&")[0]
    grants = f"USAGE ON SCHEMA {schema}", f"SELECT ON ALL TABLES IN SCHEMA {schema}"
    for url, user in ((redis_url, "looker:x@"), (postgres_url, "looker@")):
        vertexsdk.run(Degree, first(), backend=url).close()
        if url == postgres_url:
            with psycopg.connect(postgres_server.url(), autocommit=True) as link:
                link.execute("CREATE ROLE looker LOGIN")
                for grant in grants:
                    link.execute(f"GRANT {grant} TO looker".encode())
        theirs = url.replace("tester@", "").replace("//", f"//{user}", 1)
        with closing(vertexsdk.read(theirs, "degree")) as result:
            assert result.to_dict() == FIRST
            vertexsdk.run(Degree, second(), backend=url).close()  # this process spares it
            assert result.lookup([3], "degree") == {3: {"degree": 1}}
        in_store(url, collected)


def test_a_version_that_was_taken_by_force_is_said_to_be_gone(tmp_path: Path) -> None:
    url = f"lmdb://{tmp_path}/state"
    with closing(vertexsdk.run(Degree, first(), backend=url)) as a:
        with closing(open_store(url)) as store:
            store.backend._delete_segments(list(store.backend.list_segments()))  # type: ignore[attr-defined]
        with pytest.raises(MissingError, match="its version was dropped while it was read") as gone:
            a.to_dict()
        assert "\n" not in str(gone.value)
