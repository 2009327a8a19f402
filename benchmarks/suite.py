"""One way to declare a suite: its sizes, cases, targets and tables; and what runs any of them.

A `CaseSuite` is declared in a module of ``benchmarks.suites``, as ``SUITE``. Each case runs in a
process of its own (`benchmarks.runner`), which finds the declaration by the suite's name.
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
)
from benchmarks.runner import CaseProcess, SuiteResults
from benchmarks.targets import Target

Part = Table | Chart | None
Parts = list[Part]


@contextlib.contextmanager
def _plain(process: CaseProcess, sizes: Any) -> Iterator[tuple[Any, ...]]:
    process.ready()
    yield process, sizes


def run_all(results: Any, options: argparse.Namespace) -> None:
    """Run the cases that were asked for, one after another."""
    results.cases = run_cases(results.command[1], options.parts, results.sizes, options)


@dataclass(frozen=True, kw_only=True)
class CaseSuite:
    """A suite, declared once.

    Attributes:
        sizes: a dataclass whose fields are made by `options.option`; given to every case.
        cases: functions by the names of cases.
        sections: titles, each with what stands under it, or with a text and that.
        stem: the name of the files of results at given sizes.
        targets, stated: what must be reached, and the sizes for which that is stated, or whether it
            is stated for some sizes.
        shown: further rows among the targets, which have no bound.
        facts: lines above these.
        quick: the arguments for ``./dev bench --quick``.
        groups, default, flag: names for several cases; which are run if none is named; the option
            that names them.
        results: what reads numbers out of the figures.
        context: what cases are given; the process and the sizes by default.
        prepare: makes the graphs that cases need; its ValueError or OSError refuses the arguments.
        execute: fills in the results; it runs all cases by default.
        failed: whether the exit status is 1.
        warning: why the numbers are not to be quoted; empty if they are.
        time_limit: seconds for one case.
    """

    name: str
    about: str
    sizes: Any
    sections: Callable[[Any], Iterable[tuple[Any, ...]]]
    title: str = ""
    cases: Mapping[str, Callable[..., None]] = field(default_factory=dict)
    notes: Callable[[Any], list[str]] = lambda r: []
    stem: Callable[[Any], str] | None = None
    quick: str = ""
    targets: Sequence[Target[Any]] = ()
    stated: tuple[str, ...] | Callable[[Any], bool] = ()
    shown: Callable[[Any], Iterable[list[str]]] = lambda r: ()
    facts: Callable[[Any], list[str]] = lambda r: []
    groups: Mapping[str, Iterable[str]] = field(default_factory=dict)
    flag: str = "parts"
    default: tuple[str, ...] | None = None
    results: Any = SuiteResults
    context: Callable[[CaseProcess, Any], AbstractContextManager[tuple[Any, ...]]] = _plain
    prepare: Callable[[Sequence[str], Any, Path], None] = lambda names, sizes, cache: None
    execute: Callable[[Any, argparse.Namespace], None] = run_all
    failed: Callable[[Any], bool] = lambda r: bool(r.problems())
    warning: Callable[[Any], str] = lambda r: cells.disturbed(r.others(), "during a measure")
    time_limit: float = 1200

    def main(self, arguments: list[str]) -> int:
        """Run it. Exit status 0, 1 when a case failed or an answer is wrong, 2 bad arguments."""
        options = self.parser().parse_args(arguments)
        sizes = sizes_of(self.sizes, options)
        command = ["bench", self.name, *quotable(arguments)]
        results = self.results(machine.describe(), command, sizes)
        try:
            self.prepare(options.parts, sizes, cache_of(options))
            self.execute(results, options)
        except (OSError, ValueError) as error:
            print(error, file=sys.stderr)
            return 2
        stem = self.stem(sizes) if self.stem else f"{self.name}-r-mat-{sizes.scale}"
        publish(self.document(results), results.plain(), options, stem)
        return int(self.failed(results))

    def parser(self) -> argparse.ArgumentParser:
        """Its command line: an option for each size that has one."""
        text = f"Suite {self.name}: {self.about}"
        parser = argparse.ArgumentParser(prog=f"python -m benchmarks {self.name}", description=text)
        default = self.default or tuple(self.cases)
        parser.set_defaults(parts=default)
        if self.cases and self.flag:
            known = ",".join(dict.fromkeys([*self.groups, *self.cases]))
            read = parts(self.groups, self.cases)
            parser.add_argument(f"--{self.flag}", dest="parts", type=read, help=f"of {known}")
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
        if callable(self.stated):
            as_stated = self.stated(r.sizes)
        else:
            as_stated = all(getattr(r.sizes, n) == getattr(default, n) for n in self.stated)
        if not as_stated:
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
            self.name, self.title or f"Suite {self.name}", self.about,
            f"./dev {' '.join(r.command)}", r.machine,
            f"{r.sizes.cores} of {r.machine['cores']} cores used",
            self.warning(r), sections, self.notes(r),
        )  # fmt: skip


def grouped(cases: Iterable[str], *beginnings: str) -> dict[str, tuple[str, ...]]:
    """A group of the cases that begin with each of these."""
    return {b: tuple(case for case in cases if case.startswith(b)) for b in beginnings}


def filled(
    head: list[str], rows: Iterable[list[str]], names: int = 1, title: str = ""
) -> Table | None:
    """A table of the rows that have a figure after their names; None where none has."""
    there = [row for row in rows if set(row[names:]) - {"–"}]
    return Table(head, there, title) if there else None
