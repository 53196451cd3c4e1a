"""Rows written as they come, and read back after a run that was cut short."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

import capturegate
from capturegate.run.request import case_request
from capturegate.run.store import Store
from capturegate.scenario.model import Case
from capturegate_mutations.evidence import Row, row_from_json

ROWS: Store[Row] = Store(kind="row", to_json=Row.to_json, from_json=row_from_json)


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
