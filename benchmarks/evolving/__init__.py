"""What the suite ``evolving`` is made of: a graph that changes, and what is measured on it.

`stream` makes the changes, `cases` what is measured of ours, `instants` what others do from
scratch on the graph at one instant; `targets` and `table` say what was measured. `soak` is the
long run whose memory is watched.
"""
