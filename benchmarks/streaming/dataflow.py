"""Differential dataflow: a program of ours in Rust, ``benchmarks/dataflow``, built by cargo."""

from __future__ import annotations

import os
import shutil
import subprocess
import tomllib
from pathlib import Path

from benchmarks.peers import Unavailable
from benchmarks.streaming import Job, Streamer, said, words

SOURCE = Path(__file__).parent.parent / "dataflow"
_BUILD_SECONDS = 900


class Dataflow(Streamer):
    title = "differential dataflow"
    about = (
        "Its own example of PageRank, its library's label propagation, and its example of "
        "breadth-first search with lengths, in one dataflow that is kept up; a worker thread per "
        "core. Seconds from the first change handed in until the probe has passed the batch. "
        "PageRank counts whole surfers, 1,000,000 for each vertex and iteration, damping 5/6, "
        "with the rank of vertices without out-edges lost; checked to the last surfer."
    )
    surfers = 1_000_000
    scales = (12, 14, 16, 18, 20)

    def start(self, cache: Path) -> dict[str, str]:
        cargo = shutil.which("cargo") or shutil.which("cargo", path=str(_home() / "bin"))
        if cargo is None:
            raise Unavailable("no cargo is found; a Rust toolchain builds it (rustup.rs)")
        target = cache / "dataflow"
        build = [cargo, "build", "--release", "--quiet"]
        try:
            done = subprocess.run(
                [*build, "--manifest-path", str(SOURCE / "Cargo.toml")],
                env=os.environ | {"CARGO_TARGET_DIR": str(target)},
                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=_BUILD_SECONDS,
            )  # fmt: skip
            version = subprocess.run([cargo, "--version"], capture_output=True, text=True)
        except subprocess.TimeoutExpired:
            raise Unavailable(f"cargo did not build it in {_BUILD_SECONDS} s") from None
        if done.returncode:
            raise Unavailable(f"cargo could not build it: {said(done.stderr)}")
        self.built = target / "release" / "evolving-graphs"
        return _locked() | {"cargo": version.stdout.split()[1]}

    def command(self, job: Job) -> list[str]:
        return [str(self.built), *words(job)]


def _home() -> Path:
    return Path(os.environ.get("CARGO_HOME") or Path.home() / ".cargo")


def _locked() -> dict[str, str]:
    wanted = tomllib.loads((SOURCE / "Cargo.toml").read_text())["dependencies"]
    return {name: version[1:] for name, version in wanted.items() if isinstance(version, str)}
