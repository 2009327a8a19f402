"""The engine that runs a program over a graph: commands in, outcomes out.

A `LoopEngine` holds a changing graph with a program's state on it; `run` drives a run from scratch;
`master` decides from the reports of an iteration what comes next; `processor` iterates one
partition. `incremental_partition`, `_local_partition`, `_history_partition` and
`_recomputed_partition` are the partitions of main loops and branches, `_events_partition` that of
programs without a message algebra, and `keyed` has tables of rows by key. `answer_checks` says what
is odd about an answer.

Iterations with a delay bound above 1 (the paper's section 4): `boundary` is the protocol between
partitions that do not wait for each other, `sweeps` has the iterations of one, and `pace` how it
posts and receives meanwhile and what it knows of the others. `tests.support.protocol` is the
protocol vertex by vertex, which this one is checked against.
"""

__all__ = [
    "adjacency",
    "answer_checks",
    "arena",
    "auto_bound",
    "batch_run",
    "boundary",
    "commands",
    "event_changes",
    "incremental_partition",
    "iterations",
    "keyed",
    "loop_engine",
    "loop_names",
    "loop_task",
    "make_engine",
    "master",
    "new_partition",
    "pace",
    "partition_graph",
    "phases",
    "precompile",
    "processor",
    "progress",
    "run_options",
    "run_partition",
    "snapshot_writer",
    "snapshots",
    "supersteps",
    "sweeps",
]
