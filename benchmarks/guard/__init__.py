"""The regression guard: a few ratios to peers in the same run, compared with stored ones.

`measuring` runs in a process of its own and tells the ratios, `comparing` judges them by
``benchmarks/guard.json``, `command` is what ``python -m benchmarks check`` runs.
"""
