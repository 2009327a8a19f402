"""What the suite ``asynchrony`` is made of: the same answers under different delay bounds.

`grid` draws the streets, `ground` runs a program and notes what it took, `cases` says what is run;
`child` runs one case in a process (`benchmarks.evolving.parent` watches it); `results`, `aims` and
`table` say what was found.
"""
