"""What a run of every suite came to: places, aims, wrong answers."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.document import Document, opened
from benchmarks.targets import Verdict, verdicts, wrong_answers


@dataclass(frozen=True, slots=True)
class Ran:
    """One suite that was run. ``ended`` is its exit status, None where its time was up."""

    name: str
    ended: int | None
    seconds: float
    limit: float
    written: list[Path]

    @property
    def status(self) -> int:
        """0, 1 or 2, as a suite says; ended in another way, it failed."""
        return self.ended if self.ended in (0, 1, 2) else 1

    @property
    def said(self) -> str:
        """How it ended, in words."""
        if self.ended is None:
            return f"ended after its limit of {self.limit:g} s"
        words = {0: "done", 1: "failed, or an answer is wrong", 2: "did not take its arguments"}
        return words.get(self.ended, f"ended with status {self.ended}")

    def documents(self) -> list[Document]:
        """The documents that it wrote."""
        found = []
        for path in self.written:
            if path.suffix == ".json":
                plain = json.loads(path.read_text())
                if "document" in plain:
                    found.append(opened(plain["document"]))
        return found


def summary(ran: Sequence[Ran], page: Path | None) -> str:
    """Lines for a terminal."""
    lines = []
    for one in ran:
        documents = one.documents()
        aims = [aim for document in documents for aim in verdicts(document)]
        judged = [aim for aim in aims if aim.met is not None]
        reached = sum(bool(aim.met) for aim in judged)
        line = f"{one.name}: {one.said}"
        if judged:
            line += f"; {reached} of {len(judged)} aims reached"
        if len(aims) > len(judged):
            line += f"; {len(aims) - len(judged)} not judged: {_reasons(aims)}"
        lines.append(line)
        for aim in judged:
            if not aim.met:
                lines.append(f"  not reached: {aim.title}: {aim.measured}, aim {aim.bound}")
        for document in documents:
            lines += [f"  WRONG: {row}" for row in wrong_answers(document)]
            if document.warning:
                lines.append(f"  {document.warning.replace('**', '')}")
        lines += [f"  {path}" for path in one.written]
    if page:
        lines.append(f"the page: {page}")
    return "\n".join(lines)


def _reasons(aims: Sequence[Verdict]) -> str:
    return ", ".join(sorted({aim.text for aim in aims if aim.met is None}))
