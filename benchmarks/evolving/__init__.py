"""What the suite ``evolving`` is made of: a graph that changes, and what is measured on it.

`stream` makes the changes, `cases` what is measured of ours, `instants` what others do from
scratch on the graph at one instant; `child` runs one case in a process, `parent` watches it;
`aims` and `table` say what was found. `soak` is the long run whose memory is watched.
"""
