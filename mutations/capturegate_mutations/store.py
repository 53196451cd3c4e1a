"""Rows written as they come, and read back after a run that was cut short."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import capturegate
from capturegate.run.request import case_request
from capturegate.scenario.model import Case
from capturegate_mutations.evidence import Row, row_from_json


def fingerprint(plan_path: str, tree: str, cases: Sequence[Case], seed: int) -> str:
    """What a row is valid for: the plan's bytes, all files that matter, the cases, the version."""
    facts = [
        hashlib.sha256(Path(plan_path).read_bytes()).hexdigest(),
        tree,
        [case_request(case, seed) for case in cases],
        seed,
        capturegate.__version__,
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def append_row(file: Path, row: Row) -> None:
    """Add one row to a file of JSON lines; a torn line before it stays alone."""
    torn = file.exists() and file.stat().st_size > 0 and not file.read_bytes().endswith(b"\n")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(("\n" if torn else "") + json.dumps(row.to_json()) + "\n")


def read_rows(file: Path) -> dict[str, Row]:
    """The last row of each fingerprint; a torn last line is left out.

    Raises:
        OSError: the file cannot be read.
    """
    rows = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        try:
            row = row_from_json(json.loads(line))
        except (ValueError, KeyError, TypeError):
            continue
        rows[row.fingerprint] = row
    return rows
