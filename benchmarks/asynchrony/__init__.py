"""What the suite ``asynchrony`` is made of: the same answers under different delay bounds.

`grid` draws the streets, `runs` runs a program and notes what it took, `cases` says what is run;
`results`, `targets` and `table` say what was measured.
"""
