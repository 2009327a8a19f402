"""How tasks are started and what travels to them: the room that knows Spark's inner workings.

Hops, the locality of partitions, sessions, lost hosts, and what makes a user's code importable on
the executors. Nothing here knows what a vertex is or a message means.
"""

__all__ = ["exchange", "jvm", "locality", "session", "shipping", "task_times", "wire"]
