"""Keyed programs: tables of rows by key, and blocks of calls that run on them.

`calls` are blocks of calls; `keyed_engine` takes them to the partitions, and `answers` back.
"""

__all__ = [
    "answers",
    "calls",
    "capture",
    "keyed_engine",
    "partition",
    "table",
    "trigger_events",
    "trigger_partition",
    "trigger_writes",
]
