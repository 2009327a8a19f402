"""Random vertex programs, whose methods compute with small integers."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

from tests.support.written_classes import written_class
from vertexsdk import Vertex

_ALGEBRAS = ["Latest(int)", "Latest(int)", "Min(int)", "Max(int)", "Sum(int)", "Sum(float)"]
_ATOMS = ["self.a", "self.b", "len(self.targets)", "self.c"]


class RandomProgram:
    """The text of a vertex program that ends on any graph.

    Args:
        chance: what is drawn.
        name: of the class.
        rounds: it has rounds.
    """

    def __init__(self, chance: random.Random, name: str, *, rounds: bool = False) -> None:
        self.chance, self.name, self.rounds = chance, name, rounds
        self.algebra = chance.choice(_ALGEBRAS)
        self.direction = chance.choice(["out", "out", "in", "both"])
        self.most = chance.choice([3, 5, 9])  # values are 0 to this
        self.grows = chance.random() < 0.4  # a value that never falls ends the run
        lines = [
            f"class {name}(Vertex):", "    a: int = state(1)",
            f"    b: int = state({chance.choice([0, 3])})", "    c: bool = state(False)",
            f"    messages = {self.algebra}", f'    direction = "{self.direction}"',
        ]  # fmt: skip
        lines += self._methods()
        self.text = "\n".join(["from vertexsdk import *", "", "", *lines, ""])

    def _methods(self) -> list[str]:
        chance = self.chance
        gather = self._gathered() + self._statements(["total", *_ATOMS, *self._rarely("iteration")])
        gather.append(self._stored("a", ["total", "self.b"]))
        scatter = self._statements(_ATOMS) if chance.random() < 0.2 else []
        lines = [
            "    def init(self):", *self._statements(["len(self.targets)", "2"]),
            "    def gather(self, iteration, source, delta):", *gather,
            "    def scatter(self, iteration):", *scatter, *self._emission(),
        ]  # fmt: skip
        if self.rounds:
            atoms = [*_ATOMS, *self._rarely("round")]
            lines += ["    def next_round(self, round):", *self._statements(atoms)]
        if not self.grows:
            limits = [4, 9, 17] if self.rounds else [1, 2, 4, 7]
            lines.insert(0, f"    max_iterations = {chance.choice(limits)}")
        if not self.grows and chance.random() < 0.2:
            limit = chance.choice([2, 3, 6])
            lines += ["    def converged(self, iteration, aggregates):",
                      f"        return iteration >= {limit}"]  # fmt: skip
        return lines

    def cls(self, directory: Path) -> type[Vertex]:
        """Write the file, and return the class."""
        made: type[Vertex] = written_class(self.name, self.text, directory)
        return made

    def _rarely(self, atom: str) -> list[str]:
        return [atom] if self.chance.random() < 0.2 else []

    def _gathered(self) -> list[str]:
        """Statements that set `total` from what is gathered."""
        modulus = self.chance.choice([5, 64])
        if self.algebra == "Sum(float)":
            return ["        total = 3", "        if delta.value < 1e200:",
                    f"            total = int(delta.value) % {modulus}"]  # fmt: skip
        if self.algebra != "Latest(int)":
            return [f"        total = delta.value % {modulus}"]
        combined = self.chance.choice(
            ["total + delta.values[k]", "total * 3 + delta.values[k] + k",
             "max(total, delta.values[k])"]
        )  # fmt: skip
        return ["        total = 0", "        for k in range(len(delta.values)):",
                f"            total = {combined}"]  # fmt: skip

    def _statements(self, atoms: Sequence[str]) -> list[str]:
        lines = []
        for field in self.chance.sample(["a", "b", "c"], self.chance.randint(0, 3)):
            line = self._stored(field, atoms)
            if self.chance.random() < 0.3:
                lines += [f"        if {self._condition(atoms)}:", f"    {line}"]
            else:
                lines.append(line)
        return lines or ["        pass"]

    def _stored(self, field: str, atoms: Sequence[str]) -> str:
        value = f"({self._value(atoms)}) % {self.most + 1}"
        if field == "c":
            value = f"self.c or {self._condition(atoms)}" if self.grows else self._condition(atoms)
        elif self.grows:
            value = f"max(self.{field}, {value})"
        return f"        self.{field} = {value}"

    def _value(self, atoms: Sequence[str]) -> str:
        chance = self.chance
        first, second = chance.choice(atoms), chance.choice([*atoms, "1", "2"])
        return chance.choice(
            [first, f"{first} + {second}", f"{first} * 2 - {second}", f"abs({first} - {second})",
             f"min({first}, {second} + 1)"]
        )  # fmt: skip

    def _condition(self, atoms: Sequence[str]) -> str:
        sign = self.chance.choice(["<", ">", "==", "!="])
        return f"{self.chance.choice(atoms)} {sign} {self.chance.choice([*atoms, '1', '3'])}"

    def _emission(self) -> list[str]:
        chance = self.chance
        value = self._value(["self.a", "self.b"])
        if self.algebra == "Sum(float)" and chance.random() < 0.5:
            value = f"(1e250 if {self._condition(['self.a', 'self.b'])} else {value})"
        if chance.random() < 0.25:
            along = chance.choice(
                ["target.id != self.id", *(["not target.reverse"] * (self.direction == "both"))]
            )
            return ["        for target in self.targets:",
                    f"            self.emit(target, {value} if {along} else 7)"]  # fmt: skip
        lines = [f"        self.emitAll({value})"]
        if chance.random() < 0.3:
            lines = [f"        if {self._condition(['self.a', 'self.b'])}:", f"    {lines[0]}"]
        return lines
