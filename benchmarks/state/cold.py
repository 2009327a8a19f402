"""Reads by processes that were just started: their imports are not counted."""

from __future__ import annotations

import subprocess
import sys

from benchmarks.state.floors import COLD
from vertexsdk.state import Store

_COLD = """
import importlib, sys, time
import vertexsdk.backends, vertexsdk.graph.topology.topology
from vertexsdk.state import open_store
for module in sys.argv[3].split(","):
    importlib.import_module(module)
began = time.perf_counter()
store = open_store(sys.argv[1], create=False)
found = store.lookup("base", [int(sys.argv[2])])
print(1e3 * (time.perf_counter() - began))
assert found
store.close()
"""
_COLD_FLOOR = """
import os, sys, time
{imports}
url = sys.argv[1]
began = time.perf_counter()
{work}
print(1e3 * (time.perf_counter() - began))
assert found
"""
_MODULES = {
    "lmdb": "vertexsdk.backends.lmdb",
    "memory": "vertexsdk.backends.memory",
    "redis": "vertexsdk.backends.redis,redis.client,secrets,encodings.idna",
    "postgres": "vertexsdk.backends.postgres",
}


def read(name: str, store: Store, vertex: int) -> float:
    """Milliseconds in which a cold process opens the store and reads one vertex of "base"."""
    return _run(_COLD, store, str(vertex), _MODULES.get(name, "redis"))


def floor(name: str, store: Store) -> float:
    """Milliseconds in which a cold process reads 8 bytes without the store."""
    imports = {"redis": "import redis.client", "postgres": "import psycopg"}.get(name, "")
    return _run(_COLD_FLOOR.format(imports=imports, work=COLD.get(name, "found = True")), store)


def _run(code: str, store: Store, *arguments: str) -> float:
    command = [sys.executable, "-c", code, store.backend.address.reveal(), *arguments]
    return float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
