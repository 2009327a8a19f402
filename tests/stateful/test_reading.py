"""What is stored of a stateful class is read from other processes: by the command line, and SQL."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.stateful.programs import KeyValue, Names, Visits, WordCount
from vertexsdk import InputError, Map, Partitioned, PerPartition, Stateful, StatefulLoop
from vertexsdk.cli import main


class Shop(Stateful):
    """Two state elements, with keys of two types."""

    stock = Partitioned(Map(str, count=int, price=float), key="item")
    paid = Partitioned(Map(int, float), key="customer")

    def deliver(self, item: str, count: int, price: float) -> None:
        self.stock[item].count += count
        self.stock[item].price = price

    def pay(self, customer: int, amount: float) -> float:
        self.paid[customer] += amount
        return self.paid[customer]


def query(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    status = main(["query", *arguments])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


class Sums(Stateful):
    """A state element of which several partitions have the same keys."""

    users = Partitioned(Map(int, int), key="user")
    sums = PerPartition(Map(str, int))

    def add(self, user: int, number: int) -> None:
        self.users[user] += 1
        self.sums["all"] += number


@pytest.mark.parametrize("partitions", [1, 2, 7])
def test_queries_by_the_command_line(
    partitions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"lmdb://{tmp_path}/store"
    words = StatefulLoop(WordCount, backend=url, partitions=partitions)
    words.add("to be or not to be")
    words.snapshot()
    words.add("be quick")
    backend = ("--backend", url)
    status, out, err = query(capsys, "WordCount", "--key", "be", *backend)
    assert (status, out) == (0, "be value=2\n")
    assert "1 call since the snapshot" in err
    words.close()
    assert query(capsys, "WordCount", "--key", "be", "--key", "to", *backend)[1:] == (
        "be value=3\nto value=2\n", "",
    )  # fmt: skip
    every = query(capsys, "WordCount", "--json", *backend)[1].splitlines()
    assert sorted(every)[0] == '{"key": "be", "value": 3}'
    assert len(every) == 5
    status, _, err = query(capsys, "WordCount", "--key", "zz", *backend)
    assert (status, "has no row of 'zz'" in err) == (2, True)
    status, _, err = query(capsys, "WordCount", "--vertex", "be", *backend)
    assert (status, "use --key" in err) == (2, True)


@pytest.mark.parametrize("partitions", [1, 7])
def test_several_elements_are_read_by_name(
    partitions: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"lmdb://{tmp_path}/store"
    with StatefulLoop(Shop, backend=url, partitions=partitions) as shop:
        shop.deliver("tea", 3, 2.5)
        assert shop.pay.map([7, -7, 7], [1, 2, 3]) == [1.0, 2.0, 4.0]
        assert shop.lookup("tea", "stock") == {"tea": {"count": 3, "price": 2.5}}
        assert shop.lookup([7, 8], element="paid") == {7: {"value": 4.0}}
        with pytest.raises(InputError, match="state elements stock, paid"):
            shop.lookup("tea")
    backend = ("--backend", url)
    of = query(capsys, "Shop", "--element", "stock", "--key", "tea", *backend)
    assert of == (0, "tea count=3 price=2.5\n", "")
    assert (
        query(capsys, "Shop", "--element", "paid", "--key", "-7", *backend)[1] == "-7 value=2.0\n"
    )
    assert (
        "the keys of paid are integers"
        in query(capsys, "Shop", "--element", "paid", "--key", "tea", *backend)[2]
    )
    assert "state elements stock, paid" in query(capsys, "Shop", *backend)[2]
    with StatefulLoop.resume(Shop, backend=url, partitions=2) as shop:
        assert shop.pay(7, 1) == 5.0


def test_rows_are_read_by_sql(postgres_url: str) -> None:
    import psycopg

    place, _, rest = postgres_url.partition("?schema=")
    schema = rest.partition("&")[0]
    with StatefulLoop(WordCount, backend=postgres_url, partitions=2) as words:
        words.add("to be or not to be")
        words.snapshot()
        words.add("be quick")
    with psycopg.connect(place, options=f"-c search_path={schema}") as link:
        rows = link.execute(
            "SELECT coalesce(name, vertex::text), value FROM vertex_state WHERE loop = 'WordCount'"
        ).fetchall()
    assert sorted(rows) == [("be", 3), ("not", 1), ("or", 1), ("quick", 1), ("to", 2)]


def test_rows_of_each_partition_are_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = f"lmdb://{tmp_path}/store"
    with StatefulLoop(Sums, backend=url, partitions=2) as sums:
        sums.add.map(range(10), [1] * 10)
    for key in ((), ("--key", "all")):
        out = query(capsys, "Sums", "--element", "sums", *key, "--backend", url)[1]
        names, values = zip(*(line.split(" value=") for line in out.splitlines()), strict=True)
        assert (names, sum(map(int, values))) == (("all", "all"), 10)


def test_rows_of_each_partition_are_read_by_sql(postgres_url: str) -> None:
    import psycopg

    place, _, rest = postgres_url.partition("?schema=")
    schema = rest.partition("&")[0]
    with StatefulLoop(Sums, backend=postgres_url, partitions=2) as sums:
        sums.add.map(range(10), [1] * 10)
        sums.snapshot()
        sums.add.map(range(10), [1] * 10)
    with psycopg.connect(place, options=f"-c search_path={schema}") as link:
        rows = link.execute(
            "SELECT class, name, value FROM vertex_state WHERE loop = 'Sums' AND class <> 'users'"
        ).fetchall()
    assert sorted(row[:2] for row in rows) == [("sums[0]", "all"), ("sums[1]", "all")]
    assert sum(row[2] for row in rows) == 20


def test_state_is_kept_by_name(tmp_path: Path) -> None:
    """A store with acknowledged calls is not replaced, nor taken for a graph's."""
    url = f"lmdb://{tmp_path}/store"
    with StatefulLoop(KeyValue, backend=url) as values:
        values.put(1, 2)
    with pytest.raises(InputError, match=r"has 1 acknowledged calls: continue with Stateful"):
        StatefulLoop(KeyValue, backend=url)
    with pytest.raises(InputError, match="belongs to program KeyValue, not to Names"):
        StatefulLoop.resume(Names, backend=url, loop="KeyValue")
    with pytest.raises(InputError, match="there is no loop 'Visits'"):
        StatefulLoop.resume(Visits, backend=url)
    with StatefulLoop(KeyValue, backend=url, replace=True) as values:
        assert values.get(1) == 0.0
