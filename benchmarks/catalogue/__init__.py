"""What the suite ``catalogue`` is made of: built-in algorithms beside those of three libraries.

`cases` says which function of each computes the same, and how answers are compared; `measured`
times them in turn; `table` shows it.
"""
