"""One ledger of gates: registered, explained, held by a scenario, reddened by a plan."""

from __future__ import annotations

import pytest

from capturegate.gates.registry import all_gates
from capturegate.report.guide import guides_of
from capturegate.run.plan import expand, load
from capturegate_mutations.reader import load_plans, shipped_plans

HEADINGS = (
    "What it checks",
    "Why it is unsafe",
    "Goes red when",
    "How to fix it",
    "When it is vacuous",
    "Proven by",
)


@pytest.fixture(scope="module")
def scenarios():
    return load([])


@pytest.fixture(scope="module")
def proofs(scenarios) -> dict[str, set[str]]:
    """For each gate the shipped plans that expect it broken."""
    plans = load_plans(shipped_plans(), [case.name for case in expand(scenarios, "fake")])
    found: dict[str, set[str]] = {}
    for plan in plans:
        for members in plan.expect.values():
            for name, wanted in members.items():
                if wanted.verdict == "broken":
                    found.setdefault(name, set()).add(plan.name)
    return found


def test_every_gate_is_explained_under_every_heading():
    guides = guides_of(all_gates().values())

    assert set(all_gates()) == set(guides)
    for guide in guides.values():
        assert set(HEADINGS) <= set(guide.sections), guide.name
        assert all(guide.sections[heading].strip() for heading in HEADINGS), guide.name


def test_every_gate_is_held_where_a_shipped_scenario_names_it(scenarios):
    held = {
        use.name
        for scenario in scenarios
        for use in scenario.gates
        for arm in scenario.arms
        for lane in scenario.lanes
        if use.name not in arm.expect and not lane.skip_if
    }

    assert set(all_gates()) == held


def test_every_gate_is_reddened_by_a_shipped_plan(proofs):
    assert set(all_gates()) == set(proofs)


@pytest.mark.parametrize("gate", sorted(all_gates()))
def test_a_gate_names_exactly_the_plans_that_redden_it(gate, proofs):
    text = guides_of(all_gates().values())[gate].sections["Proven by"]

    assert sorted(proofs[gate]) == sorted(word.strip() for word in text.rstrip(". \n").split(","))


def test_every_case_is_changed_by_a_plan_or_red_itself_or_a_program_of_recorded_answers(scenarios):
    """The answers in the lines of call programs are held by the plans of the fake's rules."""
    cases = [case for case in expand(scenarios, "fake") if not case.lane.skip_if]
    plans = load_plans(shipped_plans(), [case.name for case in expand(scenarios, "fake")])
    changed = {case for plan in plans for case in plan.expect}
    others = [case for case in cases if case.scenario.engine != "program"]
    green = [c for c in others if "broken" not in {e.verdict for e in c.arm.expect.values()}]
    assert len(green) > 150
    assert [] == [case.name for case in green if case.name not in changed]
