"""What a program allows, as tables over its facts: each answer is None or a reason why not."""

__all__ = [
    "convergence",
    "delay_bound",
    "incremental_rules",
    "rules",
]
