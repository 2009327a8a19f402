"""What the suite ``batch`` is made of: every system in turn on a graph that does not change.

`runner` runs one system with limits in `system_process`, which times its measures; `results` holds
what all of them measured; `document`, `tables`, `charts` and `targets` show it.
"""
