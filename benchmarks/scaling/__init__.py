"""What the suite ``scaling`` is made of: time against edges, partitions, executors and changes.

`cases` says what is run, each case in a process of its own; `costs` has the experiments
on what single things cost, `unit_costs` reads the costs off their figures by `fit`; `results` and
`table` say what was found.
"""
