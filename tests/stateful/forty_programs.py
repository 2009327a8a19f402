"""Forty programs that a user might write, with random calls of each.

They were drawn up before the analysis was written. A class either runs and answers as its plain
object does, or has a line that ends with `# refused: ...`, what the refusal of that line says.
"""

from __future__ import annotations

import math
import random
import socket
import time
from collections.abc import Callable, Iterator
from typing import Any

from vertexsdk import (
    Array,
    Broadcast,
    Map,
    Matrix,
    Partitioned,
    PerPartition,
    SparseVector,
    Stateful,
    Value,
    gather_all,
    on_all,
)

# Counters


class PageViews(Stateful):
    """Views by page and by user, and of all."""

    pages = Partitioned(Map(str, int), key="page")
    users = Partitioned(Map(int, int), key="user")

    def view(self, page: str, user: int) -> int:
        self.pages[page] += 1
        self.users[user] += 1
        return self.users[user]

    def views(self, page: str) -> int:
        return self.pages[page]


class TotalViews(Stateful):
    """One number for all partitions."""

    pages = Partitioned(Map(str, int), key="page")
    total = Partitioned(Value(int))

    def view(self, page: str) -> float:
        self.pages[page] += 1
        views = self.pages[page]
        self.total.value += 1
        return views / self.total.value


class HourlyViews(Stateful):
    """A number for each hour of the day, which every partition counts by itself."""

    hours = PerPartition(Array(int, size=24))

    def view(self, hour: int) -> None:
        self.hours[hour % 24] += 1

    def busiest(self) -> int:
        parts = gather_all(on_all(self.hours).values())
        totals = [sum(column) for column in zip(*parts, strict=True)]
        return max(range(24), key=lambda hour: (totals[hour], -hour))


class UniqueVisitors(Stateful):
    """Visitors are counted once for each page."""

    seen = Partitioned(Map(str, bool), key="visit")
    visitors = Partitioned(Map(str, int), key="page")

    def visit(self, page: str, visitor: int) -> bool:
        visit = f"{page}/{visitor}"
        if visit in self.seen:
            return False
        self.seen[visit] = True
        self.visitors[page] += 1
        return True

    def count(self, page: str) -> int:
        return self.visitors[page]


# Sessions


class Sessions(Stateful):
    """A session ends after half an hour without an event; its length is added to the user's."""

    sessions = Partitioned(Map(str, begin=float, last=float, events=int), key="user")
    lengths = Partitioned(Map(str, count=int, total=float), key="user")

    def event(self, user: str, at: float) -> int:
        session = self.sessions[user]
        closed = session.events > 0 and at - session.last > 1800
        length = session.last - session.begin
        if closed or session.events == 0:
            session.begin = at
            session.events = 0
        session.last = max(session.last, at)
        session.events += 1
        events = session.events
        if closed:
            self.lengths[user].count += 1
            self.lengths[user].total += length
        return events

    def mean(self, user: str) -> float:
        row = self.lengths[user]
        return row.total / row.count if row.count else 0.0


class Funnel(Stateful):
    """How far users come; a step counts when the one before it was taken."""

    steps = Partitioned(Map(int, int), key="user")
    reached = Partitioned(Map(int, int), key="step")

    def step(self, user: int, step: int) -> bool:
        if step == self.steps[user] + 1:
            self.steps[user] = step
            self.reached[step] += 1
            return True
        return False

    def count(self, step: int) -> int:
        return self.reached[step]


# Carts and stocks


class Carts(Stateful):
    """Carts are rows of a matrix; a purchase sums up the prices."""

    prices = Partitioned(Map(str, float), key="item")
    carts = Partitioned(Matrix(str, str), key="user")

    def price(self, item: str, cents: int) -> None:
        self.prices[item] = float(cents)

    def put(self, user: str, item: str, count: int) -> None:
        self.carts[user, item] += count

    def buy(self, user: str) -> float:
        cart = self.carts.row(user)
        self.carts.clear(user)
        total = 0.0
        for item, count in cart:
            total += self.prices[item] * count
        return total


class Reservations(Stateful):
    """An order that cannot be delivered raises after it was noted."""

    orders = Partitioned(Map(int, item=str, count=int), key="order")
    stock = Partitioned(Map(str, int), key="item")

    def deliver(self, item: str, count: int) -> int:
        self.stock[item] += count
        return self.stock[item]

    def reserve(self, order: int, item: str, count: int) -> int:
        if order in self.orders:
            raise ValueError(f"order {order} is there already")
        self.orders[order].item = item
        self.orders[order].count = count
        if self.stock[item] < count:
            raise ValueError(f"there are only {self.stock[item]} of {item}")
        self.stock[item] -= count
        return self.stock[item]

    def cancel(self, order: int) -> None:
        row = self.orders.pop(order)
        self.stock[row.item] += row.count


class Basket(Stateful):
    """All items of an order are taken, or none."""

    stock = Partitioned(Map(str, int), key="item")

    def deliver(self, item: str, count: int) -> None:
        self.stock[item] += count

    def take(self, items: str) -> None:
        for item in items.split():
            if self.stock[item] == 0:
                raise ValueError(f"no {item} is left")
            self.stock[item] -= 1


# Leader boards


class LeaderBoard(Stateful):
    """The best of all players."""

    scores = Partitioned(Map(str, int), key="player")

    def score(self, player: str, points: int) -> int:
        self.scores[player] += points
        return self.scores[player]

    def top(self, count: int) -> list[tuple[int, str]]:
        parts = gather_all(on_all(self.scores).items())
        return sorted(((n, player) for part in parts for player, n in part), reverse=True)[:count]


class Teams(Stateful):
    """Players of teams; the team is read from another element."""

    team = Partitioned(Map(str, str), key="player")
    points = Partitioned(Map(str, int), key="name")

    def join(self, player: str, name: str) -> None:
        self.team[player] = name

    def score(self, player: str, points: int) -> None:
        self.points[self.team.get(player, "none")] += points

    def total(self, name: str) -> int:
        return self.points[name]


class HighestBid(Stateful):
    """Auctions: a bid that is not higher is refused; the last bidder gets the money back."""

    bids = Partitioned(Map(int, user=str, amount=int), key="item")
    money = Partitioned(Map(str, int), key="user")

    def bid(self, item: int, user: str, amount: int) -> bool:
        row = self.bids[item]
        if amount <= row.amount:
            return False
        last, refund = row.user, row.amount
        row.user, row.amount = user, amount
        self.money[user] -= amount
        if last:
            self.money[last] += refund
        return True

    def balance(self, user: str) -> int:
        return self.money[user]


# Limits, deduplication


class RateLimit(Stateful):
    """A hundred calls a minute for each user."""

    windows = Partitioned(Map(int, minute=int, count=int), key="user")
    LIMIT = 3

    def allow(self, user: int, second: int) -> bool:
        row = self.windows[user]
        if row.minute != second // 60:
            row.minute, row.count = second // 60, 0
        row.count += 1
        return row.count <= self.LIMIT


class TokenBucket(Stateful):
    """Limits by address and for all calls together."""

    buckets = Partitioned(Map(str, tokens=float, at=float), key="address")
    refused = Partitioned(Value(int))

    def allow(self, address: str, at: float) -> bool:
        bucket = self.buckets[address]
        passed = max(at - bucket.at, 0.0) if address in self.buckets else 10.0
        tokens = min(bucket.tokens + passed, 10.0)
        allowed = tokens >= 4.0
        bucket.tokens = tokens - 4.0 if allowed else tokens
        bucket.at = max(bucket.at, at)
        if not allowed:
            self.refused.value += 1
        return allowed

    def count(self) -> int:
        return self.refused.value


class Deduplicated(Stateful):
    """Events that come again change nothing."""

    ids = Partitioned(Map(str, bool), key="event")
    sums = Partitioned(Map(int, float), key="device")

    def measure(self, event: str, device: int, value: int) -> float | None:
        if not self.ids.get(event, False):
            self.ids[event] = True
            self.sums[device] += value
            return self.sums[device]
        return None


# Joins


class Orders(Stateful):
    """Orders and payments, in whichever order they come."""

    orders = Partitioned(Map(int, float), key="order")
    payments = Partitioned(Map(int, float), key="order")
    open_amounts = Partitioned(Map(str, float), key="customer")

    def order(self, order: int, customer: str, amount: int) -> float:
        self.orders[order] = float(amount)
        paid = self.payments.get(order, 0.0)
        self.open_amounts[customer] += amount - paid
        return self.open_amounts[customer]

    def pay(self, order: int, amount: int) -> bool:
        wanted = self.orders.get(order)
        self.payments[order] += amount
        return wanted is not None and self.payments[order] >= wanted


class Attribution(Stateful):
    """Clicks are counted for the campaign that a user saw last."""

    shown = Partitioned(Map(int, campaign=str, at=float), key="user")
    clicks = Partitioned(Map(str, int), key="campaign")

    def show(self, user: int, campaign: str, at: float) -> None:
        row = self.shown[user]
        if at >= row.at:
            row.campaign, row.at = campaign, at

    def click(self, user: int, at: float) -> str:
        row = self.shown[user]
        campaign = row.campaign if row.campaign and at - row.at < 3600 else "organic"
        self.clicks[campaign] += 1
        return f"{campaign} {self.clicks[campaign]}"


class Enriched(Stateful):
    """Amounts of accounts in the currency of a table that all partitions have."""

    rates = Broadcast(Map(str, float))
    cents = Partitioned(Map(int, float), key="account")

    def rate(self, currency: str, value: int) -> int:
        self.rates[currency] = value / 4
        return len(self.rates)

    def book(self, account: int, currency: str, amount: int) -> float:
        if currency not in self.rates:
            raise KeyError(f"there is no rate of {currency}")
        self.cents[account] += amount * self.rates[currency]
        return self.cents[account]


class Flags(Stateful):
    """Switches that all partitions have."""

    flags = Broadcast(Map(str, bool))
    used = Partitioned(Map(str, int), key="flag")

    def switch(self, flag: str, on: bool) -> None:
        self.flags[flag] = on

    def use(self, flag: str) -> bool:
        on = self.flags[flag]
        if on:
            self.used[flag] += 1
        return on


# Feature stores


class Features(Stateful):
    """Features of entities as a sparse matrix."""

    features = Partitioned(Matrix(str, int), key="entity")
    weights = Broadcast(Array(float, size=8))

    def put(self, entity: str, feature: int, value: int) -> None:
        self.features[entity, feature % 8] = value

    def vector(self, entity: str) -> SparseVector:
        return self.features.row(entity)

    def weight(self, feature: int, value: int) -> None:
        self.weights[feature % 8] = value / 2

    def score(self, entity: str) -> float:
        row = self.features.row(entity)
        return sum(value * self.weights[feature] for feature, value in row)


class Aggregates(Stateful):
    """Mean and variance of a card's amounts; a card is new to a merchant or not."""

    cards = Partitioned(Map(int, count=int, mean=float, squares=float), key="card")
    merchants = Partitioned(Map(str, int), key="merchant")
    pairs = Partitioned(Map(str, int), key="pair")

    def pay(self, card: int, merchant: str, amount: float) -> list[float]:
        row = self.cards[card]
        row.count += 1
        before = amount - row.mean
        row.mean += before / row.count
        row.squares += before * (amount - row.mean)
        deviation = math.sqrt(row.squares / row.count)
        self.merchants[merchant] += 1
        count = self.merchants[merchant]
        pair = f"{card} {merchant}"
        self.pairs[pair] += 1
        return [deviation, count, self.pairs[pair]]


class Anomalies(Stateful):
    """Values far from their exponential mean are counted by rack and by sensor."""

    sensors = Partitioned(Map(int, mean=float, alarms=int), key="sensor")
    racks = Partitioned(Map(int, int), key="rack")

    def measure(self, sensor: int, value: float) -> str:
        row = self.sensors[sensor]
        far = abs(value - row.mean) > 0.5
        row.mean = 0.75 * row.mean + 0.25 * value
        if far:
            row.alarms += 1
            rack = sensor // 4
            self.racks[rack] += 1
            level = "red" if self.racks[rack] > 10 else "yellow"
        else:
            level = "green"
        return level


# Collaborative filtering, text, models


class Recommender(Stateful):
    """Collaborative filtering as in the paper on stateful dataflow graphs."""

    ratings = Partitioned(Matrix, key="user")
    together = PerPartition(Matrix)

    def add_rating(self, user: int, item: int, rating: float) -> None:
        self.ratings[user, item] = rating
        for other, value in self.ratings.row(user):
            if value > 0:
                self.together[item, other] += 1
                self.together[other, item] += 1

    def recommend(self, user: int) -> SparseVector:
        row = self.ratings.row(user)
        scores = on_all(self.together).multiply(row)
        return self.merge(gather_all(scores))

    def merge(self, scores: list[SparseVector]) -> SparseVector:
        return sum(scores, SparseVector())


class WordCount(Stateful):
    """Words by line, and the lines."""

    counts = Partitioned(Map(str, int), key="word")
    lines = PerPartition(Value(int))

    def add(self, line: str) -> None:
        self.lines.value += 1
        for word in line.split():
            self.counts[word] += 1

    def count(self, word: str) -> int:
        return self.counts[word]

    def number_of_lines(self) -> int:
        return sum(gather_all(on_all(self.lines).value))


class Search(Stateful):
    """An inverted index: documents by word."""

    words = Partitioned(Matrix(str, int), key="word")
    lengths = Partitioned(Map(int, int), key="document")

    def add(self, document: int, text: str) -> int:
        for word in text.lower().split():
            self.words[word, document] += 1
        self.lengths[document] = len(text)
        return len(text)

    def find(self, word: str) -> list[int]:
        return [document for document, _ in self.words.row(word)]

    def find_both(self, first: str, second: str) -> list[int]:
        one = {document for document, _ in self.words.row(first)}
        return [document for document, _ in self.words.row(second) if document in one]


class Spam(Stateful):
    """Naive Bayes: counts of words of two kinds of messages."""

    spam = Partitioned(Map(str, int), key="word")
    ham = Partitioned(Map(str, int), key="word")

    def learn(self, text: str, is_spam: bool) -> None:
        for word in text.split():
            if is_spam:
                self.spam[word] += 1
            else:
                self.ham[word] += 1

    def score(self, text: str) -> int:
        score = 0
        for word in text.split():
            bad = self.spam[word]
            score += bad - self.ham[word]
        return score


class Regression(Stateful):
    """A line through points, from sums that each partition has."""

    sums = PerPartition(Array(int, size=4))

    def point(self, x: int, y: int) -> None:
        self.sums[0] += 1
        self.sums[1] += x
        self.sums[2] += x * x
        self.sums[3] += x * y

    def moments(self) -> list[int]:
        parts = gather_all(on_all(self.sums).values())
        return [sum(column) for column in zip(*parts, strict=True)]


# Messages, graphs


class Inbox(Stateful):
    """A message to a room is unread for each of its members."""

    members = Partitioned(Matrix(str, int), key="room")
    unread = Partitioned(Map(int, int), key="member")

    def join(self, room: str, member: int) -> None:
        self.members[room, member] = 1

    def leave(self, room: str, member: int) -> None:
        del self.members[room, member]

    def post(self, room: str, author: int) -> None:
        for member, _ in self.members.row(room):
            if member != author:
                self.unread[member] += 1

    def read(self, member: int) -> int:
        return self.unread.pop(member, 0)


class Timeline(Stateful):
    """Posts go to the timelines of followers, and are counted for the author."""

    followers = Partitioned(Matrix, key="author")
    timelines = Partitioned(Matrix, key="user")
    posts = Partitioned(Map(int, int), key="author")

    def follow(self, user: int, author: int) -> None:
        self.followers[author, user] = 1

    def post(self, author: int, number: int) -> int:
        row = self.followers.row(author)
        for user, _ in row:
            self.timelines[user, number] = author
        self.posts[author] += 1
        return len(row)

    def timeline(self, user: int) -> list[int]:
        return sorted(number for number, _ in self.timelines.row(user))


class ShortUrls(Stateful):
    """A number for each address, given out once."""

    numbers = Partitioned(Map(str, int), key="url")
    next_number = Partitioned(Value(int))
    urls = Partitioned(Map(int, str), key="number")

    def resolve(self, number: int) -> str:
        return self.urls[number]

    def shorten(self, url: str) -> int:
        if url in self.numbers:
            return self.numbers[url]
        self.next_number.value += 1
        number = self.next_number.value
        self.urls[number] = url
        self.numbers[url] = number
        return number


class Accounts(Stateful):
    """Transfers: one element with two keys, and a fee."""

    cents = Partitioned(Map(int, int), key="account")

    def pay_in(self, account: int, amount: int) -> int:
        self.cents[account] += amount
        return self.cents[account]

    def transfer(self, source: int, target: int, amount: int) -> int:
        self.cents[source] -= amount
        if self.cents[source] < 0:
            raise ValueError(f"account {source} has only {self.cents[source] + amount}")
        self.cents[target] += amount
        return self.cents[target]


class Votes(Stateful):
    """One vote a user; a second one moves it."""

    voted = Partitioned(Map(int, str), key="user")
    tally = Partitioned(Map(str, int), key="candidate")

    def vote(self, user: int, candidate: str) -> None:
        if not candidate:
            raise ValueError("name a candidate")
        before = self.voted.get(user)
        self.voted[user] = candidate
        if before is not None:
            self.tally[before] -= 1
        self.tally[candidate] += 1

    def count(self, candidate: str) -> int:
        return self.tally[candidate]


class Experiments(Stateful):
    """Variants by the hash of a user; successes by variant."""

    exposed = Partitioned(Map(str, int), key="variant")
    successes = Partitioned(Map(str, int), key="variant")

    def expose(self, user: int, experiment: str) -> str:
        variant = f"{experiment}{user * 7919 % 3}"
        self.exposed[variant] += 1
        return variant

    def succeed(self, variant: str) -> float:
        self.successes[variant] += 1
        good = self.successes[variant]
        shown = self.exposed[variant]
        return good / shown if shown else math.inf


# What is refused


class TimedSessions(Stateful):
    last = Partitioned(Map(int, float), key="user")

    def touch(self, user: int) -> None:
        self.last[user] = time.time()  # refused: differs in a replay: pass it as an argument


class Sampled(Stateful):
    kept = Partitioned(Map(int, int), key="event")

    def keep(self, event: int) -> None:
        if random.random() < 0.1:  # refused: differs in a replay: pass it as an argument
            self.kept[event] += 1


class Logged(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    def add(self, word: str) -> None:
        self.counts[word] += 1
        with open("words.log", "a") as file:  # refused: runs on another machine
            file.write(word)


class Notifying(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    def add(self, word: str) -> None:
        self.counts[word] += 1
        socket.create_connection(("localhost", 1))  # refused: runs on another machine


class BothWays(Stateful):
    links = Partitioned(Matrix, key="source")

    def out(self, source: int) -> int:
        return len(self.links.row(source))

    def into(self, target: int) -> int:
        return len(self.links.column(target))  # refused: by row and by column


class UnionFind(Stateful):
    parents = Partitioned(Map(int, int), key="node")

    def find(self, node: int) -> int:
        while self.parents.get(node, node) != node:  # refused: a while over several
            node = self.parents[node]
        return node


class Shared(Stateful):
    counts = Partitioned(Map(str, int), key="word")
    recent: list[str] = []  # noqa: RUF012  # refused: state outside of state elements

    def add(self, word: str) -> None:
        self.counts[word] += 1


class Updating(Stateful):
    sums = PerPartition(Array(float, size=4))

    def scaled(self, factor: float) -> list[float]:
        steps: list[float] = []
        parts = on_all(self.sums).map(steps.append)  # refused: changes steps
        return gather_all(parts)


class Asynchronous(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    async def add(self, word: str) -> None:  # refused: a call is answered when it returns
        self.counts[word] += 1


class Later(Stateful):
    counts = Partitioned(Map(str, int), key="word")
    other = Partitioned(Map(str, int), key="name")

    def add(self, word: str, name: str) -> int:
        words: Iterator[str] = (part for part in word.split())  # refused: cannot be sent
        self.counts[word] += 1
        self.other[name] += 1
        return len(list(words))


Draw = Callable[[random.Random], tuple[Any, ...]]
_NAMES = ["", "a", "b", "ä", "c d", *map(str, range(6))]
_WORDS = ["to", "be", "or", "not", "Ä", "x"]
STRINGS = [  # that may be keys
    *_NAMES, *_WORDS, "organic", "none", *(f"{n}{k}" for n in _NAMES for k in range(3)),
    *(f"{n}/{k}" for n in _NAMES for k in range(-1, 12)),
    *(f"{k} {n}" for n in _NAMES for k in range(-1, 12)),
]  # fmt: skip


def _name(chance: random.Random) -> str:
    return chance.choice(_NAMES)


def _small(chance: random.Random) -> int:
    return chance.choice([0, 1, 2, 3, 4, 5, 6, 7, 11, -1])


def _text(chance: random.Random) -> str:
    return " ".join(chance.choices(_WORDS, k=chance.choice([0, 1, 5])))


def _time(chance: random.Random) -> float:
    return chance.choice([0.0, 60.0, 100.5, 1000.0, 1801.0, 5000.0, 9000.0])


def _of(*draws: Callable[[random.Random], Any]) -> Draw:
    return lambda chance: tuple(draw(chance) for draw in draws)


def _yes(chance: random.Random) -> bool:
    return chance.random() < 0.5


_none = _of()
CALLS: dict[type[Stateful], dict[str, Draw]] = {
    PageViews: {"view": _of(_name, _small), "views": _of(_name)},
    TotalViews: {"view": _of(_name)},
    HourlyViews: {"view": _of(_small), "busiest": _none},
    UniqueVisitors: {"visit": _of(_name, _small), "count": _of(_name)},
    Sessions: {"event": _of(_name, _time), "mean": _of(_name)},
    Funnel: {"step": _of(_small, _small), "count": _of(_small)},
    Carts: {"price": _of(_name, _small), "put": _of(_name, _name, _small), "buy": _of(_name)},
    Reservations: {
        "deliver": _of(_name, _small), "reserve": _of(_small, _name, _small),
        "cancel": _of(_small),
    },
    Basket: {"deliver": _of(_name, _small), "take": _of(_text)},
    LeaderBoard: {"score": _of(_name, _small), "top": _of(_small)},
    Teams: {"join": _of(_name, _name), "score": _of(_name, _small), "total": _of(_name)},
    HighestBid: {"bid": _of(_small, _name, _small), "balance": _of(_name)},
    RateLimit: {"allow": _of(_small, _small)},
    TokenBucket: {"allow": _of(_name, _time), "count": _none},
    Deduplicated: {"measure": _of(_name, _small, _small)},
    Orders: {"order": _of(_small, _name, _small), "pay": _of(_small, _small)},
    Attribution: {"show": _of(_small, _name, _time), "click": _of(_small, _time)},
    Enriched: {"rate": _of(_name, _small), "book": _of(_small, _name, _small)},
    Flags: {"switch": _of(_name, _yes), "use": _of(_name)},
    Features: {
        "put": _of(_name, _small, _small), "vector": _of(_name), "weight": _of(_small, _small),
        "score": _of(_name),
    },
    Aggregates: {"pay": _of(_small, _name, _time)},
    Anomalies: {"measure": _of(_small, _time)},
    Recommender: {"add_rating": _of(_small, _small, _small), "recommend": _of(_small)},
    WordCount: {"add": _of(_text), "count": _of(_name), "number_of_lines": _none},
    Search: {"add": _of(_small, _text), "find": _of(_name), "find_both": _of(_text, _name)},
    Spam: {"learn": _of(_text, _yes), "score": _of(_text)},
    Regression: {"point": _of(_small, _small), "moments": _none},
    Inbox: {
        "join": _of(_name, _small), "leave": _of(_name, _small), "post": _of(_name, _small),
        "read": _of(_small),
    },
    Timeline: {
        "follow": _of(_small, _small), "post": _of(_small, _small), "timeline": _of(_small),
    },
    ShortUrls: {"resolve": _of(_small), "shorten": _of(_name)},
    Accounts: {"pay_in": _of(_small, _small), "transfer": _of(_small, _small, _small)},
    Votes: {"vote": _of(_small, _name), "count": _of(_name)},
    Experiments: {"expose": _of(_small, _name), "succeed": _of(_name)},
}  # fmt: skip
REFUSED: list[type[Stateful]] = [
    TimedSessions, Sampled, Logged, Notifying, BothWays, UnionFind, Shared, Updating, Asynchronous,
    Later,
]  # fmt: skip
