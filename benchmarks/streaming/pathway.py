"""Pathway: `pathway_program.py`, run by the Python of a virtual environment of its own.

It wants other versions of packages than vertexsdk does. ``./dev bench`` makes ``.venv-pathway``;
``VERTEXSDK_PATHWAY_PYTHON`` may name another Python that has it.
"""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from benchmarks.peers import Unavailable
from benchmarks.streaming import Job, Streamer, said, words

_FOLDER = ".venv-pathway"
_ROOT = Path(__file__).parent.parent.parent
_ASK = "import platform; from importlib.metadata import version; import pathway; "
_ASK += "print(version('pathway'), platform.python_version())"


class Pathway(Streamer):
    title = "Pathway"
    about = (
        "Its library's bellman_ford and pagerank, and label propagation by pw.iterate; changes "
        "come from a ConnectorSubject with upserts, one commit for each batch; one thread per "
        "core (PATHWAY_THREADS), monitoring and telemetry off. Seconds from the first change "
        "handed in until on_time_end of a subscriber to the answer. Edges into the origin are left "
        "out for bellman_ford, which would else change the origin's own distance. PageRank counts "
        "whole surfers, 1,000 for each vertex and iteration, damping 5/6, with the rank of "
        "vertices without out-edges lost; checked to the last surfer."
    )
    surfers = 1_000
    scales = (8, 10, 12, 14, 16)

    def start(self, cache: Path) -> dict[str, str]:
        named = os.environ.get("VERTEXSDK_PATHWAY_PYTHON")
        self.python = named or str(_ROOT / _FOLDER / "bin" / "python")
        how = f"./dev bench makes {_FOLDER} by benchmarks/pathway.txt"
        if not Path(self.python).exists():
            where = "VERTEXSDK_PATHWAY_PYTHON names no file" if named else f"no {_FOLDER}"
            raise Unavailable(f"{where}; {how}")
        ask = [self.python, "-c", _ASK]
        try:
            done = subprocess.run(ask, capture_output=True, text=True, timeout=120)
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Unavailable(
                f"its Python does not start ({type(error).__name__}); {how}"
            ) from None
        if done.returncode:
            last = done.stderr.strip().splitlines()[-1:]
            raise Unavailable(f"{said(' '.join(last))}; {how}")
        version, python = done.stdout.split()[-2:]
        return {"pathway": version, "its Python": python}

    def command(self, job: Job) -> list[str]:
        # Isolated, so that this file is not what it imports as pathway.
        return [self.python, "-I", str(Path(__file__).with_name("pathway_program.py")), *words(job)]

    def environment(self, job: Job) -> dict[str, str]:
        return {"PATHWAY_THREADS": str(job.workers), "PATHWAY_PROCESSES": "1"}
