"""The command line: arguments, output, exit status. What it does the Python API can do."""

from vertexsdk.cli._main import main

__all__ = [
    "main",
    "state_command",
]
