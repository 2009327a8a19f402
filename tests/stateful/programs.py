"""Stateful classes as a user would write them."""

from __future__ import annotations

from vertexsdk import Map, Partitioned, Stateful


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
