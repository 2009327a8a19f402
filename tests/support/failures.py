"""What failed, a line of JSON each: `./dev test --all` reads which tests it runs once more."""

from __future__ import annotations

import json
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.support.watchdog import PLACE

__all__ = ["Failures"]

FILE = "failures.jsonl"
_ERROR = "error"  # the property of a report


class Failures:
    """A pytest plugin.

    A line has `test`, its id; `phase`, one of setup, call, teardown; `markers`; `error`, the name
    of the exception's class, "" where the process of the test ended; and `report`, the text.

    Args:
        config: of this process. Workers of pytest-xdist write nothing: the process that started
            them gets their reports.
        place: the directory of the file.
    """

    def __init__(self, config: pytest.Config, place: Path = PLACE) -> None:
        place.mkdir(parents=True, exist_ok=True)
        self._file = None if hasattr(config, "workerinput") else place / FILE

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Say in a report what was raised, as its text alone does not."""
        report = yield
        if call.excinfo is not None:
            report.user_properties.append((_ERROR, call.excinfo.type.__name__))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write a line."""
        if self._file is None or not report.failed:
            return
        line = {
            "test": report.nodeid,
            "phase": report.when,
            "markers": sorted({"cluster", "processes"} & set(report.keywords)),
            "error": dict(report.user_properties).get(_ERROR, ""),
            "report": report.longreprtext,
        }
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
