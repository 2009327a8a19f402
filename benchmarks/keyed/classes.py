"""The stateful classes that the suite calls."""

from __future__ import annotations

from vertexsdk import (
    Map,
    Matrix,
    Partitioned,
    PerPartition,
    SparseVector,
    Stateful,
    gather_all,
    on_all,
)


class KeyValue(Stateful):
    """The class of the SDG paper's figures 6, 7 and 11."""

    values = Partitioned(Map(int, float), key="key")

    def put(self, key: int, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: int) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


class Names(Stateful):
    """The same, with strings as keys."""

    values = Partitioned(Map(str, float), key="key")

    def put(self, key: str, value: float) -> None:
        """Set the value of a key."""
        self.values[key] = value

    def get(self, key: str) -> float:
        """Return the value of a key."""
        return self.values.get(key, 0.0)


class KeyCount(Stateful):
    """How often there was each key."""

    counts = Partitioned(Map(int, int), key="key")

    def add(self, key: int) -> None:
        """Count a key."""
        self.counts[key] += 1

    def count(self, key: int) -> int:
        """Return the count of a key."""
        return self.counts[key]


class WordCount(Stateful):
    """The class of the SDG paper's figure 8."""

    counts = Partitioned(Map(str, int), key="word")

    def add(self, line: str) -> None:
        """Count the words of a line."""
        for word in line.split():
            self.counts[word] += 1

    def count(self, word: str) -> int:
        """Return the count of a word."""
        return self.counts[word]


class Chain(Stateful):
    """Three state elements by different keys: each call is shuffled three times."""

    first = Partitioned(Map(int, int), key="key")
    second = Partitioned(Map(int, int), key="key")
    third = Partitioned(Map(int, int), key="key")

    def add(self, key: int) -> None:
        """Count a key, and two others that follow from it."""
        self.first[key] += 1
        other = (key * 7919 + 13) % 999983
        self.second[other] += 1
        last = (other * 104729 + 7) % 999979
        self.third[last] += 1


class Recommender(Stateful):
    """Collaborative filtering, the class of the SDG paper's figure 5."""

    ratings = Partitioned(Matrix, key="user")
    together = PerPartition(Matrix)

    def add_rating(self, user: int, item: int, rating: float) -> None:
        """Set a rating, and count the item together with the others of its user."""
        self.ratings[user, item] = rating
        for other, value in self.ratings.row(user):
            if value > 0:
                self.together[item, other] += 1
                self.together[other, item] += 1

    def recommend(self, user: int) -> SparseVector:
        """Return a score for each item."""
        row = self.ratings.row(user)
        scores = on_all(self.together).multiply(row)
        return self.merge(gather_all(scores))

    def merge(self, scores: list[SparseVector]) -> SparseVector:
        """Return the sum of the scores of all partitions."""
        return sum(scores, SparseVector())
