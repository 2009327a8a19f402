"""The benchmark harness: vertexsdk beside what a user would pick instead.

Run it as ``python -m benchmarks batch --scale 20`` (or ``./dev bench batch --scale 20``). Every
system runs in a process of its own, one after another, on the same graph; every answer is compared
with one reference before its time is shown. ``benchmarks/README.md`` says how to read the tables
and how to add a system.
"""
