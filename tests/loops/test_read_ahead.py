"""Batches read ahead: in order, bounded, and what the source fails of reaches the reader."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from vertexsdk.loops.streams.file_stream import ReadAhead


@dataclass
class Piece:
    size: int
    bytes: int

    def __len__(self) -> int:
        return self.size


class Source:
    """Gives pieces until it is stopped; then may fail."""

    def __init__(self, pieces: list[Piece], error: Exception | None = None) -> None:
        self.pieces, self.error = pieces, error
        self.given = 0
        self.stopped = threading.Event()

    def stop(self) -> None:
        self.stopped.set()

    def __iter__(self) -> Iterator[Piece]:
        for piece in self.pieces:
            if self.stopped.is_set():
                return
            self.given += 1
            yield piece
        if self.error is not None:
            raise self.error


@pytest.mark.parametrize("limit", [1, 7])
@pytest.mark.parametrize("count", [0, 1, 30])
def test_everything_in_order(count: int, limit: int) -> None:
    pieces = [Piece(k, 1) for k in range(count)]
    with ReadAhead(Source(pieces), limit=limit) as ahead:
        assert list(ahead) == pieces
    assert ahead.received == sum(map(len, pieces))


def test_a_fast_source_waits_for_a_slow_reader() -> None:
    source = Source([Piece(10, 8)] * 1000)
    with ReadAhead(source, limit=10) as ahead:
        end = time.monotonic() + 60
        while source.given < 11:
            assert time.monotonic() < end
            time.sleep(0.001)
        time.sleep(0.02)
        assert source.given == 11  # ten wait, one is held until there is room
        taken = iter(ahead)
        for _ in range(5):
            next(taken)
        time.sleep(0.02)
        assert source.given <= 16
    assert not ahead._thread.is_alive()
    assert source.given <= 17 + 10


def test_what_came_before_a_failure_is_given_first() -> None:
    with ReadAhead(Source([Piece(1, 1)] * 3, ValueError("gone"))) as ahead:
        taken = iter(ahead)
        assert len([next(taken) for _ in range(3)]) == 3
        with pytest.raises(ValueError, match="gone"):
            next(taken)


def test_stop_lets_what_waits_through() -> None:
    source = Source([Piece(1, 1)] * 1000)
    with ReadAhead(source, limit=5) as ahead:
        taken = iter(ahead)
        next(taken)
        source.stop()
        assert 1 <= len(list(taken)) <= 7
