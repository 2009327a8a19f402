"""What a program allows, read off its methods: each answer is a fact or a reason why not."""

__all__ = ["convergence", "delay_bound", "incremental_rules", "message_shape", "warm_start"]
