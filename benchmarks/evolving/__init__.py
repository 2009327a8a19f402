"""What the suite ``evolving`` runs: a graph that changes, and what is measured on it.

`stream` makes the changes, `cases` has what is measured of ours, `instants` what others do from
scratch on the graph at one instant, `beside` the systems that keep an answer up.
"""
