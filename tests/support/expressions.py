"""Random expressions for random programs: every value exact, and small enough not to overflow.

Ints stay below some millions, floats are multiples of 1/1024, so neither the order of additions
nor the number of partitions can show in a result.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Expressions"]


@dataclass
class Expressions:
    """What an expression may read, by type, and the dice."""

    rng: random.Random
    ints: Sequence[str] = ()
    floats: Sequence[str] = ()
    bools: Sequence[str] = ()
    calls: Sequence[str] = ()  # functions of two ints
    locals_: list[str] = field(default_factory=list)  # int variables

    def reading(
        self,
        ints: Sequence[str] = (),
        floats: Sequence[str] = (),
        bools: Sequence[str] = (),
    ) -> Expressions:
        """The same, which may read these too."""
        return Expressions(
            self.rng,
            [*self.ints, *ints],
            [*self.floats, *floats],
            [*self.bools, *bools],
            self.calls,
            list(self.locals_),
        )

    def int_(self, depth: int = 2) -> str:
        """An int expression, of magnitude below 10**6 where what it reads is below 10**4."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            names = [*self.ints, *self.locals_]
            return rng.choice(names) if names and rng.random() < 0.8 else str(rng.randint(0, 9))
        a, b = self.int_(depth - 1), self.int_(depth - 1)
        forms = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {rng.randint(2, 5)})",
            f"({a} % {rng.randint(2, 17)})",
            f"({a} // {rng.randint(2, 5)})",
            f"({a} ^ {b})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"abs({a})",
            f"({a} if {self.bool_(depth - 1)} else {b})",
        ]
        if self.calls:
            forms += [f"{rng.choice(self.calls)}({a}, {b})"] * 2
        if self.floats:
            forms.append(f"int({self.float_(depth - 1)})")
        return rng.choice(forms)

    def float_(self, depth: int = 2) -> str:
        """A float expression, a dyadic fraction where what it reads is one."""
        rng = self.rng
        if depth == 0 or rng.random() < 0.2:
            if self.floats and rng.random() < 0.8:
                return rng.choice(list(self.floats))
            return repr(rng.randint(-16, 64) / 8)
        a, b = self.float_(depth - 1), self.float_(depth - 1)
        forms = [
            f"({a} + {b})",
            f"({a} - {b})",
            f"({a} * {rng.choice([0.5, 2.0, -1.5])})",
            f"({a} / {rng.choice([2.0, 4.0])})",
            f"min({a}, {b})",
            f"max({a}, {b})",
            f"abs({a})",
            f"np.floor({a})",
            f"({a} if {self.bool_(depth - 1)} else {b})",
            f"float({self.int_(depth - 1)} % 64)",
        ]
        return rng.choice(forms)

    def bool_(self, depth: int = 1) -> str:
        """A condition."""
        rng = self.rng
        if self.bools and rng.random() < 0.3:
            return rng.choice(list(self.bools))
        compare = rng.choice(["<", "<=", ">", "==", "!="])
        if self.floats and rng.random() < 0.4:
            plain = f"{self.float_(0)} {compare} {self.float_(0)}"
        else:
            plain = f"{self.int_(0)} {compare} {self.int_(0)}"
        if depth == 0 or rng.random() < 0.6:
            return f"({plain})"
        forms = [f"(not {self.bool_(0)})", f"({plain} and {self.bool_(0)})",
                 f"({plain} or {self.bool_(0)})"]  # fmt: skip
        return rng.choice(forms)

    def value(self, kind: str, depth: int = 2) -> str:
        """An expression of a type, brought back to a small range."""
        if kind == "int":
            return f"({self.int_(depth)}) % {self.rng.choice([13, 97, 1009])}"
        if kind == "bool":
            return self.bool_(depth)
        return f"math.floor(({self.float_(depth)}) * 8.0) / 8.0 % 32.0"
