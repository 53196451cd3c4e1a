"""A run as one JSON object, for other programs.

Keys, stable within a `schema`:
    schema: 1.
    tool: `name` and `version`.
    backend: `name`, `seed` and what the device says of itself (`device`, `driver` and so on).
    cases: one object a case, in the order of the plan; see `capturegate.run.result.CaseResult`.
    not_as_expected: ids of the cases that make the run red.
    never_judged: ids of the skipped cases whose guarantee no lane judged.
    totals: counts of cases and checks.
    missing: cases that an interrupted run did not get to.
    exit_code: what the command exits with.
"""

from __future__ import annotations

import json
from dataclasses import asdict
from typing import Any

import capturegate
from capturegate.report.run import RunReport

SCHEMA = 1


def run_as_json(report: RunReport) -> dict[str, Any]:
    """The run as a JSON object."""
    device: dict[str, str] = next((r.device for r in report.results if r.device), {})
    return {
        "schema": SCHEMA,
        "tool": {"name": "capturegate", "version": capturegate.__version__},
        "backend": {"name": report.backend, "seed": report.seed, **device},
        "cases": [result.to_json() for result in report.results],
        "not_as_expected": [result.case for result in report.results if not result.as_expected],
        "never_judged": list(report.never_judged),
        "totals": asdict(report.totals),
        "missing": report.missing,
        "exit_code": int(report.exit_code),
    }


def dumps(data: Any) -> str:
    """JSON text with an end of line."""
    return json.dumps(data, indent=2, ensure_ascii=False) + "\n"
