"""Every shipped scenario has its control: cases told apart, or a row of the page."""

import re
from collections import Counter
from itertools import combinations
from pathlib import Path

import pytest

from capturegate.run.plan import expand, load

PAGE = (Path(__file__).parent.parent / "docs/reference-engine.md").read_text()
SHIPPED = load([])


def judged(scenario):
    """The cases that no lane skips."""
    return [case for case in expand([scenario], "fake") if not case.lane.skip_if]


def checks(case):
    return [check for step in case.steps for check in step.checks]


def values(case):
    """What a case is held to, by check id, by gate, and as the error that ends it."""
    expected = {gate: expect.verdict for gate, expect in case.arm.expect.items()}
    gates = {("gate", use.name): expected.get(use.name, "held") for use in case.scenario.gates}
    by_id = {("check", check.id): check.expectation.text for check in checks(case)}
    return {**by_id, **gates, ("raises", ""): case.arm.raises}


def told_apart(one, other):
    """Whether something that both cases are held to has another value in each."""
    here, there = values(one), values(other)
    return any(here[name] != there[name] for name in here.keys() & there.keys())


def all_alike(scenario):
    return not any(told_apart(*pair) for pair in combinations(judged(scenario), 2))


def table(heading):
    """The cells of each row below a table's first heading."""
    section = PAGE.split("## Controls", 1)[1].split("\n## ", 1)[0]
    body = section.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return [
        [cell.strip() for cell in line.split("|")[1:-1]]
        for line in body.splitlines()
        if line.startswith("| `")
    ]


def names(cell):
    return re.findall(r"`([a-z-]+)`", cell)


NO_DIFFERENCE = table("scenario")
ELSEWHERE = table("scenarios")


@pytest.mark.parametrize("scenario", SHIPPED, ids=lambda scenario: scenario.name)
def test_a_scenario_has_two_cases_that_differ_in_arm_or_in_lane(scenario):
    assert len(judged(scenario)) >= 2


def test_the_page_lists_the_scenarios_with_no_two_cases_that_are_told_apart():
    alike = {scenario.name: 1 for scenario in SHIPPED if all_alike(scenario)}
    listed = Counter(name for row in (*NO_DIFFERENCE, *ELSEWHERE) for name in names(row[0]))
    assert alike == dict(listed)


@pytest.mark.parametrize("row", NO_DIFFERENCE, ids=lambda row: row[0])
def test_what_makes_no_difference_leaves_a_figure_or_gate_that_every_case_is_held_to(row):
    scenario, one, other, alike = row
    cases = [case for s in SHIPPED if [s.name] == names(scenario) for case in judged(s)]
    held = re.findall(r"`([a-z_.-]+(?:: [0-9]+)?)`", alike)
    assert one != other
    assert 1 == len(held)
    for case in cases:
        figures = [f"{check.counter}: {check.expectation.text}" for check in checks(case)]
        gates = [use.name for use in case.scenario.gates if use.name not in case.arm.expect]
        assert held[0] in figures + gates


def test_a_control_of_the_page_is_one_other_shipped_scenario():
    shipped = {scenario.name for scenario in SHIPPED}
    assert ELSEWHERE
    for scenarios, _, control in ELSEWHERE:
        assert 1 == len(names(control)), scenarios
        assert names(control)[0] in shipped - set(names(scenarios))
