"""Analyses of what a program allows, by its facts: each answer is None or a reason why not."""

__all__ = [
    "convergence",
    "delay_bound",
    "incremental_rules",
    "rules",
]
