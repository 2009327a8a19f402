"""What runs a program over a graph: commands in, outcomes out.

A `LoopEngine` holds a changing graph with a program's state on it; `run` drives a run from scratch;
`master` decides from the reports of an iteration what comes next; `processor` iterates one
partition. `loop` has the partitions of main loops and branches, `bounded` asynchronous iterations,
`events` programs without messages, and `keyed` tables of rows by key. `answer_checks` says what is
odd about an answer.
"""

__all__ = [
    "answer_checks",
    "batch_run",
    "bounded",
    "commands",
    "events",
    "keyed",
    "loop",
    "loop_engine",
    "loop_names",
    "make_engine",
    "phases",
    "progress",
    "run_options",
    "snapshots",
    "supersteps",
]
