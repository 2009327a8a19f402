"""The classes that a user writes, and all that is known of them.

`Vertex` and the algebra of its messages; `facts`, all that a class's source tells, read once when
it is defined; `Program`, one or several classes; `analysis`, which says what a program allows and
why not; `keyed`, what a stateful class becomes, and `keyed_state`, its state elements in memory;
`trigger_program`, what classes of triggers become, `table_columns`, the columns of their tables,
and `accumulations`, what accumulators make of partial results. No Spark, no arrays of a graph.
"""

__all__ = [
    "accumulations",
    "algebra",
    "analysis",
    "facts",
    "fields",
    "keyed",
    "keyed_state",
    "program",
    "syntax",
    "table_columns",
    "trigger_program",
    "vertex",
    "warn",
]
