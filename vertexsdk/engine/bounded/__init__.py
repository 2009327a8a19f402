"""Iterations with a delay bound above 1: what a partition does by itself between two exchanges.

The paper's section 4 in the form of blocks: see `boundary` for the protocol between partitions,
`sweeps` for the iterations of one, `rounds` for what the driver keeps of all, and
`tests.support.protocol` for the protocol vertex by vertex, which this one is checked against.
"""
