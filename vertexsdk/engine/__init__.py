"""What runs a program over a graph: commands in, outcomes out.

An `Engine` holds a changing graph with a program's state on it. `run` drives one run from scratch;
`master` decides from the reports of an iteration what comes next; `processor` iterates one
partition. `incremental`, `bounded` and `events` are the other ways to iterate.
"""

__all__ = [
    "batch_run",
    "bounded",
    "engine",
    "events",
    "incremental",
    "phases",
    "progress",
    "run_options",
    "select",
    "supersteps",
    "task",
]
