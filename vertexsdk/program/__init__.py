"""What a user writes, and all that is known of it.

`Vertex` and the algebra of its messages; `Program`, one or several classes with what was read off
them when they were defined; `analysis`, which says what a program allows and why not. No Spark, no
arrays of a graph.
"""

__all__ = ["algebra", "analysis", "fields", "program", "vertex"]
