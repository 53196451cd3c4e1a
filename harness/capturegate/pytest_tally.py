"""What the items of a pytest run count, and the closing line; plain data, so it crosses xdist."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field
from typing import Any

import pytest

_ATTRIBUTE = "capturegate"
_RANKS = ("skipped", "passed", "failed")


@dataclass(slots=True, kw_only=True)
class Tally:
    """What one item counts.

    `case` is the id of the scenario case that it belongs to and `lane` its lane, both empty for
    an ordinary test. `skipped_at` is the path and line of a declared skip. `refusal` says why the
    item cannot run at all.
    """

    case: str = ""
    lane: str = ""
    passed: int = 0
    failed: int = 0
    skipped_at: tuple[str, int] | None = None
    refusal: str = ""

    def count(self, *, good: bool) -> None:
        """Count one check."""
        if good:
            self.passed += 1
        else:
            self.failed += 1


TALLY = pytest.StashKey[Tally]()


def tally_of(item: pytest.Item) -> Tally:
    """The item's tally; it has one from then on."""
    return item.stash.setdefault(TALLY, Tally())


def put_on(report: pytest.TestReport, tally: Tally) -> None:
    """Give a report what its item counted so far, and a declared skip its place in the file."""
    last = report.when == "teardown"
    data = {"case": tally.case, "checks": [tally.passed, tally.failed] if last else [0, 0]}
    setattr(report, _ATTRIBUTE, data)
    if report.skipped and tally.skipped_at and isinstance(report.longrepr, tuple):
        report.longrepr = (*tally.skipped_at, report.longrepr[2])


@dataclass(slots=True, kw_only=True, eq=False)
class Counts:
    """The plugin that adds up what the reports of a run carry.

    A case that ran on several workers is one case; any failed item makes it a failed one.
    """

    cases: dict[str, str] = field(default_factory=dict)
    checks_passed: int = 0
    checks_failed: int = 0

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Take a report in."""
        data: dict[str, Any] | None = getattr(report, _ATTRIBUTE, None)
        if data is None:
            return
        passed, failed = data["checks"]
        self.checks_passed += passed
        self.checks_failed += failed
        if data["case"] and (report.when == "call" or not report.passed):
            before = self.cases.get(data["case"], report.outcome)
            self.cases[data["case"]] = max(before, report.outcome, key=_RANKS.index)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Generator[None]:
        """Write the closing line under everything else, unless nothing was counted."""
        yield
        if line := self._line():
            terminalreporter.write_line(line)

    def _line(self) -> str:
        checks = self.checks_passed + self.checks_failed
        if not (self.cases or checks):
            return ""
        from capturegate.run.totals import Totals

        outcomes = list(self.cases.values())
        return str(
            Totals(
                cases=len(outcomes),
                cases_passed=outcomes.count("passed"),
                cases_failed=outcomes.count("failed"),
                cases_skipped=outcomes.count("skipped"),
                checks=checks,
                checks_passed=self.checks_passed,
                checks_failed=self.checks_failed,
            )
        )
