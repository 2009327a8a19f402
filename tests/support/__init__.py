"""The project's own rigs: engines without Spark, reference interpreters, servers, soak runs.

Tests, `./dev soak` and the benchmarks import them from the top of the checkout; the wheel does
not have them.
"""
