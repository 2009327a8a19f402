"""What the suite ``examples`` is made of: programs of others, and the same programs here.

Each folder has one program three times, in files as a user would write them: `ours.py`,
`graphx.scala`, `graphframes.py`. `catalogue` lists them and has their right answers; `lines` counts
lines of code; `systems` runs them, in processes of their own (`cases`); `table` has what was found.
"""
