"""Random programs of the events level: no algebra, a map of what each producer said last."""

from __future__ import annotations

import random
from textwrap import indent

from tests.support.expressions import Expressions
from tests.support.programs import PRELUDE, RandomProgram

__all__ = ["random_events_program"]


def random_events_program(rng: random.Random) -> RandomProgram:
    """Make a program which gathers event by event.

    It takes in edges as they are announced, or only some, keeps a map of producers, and sends for
    a few iterations. Sums over the map do not depend on its order.
    """
    base = Expressions(rng, ints=["self.id % 11", "self.step", "STEP"], calls=["twist"])
    own = base.reading(["self.level", "self.events", "len(self.targets)", "len(self.heard)"])
    event = own.reading(["delta.value % 101", "iteration", "source % 5"])
    edge = Expressions(rng, ints=["delta.value % 7", "self.id % 3", "self.step"])
    drop = rng.random() < 0.3
    lines = [
        "hub: VertexId = param()",
        "step: int = param(2)",
        "scale: float = param(1.5)",
        f"level: int = state({rng.randint(0, 9)})",
        "events: int = state(0)",
        "heard = producers(int)",
        "edge = int",
        f'direction = "{rng.choice(["out", "out", "in"])}"',
        f"max_iterations = {rng.randint(2, 6)}",
        "",
        "def init(self):",
        f"    self.level = {base.value('int')}",
        "",
        "def gather(self, iteration, source, delta):",
        "    self.events = (self.events + 1) % 1009",
        "    if delta.kind == ADD_TARGET:",
        f"        if {edge.bool_() if rng.random() < 0.4 else 'True'}:",
        "            self.addTarget(delta.value)",
        "    elif delta.kind == REMOVE_TARGET:",
        "        self.removeTarget(delta.value)",
        "    else:",
        f"        self.heard[source] = {event.value('int')}",
    ]
    if drop:
        lines += [f"        if {event.bool_()}:", "            del self.heard[source]"]
    lines += [
        "",
        "def scatter(self, iteration):",
        "    total = 0",
        "    for value in self.heard.values():",
        "        total += value",
    ]
    own.locals_.append("total")
    sending = own.reading(["iteration"])
    if rng.random() < 0.5:
        lines.append("    total += self.heard.get(self.hub, 7)")
    if rng.random() < 0.3:
        lines += ["    if self.hub in self.heard:", "        total += 5"]
    lines.append(f"    self.level = ({own.int_()} + total) % 1009")
    inner = sending.reading(["target.id % 5", "target.value % 9"])
    each, some = inner.value("int"), inner.bool_()
    sends = [
        [f"    self.emitAll({sending.value('int')})"],
        ["    for target in self.targets:", f"        self.emit(target, {each})"],
        [
            "    for target in self.targets:",
            f"        if {some}:",
            f"            self.emit(target, {each})",
        ],
        [
            "    for target in self.addedTargets:",
            f"        self.emit(target, {each})",
            "    for target in self.retainedTargets:",
            "        self.emit(target, self.level)",
        ],
    ]
    lines += rng.choice(sends)
    if rng.random() < 0.3:
        lines += [
            f"    if {sending.bool_()}:",
            f"        self.emit(self.hub, {sending.value('int')})",
        ]
    imports = "from vertexsdk import ADD_TARGET, REMOVE_TARGET, producers\n"
    body = indent("\n".join(lines), "    ")
    return RandomProgram(f"{PRELUDE}\n{imports}\n\nclass Red(Vertex):\n{body}\n", ("Red",), False)
