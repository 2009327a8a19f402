"""Keyed programs: tables of rows by key, and blocks of calls that run on them.

`calls` are blocks of calls; `keyed_engine` takes them to the partitions, and `answers` back.
"""

__all__ = ["answers", "calls", "keyed_engine"]
