"""Telling what experiments came to: for people, and as JSON."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import capturegate
from capturegate.experiment.model import ExperimentReport, Result
from capturegate.report.text import Printer
from capturegate.run.totals import ExitCode

SCHEMA = 1
_STYLES = {Result.PROVES: "green", Result.REFUTES: "red", Result.NOT_RUN: "dim"}


def exit_code_of(reports: Sequence[ExperimentReport]) -> ExitCode:
    """0 when every experiment that ran settled its question, 5 when none ran."""
    ran = [report for report in reports if report.result is not Result.NOT_RUN]
    if not ran:
        return ExitCode.NOTHING_JUDGED
    if all(report.result.settles for report in ran):
        return ExitCode.AS_EXPECTED
    return ExitCode.NOT_AS_EXPECTED


def as_json(reports: Sequence[ExperimentReport], backend: str, seed: int) -> dict[str, Any]:
    """The reports as a JSON object."""
    return {
        "schema": SCHEMA,
        "tool": {"name": "capturegate", "version": capturegate.__version__},
        "backend": {"name": backend, "seed": seed},
        "experiments": [asdict(report) for report in reports],
        "exit_code": int(exit_code_of(reports)),
    }


def print_reports(reports: Sequence[ExperimentReport], printer: Printer) -> None:
    """Print each experiment with its arms, then the counts."""
    for report in reports:
        style = _STYLES.get(report.result, "yellow")
        printer.line((report.name, "bold"), ("  ", ""), (str(report.result), style))
        printer.labelled("claim", report.claim)
        printer.labelled("variable", report.variable)
        for arm in report.arms:
            shown = arm.failure or arm.outcome or "nothing that was registered"
            effect = "took effect" if arm.took_effect else "no sign of its value"
            printer.labelled(arm.arm, f"{arm.value}: {shown}; {effect}")
            readings = ", ".join(f"{name} {value}" for name, value in arm.readings.items())
            printer.labelled("", readings, "dim")
        for fault, values in report.faults.items():
            told = ", ".join(f"{arm} {value}" for arm, value in values.items())
            printer.labelled("fault", f"{fault}: {told}")
        printer.labelled("because", report.reason)
        if report.means:
            printer.labelled("means", report.means)
        if report.next:
            printer.labelled("next", report.next)
        printer.line(("", ""))
    counts = [
        f"{sum(report.result is result for report in reports)} {result}"
        for result in Result
        if any(report.result is result for report in reports)
    ]
    printer.line((f"experiments: {len(reports)} | {' | '.join(counts)}", ""))
