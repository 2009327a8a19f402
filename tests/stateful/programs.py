"""Stateful classes as a user would write them."""

from __future__ import annotations

import heapq

from vertexsdk import Broadcast, Map, Partitioned, Stateful, Value, gather_all, on_all


class KeyValue(Stateful):
    values = Partitioned(Map(int, float), key="key")

    def put(self, key: int, value: float) -> None:
        self.values[key] = value

    def get(self, key: int) -> float:
        return self.values.get(key, 0.0)


class WordCount(Stateful):
    counts = Partitioned(Map(str, int), key="word")

    def add(self, line: str) -> None:
        for word in line.split():
            self.counts[word] += 1

    def count(self, word: str) -> int:
        return self.counts[word]


class Names(Stateful):
    """Strings as values, and everything that a map can do."""

    names = Partitioned(Map(int, str), key="user")

    def set_name(self, user: int, name: str, keep: bool = False) -> str | None:
        """Raises for an empty name, after it has changed it."""
        before = self.names.get(user)
        if keep and user in self.names:
            return before
        self.names[user] = name
        if not name:
            raise ValueError("a name cannot be empty")
        return before

    def forget(self, user: int) -> None:
        del self.names[user]

    def take(self, user: int, otherwise: str) -> str:
        return self.names.pop(user, otherwise)

    def first(self, user: int, name: str) -> str:
        return self.names.setdefault(user, name)

    def name_of(self, user: int) -> str:
        return self.names[user]


class Blobs(Stateful):
    """Bytes as values, as fields, as answers, and as variables that go from one key to another."""

    one = Partitioned(Map(int, bytes), key="key")
    rows = Partitioned(Map(str, y=float, x=bytes), key="name")
    last = Partitioned(Value(bytes))
    known = Broadcast(Map(str, bytes))

    def put(self, key: int, value: bytes = b"\0") -> bytes | None:
        """Raises for an empty value, after it has changed it."""
        before = self.one.get(key)
        self.one[key] = value
        if not value:
            raise ValueError("a value cannot be empty")
        return before

    def take(self, key: int, otherwise: bytes) -> bytes:
        return self.one.pop(key, otherwise)

    def first(self, key: int, value: bytes) -> bytes:
        return self.one.setdefault(key, value)

    def learn(self, name: str, y: float, x: bytes):
        row = self.rows[name]
        row.y += y
        row.x = x or row.x
        return row

    def count(self, name: str, x: bytes) -> float:
        self.rows[name].y += 1.0
        return self.rows[name].y

    def forget(self, name: str) -> None:
        self.rows.pop(name)

    def move(self, key: int, name: str, x: bytes) -> bytes:
        found = self.one[key]
        self.rows[name].x = found[:100] + x
        self.last.value = x[:50] + found[:50]
        return found + x

    def parts(self, x: bytes, names: str) -> list[bytes]:
        return [self.rows[name].x + x for name in names.split(",")]

    def share(self, name: str, x: bytes) -> int:
        self.known[name] = x
        return len(x)

    def shared(self, key: int, name: str) -> bytes:
        return self.one[key] + self.known[name]


class Visits(Stateful):
    """Several fields for each key, and items that raise."""

    users = Partitioned(Map(str, count=int, last=float, blocked=bool, note=str), key="user")
    LIMIT = 5

    def visit(self, user: str, time: float) -> int:
        row = self.users[user]
        row.count += 1
        row.last = max(row.last, time)
        if row.blocked:
            raise PermissionError(f"{user!r} is blocked: {row.count}")
        return row.count

    def block(self, user: str, note: str = "") -> None:
        self.users[user].blocked = True
        self.users[user].note = note

    def seen(self, users: str, time: float) -> None:
        for user in users.split(","):
            count = self.users[user].count + self.LIMIT
            if not user:
                continue
            self.users[user].count = count
            if self.users[user].blocked:
                raise PermissionError(f"{user!r} is blocked")
            self.users[user].last = time

    def state(self, user: str):
        return self.users[user]

    def named(self, user: str):
        return [user, self.users[user]]

    def count_of(self, user: str) -> int | None:
        return self.users[user].count if user in self.users else None

    def known(self, user: str) -> bool:
        return user in self.users

    def forget(self, user: str) -> None:
        self.users.pop(user)

    def about(self, text: str) -> str:
        return text.upper()


class Divided(Stateful):
    """Methods that are divided in every way."""

    values = Partitioned(Map(int, float), key="key")
    counts = Partitioned(Map(str, int), key="word")

    def two_elements(self, key: int, word: str) -> int:
        self.values[key] += 1.0
        self.counts[word] += 1
        return self.counts[word]

    def another_key(self, key: int, other: int) -> float:
        self.values[key] += 1.0
        return self.values[other]

    def computed_key(self, key: int) -> float:
        self.values[key // 2] += 0.5
        return self.values[key // 2]

    def reassigned_key(self, key: int) -> float:
        key = key % 5
        return self.values[key]

    def comprehension(self, word: str) -> list[float]:
        return [self.values[key] for key in range(3) if word != str(key)]

    def generator(self, key: int) -> float:
        return sum(self.values[key] for _ in range(3))

    def more_than_a_loop(self, line: str) -> int:
        line = line.lower()
        for word in line.split():
            self.counts[word] += 1
        return len(line)

    def sees_what_the_items_set(self, line: str) -> None:
        for word in (words := line.split()):
            self.counts[word] += len(words)

    def state_within_a_key(self, key: int) -> int:
        word = str(int(self.values[key]))
        self.counts[word] += 1
        return self.counts[str(int(self.values[key]))]

    def several_in_a_loop(self, line: str, least: int) -> list[str]:
        """Raises for a word that is not a number, after others were counted."""
        shown: list[str] = []
        total = 0.0
        for word in line.split():
            before = self.values[int(word)]
            if before >= least:
                self.values[int(word)] = 0.0
                self.counts[word] += 1
                shown.append(f"{word} {total}")
            total += before
        return shown

    def continues(self, line: str) -> int:
        number = 0
        for word in line.split():
            number += 1
            if word < "2":
                continue
            count = self.counts[word]
            if count > 3:
                continue
            number += self.values[len(word)] > 0
        return number

    def either(self, key: int, word: str, first: bool) -> float:
        return self.values[key] if first else self.counts[word] + 0.5

    def both_or_none(self, key: int, word: str) -> bool:
        return (self.counts[word] > 1 and self.values[key] > 0) or key == 3

    def of_state(self, key: int) -> float:
        self.values[key] = self.counts[str(key)] + self.values[key + 1 if key < 9 else 0]
        return self.values[key]

    def maybe_unbound(self, key: int, word: str) -> str:
        if self.counts[word]:
            text = word * 2
        self.values[key] += 1
        if key < 5:
            return "small"
        return text

    def chained(self, key: int, word: str) -> float:
        one = self.values[key] = self.counts[word] + 1
        if word in self.counts:
            del self.counts[word]
        elif key in self.values:
            raise ValueError(f"{word!r} is not there")
        return one

    def best(self, line: str) -> list[tuple[int, str]]:
        heap: list[tuple[int, str]] = []
        names = iter("abcdefghijklmnop")
        for word in line.split():
            count = self.counts[word]
            heapq.heappush(heap, (-count, word + next(names)))
        heap.sort()
        return [one for one in heap if one in heap]

    def total(self) -> float:
        numbers = gather_all(on_all(self.values).values())
        return float(round(sum(sum(part) for part in numbers)))
