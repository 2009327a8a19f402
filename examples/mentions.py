"""Groups of people who mention each other, and their topics: a window that slides both ways.

    python examples/mentions.py [FILE] [--window SECONDS] [--steps SECONDS,...] [--slides N]

FILE has a line `source target unix_time [#topic]` per message; without FILE a small stream is
generated. An edge means that one person mentioned the other within the window. The groups are the
strongly connected components. The window slides forward, then backward, in steps of each length.
Each slide has an exact answer, of which only the differences are read: these keep the size and the
topics of each group.

Source: the demonstration in "Differential dataflow" (McSherry et al., CIDR 2013), appendix.
"""

import argparse
import random
import statistics
import tempfile
import time
from bisect import bisect_right
from collections import Counter, defaultdict

from vertexsdk import Graph, MainLoop

TOPICS = ("#news", "#music", "#sport", "#films", "#food", "#weather")


def read(path):
    """Return the messages (time, source, target, topic) of a file, in order of time."""
    with open(path) as lines:
        fields = [line.partition("# ")[0].split() for line in lines]
    return sorted((int(f[2]), int(f[0]), int(f[1]), (*f[3:], "no topic")[0]) for f in fields if f)


def generate(people=60, seconds=4000, seed=1):
    """Messages of people who mostly mention their friends, and mostly on one topic."""
    rng = random.Random(seed)
    friends = {p: [rng.randrange(people) for _ in range(3)] for p in range(people)}
    rows = []
    for second in range(seconds):
        source = rng.randrange(people)
        target = rng.choice(friends[source]) if rng.random() < 0.9 else rng.randrange(people)
        topic = TOPICS[source % 6] if rng.random() < 0.7 else rng.choice(TOPICS)
        rows.append((1_340_000_000 + second, source, target, topic))
    return rows


class Window:
    """The messages up to a time that are not older than `seconds`.

    >>> window = Window([(1, 7, 8, "#a"), (2, 8, 7, "#a"), (4, 7, 8, "#b")], seconds=2)
    >>> [row[0] for row in window.slide(2)[0]], window.changes
    ([1, 2], [('+', 7, 8), ('+', 8, 7)])
    >>> window.slide(4)
    ([(4, 7, 8, '#b')], [(1, 7, 8, '#a'), (2, 8, 7, '#a')])
    >>> window.changes
    [('-', 8, 7)]
    >>> window.slide(3)
    ([(2, 8, 7, '#a')], [(4, 7, 8, '#b')])
    """

    def __init__(self, rows, seconds):
        self.rows, self.seconds = rows, seconds
        self.times = [row[0] for row in rows]
        self.pairs = Counter()  # messages in the window by (source, target)
        self.first = self.stop = 0  # it has these rows
        self.changes = []  # of edges, by the latest slide

    def slide(self, end):
        """Move its end to a time; return the messages that enter, and those that leave."""
        first, stop = (bisect_right(self.times, t) for t in (end - self.seconds, end))
        old = range(self.first, self.stop)
        enter = [self.rows[k] for k in range(first, stop) if k not in old]
        leave = [self.rows[k] for k in old if not first <= k < stop]
        self.first, self.stop = first, stop
        earlier = {row[1:3]: self.pairs[row[1:3]] for row in enter + leave}
        self.pairs.update(row[1:3] for row in enter)
        self.pairs.subtract(row[1:3] for row in leave)
        self.changes = [
            ("+" if self.pairs[pair] else "-", *pair)
            for pair, count in earlier.items()
            if (count > 0) != (self.pairs[pair] > 0)
        ]
        return enter, leave


class Groups:
    """The size and the topics of each group, kept by differences.

    >>> from vertexsdk.loops.subscription import Change
    >>> groups = Groups()
    >>> groups.count([(1, 7, 8, "#a")], 1)
    >>> groups.update([Change(7, {"component": 7}, 1, 5), Change(8, {"component": 7}, 1, 5)])
    2
    >>> groups.largest(2)
    [(7, 2, ['#a'])]
    """

    def __init__(self):
        self.group = {}  # of each person
        self.sizes = Counter()
        self.topics = defaultdict(Counter)  # by group
        self.said = defaultdict(Counter)  # topics by person

    def count(self, rows, by):
        """Count the topics of messages that enter the window (by=1), or leave it (by=-1)."""
        for _, person, _, topic in rows:
            self.said[person][topic] += by
            if person in self.group:
                self.topics[self.group[person]][topic] += by

    def update(self, changes):
        """Have people enter groups and leave them; return how many differences there were."""
        changes = list(changes)
        for person, fields, diff, _ in changes:
            group = fields["component"]
            self.sizes[group] += diff
            add = self.topics[group].update if diff > 0 else self.topics[group].subtract
            add(self.said[person])
        self.group.update((p, fields["component"]) for p, fields, diff, _ in changes if diff > 0)
        gone = {p for p, _, diff, _ in changes if diff < 0}
        for person in gone - {p for p, _, diff, _ in changes if diff > 0}:
            del self.group[person]
        for group in {fields["component"] for _, fields, _, _ in changes}:
            if not self.sizes[group]:
                del self.sizes[group], self.topics[group]
        return len(changes)

    def largest(self, count):
        """Return (group, size, its three most frequent topics) of the largest groups."""
        return [
            (group, size, [topic for topic, n in self.topics[group].most_common(3) if n > 0])
            for group, size in sorted(self.sizes.items(), key=lambda item: (-item[1], item[0]))
        ][:count]


def main(arguments=None):
    """Slide the window forward and backward, and ask after each slide."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("file", nargs="?", help="lines `source target unix_time [topic]`")
    parser.add_argument("--window", type=int, default=600, metavar="SECONDS")
    parser.add_argument("--steps", default="1,10,60", metavar="SECONDS,...", help="of slides")
    parser.add_argument("--slides", type=int, default=10, metavar="N", help="each way")
    given = parser.parse_args(arguments)
    rows = read(given.file) if given.file else generate()
    window, groups, end = Window(rows, given.window), Groups(), rows[len(rows) // 2][0]
    groups.count(window.slide(end)[0], 1)
    sources, targets = zip(*window.pairs, strict=True)
    print(f"{len(window.pairs):,} pairs in a window of {given.window:,} s")
    with (
        tempfile.TemporaryDirectory() as store,
        MainLoop("scc", Graph.from_arrays(sources, targets), backend=f"lmdb://{store}/s") as loop,
        loop.subscribe(timeout=0) as differences,
    ):
        loop.query().close()
        groups.update(differences)
        for step in map(int, given.steps.split(",")):
            seconds = []
            for by in [step] * given.slides + [-step] * given.slides:
                end += by
                began = time.perf_counter()
                enter, leave = window.slide(end)
                groups.count(enter, 1)
                groups.count(leave, -1)
                loop.ingest(window.changes)
                if window.stop > window.first:
                    loop.query().close()
                count = groups.update(differences)
                seconds.append(time.perf_counter() - began)
                largest = "; ".join(
                    f"{size} of {group} on {' '.join(topics)}"
                    for group, size, topics in groups.largest(2)
                )
                print(
                    f"{by:+5} s: {len(enter):3} messages enter, {len(leave):3} leave, "
                    f"{len(window.changes):3} changes, {count:3} differences, "
                    f"{len(groups.sizes):3} groups, {largest}; {1000 * seconds[-1]:.1f} ms",
                    flush=True,
                )
            print(f"steps of {step} s: {1000 * statistics.median(seconds):.1f} ms (median)")
    return groups


if __name__ == "__main__":
    main()
