"""One way to declare a suite: its sizes, cases, targets and tables; and what runs any of them.

A `CaseSuite` is declared in the module ``suite`` of a package, as ``SUITE``. Each case runs in a
process of its own (`benchmarks.case_process`), which finds the declaration by the module's name.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benchmarks import cells, machine, targets
from benchmarks.case_process import CaseProcess
from benchmarks.document import Chart, Document, Section, Table
from benchmarks.options import (
    add_common,
    add_sizes,
    cache_of,
    parts,
    publish,
    quotable,
    run_cases,
    sizes_of,
)  # fmt: skip
from benchmarks.runner import SuiteResults
from benchmarks.targets import Target


@contextlib.contextmanager
def _plain(process: CaseProcess, sizes: Any) -> Iterator[tuple[Any, ...]]:
    process.ready()
    yield process, sizes


@dataclass(frozen=True, kw_only=True)
class CaseSuite:
    """A suite, declared once.

    Attributes:
        sizes: a dataclass whose fields are made by `options.option`; given to every case.
        cases: functions by the names of cases.
        sections: titles, each with what stands under it, or with a text and that.
        stem: the name of the files of results at given sizes.
        targets, stated: what must be reached, and the sizes for which that is stated.
        shown: further rows among the targets, which have no bound.
        facts: lines above these.
        quick: the arguments for ``./dev bench --quick``.
        groups, default: names for several cases; which are run if none is named.
        results: what reads numbers out of the figures.
        context: what cases are given; the process and the sizes by default.
        prepare: makes the graphs that cases need; its ValueError refuses the arguments.
        time_limit: seconds for one case.
    """

    name: str
    title: str
    about: str
    sizes: Any
    cases: Mapping[str, Callable[..., None]]
    sections: Callable[[Any], Iterable[tuple[Any, ...]]]
    notes: Callable[[Any], list[str]]
    stem: Callable[[Any], str]
    quick: tuple[str, ...]
    targets: Sequence[Target[Any]] = ()
    stated: tuple[str, ...] = ()
    shown: Callable[[Any], Iterable[list[str]]] = lambda r: ()
    facts: Callable[[Any], list[str]] = lambda r: []
    groups: Mapping[str, Iterable[str]] = field(default_factory=dict)
    default: tuple[str, ...] | None = None
    results: Any = SuiteResults
    context: Callable[[CaseProcess, Any], AbstractContextManager[tuple[Any, ...]]] = _plain
    prepare: Callable[[Sequence[str], Any, Path], None] = lambda names, sizes, cache: None
    time_limit: float = 1200

    def main(self, arguments: list[str]) -> int:
        """Run it. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
        options = self.parser().parse_args(arguments)
        sizes = sizes_of(self.sizes, options)
        command = ["bench", self.name, *quotable(arguments)]
        results = self.results(machine.describe(), command, sizes)
        try:
            self.prepare(options.parts, sizes, cache_of(options))
        except ValueError as error:
            print(error, file=sys.stderr)
            return 2
        module = f"benchmarks.{self.name}.suite"
        results.cases = run_cases(module, options.parts, sizes, options)
        publish(self.document(results), results.plain(), options, self.stem(sizes))
        return 1 if results.problems() else 0

    def parser(self) -> argparse.ArgumentParser:
        """Its command line: an option for each size that has one."""
        known = ",".join(dict.fromkeys([*self.groups, *self.cases]))
        text = f"Suite {self.name}: {self.about}"
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}", description=text)
        read, default = parts(self.groups, self.cases), self.default or tuple(self.cases)
        parser.add_argument("--parts", type=read, default=default, help=f"of {known}")
        add_sizes(parser, self.sizes)
        add_common(parser, self.time_limit)
        return parser

    def run_case(self, process: CaseProcess) -> None:
        """Do one case, in its process."""
        with self.context(process, process.sizes(self.sizes)) as given, process.measuring():
            self.cases[process.case](*given)

    def table(self, r: SuiteResults[Any]) -> Table | None:
        """The targets that were measured, judged at the default sizes on a quiet machine."""
        unjudged = "machine not quiet" if r.others() > cells.QUIET else None
        default = self.sizes()
        if any(getattr(r.sizes, name) != getattr(default, name) for name in self.stated):
            unjudged = "stated for other sizes"
        return targets.table(self.targets, r, unjudged, self.shown(r))

    def document(self, r: SuiteResults[Any]) -> Document:
        """The whole report; the first section says what was not measured."""
        lines = [*self.facts(r), *(f"- **Not measured:** {problem}" for problem in r.problems())]
        first = "What must be reached" if self.targets else "Not measured"
        sections = []
        for title, *text, shown in [(first, "\n".join(lines), [self.table(r)]), *self.sections(r)]:
            there = [part for part in shown if part is not None]
            if there or any(text):
                sections.append(Section(title, *text, parts=there))
        return Document(
            self.name, self.title, self.about, f"./dev {' '.join(r.command)}", r.machine,
            f"{r.sizes.cores} of {r.machine['cores']} cores used",
            cells.disturbed(r.others(), "during a case"), sections, self.notes(r),
        )  # fmt: skip


Parts = list[Table | Chart | None]


def filled(
    head: list[str], rows: Iterable[list[str]], names: int = 1, title: str = ""
) -> Table | None:
    """A table of the rows that have a figure after their names; None where none has."""
    there = [row for row in rows if set(row[names:]) - {"–"}]
    return Table(head, there, title) if there else None
