"""Numbers to lengths: linear and logarithmic scales, their ticks, and numbers in short."""

from __future__ import annotations

import math
from dataclasses import dataclass

__all__ = ["Scale", "short", "span"]


@dataclass(frozen=True, slots=True)
class Scale:
    """Numbers from ``low`` to ``high`` onto pixels from ``start`` to ``end``."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def __call__(self, value: float) -> float:
        """Where a number lies."""
        share = (self._of(value) - self._of(self.low)) / (self._of(self.high) - self._of(self.low))
        return self.start + share * (self.end - self.start)

    def _of(self, value: float) -> float:
        return math.log10(value) if self.log else value

    def ticks(self, most: int = 6) -> list[float]:
        """Round numbers between the ends, at most about so many."""
        if not self.log:
            step = _round_up((self.high - self.low) / most)
            first = math.ceil(self.low / step - 1e-9)
            last = math.floor(self.high / step + 1e-9)
            return [round(k * step, 12) for k in range(first, last + 1)]
        first, last = math.ceil(self._of(self.low) - 1e-9), math.floor(self._of(self.high) + 1e-9)
        apart = max(1, math.ceil((last - first + 1) / most))
        found = [10.0**k for k in range(first, last + 1, apart)]
        if len(found) >= 3:
            return found
        for parts in ((1, 2, 5), (1, 5), (1,)):
            found = [m * 10.0**k for k in range(first - 1, last + 1) for m in parts]
            found = [t for t in found if self.low * (1 - 1e-9) <= t <= self.high * (1 + 1e-9)]
            if len(found) <= max(3, most):
                break
        return found


def _round_up(step: float) -> float:
    """The next of 1, 2, 5, 10, 20, ... that is not smaller."""
    power = 10.0 ** math.floor(math.log10(step))
    return next(m * power for m in (1, 2, 5, 10) if m * power >= step * (1 - 1e-9))


def _round_down(number: float) -> float:
    """The last of 1, 2, 5, 10, 20, ... that is not greater."""
    power = 10.0 ** math.floor(math.log10(number))
    return next(m * power for m in (5, 2, 1) if m * power <= number * (1 + 1e-9))


def span(values: list[float], log: bool, zero: bool) -> tuple[float, float]:
    """From where to where an axis goes for these numbers.

    Args:
        zero: begins at zero, so that lengths are in proportion; logarithmic: at a round number
            that leaves the least one a length to be seen.
    """
    if not values:
        return (1.0, 10.0) if log else (0.0, 1.0)
    low, high = min(values), max(values)
    if log:
        if not zero:
            first, last = _round_down(low), _round_up(high)
            return first, max(last, first * 5)
        first = _round_down(low / 1.5)
        return first, max(high, first * 10)
    if zero:
        low, high = min(0.0, low), max(0.0, high)
    return (low, high) if high > low else (low, low + 1.0)


def short(value: float) -> str:
    """Three digits that count, as 0.0411, 24.8, 1,230, 16.8 M."""
    size = abs(value)
    if size == 0:
        return "0"
    for unit, name in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if size >= unit:
            return f"{_digits(value / unit)} {name}"
    return _digits(value) if size >= 1e-4 else f"{value:.2g}"


def _digits(value: float) -> str:
    before = math.floor(math.log10(abs(value))) + 1
    text = f"{round(value, 3 - before):,.{max(0, 3 - before)}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
