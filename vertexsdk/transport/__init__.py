"""Start tasks and carry data to them: by Spark, or in this process.

The only room that knows Spark's inner workings; `transport.Transport` is what others see of it.
Hops, the locality of partitions, sessions, lost hosts, and what makes a user's code importable on
the executors. Nothing here knows what a vertex is or a message means.
"""

__all__ = [
    "block_receiver",
    "channels",
    "inprocess",
    "outcomes",
    "resident",
    "resident_worker",
    "select",
    "session",
    "shipping",
    "shuffle",
    "spark",
    "spark_failures",
    "task_times",
    "transport",
    "worker_hops",
]
