"""The options of a run, checked in one place before anything is run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from vertexsdk.errors import InputError
from vertexsdk.program.algebra import to_int64
from vertexsdk.program.analysis.delay_bound import checked_bound
from vertexsdk.program.program import Program
from vertexsdk.transport.transport import Transport, is_remote

_LEAST = {"max_iterations": 0, "commit_every": 1, "threads": 1, "history_bytes": 1}


@dataclass(frozen=True, slots=True)
class SnapshotInterval:
    """The interval of a run's snapshots, in iterations or in seconds; the other one is None."""

    iterations: int | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of a run, as `vertexsdk.run` explains them; `checked` makes them."""

    max_iterations: int | None = None
    tolerance: float | None = None
    commit_every: int | None = None
    compiled: bool | Literal["require"] = True
    threads: int | None = None
    exchange: Literal["auto", "shuffle"] = "auto"
    delay_bound: int | Literal["auto"] = 1
    progress: bool | None = None
    seed: int = 0
    snapshots: SnapshotInterval | None = None
    resume: bool = False
    trusted: bool = False
    history: bool = True
    history_bytes: int | None = None

    @classmethod
    def checked(cls, program: Program, params: Mapping[str, Any], **options: Any) -> RunOptions:
        """Return the options, if a program with these parameters can be run with them.

        Args:
            program: which is to be run.
            params: values of its parameters, as the user gave them.
            options: by name.

        Raises:
            InputError: a number out of range, or a delay bound that the program does not allow.

        >>> from vertexsdk.algorithms import PageRank
        >>> RunOptions.checked(Program(PageRank), {}, delay_bound=0)
        Traceback (most recent call last):
        vertexsdk.errors.InputError: the delay bound is 0; it must be an integer from 1 to ...
        """
        self = cls(**options)
        for name, least in _LEAST.items():
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int | np.integer) or value < least):
                raise InputError(f"{name} is {value!r}; it must be an integer from {least}")
        if self.compiled not in (True, False, "require"):
            raise InputError(f"compiled is {self.compiled!r}; it must be True, False or 'require'")
        if self.exchange not in ("auto", "driver", "shuffle"):
            raise InputError(
                f"exchange is {self.exchange!r}; it must be 'auto', 'driver' or 'shuffle'"
            )
        if not isinstance(self.seed, int) or self.seed != to_int64(self.seed):
            raise InputError(f"seed is {self.seed!r}; it must be an int64")
        tolerance = self.tolerance_of(program)
        if not tolerance >= 0 or math.isinf(tolerance):
            raise InputError(f"tolerance is {tolerance}; it must be zero or more")
        checked_bound(self.delay_bound, program, params, self.limit_of(program))
        if self.exchange not in ("auto", "shuffle"):
            raise InputError(f"exchange is {self.exchange!r}; it is 'auto' or 'shuffle'")
        if self.exchange != "auto" and self.delay_bound not in (1, "auto"):
            raise InputError(
                f"a delay bound of {self.delay_bound} needs partitions that stay in their "
                f"processes: leave out exchange={self.exchange!r}, or the delay bound"
            )
        if self.snapshots is not None and self.delay_bound not in (1, "auto"):
            raise InputError(
                f"a delay bound of {self.delay_bound} has no iterations that all partitions end "
                "together, and so no snapshots: leave out snapshot_every=, or the delay "
                "bound"
            )
        if (self.snapshots is not None or self.resume) and not self.trusted and pickles(program):
            raise InputError(
                f"{program.name} has Python objects, which its snapshots hold as pickles, and they "
                "can run code when read: pass trusted=True if you trust all who can write to the "
                "store"
            )
        return self

    def on(self, transport: Transport) -> RunOptions:
        """Return these options for a graph on a transport.

        Raises:
            InputError: `exchange` asks for Spark jobs, and the session is a remote one.
        """
        if self.exchange != "auto" and is_remote(transport.spark):
            raise InputError(
                f"exchange={self.exchange!r} needs Spark jobs, and the graph of a remote session "
                "is in this process: leave it out"
            )
        return self

    def limit_of(self, program: Program) -> int | None:
        """The number of iterations after which a run ends: the option, or else the program's."""
        default = program.classes[0].cls.max_iterations
        return default if self.max_iterations is None else self.max_iterations

    def tolerance_of(self, program: Program) -> float:
        """The change of a field that counts as none: the option, or else the program's."""
        default = program.classes[0].cls.tolerance
        return float(default if self.tolerance is None else self.tolerance)


def pickles(program: Program) -> bool:
    """Return whether what a run of a program holds is stored as pickles."""
    if program.algebra is None:
        return True
    algebras = [program.algebra, *program.aggregators.values()]
    kinds = [a.dtype for a in algebras] + [f.dtype for f in program.states().values()]
    return any(kind == object for kind in kinds)
