"""Random stateful classes whose methods compute with numbers, and random calls of them."""

from __future__ import annotations

import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.support.written_classes import written_class
from vertexsdk import Stateful

_INTS = [0, 1, 2, 3, -1, -7, 10, 1 << 20, 1 << 31, (1 << 53) + 1, (1 << 63) - 1, -(1 << 63)]
_FLOATS = [0.0, -0.0, 1.0, 0.1, -2.5, 3.7, 1e-300, 1e308, -1e16, float("inf"), float("nan")]
_DRAW: dict[str, Callable[[random.Random], Any]] = {
    "int": lambda c: c.choice(_INTS) if c.random() < 0.4 else c.randint(-9, 9),
    "float": lambda c: c.choice(_FLOATS) if c.random() < 0.4 else round(c.uniform(-9, 9), 2),
    "bool": lambda c: c.random() < 0.5,
    "str": lambda c: c.choice(["", "a", "b", "ä", "c"]),
    "bytes": lambda c: c.choice([b"", b"\0", b"\xff\0"]),
}
_ELEMENTS = {
    "Map(int, int)": {"": "int"}, "Map(str, float)": {"": "float"}, "Map(int, bool)": {"": "bool"},
    "Map(str, n=int, x=float, on=bool, raw=bytes)": {"n": "int", "x": "float", "on": "bool"},
    "Value(int)": {"": "int"}, "Value(float)": {"": "float"},
}  # fmt: skip


class RandomClass:
    """The text of a class, and how its methods are called.

    Args:
        chance: what is drawn.
        name: of the class.
    """

    def __init__(self, chance: random.Random, name: str) -> None:
        self.chance, self.name = chance, name
        self.element = chance.choice([*_ELEMENTS])
        self.fields = _ELEMENTS[self.element]
        self.key = "" if self.element.startswith("Value") else self.element[4:7]
        self.parameters: dict[str, dict[str, str]] = {}
        self.lines: list[str] = []
        for m in range(3):
            self._method(f"method{m}")

    def cls(self, directory: Path) -> type[Stateful]:
        """Write the file, and return the class."""
        key = ', key="key"' if self.key else ""
        head = [
            "import math", "from vertexsdk import Map, Partitioned, Stateful, Value",
            "LIMIT = 3", "RATE = 0.25", f"class {self.name}(Stateful):",
            f"    rows = Partitioned({self.element}{key})", "    MOST = 5",
        ]  # fmt: skip
        text = "\n".join([*head, *self.lines, ""])
        made: type[Stateful] = written_class(self.name, text, directory)
        return made

    def arguments(self, name: str) -> tuple[Any, ...]:
        """Arguments of a call, of few keys."""
        chance = self.chance
        return tuple(
            chance.choice([0, 1, 2, -1, 1 << 62] if kind == "int" else ["", "a", "ä"])
            if p == "key" else _DRAW[kind](chance)
            for p, kind in self.parameters[name].items()
        )  # fmt: skip

    # Statements

    def _method(self, name: str) -> None:
        chance = self.chance
        parameters = {"key": self.key} if self.key else {}
        for p in ("a", "b", "c")[: chance.randint(1, 3)]:
            parameters[p] = {"a": "int", "b": "float", "c": "bool"}[p]
        raw = "raw" in self.element
        if raw:
            parameters["d"] = "bytes"
        self.parameters[name] = parameters
        self.names = {p: kind for p, kind in parameters.items() if kind not in ("str", "bytes")}
        shown = "".join(f", {p}: {kind}" for p, kind in parameters.items())
        self.lines.append(f"    def {name}(self{shown}):")
        if raw and name == "method0":  # the others may compile
            self.lines.append("        self.rows[key].raw += d")
        self._block(2, chance.randint(2, 4))
        if chance.random() < 0.7:
            self.lines.append(f"        return {self._answer()}")

    def _answer(self) -> str:
        kind = self.chance.choice(["int", "float", "bool"])
        if self.chance.random() < 0.15 and self.key and "" in self.fields:
            return self.chance.choice(["self.rows.get(key)", "self.rows.pop(key, None)"])
        return self._expression(kind, 2)

    def _block(self, depth: int, count: int) -> None:
        before = dict(self.names)
        for _ in range(count):
            self._statement(depth)
        self.names = before

    def _statement(self, depth: int) -> None:
        chance, indent = self.chance, "    " * depth
        kind = chance.choice(["int", "float", "bool"])
        choice = chance.random()
        if choice < 0.4:
            field, kind = chance.choice([*self.fields.items()])
            place = self._place(field)
            if kind != "bool" and chance.random() < 0.6:
                operator = chance.choice(
                    ["+", "-", "*"] + (["//", "%"] if kind == "int" else ["/"])
                )
                value = self._expression(kind, 1)
                self.lines.append(f"{indent}{place} {operator}= {value}")
            else:
                given = "int" if kind == "float" and chance.random() < 0.3 else kind
                self.lines.append(f"{indent}{place} = {self._expression(given, 2)}")
        elif choice < 0.6:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{indent}{name} = {self._expression(kind, 2)}")
            self.names[name] = kind
        elif choice < 0.8 and depth < 4:
            self.lines.append(f"{indent}if {self._expression('bool', 2)}:")
            self._block(depth + 1, chance.randint(1, 2))
            if chance.random() < 0.3:
                self.lines.append(f"{indent}    return {self._answer()}")
            if chance.random() < 0.4:
                self.lines.append(f"{indent}else:")
                self._block(depth + 1, 1)
        elif choice < 0.86 and depth < 4:
            name = f"v{len(self.lines)}"
            self.lines.append(f"{indent}for {name} in range({chance.randint(0, 4)}):")
            self.names[name] = "int"
            self._block(depth + 1, 1)
            del self.names[name]
        elif choice < 0.93:
            self.lines.append(f"{indent}if {self._expression('bool', 2)}:")
            text = f"raise ValueError({self._expression('int', 1)})"
            self.lines.append(f"{indent}    {text}")
        elif self.key and "" in self.fields:
            value = self._expression(self.fields[""], 1)
            self.lines.append(indent + chance.choice([
                "del self.rows[key]", "self.rows.pop(key)", f"self.rows.setdefault(key, {value})",
            ]))  # fmt: skip
        else:
            self.lines.append(f"{indent}assert {self._expression('bool', 1)}")

    def _place(self, field: str) -> str:
        if not self.key:
            return "self.rows.value"
        return f"self.rows[key].{field}" if field else "self.rows[key]"

    # Expressions

    def _expression(self, kind: str, depth: int) -> str:
        chance = self.chance
        leaves = [n for n, k in self.names.items() if k == kind]
        leaves += [self._place(f) for f, k in self.fields.items() if k == kind]
        leaves += {"int": ["LIMIT", "self.MOST"], "float": ["RATE", "math.pi"], "bool": []}[kind]
        if kind == "bool" and self.key:
            leaves.append("(key in self.rows)")
        if depth == 0 or chance.random() < 0.2:
            if leaves and chance.random() < 0.8:
                return chance.choice(leaves)
            value = _DRAW[kind](chance)
            return f"float('{value}')" if kind == "float" and value * 0 != 0 else f"({value!r})"

        def of(kind: str) -> str:
            return self._expression(kind, depth - 1)

        number = chance.choice(["int", "float"])
        if kind == "int":
            options = [
                lambda: f"({of('int')} {chance.choice('+-*')} {of('int')})",
                lambda: f"({of('int')} {chance.choice(['//', '%', '&', '|', '^'])} {of('int')})",
                lambda: f"({of('int')} {chance.choice(['<<', '>>'])} {chance.randint(0, 70)})",
                lambda: f"({of('int')} ** {chance.randint(0, 3)})",
                lambda: f"{chance.choice(['-', '~', '+'])}({of('int')})",
                lambda: f"{chance.choice(['min', 'max'])}({of('int')}, {of('int')})",
                lambda: (
                    f"{chance.choice(['int', 'round', 'math.floor', 'math.ceil'])}({of('float')})"
                ),
                lambda: f"abs({of('int')})",
                lambda: f"({of('int')} + {of('bool')})",
                lambda: f"({of('int')} if {of('bool')} else {of('int')})",
            ]
        elif kind == "float":
            options = [
                lambda: f"({of('float')} {chance.choice('+-*/')} {of(number)})",
                lambda: f"({of(number)} {chance.choice(['//', '%'])} {of('float')})",
                lambda: f"({of('int')} / {of('int')})",
                lambda: f"{chance.choice(['float', 'math.sqrt', 'math.fabs'])}({of(number)})",
                lambda: f"{chance.choice(['min', 'max'])}({of('float')}, {of('float')})",
                lambda: f"-({of('float')})",
                lambda: f"({of('float')} if {of('bool')} else {of('float')})",
            ]
        else:
            sign = chance.choice(["<", "<=", ">", ">=", "==", "!="])
            options = [
                lambda: f"({of(number)} {sign} {of(chance.choice(['int', 'float']))})",
                lambda: (
                    f"({of('bool')} {chance.choice(['and', 'or', '&', '|', '^'])} {of('bool')})"
                ),
                lambda: f"(not {of(number)})",
                lambda: f"({of('int')} {sign} {of('int')} < {of('float')})",
                lambda: f"math.isfinite({of('float')})",
            ]
        return chance.choice(options)()
