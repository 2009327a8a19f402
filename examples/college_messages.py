"""A social network as a stream: messages arrive in order of time, with an exact answer each day.

    python examples/college_messages.py [FILE] [--program wcc|pagerank|bfs] [--window DAYS]

FILE has a line `source target unix_time` per message, such as the messages among students at UC
Irvine in 2004 (Panzarasa, Opsahl and Carley, JASIST 60, 2009). Without FILE it
generates a small stream of that form. An edge means that one student wrote to the other; with
--window it is removed after so many days without a message.
"""

import argparse
import random
import tempfile
import time
from collections import Counter, deque
from datetime import UTC, datetime

from vertexsdk import INT_MAX, Graph, MainLoop, session
from vertexsdk.algorithms import BreadthFirstSearch, ConnectedComponents, PageRank

DAY = 86_400  # seconds


def messages(path):
    """Yield (source, target, time) of each line."""
    with open(path) as lines:
        for line in lines:
            fields = line.partition("#")[0].split()
            if fields:
                source, target, at = map(int, fields)
                yield source, target, at


def made_up(people=40, days=8, seed=1):
    """Messages of people who come one by one, write to a few, and often write again."""
    rng = random.Random(seed)
    pairs = []
    for second in range(0, days * DAY, DAY // 25):
        here = 2 + people * second // (days * DAY)
        known = pairs[-40:]
        if known and rng.random() < 0.5:
            source, target = rng.choice(known)[:: rng.choice((1, -1))]
        else:
            source, target = rng.sample(range(1, here + 1), 2)
        pairs.append((source, target))
        late = 5000 if rng.random() < 0.02 else 0  # a clock that runs backwards
        yield source, target, 1_082_000_000 + second + rng.randrange(DAY // 25) - late


class Network:
    """Who wrote to whom lately, as changes of a graph.

    >>> network = Network(window=None)
    >>> list(network.changes([(1, 2, 50), (2, 1, 40)], until=60))
    [('+', 1, 2), ('+', 2, 1)]
    >>> network.late
    1
    """

    def __init__(self, window):
        self.window = window
        self.newest = {}  # time of the last message, by pair
        self.waiting = deque()  # messages in order, which may be the last of their pair
        self.clock = self.late = 0

    def changes(self, day, until):
        """Yield the changes which a day's messages lead to, and the edges that end with it."""
        for source, target, at in day:
            self.late += at < self.clock  # counted, and taken as of now
            self.clock = max(at, self.clock)
            self.newest[source, target] = self.clock
            self.waiting.append((source, target, self.clock))
            yield "+", source, target
        while self.window and self.waiting and self.waiting[0][2] <= until - self.window * DAY:
            source, target, at = self.waiting.popleft()
            if self.newest.get((source, target)) == at:  # not written again since
                del self.newest[source, target]
                yield "-", source, target


def by_day(stream):
    """Yield (end of the day, its messages), in order of arrival, for each day of the stream."""
    day, end = [], None
    for message in stream:
        while end is None or message[2] >= end:
            if end is not None:
                yield end, day
                day = []
            end = message[2] // DAY * DAY + DAY if end is None else end + DAY
        day.append(message)
    if day:
        yield end, day


def component(result):
    """Size of the largest component."""
    sizes = Counter(result.to_dict("component").values())
    return f"largest component {max(sizes.values()):,}"


def leader(result):
    """Who has the highest rank."""
    ranks = result.to_dict("rank")
    best = max(ranks, key=ranks.get)
    return f"highest rank {best} ({ranks[best]:.4f})"


def reached(result):
    """How many are reached."""
    steps = [s for s in result.to_dict().values() if s < INT_MAX]
    return f"{len(steps):,} reached in {max(steps)} steps at most"


PROGRAMS = {
    "wcc": (ConnectedComponents, {}, component),
    "pagerank": (PageRank, {}, leader),
    "bfs": (BreadthFirstSearch, {"origin": 1}, reached),
}


def main(arguments=None):
    """Take in the stream day by day, and ask at the end of each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="lines `source target unix_time`")
    parser.add_argument("--program", choices=PROGRAMS, default="wcc")
    parser.add_argument("--window", type=int, metavar="DAYS", help="forget older messages")
    given = parser.parse_args(arguments)
    program, params, shown = PROGRAMS[given.program]
    days = list(by_day(messages(given.file) if given.file else made_up()))
    network = Network(given.window)
    began, asked, changed = time.perf_counter(), [], 0
    spark = session("local[2]")
    with tempfile.TemporaryDirectory() as store:
        source, target, _ = days[0][1][0]
        graph = Graph.from_arrays([source], [target], spark=spark)
        with MainLoop(program, graph, params=params, backend=f"lmdb://{store}/state") as loop:
            for until, day in days:
                batch = list(network.changes(day, until))
                loop.ingest(batch, source=given.file or "made up", offset=until)
                changed += len(batch)
                if not network.newest:
                    continue  # nobody has written lately
                start = time.perf_counter()
                result = loop.query()
                asked.append(time.perf_counter() - start)
                print(
                    f"{datetime.fromtimestamp(until - 1, UTC):%Y-%m-%d}: {len(day):5,} messages, "
                    f"{result.statistics['num_vertices']:5,} people, "
                    f"{result.statistics['num_edges']:6,} edges; {shown(result)}; "
                    f"{1000 * asked[-1]:.0f} ms",
                    flush=True,
                )
                result.close()
            counts = loop.counts
    asked.sort()
    print(
        f"{changed:,} changes ({counts['added']:,} edges added, {counts['removed']:,} removed, "
        f"{network.late:,} late) and {len(asked)} queries in {time.perf_counter() - began:.1f} s; "
        f"a query took {1000 * asked[len(asked) // 2]:.0f} ms (median)"
    )


if __name__ == "__main__":
    main()
