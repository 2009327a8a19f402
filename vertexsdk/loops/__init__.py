"""What a user holds: `run`, main loops and branches, their streams and their results.

A loop's history is a list of versions in a store; each is committed whole or not at all. The change
log is durable before a change is acknowledged. No process is started here.
"""

__all__ = ["branch_loop", "main_loop", "output", "result", "run", "streams"]
