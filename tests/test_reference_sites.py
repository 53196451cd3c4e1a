"""The table of call sites in docs/reference-engine.md, against the plans that it names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from capturegate.gates.registry import all_gates
from capturegate.run.plan import expand, load
from capturegate_mutations.reader import load_plans, shipped_plans

PAGE = Path(__file__).parent.parent / "docs/reference-engine.md"
FAMILIES = ("decode", "chunk", "draft", "chunk and draft", "prompt")


def rows_of(page: str) -> list[tuple[str, list[str], list[str]]]:
    """Call site, plans and codes of gates of each row of the table."""
    table = page.split("| family, call site |", 1)[1].split("\n\n", 1)[0]
    rows = []
    for line in table.splitlines()[2:]:
        site, plans, red, _ = (cell.strip() for cell in line.strip("|").split("|"))
        rows.append((site, re.findall(r"`([a-z-]+)`", plans), re.findall(r"CG\d{3}", red)))
    return rows


@pytest.fixture(scope="module")
def rows():
    return rows_of(PAGE.read_text())


@pytest.fixture(scope="module")
def plans():
    cases = [case.name for case in expand(load([]), "fake")]
    return {plan.name: plan for plan in load_plans(shipped_plans(), cases)}


def test_every_family_has_its_call_sites(rows):
    heads = [re.match(r"\*\*(.*?)\*\*", site) for site, named, _ in rows if not named]
    assert list(FAMILIES) == [head[1] for head in heads if head]
    assert sum(bool(named) for _, named, _ in rows) > 50


def test_every_plan_of_the_table_is_shipped(rows, plans):
    named = {plan for _, row, _ in rows for plan in row}
    assert set() == named - plans.keys()


def test_a_gate_of_a_row_is_reddened_or_changed_by_a_plan_of_it(rows, plans):
    code_of = {gate.name: gate.code for gate in all_gates().values()}
    for site, named, codes in rows:
        changed = {
            code_of.get(member, "")
            for plan in named
            for members in plans[plan].expect.values()
            for member in members
        }
        assert set(codes) <= changed, site


def test_each_family_has_a_plan_of_its_own_without_a_pre_grow(rows):
    pre_grows = [(row, codes) for site, row, codes in rows if site == "pre-grow"]
    assert [["CG001", "CG004"]] * 4 == [codes for _, codes in pre_grows]
    assert 4 == len({row[0] for row, _ in pre_grows})
