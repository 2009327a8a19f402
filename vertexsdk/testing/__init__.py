"""Shipped for tests: a reference executor, oracles, random programs, backend conformance."""
