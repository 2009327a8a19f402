"""Calls from other processes: what a client is told is what the loop says."""

from __future__ import annotations

import contextlib
import json
import math
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tests.stateful.programs import KeyValue, Visits, WordCount
from tests.support.request_sockets import request_socket
from tests.support.seeds import seed
from vertexsdk import (
    CallError,
    Graph,
    InputError,
    MainLoop,
    Map,
    Partitioned,
    RunError,
    Stateful,
    StatefulClient,
    StatefulLoop,
    StateInputError,
    read,
)
from vertexsdk.loops import request_client, request_service


class Answers(Stateful):
    """What methods return."""

    seen = Partitioned(Map(int, int), key="key")

    def number(self, key: int) -> float:
        return math.nan if key < 0 else key / 2

    def both(self, key: int) -> Any:
        return (key, {"a": [None, True, np.int64(key)]})

    def odd(self, key: int) -> Any:
        return {key} if key % 2 else {key: 1}


@contextlib.contextmanager
def served(cls: type[Stateful], url: str, partitions: int = 2) -> Iterator[StatefulLoop]:
    with StatefulLoop(cls, backend=url, partitions=partitions, replace=True) as flow:
        flow.serve()
        yield flow


@pytest.mark.parametrize("store", ["memory", "lmdb"])
@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_a_client_has_the_answers_of_the_plain_object(
    store: str, partitions: int, tmp_path: Path
) -> None:
    url = "memory://client-calls" if store == "memory" else f"lmdb://{tmp_path}/state"
    chance, plain = random.Random(seed()), Visits()
    with served(Visits, url, partitions), StatefulClient("Visits", backend=url) as client:
        for _ in range(30):
            user, time = chance.choice("abü"), chance.random()
            name, *arguments = chance.choice(
                [("visit", user, time), ("count_of", user), ("known", user), ("block", user),
                 ("forget", user), ("about", user), ("seen", f"{user},{user}", time)]
            )  # fmt: skip
            try:
                expected = getattr(plain, name)(*arguments)
            except Exception as error:
                with pytest.raises(CallError, match=type(error).__name__):
                    client[name](*arguments)
            else:
                assert getattr(client, name)(*arguments) == expected
        users, times = ["a", "b", "c"] * 3, [k / 2 for k in range(9)]
        answers = client.visit.map(users, times, return_exceptions=True)
        for user, time, answer in zip(users, times, answers, strict=True):
            with contextlib.suppress(PermissionError):
                assert answer == plain.visit(user, time)
                continue
            assert isinstance(answer, CallError)
        row = plain.state("a")
        assert client.state("a") == row._asdict()
        assert client.named("a") == ["a", row._asdict()]


def test_bulk_calls_take_what_map_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "memory://client-bulk"
    with served(KeyValue, url) as flow, StatefulClient("KeyValue", backend=url) as client:
        keys = np.arange(9_000)  # more than a request has
        client.put.map(pd.DataFrame({"value": keys / 4, "key": keys}))
        assert client.get.map(keys) == (keys / 4).tolist() == flow.get.map(keys)
        assert client.get.map([]) == []
        client.put(key=3, value=1)
        assert client.get(3) == 1.0
        assert {"put", "get"} <= set(dir(client))


def test_answers_are_json() -> None:
    url = "memory://client-answers"
    with served(Answers, url), StatefulClient("Answers", backend=url) as client:
        assert math.isnan(client.number(-1))
        assert client.both(3) == [3, {"a": [None, True, 3]}]
        for key, kind in ((1, "set"), (2, "dict")):
            with pytest.raises(CallError, match=f"has a {kind}, which another process cannot have"):
                client.odd(key)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), r"KeyValue\.put\(key: int, value: float\) takes other arguments; 0 were given"),
        ((1, 2.0, 3), "takes other arguments; 3 were given"),
        (("be", 1.0), "parameter key: 'be' is not an int"),
        ((1, "x"), "parameter value: 'x' is not a float"),
    ],
)
def test_wrong_arguments_are_refused(arguments: tuple[Any, ...], said: str) -> None:
    url = "memory://client-arguments"
    with served(KeyValue, url) as flow, StatefulClient("KeyValue", backend=url) as client:
        with pytest.raises(InputError, match=said):
            client.put(*arguments)
        with pytest.raises(InputError, match=r"no method 'puts'; did you mean 'put'\? its methods"):
            client["puts"](1, 1.0)
        with pytest.raises(AttributeError, match="did you mean 'get'"):
            client.gett(1)
        assert flow.progress()["calls"] == 0


def test_loops_that_nobody_serves() -> None:
    url = "memory://client-nobody"
    graph = Graph.from_arrays([1], [2])
    with MainLoop("wcc", graph, backend=url, replace=True) as main:
        main.serve_queries()
        with pytest.raises(InputError, match=r"'wcc' in memory.* is not of a stateful class"):
            StatefulClient("wcc", backend=url)
    with StatefulLoop(WordCount, backend=url, replace=True) as flow:
        with pytest.raises(StateInputError, match="no loop 'words'"):
            StatefulClient("words", backend=url)
        with pytest.raises(InputError, match="no process answers the calls of loop 'WordCount'"):
            StatefulClient("WordCount", backend=url)
        flow.serve()
        with pytest.raises(InputError, match="already"):
            flow.serve()
        with pytest.raises(InputError, match="no process answers the queries of loop"):
            read(url, "WordCount", exact=True)
        client = StatefulClient("WordCount", backend=url)
        assert client.count("be") == 0
    with pytest.raises(InputError, match="no process answers the calls"):
        StatefulClient("WordCount", backend=url)
    for _ in range(2):
        with pytest.raises(RunError, match="has ended or cannot be reached: resume the loop"):
            client.count("be")
    client.close()
    client.close()


def test_a_resumed_loop_is_served_anew() -> None:
    url = "memory://client-resumed"
    flow = StatefulLoop(WordCount, backend=url, replace=True)
    flow.serve()
    with StatefulClient("WordCount", backend=url) as client:
        client.add("to be or not to be")
    flow._end(ValueError("the driver ended"))
    with StatefulLoop.resume(WordCount, backend=url, partitions=7) as again:
        again.serve()
        with StatefulClient("WordCount", backend=url) as client:
            assert client.count("be") == 2


def test_a_loop_that_was_taken_over_leaves_the_calls_to_its_successor() -> None:
    url = "memory://client-successor"
    with served(WordCount, url) as flow:
        flow.add("be")
        with StatefulLoop.resume(WordCount, backend=url) as again:
            again.serve()
            flow.close()
            with StatefulClient("WordCount", backend=url) as client:
                assert client.count("be") == 1


def test_requests_of_another_form_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    url = "memory://client-requests"
    with served(WordCount, url):
        with request_socket(url, "WordCount") as sock:
            for request, said in [
                (b"[]", "a request is one frame of JSON"), (b"{", "a request is one frame"),
                (b'{"method": "count"}', "a request is one"), (b"\xff", "a request is one frame"),
                (b'{"method": "of", "calls": []}', "a request"), (b'{"method": []}', "a request"),
                (b'{"method": "count", "calls": [7]}', "a request is one frame of JSON"),
                (b'{"method": "count", "calls": [[7]]}', "parameter word: 7 is not a str"),
                (b'{"method": "count", "calls": [[]]}', "missing a required argument"),
            ]:  # fmt: skip
                sock.send_multipart([b"", request])
                assert sock.poll(10_000), request
                assert said in json.loads(sock.recv_multipart()[1])["error"], request
        monkeypatch.setattr(request_client, "_GRACE", 0.1)
        with StatefulClient("WordCount", backend=url) as client:
            assert client.count("be") == 0


def test_who_calls_does_not_wait_for_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_service, "_WORKERS", 0)
    monkeypatch.setattr(request_client, "_GRACE", 0.1)
    url = "memory://client-waits"
    with served(WordCount, url), pytest.raises(RunError, match="has not answered in 0 s: ask"):
        StatefulClient("WordCount", backend=url, timeout=0)
