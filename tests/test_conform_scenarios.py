"""The table of the shipped scenarios on the fake and on a device."""

from __future__ import annotations

from pathlib import Path

import pytest

from capturegate.errors import InputError
from capturegate_backends.conform.scenario_runs import (
    CaseRow,
    ScenarioRuns,
    load_run,
    table,
    trim,
)

ABOUT = {"device": "a device", "driver": "580.1", "cuda": "2"}


def _run(backend: str, **verdicts: str) -> dict[str, object]:
    cases = [
        {
            "case": f"{name}[a/b]@{backend}",
            "gates": [{"gate": "g", "verdict": verdict, "named": True}] if verdict else [],
            "checks": [{"id": "s.n", "outcome": "passed"}],
            "skip": None if verdict else {"reason": "no such thing there"},
        }
        for name, verdict in verdicts.items()
    ]
    return {"backend": {"name": backend, **ABOUT}, "cases": cases}


def test_the_table_has_every_case_with_both_verdicts_and_says_what_is_missing(
    tmp_path: Path,
) -> None:
    fake = _run("fake", one="held", two="broken", three="held", four="held")
    there = _run("cupy", one="held", two="held", three="")
    path = tmp_path / "runs.json"
    trim(fake, there).save(path)
    lines = table(load_run(path), [f"{name}[a/b]" for name in ("one", "two", "three", "four")])
    assert lines[2:5] == [
        "a device, driver 580.1, CUDA 2.",
        "Of 4 cases 1 gave the verdicts of the fake, 1 others;",
        "1 are skipped by their lane, 1 were not run.",
    ]
    assert lines[8:12] == [
        "| `one[a/b]` | held 1, checks 1/1 | held 1, checks 1/1 | yes |",
        "| `two[a/b]` | held 0, g broken, checks 1/1 | held 1, checks 1/1 | no |",
        "| `three[a/b]` | held 1, checks 1/1 | skipped | no |",
        "| `four[a/b]` | held 1, checks 1/1 | not run | no |",
    ]


def test_two_runs_on_the_fake_are_no_table(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="one on a device"):
        trim(_run("fake", one="held"), _run("fake", one="held"))
    path = tmp_path / "bad.json"
    path.write_text("{}")
    with pytest.raises(InputError, match="not a file of scenario runs"):
        load_run(path)


def test_the_page_names_cases_that_no_device_ran_and_those_that_are_gone() -> None:
    row = CaseRow(gates={"capture-completes": "held"}, checks=1, failed=())
    runs = ScenarioRuns(description=ABOUT, fake={"old": row}, device={"old": row})
    told = table(runs, ["new[a/b]", "newer[a/b]"])
    assert "Shipped since, and not in this run: `new[a/b]`, `newer[a/b]`." in told
    assert "In this run, and not shipped any more: `old`." in told
    assert not any("hipped" in line for line in table(runs, ["old"]))
