"""What the suite ``scaling`` is made of: time against edges, partitions, executors and changes.

`cases` says what is run, each case by `child` in a process of its own; `costs` measures what single
things cost; `fit` draws lines; `projection` is the model, pure; `results` and `table` say what was
found, `measured` what the model is given of it.
"""
