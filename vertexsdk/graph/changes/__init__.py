"""Changes of a graph: one columnar form, and the ways into it.

Lines, blocks of text, tables, files and user functions all become `Changes`: a kind, a source, a
target and a value for each change, in the order in which they are made.
"""

__all__ = ["batch", "cast", "change_files", "changes", "deltas", "line", "table"]
