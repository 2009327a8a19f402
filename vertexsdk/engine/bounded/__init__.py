"""Iterations with a delay bound above 1: partitions that do not wait for each other.

The paper's section 4: see `_boundary` for the protocol between partitions, `_sweeps` for the
iterations of one, `_pace` for how it posts and receives while it iterates, `_coordinator` for what
is known of all, and `tests.support.protocol` for the protocol vertex by vertex, which this one is
checked against.
"""
