"""The JSON report of mutation proofs."""

from __future__ import annotations

import json
from typing import Any

import capturegate
from capturegate_mutations.report.summary import Sheet
from capturegate_mutations.verdict import Proof


def as_json(sheet: Sheet) -> str:
    """A run as one JSON object.

    `schema` grows when a key changes its meaning; keys may be added at any time.
    """
    document: dict[str, Any] = {
        "schema": 1,
        "tool": {"name": "capturegate", "version": capturegate.__version__},
        "mutations": [row.to_json() for row in sheet.rows],
        "totals": {
            "mutations": len(sheet.rows),
            "proved": sum(row.proof is Proof.PROVED for row in sheet.rows),
            "cases": sheet.cases,
            "mutants_run": sheet.mutants,
            "cases_run": sheet.cases_run,
            "workers": sheet.workers,
            "mutants_s": round(sheet.mutants_s, 3),
            "duration_s": round(sheet.duration_s, 3),
        },
        "controls": sheet.controls,
        "scope": sheet.scope,
        "exit_code": sheet.exit_code,
    }
    return json.dumps(document, indent=2) + "\n"
