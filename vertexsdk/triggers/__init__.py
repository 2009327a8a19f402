"""Triggers: programs over tables that run when a cell changes (the Domino paper).

`table` and `triggers` have what a user declares, `program` makes one keyed program of several
classes, which `engine.keyed` runs in rounds; `trigger_loop` is the user's object.
"""

__all__ = [
    "program",
    "table",
    "trigger_loop",
    "triggers",
]
