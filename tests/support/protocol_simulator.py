"""Random runs of the protocol: any order, delays, duplicates, graphs that change meanwhile.

`./dev soak protocol` makes as many as one likes.
"""

from __future__ import annotations

import random
from typing import Any

from tests.support.protocol_rules import Violation, check_end
from tests.support.protocol_world import Change, World

__all__ = ["random_world", "run", "soak_protocol"]

BOUNDS = (1, 2, 3, 5, 1000)
OLDEST = 0.05  # how often the oldest message is the next one
PATIENCE = 400  # steps, times the vertices, in which each that has something to do must commit


def random_world(chance: random.Random, **classes: Any) -> World:
    """A graph of 2 to 7 vertices, some changes of it, a delay bound, and partitions.

    Args:
        chance: what decides.
        classes: of the component and of the frontier, where other ones are tested.
    """
    vertices = chance.randint(2, 7)
    edges = [(s, t) for s in range(vertices) for t in range(vertices)]
    several = chance.randint(1, min(len(edges), 3 * vertices))
    graph = {edge: chance.randint(1, 3) for edge in chance.sample(edges, several)}
    changed = chance.sample(edges, min(len(edges), 4))
    changes = [
        Change(*chance.choice(changed), chance.choice([None, 1, 2, 3]))
        for _ in range(chance.choice([0, 3, 12, 40]))
    ]
    return World(
        graph,
        vertices,
        bound=chance.choice(BOUNDS),
        partitions=chance.randint(1, vertices),
        changes=changes,
        instant=chance.random() < 0.3,
        **classes,
    )


def run(world: World, chance: random.Random) -> World:
    """Run a world to its end, in an order that `chance` decides; each step is checked.

    Raises:
        Violation: a rule was broken, or a vertex waits for too long.
    """
    order = _Order(world, chance)
    patience = PATIENCE * len(world.methods)
    while actions := world.actions():
        world.act(*order.choose(actions))
        waiting = [truth.began for truth in world.truths if truth.todo is not None]
        if waiting and world.steps - min(waiting) > patience:
            raise Violation(f"a vertex with something to do has not committed in {patience} steps")
    check_end(world)
    return world


class _Order:
    """What happens next: any of the actions, with a bias that differs from run to run."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self.world = world
        self.chance = chance
        self.slow = chance.randrange(-1, len(world.methods))  # its messages and inputs come late
        self.newest = chance.choice([0.0, 0.5, 0.9])  # how often messages overtake all others
        self.copies = chance.choice([0.0, 0.1, 0.3])
        self.changes = chance.choice([0.01, 0.05, 0.2, 1.0])
        self.others = chance.choice([0.02, 0.2, 1.0])  # reports and announcements

    def choose(self, actions: list[tuple[str, int]]) -> tuple[str, int]:
        """One of the actions; now and then the oldest message, so that none waits for ever."""
        chance, net = self.chance, self.world.net
        if net and chance.random() < OLDEST:
            return "deliver", 0
        if net and chance.random() < self.newest:
            return self._perhaps_twice("deliver", len(net) - 1)
        for _ in range(20):
            kind, number = chance.choice(actions)
            if chance.random() < self._odds(kind, number):
                break
        return self._perhaps_twice(kind, number)

    def _odds(self, kind: str, number: int) -> float:
        if kind == "deliver":
            message = self.world.net[number]
            return 0.02 if self.slow in (message.source, message.target) else 1.0
        if kind == "input":
            return 0.02 if self.slow == number else 1.0
        return self.changes if kind == "change" else self.others

    def _perhaps_twice(self, kind: str, number: int) -> tuple[str, int]:
        again = kind == "deliver" and self.chance.random() < self.copies
        return ("copy" if again else kind), number


def soak_protocol(runs: int, chance: random.Random) -> str:
    """Make so many random runs; what they did, in words.

    Raises:
        Violation: a rule was broken.
    """
    steps = commits = prepares = longest = 0
    for _ in range(runs):
        world = run(random_world(chance), chance)
        steps, commits = steps + world.steps, commits + world.commits
        prepares, longest = prepares + world.prepares, max(longest, world.patience)
    return (
        f"{runs} runs of {steps} steps, {commits} commits, {prepares} prepares; "
        f"the longest wait was {longest} steps; no rule was broken"
    )
