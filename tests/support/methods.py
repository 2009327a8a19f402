"""The fields and methods of one class of a random program, as text."""

from __future__ import annotations

import random
from textwrap import indent

from tests.support.expressions import Expressions

__all__ = ["ClassText", "Shared"]


class Shared:
    """What all classes of a program have in common."""

    def __init__(
        self, rng: random.Random, always: bool, name: str, element: str, constructor: str,
        size: int, direction: str, count: int,
    ) -> None:  # fmt: skip
        self.rng, self.always, self.count = rng, always, count
        self.name, self.element, self.constructor, self.size = name, element, constructor, size
        self.direction = direction
        self.edge = rng.choice(["float", "int"])
        self.aggregators = always and rng.random() < 0.5
        self.iteration = always and rng.random() < 0.5
        # With Latest a message needs an edge to travel along.
        self.by_id = name != "latest" and rng.random() < 0.3
        self.creates = self.by_id and count == 1 and always and rng.random() < 0.5
        self.changes = always and rng.random() < 0.35
        self.limit = rng.randint(2, 6)


class ClassText:
    """One class: its fields, then its methods, as text."""

    def __init__(self, name: str, shared: Shared) -> None:
        self.name, self.s, self.rng = name, shared, shared.rng
        rng = self.rng
        self.fields = [("level", "int"), ("weight", "float")][: rng.randint(1, 2)]
        self.fields += [("flag", "bool")] if rng.random() < 0.4 else []
        self.vector = rng.choice([0, 0, 2, 4])
        self.base = Expressions(
            rng,
            ints=[
                "self.id % 11",
                "self.step",
                "len(self.targets)",
                "STEP",
                "self.num_vertices % 7",
            ],
            floats=["self.scale"],
            calls=["twist", "self.mix"],
        )

    def own(self) -> Expressions:
        """What reads the state."""
        by_kind: dict[str, list[str]] = {"int": [], "float": [], "bool": []}
        for name, kind in self.fields:
            by_kind[kind].append(f"self.{name}")
        if self.vector:
            by_kind["float"].append(f"self.trace[{self.rng.randrange(self.vector)}]")
        return self.base.reading(by_kind["int"], by_kind["float"], by_kind["bool"])

    def source(self) -> str:
        parts = [self.header(), self.init(), self.mix(), self.gather(), self.scatter()]
        if self.s.aggregators and self.rng.random() < 0.3:
            parts.append(
                "def converged(self, iteration, aggregates):\n"
                "    return iteration >= 2 and aggregates.total % 3 == 0"
            )
        return f"class {self.name}(Vertex):\n" + "\n".join(indent(p, "    ") + "\n" for p in parts)

    def header(self) -> str:
        s, rng = self.s, self.rng
        lines = ["hub: VertexId = param()", "step: int = param(2)", "scale: float = param(1.5)"]
        for name, kind in self.fields:
            default = {"int": rng.randint(0, 9), "float": rng.randint(0, 64) / 8, "bool": False}
            lines.append(f"{name}: {kind} = state({default[kind]})")
        if self.vector:
            lines.append(f"trace: float = state(0.5, size={self.vector})")
        lines += [f"messages = {s.constructor}", f'direction = "{s.direction}"']
        lines += [f"edge = {s.edge}", f"max_iterations = {s.limit}"]
        if s.always:
            lines.append("always = True")
        elif rng.random() < 0.3:
            lines.append(f"tolerance = {rng.choice([0.125, 1.0])}")
        if s.aggregators:
            lines += ["total = aggregate(Sum(int))", "top = aggregate(max, float)"]
        return "\n".join(lines)

    def assign(self, e: Expressions, depth: int = 2) -> list[str]:
        """Statements which give every field a new value, in order."""
        lines = [f"self.{name} = {e.value(kind, depth)}" for name, kind in self.fields]
        if self.vector:
            k = "k" if self.rng.random() < 0.5 else "(k + 1)"
            value = e.reading(ints=[k]).value("float", 1)
            lines += [f"for k in range({self.vector}):", f"    self.trace[k] = {value}"]
        if self.rng.random() < 0.3:
            lines = [f"if {e.bool_()}:", *("    " + line for line in lines), "else:",
                     *("    " + line for line in self.assign_flat(e))]  # fmt: skip
        return lines

    def assign_flat(self, e: Expressions) -> list[str]:
        lines = [f"self.{name} = {e.value(kind, 1)}" for name, kind in self.fields]
        return [*lines, "self.trace[:] = 0.25"] if self.vector else lines

    def init(self) -> str:
        return "def init(self):\n" + indent("\n".join(self.assign(self.base)), "    ")

    def mix(self) -> str:
        e = Expressions(self.rng, ints=["a", "b", "self.step", "self.id % 5"])
        return (
            "def mix(self, a, b):\n"
            f"    if {e.bool_(0)}:\n        return ({e.int_(1)}) % 31\n"
            f"    return ({e.int_(1)}) % 37"
        )

    def gather(self) -> str:
        s, rng = self.s, self.rng
        e = self.own() if s.always else self.base
        lines: list[str] = []
        zero = "0" if s.element == "int" else "0.0"
        bound = {"int": "{0} if -1000000 < {0} < 1000000 else {1}",
                 "float": "{0} if abs({0}) < 1000000.0 else {1}"}[s.element]  # fmt: skip
        other = str(rng.randint(0, 9)) if s.element == "int" else repr(rng.randint(0, 64) / 8)
        if s.name == "latest":
            lines += [f"incoming = {zero}", "for value in delta.values:"]
            if s.size:
                lines[-1] = "for row in delta.values:"
                lines.append(
                    "    value = row[0]"
                    + "".join(f" + row[{j}] * {j + 1}" for j in range(1, s.size))
                )
            # The order shows: values come ascending by producer.
            lines.append("    incoming = (incoming * 3 + value) % 89" if s.element == "int"
                         else "    incoming = (incoming * 0.5 + value) % 16.0")  # fmt: skip
            lines += ["    incoming = math.floor(incoming * 8.0) / 8.0"] * (s.element == "float")
            e = e.reading(ints=["len(delta.values)"])
        elif s.size:
            lines += [f"incoming = {zero}", f"for j in range({s.size}):"]
            lines.append("    x = " + bound.format("delta.value[j]", other))
            lines.append("    incoming += x * (j + 1)")
        else:
            lines.append("incoming = " + bound.format("delta.value", other))
        e = e.reading(ints=["incoming"]) if s.element == "int" else e.reading(floats=["incoming"])
        if rng.random() < 0.4:
            lines += ["near = 0", "for target in self.targets:"]
            inner = e.reading(ints=["target.id % 7", "int(target.value * 2) % 9"])
            lines.append(f"    near += ({inner.int_(1)}) % 19")
            e.locals_.append("near")
        if s.iteration:
            e = e.reading(ints=["iteration"])
        if s.aggregators:
            e = e.reading(ints=["self.total.value % 29"])
            lines.append(f"self.total.contribute({e.value('int')})")
            lines.append(f"self.top.contribute({e.value('float', 1)})")
        lines += self.assign(e)
        heard = "incoming" if s.element == "int" else "int(incoming * 8.0)"
        lines.append(f"self.level = (self.level + {heard}) % 1009")
        if s.changes and rng.random() < 0.5:
            lines += self.change(e)
        return "def gather(self, iteration, source, delta):\n" + indent("\n".join(lines), "    ")

    def change(self, e: Expressions) -> list[str]:
        value = "3" if self.s.edge == "int" else "0.75"
        add = [f"if {e.bool_()}:", f"    self.addTarget(self.hub, {value})"]
        remove = ["for target in self.targets:", f"    if {e.reading(['target.id % 3']).bool_()}:",
                  "        self.removeTarget(target)"]  # fmt: skip
        return self.rng.choice([add, remove])

    def message(self, e: Expressions) -> str:
        s = self.s
        if not s.size:
            # What was heard is in the level, and is to go on.
            level = "self.level" if s.element == "int" else "self.level % 64 / 8.0"
            value = e.value(s.element)
            value = value if self.rng.random() < 0.3 else f"{level} + {value}"
            return f"({value}) % 97" if s.name == "add" else value
        return f"np.array([{', '.join(e.value(s.element, 1) for _ in range(s.size))}])"

    def identity(self) -> str:
        s = self.s
        one = {
            "min": {"int": "INT_MAX", "float": "inf"},
            "max": {"int": "INT_MIN", "float": "-inf"},
            "latest": {"int": "INT_MAX", "float": "math.nan"},
        }
        text = one.get(s.name, {"int": "0", "float": "0.0"})[s.element]
        return f"np.array([{', '.join([text] * s.size)}])" if s.size else text

    def scatter(self) -> str:
        s, rng = self.s, self.rng
        e = self.own()
        if s.iteration:
            e = e.reading(ints=["iteration"])
        if s.aggregators and rng.random() < 0.5:
            e = e.reading(ints=["self.total.value % 23"])
        lines: list[str] = []
        if s.always and rng.random() < 0.3:
            lines += self.assign(e, 1)
        inner = e.reading(
            ["target.id % 5", "int(target.value) % 9"],
            ["target.value % 16.0"] if s.edge == "float" else [],
            ["target.reverse"] if s.direction == "both" else [],
        )
        form = rng.randrange(7)
        if form == 0:
            lines.append(f"self.emitAll({self.message(e)})")
        elif form == 1:
            lines += [f"if {e.bool_()}:", f"    self.emitAll({self.message(e)})"]
            lines += ["else:", f"    self.emitAll({self.identity()})"]
        elif form == 2:
            lines += ["for target in self.targets:", f"    self.emit(target, {self.message(e)})"]
        elif form == 3:
            lines += [f"share = {e.int_(1)}", "for target in self.targets:"]
            inner.locals_.append("share")
            lines.append(f"    self.emit(target, {self.message(inner)})")
        elif form == 4:
            lines += ["for target in self.targets:", f"    if {inner.bool_()}:"]
            lines.append(f"        self.emit(target, {self.message(inner)})")
            lines += ["    else:", f"        self.emit(target, {self.identity()})"]
        elif form == 5:
            # Those to which nothing is sent keep what they have: depends on how often it runs.
            condition = inner.bool_() if s.always else "target.id % 3 == 0"
            lines += ["for target in self.targets:", f"    if {condition}:"]
            lines.append(f"        self.emit(target, {self.message(inner)})")
        else:
            lines += [
                "for target in self.targets:",
                f"    self.emit(target, {self.message(inner)})",
            ]
            if s.name != "latest":
                lines.append(f"    self.emit(target, {self.message(inner)})")
        if s.by_id and s.always:
            lines += [f"if {e.bool_()}:", f"    self.emit(self.hub, {self.message(e)})"]
        if s.creates:
            lines += ["if self.id > 0 and self.id % 5 == 0:"]
            lines.append(f"    self.emit(-1000 - self.id % 3, {self.message(e)})")
        if s.changes:
            lines += self.change(e)
        return "def scatter(self, iteration):\n" + indent("\n".join(lines), "    ")
