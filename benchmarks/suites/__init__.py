"""The suites: each module declares one as ``SUITE``."""
